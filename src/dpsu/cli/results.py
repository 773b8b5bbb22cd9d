"""What happens to a result in the shell: items to a file or stdout, words to stderr."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

import dpsu
from dpsu.cli.interrupts import COMPLETE, NOT_WRITTEN, signals_deferred, stage
from dpsu.cli.streams import a_terminal, to_stderr
from dpsu.outputs import SUFFIXES, items_writer, lines
from dpsu.runtime.writing import PendingFile, Write, check_writable, leftovers
from dpsu.showing.characters import harmless

PAGES = (".html", ".htm")


@dataclass(frozen=True)
class Form:
    """How a release is written: which files there are, and what goes to standard output."""

    suffixes: tuple[str, ...]
    writer: Callable[[dpsu.Release, Path, bool], Write]
    printed: Callable[[dpsu.Release], str]


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


@contextmanager
def warnings_after_output() -> Iterator[None]:
    """Print each warning once, after the output."""
    with told_warnings() as caught:
        yield
    print_warnings(caught)


def print_warnings(caught: Iterable[warnings.WarningMessage]) -> None:
    """Print each of these warnings once."""
    for message in dict.fromkeys(str(warning.message) for warning in caught):
        to_stderr(f"warning: {message}")


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
        stage.finished = stage.spending is None or not stage.spending.unfinished


@contextmanager
def putting(name: str, path: Path) -> Iterator[None]:
    """Tell the truth about one file that is written inside."""
    name = f"{name} in {str(path)!r}"
    stage.outputs[name] = NOT_WRITTEN
    with signals_deferred():
        yield
        stage.outputs[name] = COMPLETE


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
