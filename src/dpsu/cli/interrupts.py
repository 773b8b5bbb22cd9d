"""Ctrl-C, SIGTERM and SIGHUP end a run at once, whatever it is doing, and say what was written.

Python runs its handlers when the main thread is in Python, and a query or a compiled loop may take
hours. So a thread listens for it. Nothing is written before the work is done, and files appear by
renames, so leaving in the middle leaves nothing behind. While results are put in place, which takes
a few renames, a first signal waits.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from dpsu.cli.streams import somebody_watches, to_stderr
from dpsu.runtime.writing import sweep

if TYPE_CHECKING:
    from dpsu.ledger.spending import Spending

NOT_WRITTEN, PERHAPS_IN_PART, COMPLETE = "not written", "perhaps in part", "complete"
# Seconds for which last words wait for a reader who is stuck.
LONGEST_WAIT = 5.0
# Windows has no SIGHUP.
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


@dataclass
class Stage:
    """How far a run has come with what it writes, in words for people."""

    outputs: dict[str, str] = field(default_factory=dict)
    spending: Spending | None = None
    # The number of the first signal that came.
    signal: int = 0
    deferring: bool = False
    finished: bool = False

    def begin(self) -> None:
        """Forget what an earlier command of this process wrote."""
        self.outputs, self.spending = {}, None
        self.signal, self.deferring, self.finished = 0, False, False

    def message(self) -> str:
        """What is true of the outputs at this moment."""
        said = []
        for state in (COMPLETE, PERHAPS_IN_PART, NOT_WRITTEN) if self.begun() else ():
            named = [name for name, at in self.outputs.items() if at == state]
            said += [f"{state}: {', '.join(named)}"] if named else []
        said = said or ["no output was written"]
        if self.spending is not None and self.spending.said is not None:
            said.append(self.spending.said)
        return "; ".join(said)

    def begun(self) -> bool:
        """Whether anything may have come out."""
        return any(state != NOT_WRITTEN for state in self.outputs.values())


stage = Stage()
# Held by the thread that ends the process, for as long as that takes.
_leaving = threading.Lock()


def listen() -> None:
    """Treat SIGTERM and a terminal that closes like Ctrl-C; what is ignored stays ignored."""
    heard, written = os.pipe()
    os.set_blocking(written, False)
    signal.set_wakeup_fd(written, warn_on_full_buffer=False)
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda number, frame: None)
    threading.Thread(target=_wait_for_signals, args=(heard,), daemon=True).start()


@contextlib.contextmanager
def signals_deferred() -> Iterator[None]:
    """Let a first signal wait until a few short steps are done; a second one does not wait."""
    stage.deferring = True
    try:
        yield
    finally:
        stage.deferring = False
    if stage.signal:
        raise KeyboardInterrupt


def leave_interrupted() -> NoReturn:
    """Say what was written, remove what was not finished, and end without waiting for threads.

    The exit code is the one that shells show for a death by this signal; a process that is the
    first of its container cannot die by one. Where all is in place, it is 0.
    """
    _leaving.acquire()
    sweep()
    if somebody_watches():
        # A progress bar that could not end hides the cursor.
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write("\x1b[?25h")
    if _takes_words(sys.stderr):
        to_stderr(f"dpsu: interrupted; {stage.message()}")
    os._exit(0 if stage.finished else 128 + (stage.signal or signal.SIGINT))


def _takes_words(stream: Any) -> bool:
    """Whether a stream takes some words now; if it is a pipe that is full, they would wait."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        return bool(select.select([], [stream], [], LONGEST_WAIT)[1])
    return True


def ignore_signals() -> None:
    """Let nothing interrupt the end of a run."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _wait_for_signals(heard: int) -> None:
    """Read the number of each signal that comes, and leave when it is time to."""
    while True:
        number = os.read(heard, 1)[0]
        if number not in _SIGNALS:
            continue
        waits = stage.deferring and not stage.signal
        stage.signal = stage.signal or number
        if not waits:
            leave_interrupted()
