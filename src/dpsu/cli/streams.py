"""Standard output must carry every item; standard error may fail without harm."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dpsu.errors import OutputError, exit_code_of
from dpsu.runtime.writing import write_all

if TYPE_CHECKING:
    from rich.console import Console


STDERR = 2


class ReaderLeftError(OutputError):
    """Nobody reads standard output any more."""


def hold_closed() -> None:
    """Give the numbers of closed standard streams to no file: libraries would print into it."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(number, True)
    os.close(number)


def refuse_closed_stdout() -> None:
    """Refuse to begin what could not be printed."""
    if sys.stdout is None or sys.stdout.closed:
        raise OutputError("cannot write standard output: it is closed")


def shown(text: str) -> None:
    """Write what is there to be read: a reader who stops early, such as `head`, saw enough."""
    with contextlib.suppress(ReaderLeftError):
        to_stdout(text)


def to_stdout(text: str) -> None:
    """Write all of it, or say why not; a file is on the disk when this returns."""
    refuse_closed_stdout()
    try:
        sys.stdout.flush()
        # Not through Python's streams: without a buffer they drop what does not fit.
        write_all(sys.stdout.fileno(), text.encode(errors="surrogateescape"))
    except BrokenPipeError:
        raise ReaderLeftError(
            "cannot write standard output: who was reading it stopped before the end"
        ) from None
    except OSError as error:
        raise OutputError(
            f"cannot write standard output: {error.strerror}", exit_code=exit_code_of(error)
        ) from None


@contextlib.contextmanager
def printed() -> Iterator[Console]:
    """A console for tables; what it shows goes to standard output, whole, at the end."""
    from rich.console import Console

    # Nobody's terminal is a reason to cut numbers short.
    console = Console() if a_terminal() else Console(width=110)
    with console.capture() as captured:
        yield console
    shown(captured.get())


def a_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and not sys.stdout.closed and sys.stdout.isatty()


def somebody_watches() -> bool:
    """Whether standard error is a terminal."""
    return sys.stderr is not None and sys.stderr.isatty()


def to_stderr(line: str) -> None:
    """Tell people, if anybody listens."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{line}\n")
        sys.stderr.flush()
