"""A progress bar for people at a terminal, nothing for anyone else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dpsu.cli.streams import somebody_watches
from dpsu.showing.progress import Stages, Steps, stages_on, steps_on, terminal_bar

SECONDS_BEFORE_STEPS = 1.0


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Stages | None]:
    """Show stages, rows read and users weighed on stderr if that is a terminal."""
    if quiet or not somebody_watches():
        yield None
        return
    with terminal_bar() as bar:
        yield stages_on(bar)


@contextmanager
def shown_steps(name: str, quiet: bool) -> Iterator[Steps]:
    """Show steps out of a number on stderr if that is a terminal and they take over a second."""
    shown: list[Steps] = []
    began = time.monotonic()
    with ExitStack() as bars:

        def show(step: int, steps: int) -> None:
            if quiet:
                return
            late = time.monotonic() - began >= SECONDS_BEFORE_STEPS
            if not shown and late and somebody_watches():
                shown.append(steps_on(bars.enter_context(terminal_bar()), name))
            for on_bar in shown:
                on_bar(step, steps)

        yield show
