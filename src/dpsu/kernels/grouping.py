"""Put rows in order: by user and item, by repeats and by hashes.

Grouping has users in order, and the items of each in order and once. Rows are first scattered to
buckets of consecutive users. A bucket is small, so that it is sorted inside the cache of one core,
by users and then items, digit by digit. Duplicates are then neighbors. User u holds
``items[start[u]:stop[u]]``.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.primitives import (
    ConstInt32,
    ConstInt64,
    ConstWord,
    Int32,
    Int64,
    Size,
    UInt32,
    Word,
    hash_word,
)

MOST_REPEATS = cython.declare(cython.const[cython.longlong], 0x7FFFFFFF)
DIGIT = cython.declare(cython.const[cython.int], 11)
# Up to this many words are sorted by insertion, which is faster for few.
FEW = cython.declare(cython.const[cython.Py_ssize_t], 32)
_LOW_HALF = cython.declare(cython.const[Word], 0xFFFFFFFF)
# Of a sequence of numbers that look random (Knuth's MMIX).
_STEP = cython.declare(cython.const[Word], 6364136223846793005)


def bucket_sizes(
    users: ConstInt32[::1], user_position: ConstInt32[::1], shift: Int32, sizes: Int64[::1]
) -> None:
    """How many rows of a block belong to each bucket of 2^shift users; `sizes` starts as zeros."""
    with cython.nogil:
        for row in range(len(users)):
            sizes[user_position[users[row]] >> shift] += 1


def scatter(
    users: ConstInt32[::1],
    items: ConstInt32[::1],
    repeats: ConstInt32[::1],
    user_position: ConstInt32[::1],
    item_position: ConstInt32[::1],
    shift: Int32,
    cursor: Int64[::1],
    placed_users: Int32[::1],
    placed_items: Int32[::1],
    placed_repeats: Int32[::1],
) -> None:
    """Copy the rows of a block to their buckets, from `cursor` on.

    If `placed_repeats` is not empty it gets the repeats, or ones if `repeats` is empty.
    """
    if len(items) != len(users) or (len(repeats) > 0 and len(repeats) != len(users)):
        raise ValueError("users, items and repeats differ in length")
    if len(placed_items) != len(placed_users):
        raise ValueError("placed users and items differ in length")
    if len(placed_repeats) > 0 and len(placed_repeats) != len(placed_users):
        raise ValueError("placed users and repeats differ in length")
    with cython.nogil:
        for row in range(len(users)):
            user = user_position[users[row]]
            at = cursor[user >> shift]
            cursor[user >> shift] = at + 1
            placed_users[at] = user
            placed_items[at] = item_position[items[row]]
            if len(placed_repeats) > 0:
                placed_repeats[at] = repeats[row] if len(repeats) > 0 else 1


def sort_bucket(
    users: ConstInt32[::1],
    items: Int32[::1],
    repeats: Int32[::1],
    first_user: Int32,
    item_bits: Int32,
    key_bits: Int32,
    start: Int64[::1],
    stop: Int64[::1],
) -> None:
    """Sort the rows of a bucket in place, each item of a user once; rows of item -1 are dropped.

    `start` and `stop` are those of the users of the bucket, relative to it. `repeats` may be empty;
    if it is not, those of repeated rows are added up.
    """
    if len(items) != len(users) or (len(repeats) > 0 and len(repeats) != len(users)):
        raise ValueError("users, items and repeats differ in length")
    if len(start) != len(stop):
        raise ValueError("start and stop differ in length")
    if not 1 <= item_bits < 64 or not item_bits <= key_bits <= 64:
        raise ValueError("a user and an item have 64 bits, and an item has at least one of them")
    with_repeats: cython.bint = len(repeats) > 0
    keys: Word[::1] = np.empty(len(users), np.uint64)
    spare: Word[::1] = np.empty(len(users), np.uint64)
    tags: Int32[::1] = np.empty(len(repeats), np.int32)
    spare_tags: Int32[::1] = np.empty(len(repeats), np.int32)
    passes: Int32 = (key_bits + DIGIT - 1) // DIGIT
    digit: Int32 = (key_bits + passes - 1) // passes
    mask = (cython.cast(Word, 1) << digit) - 1
    cursor: Int64[::1] = np.empty(mask + 1, np.int64)
    item_mask = (cython.cast(Word, 1) << item_bits) - 1
    rows: Size = 0
    row: Size
    end: Size
    value: Word
    repeated: cython.bint
    with cython.nogil:
        for row in range(len(users)):
            if items[row] >= 0:
                user: Word = users[row] - first_user
                keys[rows] = (user << item_bits) | cython.cast(Word, items[row])
                if with_repeats:
                    tags[rows] = repeats[row]
                rows += 1
        for step in range(passes):
            by: Int32 = step * digit
            cursor[:] = 0
            for row in range(rows):
                cursor[(keys[row] >> by) & mask] += 1
            total: Int64 = 0
            for value in range(mask + 1):
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
        row, end = 0, 0
        for u in range(len(stop)):
            start[u] = end
            while row < rows and keys[row] >> item_bits == cython.cast(Word, u):
                repeated = row > 0 and keys[row] == keys[row - 1]
                if not repeated:
                    items[end] = cython.cast(Int32, keys[row] & item_mask)
                    if with_repeats:
                        repeats[end] = tags[row]
                    end += 1
                elif with_repeats:
                    total = cython.cast(Int64, repeats[end - 1]) + tags[row]
                    repeats[end - 1] = min(total, MOST_REPEATS)
                row += 1
            stop[u] = end


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_users(start: ConstInt64[::1], stop: ConstInt64[::1], first: Size, last: Size) -> Int32:
    """Refuse a range that is not one of users."""
    if len(stop) != len(start):
        raise ValueError("start and stop differ in length")
    if not 0 <= first <= last <= len(stop):
        raise ValueError("there are no users in part of the range")
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def longest_set(start: ConstInt64[::1], stop: ConstInt64[::1], first: Size, last: Size) -> Size:
    """The largest number of items that a user of a range has: so much room a loop needs."""
    check_users(start, stop, first, last)
    longest: Size = 0
    with cython.nogil:
        for u in range(first, last):
            longest = max(longest, stop[u] - start[u])
    return longest


def sort_by_repeats(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: Int32[::1],
    repeats: ConstInt32[::1],
    first: Size,
    last: Size,
) -> None:
    """Reorder each user's items by repeats, largest first; ties keep their order."""
    longest = longest_set(start, stop, first, last)
    if len(items) != len(repeats):
        raise ValueError("items and repeats differ in length")
    keys: Word[::1] = np.empty(longest, np.uint64)
    spare: Word[::1] = np.empty(longest, np.uint64)
    with cython.nogil:
        for u in range(first, last):
            low, high = start[u], stop[u]
            varied: cython.bint = False
            for j in range(low + 1, high):
                if repeats[j] != repeats[low]:
                    varied = True
                    break
            if varied:
                for k in range(high - low):
                    missing: Word = MOST_REPEATS - repeats[low + k]
                    keys[k] = (missing << 32) | cython.cast(UInt32, items[low + k])
                sort_words(keys, spare, high - low, 32)
                for k in range(high - low):
                    items[low + k] = cython.cast(Int32, keys[k] & _LOW_HALF)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def sort_words(values: Word[::1], spare: Word[::1], size: Size, lowest: Int32) -> cython.void:
    """Sort the first `size` words by their bits from `lowest` on; ties keep their order.

    `spare` has room for as many. Few are sorted by insertion, more of them byte by byte.
    """
    at: Size
    byte: Int32
    if size <= FEW:
        for k in range(1, size):
            value = values[k]
            at = k
            while at > 0 and values[at - 1] >> lowest > value >> lowest:
                values[at] = values[at - 1]
                at -= 1
            values[at] = value
        return
    varied: Word = 0
    for k in range(1, size):
        varied |= values[k] ^ values[0]
    cursor = cython.declare(Size[256])
    for by in range(lowest, 64, 8):
        if (varied >> by) & 0xFF == 0:
            continue
        for byte in range(256):
            cursor[byte] = 0
        for k in range(size):
            cursor[(values[k] >> by) & 0xFF] += 1
        at = 0
        for byte in range(256):
            count = cursor[byte]
            cursor[byte] = at
            at += count
        for k in range(size):
            byte = (values[k] >> by) & 0xFF
            spare[cursor[byte]] = values[k]
            cursor[byte] += 1
        for k in range(size):
            values[k] = spare[k]


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def nth_smallest(values: Word[::1], size: Size, n: Size) -> Word:
    """The value at place `n` if the first `size` were in order; these are moved about."""
    low: Size = 0
    high: Size = size - 1
    i: Size
    j: Size
    pivot: Word
    place: Word = size
    while low < high:
        # Not the middle one, as values may rise and then fall.
        place = place * _STEP + 1
        pivot = values[low + (place >> 33) % cython.cast(Word, high - low + 1)]
        i, j = low, high
        # Equal values are exchanged, too: many of them are halved as fast as others.
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        # No value up to j is above the pivot, none from i on is below it; between them are pivots.
        if n <= j:
            high = j
        elif n >= i:
            low = i
        else:
            break
    return values[n]


