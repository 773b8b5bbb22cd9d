"""Periods of a series that are killed, before and after every step that reaches the disk.

    python -m tests.support.series_kills FOLDER

A small process of its own, so that forks are cheap and safe. Every child goes through a period as
:meth:`dpsu.Series.release` does, without the mechanism: it notes that it reads a row, and "finds"
an item. What must hold afterwards is checked here.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import dpsu
from dpsu.engines.found import Found
from dpsu.engines.local import OneMachine
from dpsu.series.state import DONE, PENDING, State
from dpsu.series.terms import Terms


class Deadly:
    """Kills its process at the step whose turn it is."""

    left = 0

    @classmethod
    def step(cls) -> None:
        cls.left -= 1
        if cls.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    @classmethod
    def around(cls, call: Callable[..., Any]) -> Callable[..., Any]:
        def stepping(*args: Any, **kwargs: Any) -> Any:
            # What is true after a call is true before the next one.
            cls.step()
            return call(*args, **kwargs)

        return stepping


def rows(reads: Path) -> Iterator[tuple[str, str]]:
    """Rows that note on the disk that they were read."""
    descriptor = os.open(reads, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"read\n")
    os.close(descriptor)
    yield "somebody", "bread"
    Deadly.step()
    yield "somebody", "milk"


def found(machine: Any, key: Any) -> Found:
    """Reads all rows, and finds one item that is not known and that no other run finds."""
    read = list(machine._source.data)
    known = machine._plan.knowledge.public_items
    old = [] if known is None else known.items.to_pylist()
    drawn = secrets.token_hex(8)
    return Found(machine._plan, pa.array([f"{read[0][1]} {len(old)} {drawn}"]))


def die_at(step: int, act: Callable[[], object]) -> int:
    """A child that does something and dies at a step; how it ended."""
    child = os.fork()
    if not child:
        OneMachine.run = found  # type: ignore[method-assign,assignment]
        for name in ("open", "fsync", "fdopen", "mkdir", "rename", "replace", "link", "unlink"):
            setattr(os, name, Deadly.around(getattr(os, name)))
        Deadly.left = step
        try:
            act()
        except BaseException as error:
            print(repr(error), file=sys.stderr, flush=True)
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code


def release_once(series: dpsu.Series, reads: Path) -> None:
    """One period."""
    series.release(rows(reads))


def check(series: dpsu.Series, reads: Path) -> None:
    """What must hold while no process is alive."""
    history = series.history
    assert history or not reads.exists(), "rows of a period that was not begun were read"
    assert {each.state for each in history} <= {DONE, PENDING}
    released = [series.stored(each.number).items for each in history if each.state == DONE]
    assert len(series.items) == len(set(series.items)) == sum(map(len, released))


def kill_beginnings(folder: Path, terms: Terms) -> int:
    """A series that is begun and killed at every step is there, or can be begun again."""
    killed = 0
    while True:
        path = folder / f"begun {killed + 1}"
        code = die_at(killed + 1, partial(State(path).create, terms))
        if not path.exists():
            State(path).create(terms)
        assert dpsu.Series(path).left == 3
        if code == 0:
            return killed
        killed += 1


def main() -> None:
    """Kill at every step, and check after every kill."""
    folder = Path(sys.argv[1])
    first = dpsu.Series.create(folder / "0", periods=3, epsilon=3, delta=1e-5, mechanism="greedy")
    beginnings = kill_beginnings(folder, first._terms)
    killed = pending = 0
    while True:
        # On a state of its own, so that none runs out of periods.
        path = folder / f"{killed + 1}"
        shutil.copytree(first.path, path)
        series, reads = dpsu.Series(path), folder / f"{killed + 1}.reads"
        period = partial(release_once, series, reads)
        assert die_at(0, period) == 0
        code = die_at(killed + 1, period)
        check(series, reads)
        shown = {each.number: series.stored(each.number) for each in series.history
                 if each.state == DONE}  # fmt: skip
        taken_up = series.history[-1].state == PENDING
        pending += taken_up
        # The series goes on: what had shown nothing is taken up, and what was shown stays.
        assert die_at(0, period) == 0
        check(series, reads)
        assert [each.state for each in series.history] == [DONE] * (len(shown) + 1)
        assert all(series.stored(number) == released for number, released in shown.items())
        if code == 0:
            break
        killed += 1
    print(killed, pending, beginnings)


if __name__ == "__main__":
    main()
