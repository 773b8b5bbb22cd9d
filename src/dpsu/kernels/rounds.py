"""One round of a mechanism: what users give to their items, and which items they keep.

User u holds ``items[start[u]:stop[u]]`` in the fixed order of items. Loops take a range of users
and add to weights of their own, so that ranges can run side by side. No fastmath: proofs count
rounding errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dpsu.kernels.hashing import hash_word

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Words = NDArray[np.uint64]

# Sums over at most 2^20 items of a user in doubles are off by less than 2^-32 of themselves.
# Weights are shrunk by more than that before they are rounded down, so that no norm exceeds its
# limit.
SHRINK = 1.0 - 2.0**-30
SMALLEST_RATIO = 1e-150
MOST_STEPS = 16
CLOSE_ENOUGH = 1.0 + 2.0**-20


@njit(cache=True, nogil=True)
def largest_cap(caps: Float64, crossing: Float64, limit: float) -> Any:
    """The largest cap at which one novel item crosses with probability at most `limit`.

    `caps` and `crossing` rise. That no cap will do is an error of the plan: even an item of no
    weight could be released too often.
    """
    if crossing[0] > limit:
        raise AssertionError("no cap is safe for this many items")
    low, high = 0, len(caps)
    while high - low > 1:
        middle = (low + high) // 2
        if crossing[middle] <= limit:
            low = middle
        else:
            high = middle
    return caps[low]


@njit(cache=True, nogil=True)
def attend(
    start: Int64,
    stop: Int64,
    items: Int32,
    attention: Float64,
    classes: NDArray[np.uint16],
    norms: Float64,
    allowed: Float64,
    caps: Float64,
    crossing: Float64,
    shape: float,
    unit: float,
    first: int,
    last: int,
    weights: Int64,
) -> None:
    """Weigh items in proportion to attention, each at most the cap, within the user's norm.

    Items without attention get nothing; with t others the cap is `shape` times the largest at which
    t novel items cross with probability at most what the user's class is allowed. Weights are in
    whole units, `unit` of them to 1.
    """
    longest = 0
    for u in range(first, last):
        longest = max(longest, stop[u] - start[u])
    ratio, held = np.empty(longest), np.empty(longest, np.int32)
    for u in range(first, last):
        t, largest = 0, 0.0
        for j in range(start[u], stop[u]):
            g = attention[items[j]]
            if g > 0.0:
                ratio[t] = g
                held[t] = items[j]
                t += 1
                largest = max(largest, g)
        if t == 0:
            continue
        norm = norms[classes[u]]
        cap = largest_cap(caps, crossing, allowed[classes[u]] / t) * shape
        if t * cap * cap <= norm * norm:
            whole = np.int64(math.floor(cap * SHRINK * unit))
            for j in range(t):
                weights[held[j]] += whole
            continue
        squares = 0.0
        for j in range(t):
            # Squares of smaller ones would lose digits, or vanish, and the norm with them.
            ratio[j] = max(ratio[j] / largest, SMALLEST_RATIO)
            squares += ratio[j] * ratio[j]
        # Raise the level until the norm is reached: what items at the cap do not take goes to the
        # others.
        level = norm / math.sqrt(squares)
        for _ in range(MOST_STEPS):
            if level <= cap:
                break
            capped, rest = 0, 0.0
            for j in range(t):
                if level * ratio[j] >= cap:
                    capped += 1
                else:
                    rest += ratio[j] * ratio[j]
            left = norm * norm - capped * cap * cap
            if rest <= 0.0 or left <= 0.0:
                break
            raised = math.sqrt(left / rest)
            if raised <= level * CLOSE_ENOUGH:
                break
            level = raised
        for j in range(t):
            weight = min(cap, level * ratio[j])
            weights[held[j]] += np.int64(math.floor(weight * SHRINK * unit))


@njit(cache=True, nogil=True)
def keep_best(
    start: Int64,
    stop: Int64,
    items: Int32,
    attention: Float64,
    max_items: int,
    user_hash: Words,
    item_hash: Words,
    first: int,
    last: int,
) -> None:
    """Keep each user's items with the largest attention, ties by hash of (user, item).

    Items without attention are dropped. The others stay in their order.
    """
    for u in range(first, last):
        end = start[u]
        for j in range(start[u], stop[u]):
            if attention[items[j]] > 0.0:
                items[end] = items[j]
                end += 1
        stop[u] = end
        size = end - start[u]
        if size <= max_items:
            continue
        low = start[u]
        found = np.empty(size)
        for j in range(size):
            found[j] = attention[items[low + j]]
        smallest = np.partition(found, size - max_items)[size - max_items]
        above, tied = 0, 0
        for j in range(size):
            if found[j] > smallest:
                above += 1
            elif found[j] == smallest:
                tied += 1
        room = max_items - above
        largest_hash = np.uint64(2**64 - 1)
        exactly: Any = room
        if tied > room:
            hashes = np.empty(tied, np.uint64)
            at = 0
            for j in range(size):
                if found[j] == smallest:
                    hashes[at] = hash_word(item_hash[items[low + j]], user_hash[u])
                    at += 1
            largest_hash = np.partition(hashes, room - 1)[room - 1]
            for j in range(tied):
                if hashes[j] < largest_hash:
                    exactly -= 1
        end = low
        for j in range(size):
            item = items[low + j]
            take: Any = found[j] > smallest
            if found[j] == smallest:
                hash_ = hash_word(item_hash[item], user_hash[u])
                take = hash_ < largest_hash or tied <= room
                # Equal hashes keep the order of items.
                if not take and hash_ == largest_hash and exactly > 0:
                    take = True
                    exactly -= 1
            if take:
                items[end] = item
                end += 1
        stop[u] = end


@njit(cache=True)
def open_items(items: Int32, released: NDArray[np.bool_], held: Int32) -> int:
    """Write the items that are not released to `held`, in their order; returns how many."""
    t = 0
    for j in range(len(items)):
        if not released[items[j]]:
            held[t] = items[j]
            t += 1
    return t


@njit(cache=True)
def take_smallest(
    held: Int32, wanted: int, user_hash: Any, item_hash: Words, taken: NDArray[np.bool_]
) -> None:
    """Mark as many items of a user as wanted, at least one: those with the smallest hashes."""
    hashes = np.empty(len(held), np.uint64)
    for j in range(len(held)):
        hashes[j] = hash_word(item_hash[held[j]], user_hash)
    largest = np.partition(hashes, wanted - 1)[wanted - 1]
    room = wanted
    for j in range(len(held)):
        taken[j] = hashes[j] < largest
        if taken[j]:
            room -= 1
    for j in range(len(held)):
        # Equal hashes keep the order of items.
        if hashes[j] == largest and room > 0:
            taken[j] = True
            room -= 1


@njit(cache=True, nogil=True)
def share_unreleased(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: NDArray[np.bool_],
    max_items: int,
    user_hash: Words,
    item_hash: Words,
    share: Int64,
    first: int,
    last: int,
    weights: Int64,
) -> None:
    """``share[t]`` to t items that are not released yet, at most `max_items` sampled by hash."""
    longest = 0
    for u in range(first, last):
        longest = max(longest, stop[u] - start[u])
    held, taken = np.empty(longest, np.int32), np.empty(longest, np.bool_)
    for u in range(first, last):
        t = open_items(items[start[u] : stop[u]], released, held)
        if t <= max_items:
            for j in range(t):
                weights[held[j]] += share[t]
            continue
        take_smallest(held[:t], max_items, user_hash[u], item_hash, taken)
        for j in range(t):
            if taken[j]:
                weights[held[j]] += share[max_items]


@njit(cache=True, nogil=True)
def mark_present(start: Int64, stop: Int64, items: Int32, present: NDArray[np.bool_]) -> None:
    """Set `present` for every item that is in some user's set."""
    for u in range(len(stop)):
        for j in range(start[u], stop[u]):
            present[items[j]] = True
