"""Processes that tests start, independent of how the tests themselves were started."""

from __future__ import annotations

import signal


def hear_signals() -> None:
    """For `preexec_fn`: whoever starts tests by nohup or in the background ignores some signals."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
