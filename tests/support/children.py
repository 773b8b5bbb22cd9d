"""Processes that tests start, independent of how the tests themselves were started."""

from __future__ import annotations

import signal


def hear_signals() -> None:
    """For `preexec_fn`: undo the ignored signals that nohup or a shell in the background hands on."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
