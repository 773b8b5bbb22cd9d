"""Ctrl-C, SIGTERM and SIGHUP end a run at once, whatever it is doing, and say what was written.

Compiled loops cannot be interrupted, so the work runs beside the main thread, which waits and
listens. Nothing is written before the work is done, so leaving in the middle leaves nothing behind.
Results are put in place by a few renames, during which a first signal waits.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NoReturn, TypeVar

from dpsu.cli.streams import somebody_watches, to_stderr
from dpsu.runtime.address_space import refuse_small_address_space
from dpsu.runtime.writing import sweep

if TYPE_CHECKING:
    from dpsu.ledger.spending import Spending

T = TypeVar("T")

NOT_WRITTEN, PERHAPS_IN_PART, COMPLETE = "not written", "perhaps in part", "complete"


@dataclass
class Stage:
    """How far a run has come with what it writes, in words for people."""

    outputs: dict[str, str] = field(default_factory=dict)
    spending: Spending | None = None
    stop_requested: bool = False
    deferring: bool = False

    def message(self) -> str:
        """What is true of the outputs at this moment."""
        said = []
        for state in (COMPLETE, PERHAPS_IN_PART, NOT_WRITTEN) if self.begun() else ():
            named = [name for name, at in self.outputs.items() if at == state]
            said += [f"{state}: {', '.join(named)}"] if named else []
        said = said or ["no output was written"]
        if self.spending is not None and self.spending.unfinished:
            said.append("the ledger keeps this release as unfinished")
        return "; ".join(said)

    def begun(self) -> bool:
        """Whether anything may have come out."""
        return any(state != NOT_WRITTEN for state in self.outputs.values())


stage = Stage()


def listen() -> None:
    """Treat SIGTERM and a terminal that closes like Ctrl-C; what is ignored stays ignored."""
    stage.outputs, stage.spending, stage.stop_requested, stage.deferring = {}, None, False, False
    for number in _signals():
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, _interrupt)


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Let a first signal wait until a few short steps are done; a second one does not wait."""
    stage.deferring = True
    try:
        yield
    finally:
        stage.deferring = False
    _stop_if_requested()


@contextlib.contextmanager
def signals_allowed() -> Iterator[None]:
    """Inside of :func:`signals_deferred`: a step that may take any time, and listens."""
    stage.deferring = False
    try:
        _stop_if_requested()
        yield
    finally:
        stage.deferring = True


def interruptible(work: Callable[[], T]) -> T:
    """Do the work on another thread, so that this one hears signals."""
    refuse_small_address_space()
    done: list[T] = []
    failed: list[BaseException] = []

    def run() -> None:
        try:
            done.append(work())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if failed:
        raise failed[0]
    return done[0]


def leave_interrupted() -> NoReturn:
    """Say what was written, remove what was not finished, and end without waiting for loops."""
    ignore_signals()
    sweep()
    if somebody_watches():
        # A progress bar that could not end hides the cursor.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("\x1b[?25h")
    to_stderr(f"dpsu: interrupted; {stage.message()}")
    os._exit(1)


def ignore_signals() -> None:
    """Let nothing interrupt the end of a run."""
    for number in _signals():
        signal.signal(number, signal.SIG_IGN)


def _signals() -> list[signal.Signals]:
    names = ("SIGINT", "SIGTERM", "SIGHUP")
    return [getattr(signal, name) for name in names if hasattr(signal, name)]


def _interrupt(number: int, frame: object) -> None:
    if stage.stop_requested:
        leave_interrupted()
    stage.stop_requested = True
    if not stage.deferring:
        raise KeyboardInterrupt


def _stop_if_requested() -> None:
    if stage.stop_requested:
        raise KeyboardInterrupt
