"""Number the n-grams of texts, and count each n-gram of a text.

A segment that was too long has the length -1 and the code -1: no n-gram contains it. Hash tables
have linear probing, are at most half full, and grow only when needed, to stay in the cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.hashing import hash_bytes, hash_word
from dpsu.runtime.jit import njit

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]

FREE = -1
BARRIER = -1
FEWEST_SLOTS = 1 << 12


@njit(cache=True)
def _reseated(hashes: Words, n_known: int, size: int) -> Any:
    """A table of `size` slots with the known codes in it."""
    slots = np.full(size, FREE, np.int32)
    mask = np.uint64(size - 1)
    for code in range(n_known):
        slot = hashes[code] & mask
        while slots[slot] != FREE:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = code
    return slots


@njit(cache=True, nogil=True)
def intern_segments(
    data: Bytes, begins: Int64, lengths: Int32, salt: Any, first: Int64, codes: Int32
) -> int:
    """Codes 0, 1, ... of segments; `first[code]` is the first segment of that text."""
    hashes = np.empty(len(first), np.uint64)
    slots = _reseated(hashes, 0, FEWEST_SLOTS)
    mask = np.uint64(len(slots) - 1)
    n_known = 0
    for k in range(len(begins)):
        begin, length = begins[k], lengths[k]
        if length < 0:
            codes[k] = BARRIER
            continue
        hash_ = hash_bytes(data, begin, begin + length, salt)
        slot = hash_ & mask
        while True:
            code: Any = slots[slot]
            if code == FREE:
                code = np.int32(n_known)
                slots[slot] = code
                first[code] = k
                hashes[code] = hash_
                n_known += 1
                if 2 * n_known > len(slots):
                    slots = _reseated(hashes, n_known, 4 * len(slots))
                    mask = np.uint64(len(slots) - 1)
                break
            if hashes[code] == hash_:
                held = first[code]
                same = lengths[held] == length
                at, i = begins[held], 0
                while same and i < length:
                    same = data[at + i] == data[begin + i]
                    i += 1
                if same:
                    break
            slot = (slot + np.uint64(1)) & mask
        codes[k] = code
    return n_known


@njit(cache=True, nogil=True)
def intern_grams(
    codes: Int32, row_stops: Int64, n: int, salt: Any, first: Int64, base: int, grams: Int32
) -> int:
    """Codes of the n-grams that start at each segment, `base` or larger; -1 where none starts."""
    hashes = np.empty(len(first), np.uint64)
    slots = _reseated(hashes, 0, FEWEST_SLOTS)
    mask = np.uint64(len(slots) - 1)
    n_known, begin = 0, 0
    for row in range(len(row_stops)):
        stop = row_stops[row]
        for k in range(begin, stop):
            grams[k] = BARRIER
        unbroken = 0
        for last in range(begin, stop):
            unbroken = unbroken + 1 if codes[last] != BARRIER else 0
            if unbroken < n:
                continue
            k = last - n + 1
            hash_ = salt
            for i in range(k, k + n):
                hash_ = hash_word(np.uint64(codes[i]), hash_)
            slot = hash_ & mask
            while True:
                code: Any = slots[slot]
                if code == FREE:
                    code = np.int32(n_known)
                    slots[slot] = code
                    first[code] = k
                    hashes[code] = hash_
                    n_known += 1
                    if 2 * n_known > len(slots):
                        slots = _reseated(hashes, n_known, 4 * len(slots))
                        mask = np.uint64(len(slots) - 1)
                    break
                if hashes[code] == hash_:
                    held = first[code]
                    same, i = True, 0
                    while same and i < n:
                        same = codes[held + i] == codes[k + i]
                        i += 1
                    if same:
                        break
                slot = (slot + np.uint64(1)) & mask
            grams[k] = base + code
        begin = stop
    return n_known


@njit(cache=True, nogil=True)
def gram_sizes(lengths: Int32, first: Int64, n: int, sizes: Int64) -> None:
    """Bytes of n-grams that start at segment `first`, joined by spaces."""
    for code in range(len(first)):
        size = n - 1
        for i in range(first[code], first[code] + n):
            size += lengths[i]
        sizes[code] = size


@njit(cache=True, nogil=True)
def write_grams(
    data: Bytes, begins: Int64, lengths: Int32, first: Int64, n: int, offsets: Int64, out: Bytes
) -> None:
    """The bytes of n-grams, joined by spaces."""
    for code in range(len(first)):
        at = offsets[code]
        for i in range(first[code], first[code] + n):
            if i > first[code]:
                out[at] = 0x20
                at += 1
            for j in range(begins[i], begins[i] + lengths[i]):
                out[at] = data[j]
                at += 1


@njit(cache=True, nogil=True)
def merge_rows(grams: Int32, row_stops: Int64, rows: Int32, items: Int32, repeats: Int32) -> Any:
    """Distinct n-grams of each text and how often they occur there; returns how many.

    `grams` has a row for each length of n-grams. `repeats` may be empty.
    """
    n_lengths = grams.shape[0]
    end, begin = 0, 0
    longest = 0
    for row in range(len(row_stops)):
        longest = max(longest, row_stops[row] - begin)
        begin = row_stops[row]
    held = np.empty(longest * n_lengths, np.int32)
    begin = 0
    for row in range(len(row_stops)):
        t = 0
        for length in range(n_lengths):
            for k in range(begin, row_stops[row]):
                if grams[length, k] != BARRIER:
                    held[t] = grams[length, k]
                    t += 1
        begin = row_stops[row]
        found = held[:t]
        found.sort()
        for k in range(t):
            if k == 0 or found[k] != found[k - 1]:
                rows[end] = row
                items[end] = found[k]
                if len(repeats) > 0:
                    repeats[end] = 1
                end += 1
            elif len(repeats) > 0:
                repeats[end - 1] += 1
    return end
