"""A progress bar for people at a terminal, nothing for anyone else."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dpsu.cli.streams import somebody_watches, to_stderr

COMPILING = "compiling for this machine, once; it takes up to a minute"


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Callable[[str, int], None] | None]:
    """Show stages, rows read and users weighed on stderr if that is a terminal.

    That kernels are being compiled is told anywhere: the first run would seem to hang.
    """
    compiling: list[str] = []

    def tell(stage: str, number: int) -> None:
        if stage == "compiling" and not compiling:
            compiling.append(stage)
            to_stderr(COMPILING)

    if quiet or not somebody_watches():
        yield None if quiet else tell
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None, told="")

        began: dict[str, float] = {}

        def show(stage: str, number: int) -> None:
            tell(stage, number)
            elapsed = bar.tasks[0].elapsed or 0.0
            told, seconds = "", elapsed - began.setdefault(stage, elapsed)
            if number:
                rate = f", {number / seconds:,.0f}/s" if seconds > 0 else ""
                told = f"{number:,} {'rows' if stage == 'reading' else 'users'}{rate}"
            bar.update(task, description=stage, told=told)

        yield show


@contextmanager
def shown_steps(name: str, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show steps out of so many on stderr if that is a terminal and they take over a second."""
    compiling: list[str] = []
    bars: list[Any] = []
    began = time.monotonic()

    def show(step: int, steps: int) -> None:
        if not steps:
            if not compiling and not quiet:
                compiling.append(name)
                to_stderr(COMPILING)
            return
        if quiet or not somebody_watches() or (not bars and time.monotonic() - began < 1.0):
            return
        if not bars:
            from rich.console import Console
            from rich.progress import Progress

            bars.append(Progress(console=Console(stderr=True), transient=True))
            bars[0].start()
            bars[0].add_task(name, total=steps)
        bars[0].update(bars[0].tasks[0].id, completed=step)

    try:
        yield show
    finally:
        for bar in bars:
            bar.stop()
