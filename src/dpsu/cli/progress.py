"""A progress bar for people at a terminal, nothing for anyone else."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Callable[[str, int], None] | None]:
    """Show stages and rows read on stderr if that is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[rows]:,} rows, {task.fields[rate]:,.0f}/s"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None, rows=0, rate=0.0)

        def show(stage: str, rows: int) -> None:
            elapsed = bar.tasks[0].elapsed or 1e-9
            bar.update(task, description=stage, rows=rows, rate=rows / elapsed)

        yield show
