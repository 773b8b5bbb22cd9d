"""Rows into users: two counting sorts, duplicates merged, long users sampled.

User u owns the places ``start[u]`` to ``start[u + 1]`` of the arrays throughout; what it holds ends
at ``stop[u]``. Loops take a range of items or users, so that ranges can run side by side.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dpsu.kernels.hashing import hash_word

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

LARGEST_COUNT = 2**31 - 1


@njit(cache=True, nogil=True)
def places(codes: Int32, position: Int32) -> Int64:
    """Where the rows of each user, or of each item, start in their order."""
    start = np.zeros(len(position) + 1, np.int64)
    for row in range(len(codes)):
        start[position[codes[row]] + 1] += 1
    for k in range(len(position)):
        start[k + 1] += start[k]
    return start


@njit(cache=True, nogil=True)
def by_item(
    users: Int32,
    items: Int32,
    counts: Int32,
    user_position: Int32,
    item_position: Int32,
    item_start: Int64,
    first: int,
    last: int,
    sorted_users: Int32,
    sorted_counts: Int32,
) -> None:
    """Bring the rows of items `first` to `last` to their places; `counts` may be empty."""
    cursor = item_start[first:last].copy()
    for row in range(len(items)):
        k = item_position[items[row]] - first
        if 0 <= k < last - first:
            at = cursor[k]
            cursor[k] = at + 1
            sorted_users[at] = user_position[users[row]]
            if len(counts) > 0:
                sorted_counts[at] = counts[row]


@njit(cache=True, nogil=True)
def by_user(
    item_start: Int64,
    sorted_users: Int32,
    sorted_counts: Int32,
    start: Int64,
    stop: Int64,
    items: Int32,
    counts: Int32,
    first: int,
    last: int,
) -> None:
    """Collect the items of users `first` to `last`, ascending, each once.

    `counts` may be empty; if it is not, rows add up their counts, or one each without any given.
    """
    # Where each user's next item goes and which item was its latest, side by side: users come up at
    # random, and a second place in memory would be a second cache miss for every row.
    state = np.empty((last - first, 2), np.int64)
    for u in range(first, last):
        state[u - first, 0] = start[u]
        state[u - first, 1] = -1
    for k in range(len(item_start) - 1):
        for at in range(item_start[k], item_start[k + 1]):
            u = sorted_users[at] - first
            if u < 0 or u >= last - first:
                continue
            end = state[u, 0]
            # Items arrive in ascending order, so a duplicate is always the user's latest.
            repeated = state[u, 1] == k
            if not repeated:
                items[end] = k
                state[u, 0] = end + 1
                state[u, 1] = k
            if len(counts) > 0:
                count: Any = sorted_counts[at] if len(sorted_counts) > 0 else 1
                if repeated:
                    counts[end - 1] = min(np.int64(counts[end - 1]) + count, LARGEST_COUNT)
                else:
                    counts[end] = count
    for u in range(first, last):
        stop[u] = state[u - first, 0]


@njit(cache=True, nogil=True)
def sort_by_count(
    start: Int64, stop: Int64, items: Int32, counts: Int32, first: int, last: int
) -> None:
    """Reorder each user's items by local count, largest first; ties keep their order."""
    for u in range(first, last):
        low, high = start[u], stop[u]
        varied = False
        for j in range(low + 1, high):
            if counts[j] != counts[low]:
                varied = True
                break
        if varied:
            by_count = np.argsort(-counts[low:high].astype(np.int64), kind="mergesort")
            items[low:high] = items[low:high][by_count]


@njit(cache=True, nogil=True)
def keep_sample(
    start: Int64,
    stop: Int64,
    items: Int32,
    max_items: int,
    user_hash: NDArray[np.uint64],
    item_hash: NDArray[np.uint64],
    first: int,
    last: int,
) -> None:
    """Keep each user's items with the smallest hash of (user, item); ties by item order."""
    for u in range(first, last):
        low, high = start[u], stop[u]
        if high - low <= max_items:
            continue
        hashes = np.empty(high - low, np.uint64)
        for j in range(low, high):
            hashes[j - low] = hash_word(item_hash[items[j]], user_hash[u])
        largest = np.partition(hashes, max_items - 1)[max_items - 1]
        room = max_items
        for j in range(high - low):
            if hashes[j] < largest:
                room -= 1
        end = low
        for j in range(high - low):
            take: Any = hashes[j] < largest
            if hashes[j] == largest and room > 0:
                take = True
                room -= 1
            if take:
                items[end] = items[low + j]
                end += 1
        stop[u] = end
