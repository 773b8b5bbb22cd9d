"""Spread work over all cores: compiled loops release the interpreter lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpsu.errors import NO_MEMORY, ResourceError, lacks_memory

Given = TypeVar("Given")
Made = TypeVar("Made")

WORKERS = min(8, os.cpu_count() or 1)
SMALL = 50_000


def side_by_side(work: Callable[[int], object], n: int) -> None:
    """Call ``work(k)`` for every k below `n`, in any order."""
    if n < 2 or WORKERS == 1:
        for k in range(n):
            work(k)
        return
    with ThreadPoolExecutor(WORKERS) as pool:
        for _ in _begun(lambda: pool.map(work, range(n))):
            pass


def in_ranges(work: Callable[[int, int], object], n: int) -> None:
    """Call ``work(first, last)`` on ranges that together are ``range(n)``, in any order."""
    _in_ranges(work, np.linspace(0, n, WORKERS + 1).astype(np.int64), n)


def in_even_ranges(work: Callable[[int, int], object], start: NDArray[np.int64]) -> None:
    """The same over users, so that each range has about as many rows as the others."""
    rows = int(start[-1]) if len(start) else 0
    bounds = np.searchsorted(start, np.linspace(0, rows, WORKERS + 1))
    bounds[0], bounds[-1] = 0, len(start)
    _in_ranges(work, bounds, rows)


def _in_ranges(work: Callable[[int, int], object], bounds: NDArray[np.int64], rows: int) -> None:
    if rows < SMALL or WORKERS == 1:
        work(int(bounds[0]), int(bounds[-1]))
        return
    side_by_side(lambda k: work(int(bounds[k]), int(bounds[k + 1])), len(bounds) - 1)


def _begun(begin: Callable[[], Made]) -> Made:
    """Call `begin`, which starts threads; if none can start for want of memory, say so."""
    try:
        return begin()
    except RuntimeError as error:
        if not lacks_memory(error):
            raise
    raise ResourceError(NO_MEMORY)


def in_order_ahead(work: Callable[[Given], Made], given: Iterable[Given]) -> Iterator[Made]:
    """Results of `work`, in order; workers run at most a few results ahead of the caller."""
    with ThreadPoolExecutor(WORKERS) as pool:
        ahead: deque[Future[Made]] = deque()
        try:
            for one in given:
                ahead.append(_begun(partial(pool.submit, work, one)))
                if len(ahead) > WORKERS:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()
        finally:
            for future in ahead:
                future.cancel()
