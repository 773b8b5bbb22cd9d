"""Number the n-grams of texts, and count each n-gram of a text.

A segment that was too long has the length -1 and the code -1: no n-gram contains it. Hash tables
have linear probing, are at most half full, and grow only when needed, to stay in the cache.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.grouping import sort_words
from cython.cimports.dpsu.kernels.hashing import hash_bytes
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    ConstByte,
    ConstInt32,
    ConstInt64,
    Int32,
    Int64,
    Size,
    Word,
    hash_word,
)

FREE = cython.declare(cython.const[cython.int], -1)
BARRIER = cython.declare(cython.const[cython.int], -1)
FEWEST_SLOTS = cython.declare(cython.const[cython.Py_ssize_t], 4096)
BLANK = cython.declare(cython.const[cython.uchar], 0x20)


@cython.cfunc
def _reseated(hashes: Word[::1], n_known: Size, size: Size) -> Int32[::1]:
    """A table of `size` slots with the known codes in it."""
    slots: Int32[::1] = np.full(size, FREE, np.int32)
    mask: Word = size - 1
    with cython.nogil:
        for code in range(n_known):
            slot = hashes[code] & mask
            while slots[slot] != FREE:
                slot = (slot + 1) & mask
            slots[slot] = code
    return slots


def intern_segments(
    data: ConstByte[::1],
    begins: ConstInt64[::1],
    lengths: ConstInt32[::1],
    salt: Word,
    first: Int64[::1],
    codes: Int32[::1],
) -> Size:
    """Codes 0, 1, ... of segments; `first[code]` is the first segment of that text."""
    if len(lengths) != len(begins) or len(first) < len(begins) or len(codes) < len(begins):
        raise ValueError("begins, lengths, first and codes differ in length")
    hashes: Word[::1] = np.empty(len(first), np.uint64)
    hash_of: Word[::1] = np.empty(len(begins), np.uint64)
    slots = _reseated(hashes, 0, FEWEST_SLOTS)
    mask: Word = len(slots) - 1
    n_known: Int32 = 0
    k: Size
    i: Size
    code: Int32
    same: cython.bint
    with cython.nogil:
        # All of them first: the loop below waits for memory, and calls would keep it from looking
        # ahead.
        for k in range(len(begins)):
            if lengths[k] >= 0:
                hash_of[k] = hash_bytes(data, begins[k], begins[k] + lengths[k], salt)
        for k in range(len(begins)):
            begin, length = begins[k], lengths[k]
            if length < 0:
                codes[k] = BARRIER
                continue
            hash_ = hash_of[k]
            slot = hash_ & mask
            while True:
                code = slots[slot]
                if code == FREE:
                    code = n_known
                    slots[slot] = code
                    first[code] = k
                    hashes[code] = hash_
                    n_known += 1
                    if 2 * cython.cast(Size, n_known) > len(slots):
                        with cython.gil:
                            slots = _reseated(hashes, n_known, 4 * len(slots))
                        mask = len(slots) - 1
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
                slot = (slot + 1) & mask
            codes[k] = code
    return n_known


def intern_grams(
    codes: ConstInt32[::1],
    row_stops: ConstInt64[::1],
    n: Size,
    salt: Word,
    first: Int64[::1],
    base: Int32,
    grams: Int32[::1],
) -> Size:
    """Codes of the n-grams that start at each segment, `base` or larger; -1 where none starts."""
    if len(first) < len(codes) or len(grams) < len(codes) or n < 1:
        raise ValueError("codes, first and grams differ in length, or n-grams have no segment")
    if len(row_stops) > 0 and row_stops[len(row_stops) - 1] > len(codes):
        raise ValueError("rows have more segments than there are")
    hashes: Word[::1] = np.empty(len(first), np.uint64)
    slots = _reseated(hashes, 0, FEWEST_SLOTS)
    mask: Word = len(slots) - 1
    n_known: Int32 = 0
    begin: Size = 0
    stop: Size
    unbroken: Size
    k: Size
    i: Size
    code: Int32
    same: cython.bint
    with cython.nogil:
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
                    hash_ = hash_word(cython.cast(Word, codes[i]), hash_)
                slot = hash_ & mask
                while True:
                    code = slots[slot]
                    if code == FREE:
                        code = n_known
                        slots[slot] = code
                        first[code] = k
                        hashes[code] = hash_
                        n_known += 1
                        if 2 * cython.cast(Size, n_known) > len(slots):
                            with cython.gil:
                                slots = _reseated(hashes, n_known, 4 * len(slots))
                            mask = len(slots) - 1
                        break
                    if hashes[code] == hash_:
                        held = first[code]
                        same, i = True, 0
                        while same and i < n:
                            same = codes[held + i] == codes[k + i]
                            i += 1
                        if same:
                            break
                    slot = (slot + 1) & mask
                grams[k] = base + code
            begin = stop
    return n_known


def gram_sizes(
    lengths: ConstInt32[::1], first: ConstInt64[::1], n: Size, sizes: Int64[::1]
) -> None:
    """Bytes of n-grams that start at segment `first`, joined by spaces."""
    if len(sizes) != len(first):
        raise ValueError("first and sizes differ in length")
    with cython.nogil:
        for code in range(len(first)):
            size: Int64 = n - 1
            for i in range(first[code], first[code] + n):
                size += lengths[i]
            sizes[code] = size


def write_grams(
    data: ConstByte[::1],
    begins: ConstInt64[::1],
    lengths: ConstInt32[::1],
    first: ConstInt64[::1],
    n: Size,
    offsets: ConstInt64[::1],
    out: Byte[::1],
) -> None:
    """The bytes of n-grams, joined by spaces."""
    if len(lengths) != len(begins) or len(offsets) < len(first):
        raise ValueError("begins and lengths, or first and offsets, differ in length")
    with cython.nogil:
        for code in range(len(first)):
            at = offsets[code]
            for i in range(first[code], first[code] + n):
                if i > first[code]:
                    out[at] = BLANK
                    at += 1
                for j in range(begins[i], begins[i] + lengths[i]):
                    out[at] = data[j]
                    at += 1


def merge_rows(
    grams: ConstInt32[:, ::1],
    row_stops: ConstInt64[::1],
    rows: Int32[::1],
    items: Int32[::1],
    repeats: Int32[::1],
) -> Size:
    """Distinct n-grams of each text and how often they occur there; returns how many.

    `grams` has a row for each length of n-grams. `repeats` may be empty.
    """
    n_lengths = grams.shape[0]
    room = n_lengths * grams.shape[1]
    if len(rows) < room or len(items) < room or 0 < len(repeats) < room:
        raise ValueError("there is too little room for n-grams")
    if len(row_stops) > 0 and row_stops[len(row_stops) - 1] > grams.shape[1]:
        raise ValueError("rows have more segments than there are")
    end: Size = 0
    begin: Size = 0
    longest: Size = 0
    t: Size
    for row in range(len(row_stops)):
        longest = max(longest, row_stops[row] - begin)
        begin = row_stops[row]
    found: Word[::1] = np.empty(longest * n_lengths, np.uint64)
    spare: Word[::1] = np.empty(longest * n_lengths, np.uint64)
    begin = 0
    with cython.nogil:
        for row in range(len(row_stops)):
            t = 0
            for length in range(n_lengths):
                for k in range(begin, row_stops[row]):
                    if grams[length, k] != BARRIER:
                        found[t] = grams[length, k]
                        t += 1
            begin = row_stops[row]
            sort_words(found, spare, t, 0)
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


# Constants of C are invisible to callers.
globals().update(BARRIER=BARRIER)
