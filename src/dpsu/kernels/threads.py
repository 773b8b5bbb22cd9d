"""Ranges of users or items to all cores: compiled loops release the interpreter lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

WORKERS = min(8, os.cpu_count() or 1)
SMALL = 50_000


def in_ranges(work: Callable[[int, int], object], n: int) -> None:
    """Call ``work(first, last)`` on ranges that together are ``range(n)``, in any order."""
    _run(work, np.linspace(0, n, WORKERS + 1).astype(np.int64), n)


def in_even_ranges(work: Callable[[int, int], object], start: NDArray[np.int64]) -> None:
    """The same over users or items, each range with about as many rows as the others."""
    parts = np.linspace(0, start[-1], WORKERS + 1)
    bounds = np.searchsorted(start, parts)
    bounds[0], bounds[-1] = 0, len(start) - 1
    _run(work, bounds, int(start[-1]))


def _run(work: Callable[[int, int], object], bounds: NDArray[np.int64], rows: int) -> None:
    if rows < SMALL or WORKERS == 1:
        work(int(bounds[0]), int(bounds[-1]))
        return
    with ThreadPoolExecutor(WORKERS) as pool:
        ranges = zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
        for done in [pool.submit(work, first, last) for first, last in ranges if first < last]:
            done.result()
