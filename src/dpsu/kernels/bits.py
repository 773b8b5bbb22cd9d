"""What users give to their open items in whole units, and how many open items they have.

User u holds ``items[start[u]:stop[u]]``; an item is open as long as it is not released. Loops take
a range of users and add to sums of their own, so that ranges can run side by side. There is no
floating-point number here: a user's prices are compared with its budget in integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.rounds import open_items, take_smallest
from dpsu.runtime.jit import njit

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]


@njit(cache=True)
def units_for(t: int, prices: Int64, budget: int) -> tuple[int, int]:
    """Units n that each of t items gets, and how many of the items get one more.

    ``(t - more) * prices[n] + more * prices[n + 1]`` is at most the budget, and more would not
    fit. Prices rise strictly from 0, so that `more` is below t: n + 1 units do not fit t times.
    """
    n = 0
    # The budget is divided, because t times a price might not fit in 64 bits.
    while n + 1 < len(prices) and prices[n + 1] <= budget // t:
        n += 1
    if n + 1 == len(prices):
        return n, 0
    return n, (budget - t * prices[n]) // (prices[n + 1] - prices[n])


@njit(cache=True, nogil=True)
def give_units(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: Flags,
    prices: Int64,
    budget: int,
    user_hash: Words,
    item_hash: Words,
    first: int,
    last: int,
    weights: Int64,
) -> None:
    """Equal units to all open items of a user; those with the smallest hashes get one more."""
    longest = 0
    for u in range(first, last):
        longest = max(longest, stop[u] - start[u])
    held, taken = np.empty(longest, np.int32), np.empty(longest, np.bool_)
    for u in range(first, last):
        t = open_items(items[start[u] : stop[u]], released, held)
        if t == 0:
            continue
        n, more = units_for(t, prices, budget)
        for j in range(t):
            weights[held[j]] += n
        if more == 0:
            continue
        take_smallest(held[:t], more, user_hash[u], item_hash, taken)
        for j in range(t):
            if taken[j]:
                weights[held[j]] += 1


@njit(cache=True, nogil=True)
def add_open(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: Flags,
    limits: Int64,
    units: Int64,
    first: int,
    last: int,
    sums: Int64,
) -> None:
    """Add each user's number of open items, as a part of every limit: at most `units` a user."""
    for u in range(first, last):
        t = 0
        for j in range(start[u], stop[u]):
            if not released[items[j]]:
                t += 1
        for k in range(len(limits)):
            sums[k] += min(t, limits[k]) * units[k] // limits[k]
