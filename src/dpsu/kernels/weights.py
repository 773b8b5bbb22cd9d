"""Weights in whole units that users give to their items: one loop per policy.

All of them take some users in processing order (user u holds ``items[start[u]:stop[u]]``) and add
to int64 weights in units of 2^-fraction_bits, so that more users can follow in another call. Some
loops are for rounds: an item is open as long as it is not released, and they take a range of users
and add to sums of their own, so that ranges can run side by side. Prices of units are compared with
a user's budget in integers.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.grouping import check_users, longest_set, nth_smallest
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    ConstByte,
    ConstDouble,
    ConstInt32,
    ConstInt64,
    ConstWord,
    Double,
    Int32,
    Int64,
    Size,
    Word,
    hash_word,
)
from cython.cimports.libc import math


def count(
    start: ConstInt64[::1], stop: ConstInt64[::1], items: ConstInt32[::1], weights: Int64[::1]
) -> None:
    """Add 1 to each item of every user."""
    check_users(start, stop, 0, len(stop))
    with cython.nogil:
        for u in range(len(stop)):
            for j in range(start[u], stop[u]):
                weights[items[j]] += 1


def weighted(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    share: ConstInt64[::1],
    weights: Int64[::1],
) -> None:
    """Add ``share[size]`` to each item of a user with `size` items."""
    give: Int64
    check_users(start, stop, 0, len(stop))
    with cython.nogil:
        for u in range(len(stop)):
            give = share[stop[u] - start[u]]
            for j in range(start[u], stop[u]):
                weights[items[j]] += give


def l1_descent(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    cutoff: Int64,
    budget: Int64,
    weights: Int64[::1],
) -> None:
    """Raise a user's unfilled items at the same speed until the budget is spent; exact.

    The level is the largest whole x with ``sum min(x, gap) <= budget``; what remains goes, one unit
    each, to the still unfilled items in the user's fixed order.
    """
    low: Size
    high: Size
    level: Int64
    new_level: Int64
    left: Int64
    unfilled: Int64
    spent: Int64
    filled: Int64
    gap: Int64
    remainder: Int64
    check_users(start, stop, 0, len(stop))
    # The quotient of a negative number would be rounded up.
    if budget < 0:
        raise ValueError("a budget is not negative")
    with cython.nogil:
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


def l2_descent(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    cutoff: Int64,
    step: Double,
    weights: Int64[::1],
) -> None:
    """Move a user's items towards the cutoff by at most l2 distance `step`."""
    low: Size
    high: Size
    squares: Double
    lost: Double
    gap_units: Int64
    give: Int64
    check_users(start, stop, 0, len(stop))
    # A distance of 0 is not above the step: nothing is divided by it.
    if not step >= 0.0:
        raise ValueError("a step is not negative")
    with cython.nogil:
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
                    give = cython.cast(Int64, math.floor(float(gap_units) * (step / distance)))
                    weights[items[j]] += min(give, gap_units)


def greedy(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    cutoff: Int64,
    budget: Int64,
    weights: Int64[::1],
) -> None:
    """Spend each user's budget on its items in its own order, each up to the cutoff; exact."""
    left: Int64
    give: Int64
    check_users(start, stop, 0, len(stop))
    with cython.nogil:
        for u in range(len(stop)):
            left = budget
            for j in range(start[u], stop[u]):
                give = min(left, cutoff - weights[items[j]])
                weights[items[j]] += give
                left -= give
                if left == 0:
                    break


def reroute(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    share: ConstInt64[::1],
    back: ConstDouble[::1],
    degree: Int64,
    weights: Int64[::1],
) -> None:
    """Add to each item of a user 1/(2 degree) of what the user gets back, rounded down.

    `back` is the part of its weight that an item returns; users without a share do not take part.
    """
    returned: Double
    give: Int64
    check_users(start, stop, 0, len(stop))
    if degree < 1:
        raise ValueError("users who reroute have at least one item")
    with cython.nogil:
        for u in range(len(stop)):
            returned = 0.0
            for j in range(start[u], stop[u]):
                returned += back[items[j]]
            give = cython.cast(
                Int64, math.floor(share[stop[u] - start[u]] * returned / (2.0 * degree))
            )
            for j in range(start[u], stop[u]):
                weights[items[j]] += give


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def open_items(
    items: ConstInt32[::1], first: Size, last: Size, released: ConstByte[::1], held: Int32[::1]
) -> Size:
    """Write those of ``items[first:last]`` that are not released to `held`; returns how many."""
    t: Size = 0
    for j in range(first, last):
        if not released[items[j]]:
            held[t] = items[j]
            t += 1
    return t


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def take_smallest(
    held: Int32[::1],
    t: Size,
    wanted: Size,
    user_hash: Word,
    item_hash: ConstWord[::1],
    hashes: Word[::1],
    spare: Word[::1],
    taken: Byte[::1],
) -> cython.void:
    """Mark as many of a user's `t` items as wanted, at least one: those with the smallest hashes.

    `hashes` and `spare` are room for as many words.
    """
    room: Size
    for j in range(t):
        hashes[j] = hash_word(item_hash[held[j]], user_hash)
        spare[j] = hashes[j]
    largest = nth_smallest(spare, t, wanted - 1)
    room = wanted
    for j in range(t):
        taken[j] = hashes[j] < largest
        if taken[j]:
            room -= 1
    for j in range(t):
        # Equal hashes keep the order of items.
        if hashes[j] == largest and room > 0:
            taken[j] = True
            room -= 1