def keep_sample(
    start: ConstInt64[::1],
    stop: Int64[::1],
    items: Int32[::1],
    max_items: Size,
    user_hash: ConstWord[::1],
    item_hash: ConstWord[::1],
    first: Size,
    last: Size,
) -> None:
    """Keep each user's items with the smallest hash of (user, item); ties by item order."""
    longest = longest_set(start, stop, first, last)
    if len(user_hash) < last or max_items < 1:
        raise ValueError("a user has no hash, or no item is wanted")
    room: Size
    end: Size
    take: cython.bint
    hashes: Word[::1] = np.empty(longest, np.uint64)
    spare: Word[::1] = np.empty(longest, np.uint64)
    with cython.nogil:
        for u in range(first, last):
            low, high = start[u], stop[u]
            if high - low <= max_items:
                continue
            for j in range(low, high):
                hashes[j - low] = hash_word(item_hash[items[j]], user_hash[u])
            spare[: high - low] = hashes[: high - low]
            largest = nth_smallest(spare, high - low, max_items - 1)
            room = max_items
            for j in range(high - low):
                if hashes[j] < largest:
                    room -= 1
            end = low
            for j in range(high - low):
                take = hashes[j] < largest
                if hashes[j] == largest and room > 0:
                    take = True
                    room -= 1
                if take:
                    items[end] = items[low + j]
                    end += 1
            stop[u] = end


