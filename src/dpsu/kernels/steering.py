"""Compute the attention that an item should get from its own noisy evidence.

Every function here maps an item's own evidence and public constants to a number. The number does
not depend on other items, on how many there are, or on the position of the item in an array.
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
    last_boundary: float,
    remaining: float,
    gain: float,
    sigma: float,
    extra: float,
    open_above: float,
    open_below: float,
    doubt: float,
    margin: float,
    common: float,
    levels: Float64,
    lowest: Float64,
    step: Float64,
    means: Float64,
    deviations: Float64,
    first: int,
    last: int,
    attention: Float64,
) -> None:
    """Attention ``exp(-kappa d^2 / 2v)``: largest for items that may or may not be released.

    `d` is the distance from an item's expected total to the last boundary, `v` its variance. The
    expected rate of an item is a posterior mean, read from tables that are made from public
    constants: one row for each level of log standard error, columns by estimate. A rate that was
    measured while others waited is not the rate when everybody hurries, so `doubt` is the part of
    it by which an item that seems sure may still fall short. Items of a rate of `common` or more
    get at least the part of their rate that they need for the boundary and `margin` besides.
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
        d = last_boundary - total[i] - gain * remaining * mean
        spread = gain * remaining * deviation
        v = sigma * sigma * remaining + spread * spread + extra * extra
        kappa = open_above
        if d <= 0.0:
            kappa = open_below
            short = doubt * gain * remaining * mean
            v += short * short
        found = math.exp(-kappa * d * d / (2.0 * v))
        if mean >= common:
            # An item that waits for others is late if what is left is just what it needs.
            needed = last_boundary - total[i] + margin
            found = max(found, min(1.0, needed / (gain * remaining * mean)))
        # Never zero: that means that an item is released.
        attention[i] = max(found, 1e-300)


@njit(cache=True, nogil=True)
def update(
    noisy_sums: Float64,
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
    """Add the noisy sums of one round to the evidence; release items that cross the boundary.

    Only items that are in some user's set of this phase can be released.
    """
    for i in range(first, last):
        g = max(attention[i], least)
        total[i] += share * noisy_sums[i]
        evidence[i] = memory * evidence[i] + g * share * noisy_sums[i] / (sigma * sigma)
        precision[i] = memory * precision[i] + g * g * share / (sigma * sigma)
        if present[i] and total[i] > boundary:
            released[i] = True
