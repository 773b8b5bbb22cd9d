"""Ctrl-C and SIGTERM end a run at once, whatever it is doing.

Compiled loops cannot be interrupted, so the work runs beside the main thread, which waits and
listens. Nothing is written before the work is done, so leaving in the middle leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import NoReturn, TypeVar

from dpsu.cli.streams import to_stderr

T = TypeVar("T")


def listen() -> None:
    """Treat SIGTERM like Ctrl-C."""
    signal.signal(signal.SIGTERM, _interrupt)


def interruptible(work: Callable[[], T]) -> T:
    """Do the work on another thread, so that this one hears signals."""
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
    """Say so and end without waiting for loops that are still running."""
    to_stderr("dpsu: interrupted; nothing was written")
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    os._exit(1)


def _interrupt(signal_: int, frame: object) -> None:
    raise KeyboardInterrupt
