"""What an item's own noisy past says about where attention is worth most: one item at a time.

Every function here maps an item's own evidence and public constants to a number. None looks at
another item, at how many there are, or at where in an array an item stands.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


@njit(cache=True)
def _between(table: Float64, level: int, place: float) -> Any:
    at = min(max(int(place), 0), table.shape[1] - 2)
    part = min(max(place - at, 0.0), 1.0)
    return (1.0 - part) * table[level, at] + part * table[level, at + 1]


@njit(cache=True, nogil=True)
def steer(
    evidence: Float64,
    precision: Float64,
    total: Float64,
    released: Flags,
    goal: float,
    remaining: float,
    gain: float,
    sigma: float,
    extra: float,
    open_above: float,
    open_below: float,
    levels: Float64,
    lowest: Float64,
    step: Float64,
    means: Float64,
    deviations: Float64,
    first: int,
    last: int,
    attention: Float64,
) -> None:
    """Attention ``exp(-kappa d^2 / 2v)``: most to items whose fate is still open.

    `d` is how far the expected total of an item stays below the goal, `v` its variance. The
    expected rate of an item is a posterior mean, read from tables that are made from public
    constants: one row for each level of log standard error, columns by estimate.
    """
    spacing = levels[1] - levels[0]
    for i in range(first, last):
        if released[i]:
            attention[i] = 0.0
            continue
        error = 0.5 * -math.log(precision[i])
        estimate = evidence[i] / precision[i]
        place = min(max((error - levels[0]) / spacing, 0.0), len(levels) - 1.000001)
        level = int(place)
        part = place - level
        mean, deviation = 0.0, 0.0
        for side in range(2):
            q = level + side
            share = part if side == 1 else 1.0 - part
            at = (estimate - lowest[q]) / step[q]
            mean += share * _between(means, q, at)
            deviation += share * _between(deviations, q, at)
        d = goal - total[i] - gain * remaining * mean
        spread = gain * remaining * deviation
        v = sigma * sigma * remaining + spread * spread + extra * extra
        kappa = open_above if d > 0.0 else open_below
        # Never zero, which is the mark of a released item.
        attention[i] = max(math.exp(-kappa * d * d / (2.0 * v)), 1e-300)


@njit(cache=True, nogil=True)
def hear(
    heard: Float64,
    share: float,
    sigma: float,
    memory: float,
    least: float,
    boundary: float,
    attention: Float64,
    present: Flags,
    evidence: Float64,
    precision: Float64,
    total: Float64,
    released: Flags,
    first: int,
    last: int,
) -> None:
    """Take one noisy look into account, and release what has crossed the boundary.

    Only items that are in a set of the current phase can be released.
    """
    for i in range(first, last):
        g = max(attention[i], least)
        total[i] += share * heard[i]
        evidence[i] = memory * evidence[i] + g * share * heard[i] / (sigma * sigma)
        precision[i] = memory * precision[i] + g * g * share / (sigma * sigma)
        if present[i] and total[i] > boundary:
            released[i] = True
