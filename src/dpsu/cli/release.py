"""`dpsu release`: from files to items."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.cluster import engine_options, refuse_for_local, release_on_spark
from dpsu.cli.interrupts import interruptible
from dpsu.cli.options import format_option, mechanism_options
from dpsu.cli.progress import shown_progress
from dpsu.cli.streams import to_stderr, to_stdout
from dpsu.words import guarantee, summary


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@mechanism_options
@format_option
@engine_options
@click.option(
    "--memory-limit",
    metavar="SIZE",
    help="Keep at most so much of the rows in memory (4GB, 500M), the rest in nameless temporary "
    "files. Default 60 % of what is available.",
)
@click.option(
    "--auto-budget",
    type=float,
    help="Share of epsilon and delta, such as 0.02, for which --mechanism auto estimates users and "
    "items per user.",
)
@click.option("--strict", is_flag=True, help="Refuse rows without user or item, and no rows.")
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="Write items to a .txt, .csv, .parquet or .json file, replacing one that is there.",
)
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    help="Write the report, as JSON if the name ends in .json.",
)
@click.option("--verbose", is_flag=True, help="Print the whole report, not one line.")
@click.option("--quiet", is_flag=True, help="Print nothing but errors, and whether it is private.")
def release(
    files: tuple[str, ...],
    output: Path | None,
    report: Path | None,
    verbose: bool,
    quiet: bool,
    engine: str,
    **options: Any,
) -> None:
    """Release the items of FILE... (parquet, csv, tsv, jsonl; .gz and .zst too; - is stdin).

    FILE may also be a folder or a quoted glob. Items go to standard output, one per line, sorted;
    backslashes and line breaks inside an item are escaped.
    """
    from dpsu.writing import check_writable, lines, write_text

    output = None if output is not None and str(output) == "-" else output
    _refuse_overwriting(files, output, report, options)
    if output is not None:
        check_writable(output)
    if report is not None:
        check_writable(report, suffixes=())
    if engine == "local":
        refuse_for_local(options)
    with warnings.catch_warnings(record=True) as caught, shown_progress(quiet) as progress:
        warnings.simplefilter("always", dpsu.DataWarning)
        if engine == "spark":
            result = interruptible(lambda: release_on_spark(files, options))
        else:
            result = interruptible(lambda: dpsu.release(list(files), progress=progress, **options))
    if report is not None:
        as_json = report.suffix == ".json"
        write_text(report, (result.report_json() if as_json else result.report()) + "\n")
    if output is not None:
        result.write(output)
    else:
        to_stdout("".join(f"{line}\n" for line in lines(result)).encode())
    # The items come first: trouble with words for people must not cost the release.
    if not quiet:
        for warning in caught:
            to_stderr(f"warning: {warning.message}")
        to_stderr(result.report() if verbose else f"{summary(result)} (--verbose tells more)")
    elif not result.private:
        to_stderr(f"warning: {guarantee(result.plan)}")


def _refuse_overwriting(
    files: tuple[str, ...], output: Path | None, report: Path | None, options: dict[str, Any]
) -> None:
    read = [*files, *(options[name] for name in ("prior", "public_items") if options[name])]
    taken = {Path(name).resolve() for name in read}
    for name, path in (("output", output), ("report", report)):
        if path is None:
            continue
        if path.resolve() in taken:
            raise click.UsageError(f"--{name} {str(path)!r} is also read, or written twice")
        taken.add(path.resolve())
