"""Weights of items from users' bounded sets: one loop per policy.

All of them take users in processing order (user u holds ``items[start[u]:stop[u]]``) and return
int64 weights in units of 2^-fraction_bits. No fastmath anywhere: the proofs count rounding errors.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@njit(cache=True, nogil=True)
def count(start: Int64, stop: Int64, items: Int32, n_items: int) -> Int64:
    """Number of holders."""
    weights = np.zeros(n_items, np.int64)
    for u in range(len(stop)):
        for j in range(start[u], stop[u]):
            weights[items[j]] += 1
    return weights


@njit(cache=True, nogil=True)
def weighted(start: Int64, stop: Int64, items: Int32, n_items: int, share: Int64) -> Int64:
    """`share[size]` for each item of a user of that size."""
    weights = np.zeros(n_items, np.int64)
    for u in range(len(stop)):
        give = share[stop[u] - start[u]]
        for j in range(start[u], stop[u]):
            weights[items[j]] += give
    return weights


@njit(cache=True, nogil=True)
def l1_descent(
    start: Int64, stop: Int64, items: Int32, n_items: int, cutoff: int, budget: int, passes: int
) -> Int64:
    """Raise a user's unfilled items at the same speed until the budget is spent; exact.

    The level is the largest whole x with ``sum min(x, gap) <= budget``; what remains goes, one unit
    each, to the still unfilled items in the user's fixed order.
    """
    weights = np.zeros(n_items, np.int64)
    for step in range(passes):
        share = budget // passes + (1 if step < budget % passes else 0)
        for u in range(len(stop)):
            low, high = start[u], stop[u]
            level = 0
            left = share
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
    return weights


@njit(cache=True, nogil=True)
def l2_descent(
    start: Int64, stop: Int64, items: Int32, n_items: int, cutoff: int, budget: int, passes: int
) -> Int64:
    """Move a user's items towards the cutoff by at most l2 distance budget / passes."""
    weights = np.zeros(n_items, np.int64)
    step = float(budget) / passes
    for _ in range(passes):
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
    return weights


@njit(cache=True, nogil=True)
def greedy(
    start: Int64, stop: Int64, items: Int32, n_items: int, cutoff: int, budget: int, passes: int
) -> Int64:
    """Spend each user's budget on its items in its own order, each up to the cutoff; exact."""
    weights = np.zeros(n_items, np.int64)
    for step in range(passes):
        share = budget // passes + (1 if step < budget % passes else 0)
        for u in range(len(stop)):
            left = share
            for j in range(start[u], stop[u]):
                give = min(left, cutoff - weights[items[j]])
                weights[items[j]] += give
                left -= give
                if left == 0:
                    break
    return weights
