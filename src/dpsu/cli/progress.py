"""A progress bar for people at a terminal, nothing for anyone else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpsu.cli.streams import somebody_watches


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Callable[[str, int], None] | None]:
    """Show stages and rows read on stderr if that is a terminal."""
    if quiet or not somebody_watches():
        yield None
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

        def show(stage: str, rows: int) -> None:
            told = f"{rows:,} rows"
            if stage == "reading" and rows:
                told += f", {rows / (bar.tasks[0].elapsed or 1e-9):,.0f}/s"
            bar.update(task, description=stage, told=told)

        yield show
