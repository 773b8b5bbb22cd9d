"""`dpsu release`: from files to items."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.options import format_option, mechanism_options
from dpsu.cli.progress import shown_progress


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@mechanism_options
@format_option
@click.option("--strict", is_flag=True, help="Refuse rows without user or item.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write items to a .txt, .csv, .parquet or .json file instead of standard output.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Write the report, as JSON if the name ends in .json.",
)
@click.option("--quiet", is_flag=True, help="No summary, warnings or progress.")
def release(
    files: tuple[str, ...], output: Path | None, report: Path | None, quiet: bool, **options: Any
) -> None:
    """Release the items of FILE... (parquet, csv, tsv, jsonl; .gz and .zst too; - is stdin).

    Items go to standard output, one per line, sorted; backslashes and line breaks inside an item
    are escaped.
    """
    from dpsu.writing import check_writable, lines, write_text

    if output is not None:
        check_writable(output)
    if report is not None:
        check_writable(report, suffixes=())
    with warnings.catch_warnings(record=True) as caught, shown_progress(quiet) as progress:
        warnings.simplefilter("always", dpsu.DataWarning)
        result = dpsu.release(list(files), progress=progress, **options)
    if not quiet:
        for warning in caught:
            click.echo(f"warning: {warning.message}", err=True)
        click.echo(result.report(), err=True)
    if report is not None:
        as_json = report.suffix == ".json"
        write_text(report, (result.report_json() if as_json else result.report()) + "\n")
    if output is not None:
        result.write(output)
    else:
        click.echo("".join(f"{line}\n" for line in lines(result)).encode(), nl=False)
