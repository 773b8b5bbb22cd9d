"""Weights of items from users' bounded sets: one loop per policy.

All of them take some users in processing order (user u holds ``items[start[u]:stop[u]]``) and add
to int64 weights in units of 2^-fraction_bits, so that more users can follow in another call. There
is no fastmath here: the proofs count rounding errors.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.jit import njit

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@njit(cache=True, nogil=True)
def count(start: Int64, stop: Int64, items: Int32, weights: Int64) -> None:
    """Add 1 to each item of every user."""
    for u in range(len(stop)):
        for j in range(start[u], stop[u]):
            weights[items[j]] += 1


@njit(cache=True, nogil=True)
def weighted(start: Int64, stop: Int64, items: Int32, share: Int64, weights: Int64) -> None:
    """Add ``share[size]`` to each item of a user with `size` items."""
    for u in range(len(stop)):
        give = share[stop[u] - start[u]]
        for j in range(start[u], stop[u]):
            weights[items[j]] += give


@njit(cache=True, nogil=True)
def l1_descent(
    start: Int64, stop: Int64, items: Int32, cutoff: int, budget: int, weights: Int64
) -> None:
    """Raise a user's unfilled items at the same speed until the budget is spent; exact.

    The level is the largest whole x with ``sum min(x, gap) <= budget``; what remains goes, one unit
    each, to the still unfilled items in the user's fixed order.
    """
    for u in range(len(stop)):
        low, high = start[u], stop[u]
        level = 0
        left = budget
        unfilled = 0
        for j in range(low, high):
            if weights[items[j]] < cutoff:
                unfilled += 1
        while unfilled > 0:
            # Items at or below the new level are filled by it; the rest share what they leave.
            new_level = left // unfilled
            spent, filled = 0, 0
            for j in range(low, high):
                gap = cutoff - weights[items[j]]
                if level < gap <= new_level:
                    spent += gap
                    filled += 1
            level = new_level
            if filled == 0:
                break
            left -= spent
            unfilled -= filled
        if unfilled == 0:
            for j in range(low, high):
                weights[items[j]] = cutoff
            continue
        remainder = left - level * unfilled
        for j in range(low, high):
            gap = cutoff - weights[items[j]]
            if gap <= level:
                weights[items[j]] = cutoff
            elif remainder > 0:
                weights[items[j]] += level + 1
                remainder -= 1
            else:
                weights[items[j]] += level


@njit(cache=True, nogil=True)
def l2_descent(
    start: Int64, stop: Int64, items: Int32, cutoff: int, step: float, weights: Int64
) -> None:
    """Move a user's items towards the cutoff by at most l2 distance `step`."""
    for u in range(len(stop)):
        low, high = start[u], stop[u]
        # Compensated summation: the error does not grow with the number of items.
        squares, lost = 0.0, 0.0
        for j in range(low, high):
            gap = float(cutoff - weights[items[j]])
            term = gap * gap - lost
            new_squares = squares + term
            lost = (new_squares - squares) - term
            squares = new_squares
        distance = math.sqrt(squares)
        if distance <= step:
            for j in range(low, high):
                weights[items[j]] = cutoff
        else:
            for j in range(low, high):
                gap_units = cutoff - weights[items[j]]
                give = np.int64(math.floor(float(gap_units) * (step / distance)))
                weights[items[j]] += min(give, gap_units)


@njit(cache=True, nogil=True)
def greedy(
    start: Int64, stop: Int64, items: Int32, cutoff: int, budget: int, weights: Int64
) -> None:
    """Spend each user's budget on its items in its own order, each up to the cutoff; exact."""
    for u in range(len(stop)):
        left = budget
        for j in range(start[u], stop[u]):
            give = min(left, cutoff - weights[items[j]])
            weights[items[j]] += give
            left -= give
            if left == 0:
                break


@njit(cache=True, nogil=True)
def reroute(
    start: Int64,
    stop: Int64,
    items: Int32,
    share: Int64,
    back: NDArray[np.float64],
    degree: int,
    weights: Int64,
) -> None:
    """Add to each item of a user 1/(2 degree) of what the user gets back, rounded down.

    `back` is the part of its weight that an item returns; users without a share do not take part.
    """
    for u in range(len(stop)):
        returned = 0.0
        for j in range(start[u], stop[u]):
            returned += back[items[j]]
        give = np.int64(math.floor(share[stop[u] - start[u]] * returned / (2.0 * degree)))
        for j in range(start[u], stop[u]):
            weights[items[j]] += give
