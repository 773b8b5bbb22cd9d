"""A progress bar for people at a terminal, nothing for anyone else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from dpsu.cli.streams import somebody_watches, to_stderr
from dpsu.showing.progress import COMPILING, Stages, Steps, stages_on, steps_on, terminal_bar

SECONDS_BEFORE_STEPS = 1.0


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Stages | None]:
    """Show stages, rows read and users weighed on stderr if that is a terminal.

    That kernels are being compiled is said anywhere: the first run would seem to hang.
    """
    tell_once = cache(lambda: to_stderr(COMPILING))

    def tell(stage: str, number: int) -> None:
        if stage == "compiling":
            tell_once()

    if quiet or not somebody_watches():
        yield None if quiet else tell
        return
    with terminal_bar() as bar:
        on_bar = stages_on(bar)

        def show(stage: str, number: int) -> None:
            tell(stage, number)
            on_bar(stage, number)

        yield show


@contextmanager
def shown_steps(name: str, quiet: bool) -> Iterator[Steps]:
    """Show steps out of a number on stderr if that is a terminal and they take over a second."""
    tell_once = cache(lambda: to_stderr(COMPILING))
    shown: list[Steps] = []
    began = time.monotonic()
    with ExitStack() as bars:

        def show(step: int, steps: int) -> None:
            if quiet:
                return
            if not steps:
                tell_once()
                return
            late = time.monotonic() - began >= SECONDS_BEFORE_STEPS
            if not shown and late and somebody_watches():
                shown.append(steps_on(bars.enter_context(terminal_bar()), name))
            for on_bar in shown:
                on_bar(step, steps)

        yield show
