"""Spread work over all cores: compiled loops release the interpreter lock."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import cache, partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsu.errors import unless_short
from dpsu.runtime.cores import usable_cores

Given = TypeVar("Given")
Made = TypeVar("Made")

MOST_WORKERS = 8
SMALL = 50_000

# What this thread was asked to use; several releases at once may be asked for different numbers.
_asked: ContextVar[int | None] = ContextVar("dpsu threads", default=None)
_thread = threading.local()


@cache
def usual_workers() -> int:
    """As many threads as there are cores for this process, and at most 8."""
    return min(MOST_WORKERS, usable_cores())


def workers() -> int:
    """Over how many threads work is spread."""
    return _asked.get() or usual_workers()


@contextmanager
def use_workers(number: int) -> Iterator[None]:
    """Spread the work of this thread over this many workers; other threads keep their setting.

    A generator must not yield inside of it: the setting would stay in force in the caller.
    """
    before = _asked.set(number)
    try:
        yield
    finally:
        _asked.reset(before)


class _Helpers:
    """Threads that are kept from one call to the next.

    A release of many rounds spreads work a hundred times: to start threads each time would take
    longer than the work of a small one.
    """

    def __init__(self) -> None:
        self.renew()
        if hasattr(os, "register_at_fork"):
            # Threads stay behind in the process that started them.
            os.register_at_fork(after_in_child=self.renew)

    def renew(self) -> None:
        """Use a new pool from here on."""
        self._pool = ThreadPoolExecutor(
            MOST_WORKERS, "dpsu", lambda: setattr(_thread, "is_helper", True)
        )

    def begin(self, work: Callable[[], None]) -> Future[None]:
        """Let a helper begin with some work."""
        return unless_short(partial(self._pool.submit, work))


_helpers = _Helpers()


def side_by_side(work: Callable[[int], object], n: int) -> None:
    """Call ``work(k)`` for every k below `n`, in any order; the calling thread works, too.

    When it returns or raises, none of the calls is running any more.
    """
    # A helper that waited for helpers might wait for ever.
    helpers = 0 if hasattr(_thread, "is_helper") else min(workers(), n) - 1
    if helpers < 1:
        for k in range(n):
            work(k)
        return
    left = deque(range(n))
    begun: list[Future[None]] = []
    try:
        for _ in range(helpers):
            begun.append(_helpers.begin(partial(copy_context().run, _take_turns, work, left)))
        _take_turns(work, left)
    finally:
        left.clear()
        # One that has not begun, because others keep all helpers busy, has nothing left to do.
        running = [future for future in begun if not future.cancel()]
        wait(running)
    for future in running:
        future.result()


def _take_turns(work: Callable[[int], object], left: deque[int]) -> None:
    """Do what nobody else has begun, until nothing is left or something fails."""
    try:
        while (k := _next(left)) is not None:
            work(k)
    except BaseException:
        left.clear()
        raise


def _next(left: deque[int]) -> int | None:
    """Take one of what is left; another thread may have been faster."""
    try:
        return left.popleft()
    except IndexError:
        return None


def in_ranges(work: Callable[[int, int], object], n: int) -> None:
    """Call ``work(first, last)`` on ranges that together are ``range(n)``, in any order."""
    if n < SMALL or (parts := workers()) == 1:
        work(0, n)
        return
    _in_ranges(work, [n * k // parts for k in range(parts + 1)])


def in_even_ranges(work: Callable[[int, int], object], start: NDArray[np.int64]) -> None:
    """The same over users, so that each range has about as many rows as the others."""
    rows = int(start[-1]) if len(start) else 0
    if rows < SMALL or (parts := workers()) == 1:
        work(0, len(start))
        return
    inner = np.searchsorted(start, [rows * k // parts for k in range(1, parts)])
    _in_ranges(work, [0, *inner.tolist(), len(start)])


def _in_ranges(work: Callable[[int, int], object], bounds: list[int]) -> None:
    side_by_side(lambda k: work(bounds[k], bounds[k + 1]), len(bounds) - 1)


def in_order_ahead(work: Callable[[Given], Made], given: Iterable[Given]) -> Iterator[Made]:
    """Results of `work`, in order; workers run at most a few results ahead of the caller."""
    number = workers()
    with ThreadPoolExecutor(number) as pool:
        ahead: deque[Future[Made]] = deque()
        try:
            for one in given:
                # What the work spreads in turn is spread as the caller was asked to.
                here = copy_context()
                ahead.append(unless_short(partial(pool.submit, here.run, work, one)))
                if len(ahead) > number:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
