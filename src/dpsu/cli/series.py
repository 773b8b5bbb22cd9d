"""`dpsu series`: releases that repeat under one budget."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options
from dpsu.cli.cluster import engine_options, opened_on_spark, refuse_for_local
from dpsu.cli.interrupts import COMPLETE, stage
from dpsu.cli.options import (
    column_options,
    counts_options,
    format_option,
    mechanism_options,
    planned,
    promise_options,
    result_options,
)
from dpsu.cli.places import Places
from dpsu.cli.results import printed_lines, warnings_after_output
from dpsu.cli.sources import source_options
from dpsu.cli.streams import printed, shown, to_stderr
from dpsu.ledger.spending import Spending
from dpsu.series.prose import HEAD, period_line, row
from dpsu.series.state import DONE, LOST, PENDING, RUNNING

FOLDER = click.argument("folder", type=click.Path())
ENDS = {
    DONE: "`dpsu series items FOLDER --period N` prints its items",
    PENDING: "run it again, which costs nothing more",
    RUNNING: "another process runs it",
    LOST: "it is spent, and its result is gone",
}
# Public data are not kept with a series, and what is unproven has no price.
WITHOUT = ("prior", "allow_unproven")


@click.group("series")
def series_command() -> None:
    """Release again and again under one budget, each time only items that are new.

    `new` fixes the budget and the number of periods, `next` releases the next period, `show` says
    what is spent, and `items` prints what was released.
    """


@series_command.command("new")
@FOLDER
@click.option("--periods", type=int, required=True, help="How many periods there will be at most.")
@promise_options
@column_options
@mechanism_options("sieve", WITHOUT)
@counts_options
def new_command(folder: str, periods: int, **options: Any) -> None:
    """Begin a series in FOLDER, which must not be there yet.

    --epsilon and --delta are those of all periods together. No data is read.
    """
    typed = planned(options, quiet=True)
    made = {name: typed[name] for name in ("epsilon", "delta", "user", "item", "counts")}
    with warnings_after_output():
        series = dpsu.Series.create(
            folder, periods=periods, mechanism=typed["mechanism"] or dpsu.Sieve(), **made
        )
    stage.outputs[f"the series in {folder!r}"] = COMPLETE
    shown(f"{series}\n")


@series_command.command("next")
@FOLDER
@click.argument("files", nargs=-1, metavar="[FILE...]")
@click.option(
    "--period",
    type=int,
    help="The number that this period must have, for jobs that may run twice: if it is done, its "
    "items are written again, and nothing is read or spent.",
)
@source_options
@format_option
@engine_options
@result_options()
@ledger_options
def next_command(
    folder: str, files: tuple[str, ...], period: int | None, engine: str, **options: Any
) -> None:
    """Release from FILE... the items that no earlier period in FOLDER released.

    FILE and output as for `dpsu release`. A pending period runs again at no further cost: it was
    killed, or failed for a reason that does not depend on what it drew. A period that failed for
    another reason is lost.
    """
    places = Places.taken(options)
    series = dpsu.Series(folder)
    for name, path in (("output", places.output), ("report", places.report)):
        if path is not None and path.absolute().parent.resolve() == series.path.resolve():
            raise click.UsageError(
                f"--{name} {str(path)!r} is in the folder of the series, which holds nothing else; "
                "write it elsewhere"
            )
    done: list[int] = []
    on_spark = engine == "spark"
    if not on_spark:
        refuse_for_local(options)

    def release(data: Any, made: None, spending: Spending, progress: Any) -> dpsu.Release:
        given: dict[str, Any] = {"period": period, "progress": progress, "ledger": spending}
        if not on_spark:
            found = series.release(data, **given, **options)
        elif any(each.number == period and each.state == DONE for each in series.history):
            # What was released needs no session.
            found = series.release(None, **given)
        else:
            with opened_on_spark(files, series.plan, options) as frame:
                found = series.release(frame, **given, **options)
        done.append(period or len(series.history))
        return found

    with _telling_what_is_spent(series):
        places.released(files, [], lambda: None, release)
    if not places.quiet:
        to_stderr(period_line(series, done[0]))


@contextlib.contextmanager
def _telling_what_is_spent(series: dpsu.Series) -> Iterator[None]:
    """Say what an error cost, before it is said what it was."""
    before = series.left
    try:
        yield
    except BaseException:
        with contextlib.suppress(dpsu.DpsuError):
            for each in series.history:
                if each.number > series.periods - before or each.state == PENDING:
                    end = f"is {each.state}: {ENDS[each.state]}"
                    to_stderr(f"dpsu: period {each.number} of {series.periods} {end}")
        raise


@series_command.command("show")
@FOLDER
@click.option("--json", "as_json", is_flag=True, help="Print everything but the items as JSON.")
def show_command(folder: str, as_json: bool) -> None:
    """Show the budget and the plan of a series, and which periods are spent."""
    series = dpsu.Series(folder)
    history = series.history
    if as_json:
        facts = {
            "periods": series.periods,
            "left": series.left,
            "budget": series.budget.numbers,
            "history": [
                {**vars(each), "run": None if each.run is None else vars(each.run)}
                for each in history
            ],
            "plan": series.plan.to_dict(),
        }
        shown(f"{json.dumps(facts, indent=2)}\n")
        return
    if history:
        from rich.table import Table

        with printed() as console:
            table = Table()
            for name in HEAD:
                table.add_column(name, justify="right" if name in ("period", HEAD[-1]) else "left")
            for each in history:
                table.add_row(*row(each))
            console.print(table)
    shown(f"{series}\n")


@series_command.command("items")
@FOLDER
@click.option("--period", type=int, help="Only what this period released.")
def items_command(folder: str, period: int | None) -> None:
    """Print what the series in FOLDER released so far, sorted, one item per line."""
    series = dpsu.Series(folder)
    done = [each.number for each in series.history if each.state == DONE]
    releases = [series.stored(number) for number in (done if period is None else [period])]
    shown("".join(f"{line}\n" for line in _sorted_lines([each for each in releases if len(each)])))


def _sorted_lines(releases: list[dpsu.Release]) -> list[str]:
    """Lines of all items, in the order of their values; of their texts, if types differ."""
    types = [each.values.type for each in releases]
    if any(type_ != types[0] for type_ in types):
        return sorted(line for each in releases for line in printed_lines(each))
    if not releases:
        return []
    import pyarrow as pa

    from dpsu.contributions.codecs import in_order

    counts = [each.counts for each in releases if each.counts is not None]
    values, noisy = in_order(
        pa.concat_arrays([each.values for each in releases]),
        pa.concat_arrays(counts) if counts else None,
    )
    return printed_lines(dpsu.Release(releases[0].plan, values, noisy))