def order_by_hash(hashes: ConstWord[::1]) -> object:
    """Positions in ascending order of hashes; equal hashes in any order.

    Hashes are uniform, so that a hash nearly gives its place in the order: they are put into about
    half as many ranges as there are hashes; little is left to sort.
    """
    n = len(hashes)
    bits: Int32 = 1
    while n >> (bits + 1):
        bits += 1
    shift: Int32 = 64 - bits
    ranges: Size = cython.cast(Size, 1) << bits
    start: Int64[::1] = np.zeros(ranges + 1, np.int64)
    found = np.empty(n, np.int64)
    order: Int64[::1] = found
    sorted_hashes: Word[::1] = np.empty(n, np.uint64)
    at: Size
    position: Int64
    with cython.nogil:
        for k in range(n):
            start[(hashes[k] >> shift) + 1] += 1
        for r in range(ranges):
            start[r + 1] += start[r]
        for k in range(n):
            place = hashes[k] >> shift
            order[start[place]] = k
            sorted_hashes[start[place]] = hashes[k]
            start[place] += 1
        # Insertion sort, because every hash is near its place now.
        for k in range(1, n):
            hash_, position, at = sorted_hashes[k], order[k], k
            while at > 0 and sorted_hashes[at - 1] > hash_:
                sorted_hashes[at], order[at] = sorted_hashes[at - 1], order[at - 1]
                at -= 1
            sorted_hashes[at], order[at] = hash_, position
    return found


# Constants of C are invisible to callers.
globals().update(MOST_REPEATS=MOST_REPEATS)
