"""Group rows by user: users in order, and the items of each in order and once.

Rows are first scattered to buckets of consecutive users. A bucket is small, so that it is sorted
inside the cache of one core, by users and then items, digit by digit. Duplicates are then
neighbors. User u holds ``items[start[u]:stop[u]]``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.hashing import hash_word
from dpsu.runtime.jit import njit

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

MOST_REPEATS = 2**31 - 1


DIGIT = 11


@njit(cache=True, nogil=True)
def bucket_sizes(users: Int32, user_position: Int32, shift: int, sizes: Int64) -> None:
    """How many rows of a block belong to each bucket of 2^shift users; `sizes` starts as zeros."""
    for row in range(len(users)):
        sizes[user_position[users[row]] >> shift] += 1


@njit(cache=True, nogil=True)
def scatter(
    users: Int32,
    items: Int32,
    repeats: Int32,
    user_position: Int32,
    item_position: Int32,
    shift: int,
    cursor: Int64,
    placed_users: Int32,
    placed_items: Int32,
    placed_repeats: Int32,
) -> None:
    """Copy the rows of a block to their buckets, from `cursor` on.

    If `placed_repeats` is not empty it gets the repeats, or ones if `repeats` is empty.
    """
    for row in range(len(users)):
        user = user_position[users[row]]
        at = cursor[user >> shift]
        cursor[user >> shift] = at + 1
        placed_users[at] = user
        placed_items[at] = item_position[items[row]]
        if len(placed_repeats) > 0:
            placed_repeats[at] = repeats[row] if len(repeats) > 0 else 1


@njit(cache=True, nogil=True)
def sort_bucket(
    users: Int32,
    items: Int32,
    repeats: Int32,
    first_user: int,
    item_bits: int,
    key_bits: int,
    start: Int64,
    stop: Int64,
) -> None:
    """Sort the rows of a bucket in place, each item of a user once; rows of item -1 are dropped.

    `start` and `stop` are those of the users of the bucket, relative to it. `repeats` may be empty;
    if it is not, those of repeated rows are added up.
    """
    with_repeats = len(repeats) > 0
    keys, spare = np.empty(len(users), np.uint64), np.empty(len(users), np.uint64)
    tags, spare_tags = np.empty(len(repeats), np.int32), np.empty(len(repeats), np.int32)
    rows = 0
    for row in range(len(users)):
        if items[row] >= 0:
            user = np.uint64(users[row] - first_user)
            keys[rows] = (user << np.uint64(item_bits)) | np.uint64(items[row])
            if with_repeats:
                tags[rows] = repeats[row]
            rows += 1
    passes = (key_bits + DIGIT - 1) // DIGIT
    digit = np.uint64((key_bits + passes - 1) // passes)
    mask = (np.uint64(1) << digit) - np.uint64(1)
    cursor = np.empty(np.int64(mask) + 1, np.int64)
    for step in range(passes):
        by = np.uint64(step) * digit
        cursor[:] = 0
        for row in range(rows):
            cursor[(keys[row] >> by) & mask] += 1
        total = 0
        for value in range(len(cursor)):
            size = cursor[value]
            cursor[value] = total
            total += size
        for row in range(rows):
            value = (keys[row] >> by) & mask
            at = cursor[value]
            cursor[value] = at + 1
            spare[at] = keys[row]
            if with_repeats:
                spare_tags[at] = tags[row]
        keys, spare = spare, keys
        tags, spare_tags = spare_tags, tags
    item_mask = (np.uint64(1) << np.uint64(item_bits)) - np.uint64(1)
    row, end = 0, 0
    for u in range(len(stop)):
        start[u] = end
        while row < rows and keys[row] >> np.uint64(item_bits) == np.uint64(u):
            repeated = row > 0 and keys[row] == keys[row - 1]
            if not repeated:
                items[end] = np.int32(keys[row] & item_mask)
                if with_repeats:
                    repeats[end] = tags[row]
                end += 1
            elif with_repeats:
                repeats[end - 1] = min(np.int64(repeats[end - 1]) + tags[row], MOST_REPEATS)
            row += 1
        stop[u] = end


@njit(cache=True, nogil=True)
def sort_by_repeats(
    start: Int64, stop: Int64, items: Int32, repeats: Int32, first: int, last: int
) -> None:
    """Reorder each user's items by repeats, largest first; ties keep their order."""
    for u in range(first, last):
        low, high = start[u], stop[u]
        varied = False
        for j in range(low + 1, high):
            if repeats[j] != repeats[low]:
                varied = True
                break
        if varied:
            by_repeats = np.argsort(-repeats[low:high].astype(np.int64), kind="mergesort")
            items[low:high] = items[low:high][by_repeats]


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
