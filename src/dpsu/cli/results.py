"""What happens to a result in the shell: items to a file or stdout, words to stderr."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

import dpsu
from dpsu.cli.interrupts import (
    COMPLETE,
    NOT_WRITTEN,
    PERHAPS_IN_PART,
    signals_deferred,
    stage,
)
from dpsu.cli.streams import a_terminal, to_stderr, to_stdout
from dpsu.ledger.spending import Spending
from dpsu.outputs import SUFFIXES, items_writer, lines
from dpsu.plans.prose import guarantee
from dpsu.reports import summary
from dpsu.runtime.writing import (
    PendingFile,
    Write,
    check_writable,
    leftovers,
    text_writer,
    what_is_no_file,
)
from dpsu.showing.characters import harmless

PAGES = (".html", ".htm")


@dataclass(frozen=True)
class Form:
    """How a release is written: which files there are, and what goes to standard output."""

    suffixes: tuple[str, ...]
    writer: Callable[[dpsu.Release, Path, bool], Write]
    printed: Callable[[dpsu.Release], str]


def prepared(
    read: Sequence[str | None],
    output: Path | None,
    report: Path | None,
    *,
    csv_safe: bool,
    quiet: bool,
    suffixes: tuple[str, ...] = SUFFIXES,
) -> Path | None:
    """Refuse before the work what could not be written; returns where items go, None for stdout."""
    output = None if output is not None and str(output) == "-" else output
    if report is not None and str(report) == "-":
        raise click.UsageError("--report must be a file; --verbose prints the report")
    if csv_safe and (output is None or output.suffix != ".csv"):
        raise click.UsageError("--csv-safe is for --output FILE.csv")
    if output is not None and (what := what_is_no_file(output)) is not None:
        raise dpsu.OutputError(
            f"cannot write {str(output)!r}: it is {what}; leave --output away to print to standard "
            "output, or name a file"
        )
    writable(read, {"output": output, "report": report}, {"output": suffixes}, quiet=quiet)
    return output


def writable(
    read: Sequence[str | None],
    written: Mapping[str, Path | None],
    suffixes: Mapping[str, tuple[str, ...]],
    *,
    quiet: bool = False,
) -> None:
    """Refuse before the work files that could not be written, or that are also read.

    Also names temporary files that runs left behind which were ended while they wrote.
    """
    taken = {Path("/dev/stdin" if name == "-" else name).resolve() for name in read if name}
    for option, path in written.items():
        if path is None:
            continue
        if path.resolve() in taken:
            raise click.UsageError(f"--{option} {str(path)!r} is also read, or written twice")
        taken.add(path.resolve())
        check_writable(path, suffixes.get(option, ()))
        for left in [] if quiet else leftovers(path):
            to_stderr(
                f"warning: {str(left)!r} is the unfinished output of a run that was ended; no run "
                "is writing it, and it may be deleted"
            )


@contextmanager
def told_warnings() -> Iterator[list[warnings.WarningMessage]]:
    """Keep what the curator should know until the items are written."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", dpsu.DataWarning)
        yield caught


def write_result(
    result: dpsu.Release,
    output: Path | None,
    report: Path | None,
    caught: list[warnings.WarningMessage],
    spending: Spending,
    *,
    csv_safe: bool,
    verbose: bool,
    quiet: bool,
    form: Form,
) -> None:
    """Write the items and the report, mark the release as done, and then words for people."""
    named: dict[str, PendingFile] = {}
    with ExitStack() as stack:
        late = stack.enter_context(told_warnings())
        stage.outputs = {_items_name(output): NOT_WRITTEN}
        if output is not None:
            named[_items_name(output)] = PendingFile(output, form.writer(result, output, csv_safe))
            stack.callback(named[_items_name(output)].discard)
        if report is not None:
            text = result.report_json() if report.suffix == ".json" else result.report()
            name = f"the report in {str(report)!r}"
            stage.outputs[name] = NOT_WRITTEN
            named[name] = PendingFile(report, text_writer(text + "\n"))
            stack.callback(named[name].discard)
        if output is None:
            stage.outputs[_items_name(None)] = PERHAPS_IN_PART
            to_stdout(form.printed(result))
            stage.outputs[_items_name(None)] = COMPLETE
        put_in_place(named, spending.done)
    # The items come first: trouble with words for people must not cost the release.
    if not quiet:
        for warning in [*caught, *late]:
            to_stderr(f"warning: {warning.message}")
        to_stderr(result.report() if verbose else f"{summary(result)} (--verbose says more)")
    elif not result.private:
        to_stderr(f"warning: {guarantee(result.plan)}")


def put_in_place(named: Mapping[str, PendingFile], done: Callable[[], None] = lambda: None) -> None:
    """Put results where they belong, in this order and with nothing but renames between."""
    with signals_deferred():
        for name, ready in named.items():
            stage.outputs[name] = NOT_WRITTEN
            ready.place()
            stage.outputs[name] = COMPLETE
        for ready in named.values():
            ready.finish()
        done()


@contextmanager
def putting(name: str, path: Path) -> Iterator[None]:
    """Tell the truth about one file that is written inside."""
    name = f"{name} in {str(path)!r}"
    stage.outputs[name] = NOT_WRITTEN
    with signals_deferred():
        yield
        stage.outputs[name] = COMPLETE


def _items_name(output: Path | None) -> str:
    return "the items on standard output" if output is None else f"the items in {str(output)!r}"


def printed_lines(result: dpsu.Release) -> list[str]:
    """Lines for standard output; raw into files and pipes, harmless on a terminal."""
    if not a_terminal():
        return lines(result)
    # An item's own tabs are escaped where a tab leads to its count.
    cells = [line.split("\t") if result.counts is not None else [line] for line in lines(result)]
    return ["\t".join(harmless(cell) for cell in row) for row in cells]


LINES = Form(
    SUFFIXES,
    lambda result, path, csv_safe: items_writer(result, path, csv_safe=csv_safe),
    lambda result: "".join(f"{line}\n" for line in printed_lines(result)),
)
