"""`dpsu ngrams`: from texts to n-grams, length by length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options, spending_of
from dpsu.cli.interrupts import interruptible
from dpsu.cli.options import format_option, result_options
from dpsu.cli.progress import shown_progress
from dpsu.cli.results import prepared, told_warnings, write_result
from dpsu.cli.sources import data_of, files_read, source_options
from dpsu.cli.streams import to_stdout
from dpsu.contributions.id_types import ID_TYPES


@click.command()
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@click.option("--epsilon", type=float, required=True, help="Privacy loss, e.g. 1.")
@click.option("--delta", type=float, required=True, help="Failure probability, e.g. 1e-6.")
@click.option("--user", default="user", show_default=True, help="Column of the person to protect.")
@click.option(
    "--user-type",
    type=click.Choice(ID_TYPES),
    help="Read users as text or as integers; cells that cannot be read so are ignored. Default: "
    "the type of their column, and text where columns have no type.",
)
@click.option("--text", default="text", show_default=True, help="Column of texts.")
@click.option("--item", default="item", show_default=True, help="Column of the output.")
@click.option("--longest", type=int, default=3, show_default=True, help="Longest n-grams.")
@click.option(
    "--tokenizer", help="words (default), paper, regex:PATTERN, or a tokenizer.json file."
)
@click.option(
    "--max-items",
    type=int,
    default=300,
    show_default=True,
    help="Of each length, at most so many n-grams per user, most frequent first.",
)
@click.option(
    "--shares", help="Shares of the budget for lengths 1, 2, ..., e.g. 1,2,2. Default 1,2,2,..."
)
@click.option(
    "--spurious",
    type=float,
    default=0.01,
    show_default=True,
    help="N-grams that nobody holds, for each n-gram released one shorter; more lower the "
    "threshold.",
)
@click.option("--insecure-seed", type=int, help="Repeatable, NOT private; for tests.")
@click.option("--dry-run", is_flag=True, help="Print the plan and read nothing.")
@format_option
@result_options
@ledger_options
def ngrams(
    files: tuple[str, ...],
    source: str | None,
    query: str | None,
    ledger: str | None,
    dataset: str | None,
    budget: str | None,
    shares: str | None,
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
    no single user can be told by. FILE as for `dpsu release`, whose --ngrams is the alternative.
    """
    options["shares"] = None if shares is None else _numbers(shares)
    if dry_run:
        from dpsu.ngrams import plan_ngrams

        planned = {k: v for k, v in options.items() if k not in READING}
        to_stdout(f"{plan_ngrams(**planned)}\n")
        return
    data, spending = data_of(files, source, query), spending_of(ledger, dataset, budget)
    read = files_read(files, source, ledger)
    output = prepared(read, output, report, csv_safe=csv_safe, quiet=quiet)
    with told_warnings() as caught, shown_progress(quiet) as progress:
        result = interruptible(
            lambda: dpsu.ngrams(data, progress=progress, ledger=spending, **options)
        )
    write_result(
        result, output, report, caught, spending, csv_safe=csv_safe, verbose=verbose, quiet=quiet
    )


READING = ("format", "memory_limit", "strict")


def _numbers(typed: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in typed.split(","))
    except ValueError:
        raise click.UsageError(
            f"--shares {typed!r} is not a list of numbers such as 1,2,2"
        ) from None
