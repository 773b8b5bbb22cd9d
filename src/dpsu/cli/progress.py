"""A progress bar for people at a terminal, nothing for anyone else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dpsu.cli.streams import somebody_watches, to_stderr


@contextmanager
def shown_progress(quiet: bool) -> Iterator[Callable[[str, int], None] | None]:
    """Show stages, rows read and users weighed on stderr if that is a terminal.

    That kernels are being compiled is told anywhere: the first run would seem to hang.
    """
    compiling: list[str] = []

    def tell(stage: str, number: int) -> None:
        if stage == "compiling" and not compiling:
            compiling.append(stage)
            to_stderr("compiling for this machine, once; it takes up to a minute")

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