def share_unreleased(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    released: ConstByte[::1],
    max_items: Size,
    user_hash: ConstWord[::1],
    item_hash: ConstWord[::1],
    share: ConstInt64[::1],
    first: Size,
    last: Size,
    weights: Int64[::1],
) -> None:
    """``share[t]`` to t items that are not released yet, at most `max_items` sampled by hash."""
    t: Size
    longest = longest_set(start, stop, first, last)
    if max_items < 1 or len(share) <= max_items or len(user_hash) < last:
        raise ValueError("there are fewer shares than items, or fewer hashes than users")
    held: Int32[::1] = np.empty(longest, np.int32)
    taken: Byte[::1] = np.empty(longest, np.uint8)
    hashes: Word[::1] = np.empty(longest, np.uint64)
    spare: Word[::1] = np.empty(longest, np.uint64)
    with cython.nogil:
        for u in range(first, last):
            t = open_items(items, start[u], stop[u], released, held)
            if t <= max_items:
                for j in range(t):
                    weights[held[j]] += share[t]
                continue
            take_smallest(held, t, max_items, user_hash[u], item_hash, hashes, spare, taken)
            for j in range(t):
                if taken[j]:
                    weights[held[j]] += share[max_items]


def units_for(t: Int64, prices: ConstInt64[::1], budget: Int64) -> tuple:
    """Units n that each of t items gets, and how many of the items get one more.

    ``(t - more) * prices[n] + more * prices[n + 1]`` is at most the budget, and more would not
    fit. Prices rise strictly from 0, so that `more` is below t: n + 1 units do not fit t times.
    """
    if t < 1:
        raise ValueError("units are for at least one item")
    _check_prices(prices, budget)
    return _units_for(t, prices, budget)


@cython.cfunc
@cython.exceptval(-1, check=False)
def _check_prices(prices: ConstInt64[::1], budget: Int64) -> Int32:
    """Refuse prices that do not rise: the gap between two of them is divided by."""
    if len(prices) == 0 or prices[0] != 0 or budget < 0:
        raise ValueError("no units cost nothing, and a budget is not negative")
    for n in range(1, len(prices)):
        if prices[n] <= prices[n - 1]:
            raise ValueError("prices rise strictly")
    return 0


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _units_for(t: Int64, prices: ConstInt64[::1], budget: Int64) -> tuple[Int64, Int64]:
    n: Int64 = 0
    # The budget is divided, because t times a price might not fit in 64 bits.
    while n + 1 < len(prices) and prices[n + 1] <= budget // t:
        n += 1
    if n + 1 == len(prices):
        return n, 0
    return n, (budget - t * prices[n]) // (prices[n + 1] - prices[n])


def give_units(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    released: ConstByte[::1],
    prices: ConstInt64[::1],
    budget: Int64,
    user_hash: ConstWord[::1],
    item_hash: ConstWord[::1],
    first: Size,
    last: Size,
    weights: Int64[::1],
) -> None:
    """Equal units to all open items of a user; those with the smallest hashes get one more."""
    t: Size
    n: Int64
    more: Int64
    longest = longest_set(start, stop, first, last)
    _check_prices(prices, budget)
    if len(user_hash) < last:
        raise ValueError("there are fewer hashes than users")
    held: Int32[::1] = np.empty(longest, np.int32)
    taken: Byte[::1] = np.empty(longest, np.uint8)
    hashes: Word[::1] = np.empty(longest, np.uint64)
    spare: Word[::1] = np.empty(longest, np.uint64)
    with cython.nogil:
        for u in range(first, last):
            t = open_items(items, start[u], stop[u], released, held)
            if t == 0:
                continue
            n, more = _units_for(t, prices, budget)
            for j in range(t):
                weights[held[j]] += n
            if more == 0:
                continue
            take_smallest(held, t, more, user_hash[u], item_hash, hashes, spare, taken)
            for j in range(t):
                if taken[j]:
                    weights[held[j]] += 1


def add_open(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    released: ConstByte[::1],
    limits: ConstInt64[::1],
    units: ConstInt64[::1],
    first: Size,
    last: Size,
    sums: Int64[::1],
) -> None:
    """Add each user's number of open items, as a part of every limit: at most `units` a user."""
    t: Int64
    check_users(start, stop, first, last)
    if len(units) != len(limits) or len(sums) != len(limits):
        raise ValueError("limits, units and sums differ in length")
    for k in range(len(limits)):
        if limits[k] < 1 or units[k] < 0:
            raise ValueError("a limit is at least 1, and units are not negative")
    with cython.nogil:
        for u in range(first, last):
            t = 0
            for j in range(start[u], stop[u]):
                if not released[items[j]]:
                    t += 1
            for k in range(len(limits)):
                sums[k] += min(t, limits[k]) * units[k] // limits[k]
