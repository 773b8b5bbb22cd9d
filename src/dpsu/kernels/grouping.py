"""Rows into users: two counting sorts, duplicates merged, long users sampled."""

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
def group(
    users: Int32, items: Int32, counts: Int32, user_position: Int32, item_position: Int32
) -> tuple[Int64, Int32, Int32]:
    """Group rows by user, items ascending within a user, duplicates merged into counts.

    Users and items are replaced by their positions. `counts` may be empty: every row counts one.
    Sorting by item first and by user second, both stable, costs two linear passes.
    """
    rows = len(users)
    counted = len(counts) > 0
    item_start = np.zeros(len(item_position) + 1, np.int64)
    for row in range(rows):
        item_start[item_position[items[row]] + 1] += 1
    for k in range(len(item_position)):
        item_start[k + 1] += item_start[k]
    by_item_user = np.empty(rows, np.int32)
    by_item_count = np.empty(rows if counted else 0, np.int32)
    cursor = item_start[:-1].copy()
    user_start = np.zeros(len(user_position) + 1, np.int64)
    for row in range(rows):
        k = item_position[items[row]]
        u = user_position[users[row]]
        by_item_user[cursor[k]] = u
        if counted:
            by_item_count[cursor[k]] = counts[row]
        cursor[k] += 1
        user_start[u + 1] += 1
    for u in range(len(user_position)):
        user_start[u + 1] += user_start[u]

    # Within a user items arrive in ascending order, so a duplicate is always the previous entry.
    filled = user_start[:-1].copy()
    grouped = np.empty(rows, np.int32)
    held = np.empty(rows, np.int32)
    for k in range(len(item_position)):
        for at in range(item_start[k], item_start[k + 1]):
            u = by_item_user[at]
            count = by_item_count[at] if counted else np.int32(1)
            end = filled[u]
            if end > user_start[u] and grouped[end - 1] == k:
                held[end - 1] = min(np.int64(held[end - 1]) + count, LARGEST_COUNT)
            else:
                grouped[end] = k
                held[end] = count
                filled[u] = end + 1

    start = np.zeros(len(user_position) + 1, np.int64)
    for u in range(len(user_position)):
        size = filled[u] - user_start[u]
        for j in range(size):
            grouped[start[u] + j] = grouped[user_start[u] + j]
            held[start[u] + j] = held[user_start[u] + j]
        start[u + 1] = start[u] + size
    return start, grouped[: start[-1]].copy(), held[: start[-1]].copy()


@njit(cache=True, nogil=True)
def sort_by_count(start: Int64, items: Int32, counts: Int32) -> Int32:
    """Reorder each user's items by local count, largest first; ties keep their order."""
    ordered = items.copy()
    for u in range(len(start) - 1):
        low, high = start[u], start[u + 1]
        varied = False
        for j in range(low + 1, high):
            if counts[j] != counts[low]:
                varied = True
                break
        if varied:
            by_count = np.argsort(-counts[low:high].astype(np.int64), kind="mergesort")
            for j in range(high - low):
                ordered[low + j] = items[low + by_count[j]]
    return ordered


@njit(cache=True, nogil=True)
def keep_first(start: Int64, items: Int32, max_items: int) -> tuple[Int64, Int32]:
    """Keep each user's first items."""
    kept_start = np.zeros(len(start), np.int64)
    kept = np.empty(len(items), np.int32)
    end = 0
    for u in range(len(start) - 1):
        for j in range(start[u], min(start[u + 1], start[u] + max_items)):
            kept[end] = items[j]
            end += 1
        kept_start[u + 1] = end
    return kept_start, kept[:end].copy()


@njit(cache=True, nogil=True)
def keep_sample(
    start: Int64,
    items: Int32,
    max_items: int,
    user_hash: NDArray[np.uint64],
    item_hash: NDArray[np.uint64],
) -> tuple[Int64, Int32]:
    """Keep each user's items with the smallest hash of (user, item); ties by item order."""
    kept_start = np.zeros(len(start), np.int64)
    kept = np.empty(len(items), np.int32)
    end = 0
    for u in range(len(start) - 1):
        low, high = start[u], start[u + 1]
        if high - low <= max_items:
            for j in range(low, high):
                kept[end] = items[j]
                end += 1
        else:
            hashes = np.empty(high - low, np.uint64)
            for j in range(low, high):
                hashes[j - low] = hash_word(item_hash[items[j]], user_hash[u])
            last = np.partition(hashes, max_items - 1)[max_items - 1]
            room = max_items
            for j in range(high - low):
                if hashes[j] < last:
                    room -= 1
            for j in range(high - low):
                take: Any = hashes[j] < last
                if hashes[j] == last and room > 0:
                    take = True
                    room -= 1
                if take:
                    kept[end] = items[low + j]
                    end += 1
        kept_start[u + 1] = end
    return kept_start, kept[:end].copy()
