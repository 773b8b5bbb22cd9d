"""`dpsu release`: from files to items."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options, spending_of
from dpsu.cli.cluster import engine_options, refuse_for_local, release_on_spark
from dpsu.cli.interrupts import interruptible
from dpsu.cli.options import format_option, plan_file_option, plan_options, planned, result_options
from dpsu.cli.progress import shown_progress
from dpsu.cli.results import prepared, told_warnings, write_result
from dpsu.cli.sources import data_of, files_read, source_options


@click.command("release")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@plan_file_option
@plan_options
@format_option
@engine_options
@result_options
@ledger_options
def release_command(
    files: tuple[str, ...],
    source: str | None,
    query: str | None,
    ledger: str | None,
    dataset: str | None,
    budget: str | None,
    output: Path | None,
    report: Path | None,
    csv_safe: bool,
    verbose: bool,
    quiet: bool,
    engine: str,
    plan_file: Path | None,
    **options: Any,
) -> None:
    """Release the items of FILE... (parquet, csv, tsv, jsonl; .gz and .zst too; - is stdin).

    FILE may also be a folder or a quoted glob, or be replaced by --source and --query. Items go to
    standard output, one per line, sorted; backslashes and line breaks inside an item are escaped.
    """
    data, spending = data_of(files, source, query), spending_of(ledger, dataset, budget)
    read = [*(options[name] for name in ("prior", "public_items", "tokenizer") if options[name])]
    read += files_read(files, source, ledger) + ([] if plan_file is None else [str(plan_file)])
    output = prepared(read, output, report, csv_safe=csv_safe, quiet=quiet)
    if engine == "local":
        refuse_for_local(options)
    made = planned(options, plan_file)
    with told_warnings() as caught, shown_progress(quiet) as progress:
        result = interruptible(
            lambda: (
                release_on_spark(files, made, options | {"ledger": spending})
                if engine == "spark"
                else dpsu.release(data, progress=progress, ledger=spending, **made, **options)
            )
        )
    write_result(
        result, output, report, caught, spending, csv_safe=csv_safe, verbose=verbose, quiet=quiet
    )
