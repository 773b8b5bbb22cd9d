"""Progress: told to a function of the caller's, or shown as a bar in a terminal or a notebook.

Two kinds of progress are told. Releases tell the name of a stage and how far it is, without knowing
how much there is; forecasts, comparisons and audits tell how many steps of how many are done.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from dpsu.options import function
from dpsu.showing.markup import Html, escaped

Stages = Callable[[str, int], None]
Steps = Callable[[int, int], None]

# What happens, without any number of the data; people choose where it goes.
LOG = logging.getLogger("dpsu")
LOG.addHandler(logging.NullHandler())
SECONDS_BETWEEN_UPDATES = 0.2
# What writing to a stream that is gone raises; rich makes an exit of a broken pipe.
_GONE = (OSError, ValueError, SystemExit)


def stages(progress: bool | Stages | None) -> AbstractContextManager[Stages]:
    """What the `progress` of a release means: a function, True for a bar, otherwise nothing.

    Whatever it is, each stage is logged, once: how often one comes may be private.
    """
    return _logged(_meant(progress, stages_on))


@contextmanager
def _logged(shown: AbstractContextManager[Stages]) -> Iterator[Stages]:
    logged: set[str] = set()
    with shown as show:

        def log_and_show(stage: str, number: int) -> None:
            if stage not in logged:
                logged.add(stage)
                LOG.info(stage)
            show(stage, number)

        yield log_and_show


def steps(progress: bool | Steps | None, name: str) -> AbstractContextManager[Steps]:
    """The same for what goes by steps; `name` is what a bar says is being done."""
    return _meant(progress, lambda bar: steps_on(bar, name))


def _meant(
    progress: Any, on: Callable[[Bar], Callable[..., None]]
) -> AbstractContextManager[Callable[..., None]]:
    if progress is True:
        return _shown(on)
    return nullcontext(function("progress", None if progress is False else progress))


@contextmanager
def _shown(on: Callable[[Bar], Callable[..., None]]) -> Iterator[Callable[..., None]]:
    with visible_bar() as bar:
        yield (lambda *_: None) if bar is None else on(bar)


def stages_on(bar: Bar) -> Stages:
    """Show stages on a bar, with rows read or users weighed, and how many in a second."""
    began: dict[str, float] = {}

    def show(stage: str, number: int) -> None:
        now = time.monotonic()
        told, seconds = "", now - began.setdefault(stage, now)
        if number:
            rate = f", {number / seconds:,.0f}/s" if seconds > 0 else ""
            told = f"{number:,} {'rows' if stage == 'reading' else 'users'}{rate}"
        bar.show(stage, told)

    return show


def steps_on(bar: Bar, name: str) -> Steps:
    """Show steps on a bar."""
    return lambda step, of: bar.show(name, f"{step:,} of {of:,}", step, of)


def ticking(tell: Steps, of: int) -> Callable[[], None]:
    """A function that tells of one step more of so many whenever it is called."""
    done = itertools.count(1)
    return lambda: tell(next(done), of)


@contextmanager
def visible_bar() -> Iterator[Bar | None]:
    """A bar where somebody can see it: in a notebook, or in a terminal on standard error."""
    from rich.console import Console

    console = Console(stderr=True)
    if console.is_jupyter:
        with _notebook_bar() as shown:
            yield shown
    elif console.is_terminal:
        with terminal_bar() as bar:
            yield bar
    else:
        yield None


@contextmanager
def terminal_bar() -> Iterator[Bar]:
    """A bar on standard error that vanishes at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    drawn = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[told]}", markup=False),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        # What others print is meant for standard output, which may be a file.
        redirect_stdout=False,
    )
    bar = _TerminalBar(drawn)
    # Nothing that is being done may fail because nobody can watch it.
    with contextlib.suppress(*_GONE):
        drawn.start()
    try:
        yield bar
    finally:
        with contextlib.suppress(*_GONE):
            drawn.stop()


class _TerminalBar:
    def __init__(self, drawn: Any) -> None:
        self._drawn = drawn
        self._task = drawn.add_task("starting", total=None, told="")

    def show(
        self, what: str, told: str = "", done: int | None = None, total: int | None = None
    ) -> None:
        self._drawn.update(self._task, description=what, told=told, completed=done, total=total)


@contextmanager
def _notebook_bar() -> Iterator[Bar]:
    # Not rich's: that one needs a library of widgets, in the notebook and in the browser.
    from IPython.display import display

    bar = _NotebookBar()
    handle = display(bar, display_id=True)
    bar.update = lambda: handle.update(bar)
    try:
        yield bar
    finally:
        bar.vanish()


class _NotebookBar:
    """An output of a notebook that is replaced again and again."""

    def __init__(self) -> None:
        self.update: Callable[[], None] = lambda: None
        self._html = Html("")
        self._updated = -1.0

    def _repr_html_(self) -> str:
        return self._html

    def __repr__(self) -> str:
        return ""

    def show(
        self, what: str, told: str = "", done: int | None = None, total: int | None = None
    ) -> None:
        filled = "" if done is None else f' value="{done}" max="{total}"'
        self._html = Html(f"<progress{filled}></progress> {escaped(what)} {escaped(told)}")
        now = time.monotonic()
        # Each update is a message to the browser.
        if self._updated < 0 or now - self._updated >= SECONDS_BETWEEN_UPDATES:
            self._updated = now
            self.update()

    def vanish(self) -> None:
        """Leave nothing behind."""
        self._html = Html("")
        self.update()


# What shows what is being done, how far in words, and as a part of a total where it is known.
Bar = _TerminalBar | _NotebookBar
