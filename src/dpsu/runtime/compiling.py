"""Report when kernels are compiled: it takes long, once, and is cached for all later runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from numba.core import event


class _Listener(event.Listener):
    def __init__(self, report: Callable[[], None]) -> None:
        self._report = report

    def on_start(self, event: Any) -> None:
        self._report()

    def on_end(self, event: Any) -> None:
        pass


def when_compiling(report: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `report` whenever a kernel has to be compiled, because no earlier run cached it."""
    return event.install_listener("numba:compile", _Listener(report))
