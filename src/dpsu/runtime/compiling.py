"""Hearing when kernels are compiled, which takes long once and is kept for all later runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from numba.core import event


class _Listener(event.Listener):
    def __init__(self, hear: Callable[[], None]) -> None:
        self._hear = hear

    def on_start(self, event: Any) -> None:
        self._hear()

    def on_end(self, event: Any) -> None:
        pass


def when_compiling(hear: Callable[[], None]) -> AbstractContextManager[None]:
    """Call `hear` whenever a kernel has to be compiled because no earlier run kept it."""
    return event.install_listener("numba:compile", _Listener(hear))
