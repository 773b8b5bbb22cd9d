"""`dpsu ngrams`: from texts to n-grams, length by length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options, spending_of
from dpsu.cli.interrupts import interruptible
from dpsu.cli.options import (
    Command,
    added,
    flags_of,
    format_option,
    planned,
    promise_options,
    result_options,
)
from dpsu.cli.progress import shown_progress
from dpsu.cli.results import prepared, told_warnings, write_result
from dpsu.cli.sources import data_of, files_read, source_options
from dpsu.cli.streams import to_stdout
from dpsu.inputs.columns import Users
from dpsu.inputs.tokens import Tokens
from dpsu.plans.mechanisms import NGrams

DEFAULT_TEXT = "text"


def ngrams_options(command: Command) -> Command:
    """Where texts are, and the options of one mechanism."""
    flags = [flag for flag in flags_of(Users, Tokens, NGrams) if flag.name != "ngrams"]
    seed = click.option("--insecure-seed", type=int, help="Repeatable, NOT private; for tests.")
    return added(command, (*(flag.made() for flag in flags), seed))


@click.command("ngrams")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@promise_options
@ngrams_options
@click.option("--dry-run", is_flag=True, help="Print the plan and read nothing.")
@format_option
@result_options
@ledger_options
def ngrams_command(
    files: tuple[str, ...],
    source: str | None,
    query: str | None,
    ledger: str | None,
    dataset: str | None,
    budget: str | None,
    dry_run: bool,
    output: Path | None,
    report: Path | None,
    csv_safe: bool,
    verbose: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Release the n-grams of the texts in FILE..., longer ones only of released shorter ones.

    Lengths above 1 have a few n-grams that nobody holds among them: this pays for leaving out what
    no single user can be told by. FILE as for `dpsu release`, of which this is --mechanism ngrams;
    its --ngrams is the alternative.
    """
    options |= {"mechanism": NGrams.name, "text": options["text"] or DEFAULT_TEXT}
    tokenizer = options["tokenizer"]
    made = planned(options)
    if dry_run:
        to_stdout(f"{dpsu.plan(**made)}\n")
        return
    data, spending = data_of(files, source, query), spending_of(ledger, dataset, budget)
    read = [*files_read(files, source, ledger), *([] if tokenizer is None else [tokenizer])]
    output = prepared(read, output, report, csv_safe=csv_safe, quiet=quiet)
    with told_warnings() as caught, shown_progress(quiet) as progress:
        result = interruptible(
            lambda: dpsu.release(data, progress=progress, ledger=spending, **made, **options)
        )
    write_result(
        result, output, report, caught, spending, csv_safe=csv_safe, verbose=verbose, quiet=quiet
    )
