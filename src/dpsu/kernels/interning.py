"""Codes for ids: 0, 1, 2, ... in the order in which they are first seen.

Integers from a narrow range are looked up in a table of that range; other integers and texts in
hash tables with linear probing. A slot holds the upper half of an id's hash and its code, so
that most other ids are skipped without comparing them. All hashes are kept, so that a table grows
without reading ids again. Callers make room before they call: at most half of the slots are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from dpsu.kernels.hashing import hash_word

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]

TOUCHED = 64

FREE = -1
FREE_SLOT = np.uint64(2**64 - 1)
LOW, HIGH = np.uint64(2**32 - 1), np.uint64(2**64 - 2**32)


@njit(cache=True, nogil=True)
def intern_dense(
    values: Int64, lowest: int, table: Int32, known: Int64, n_known: int, codes: Int32
) -> int:
    """Codes of integers that all lie in the range of `table`; returns how many are known now."""
    for row in range(len(values)):
        code = table[values[row] - lowest]
        if code == FREE:
            code = n_known
            table[values[row] - lowest] = code
            known[n_known] = values[row]
            n_known += 1
        codes[row] = code
    return n_known


@njit(cache=True, nogil=True)
def intern_integers(
    values: Int64,
    salt: np.uint64,
    slots: Words,
    hashes: Words,
    known: Int64,
    n_known: int,
    codes: Int32,
) -> int:
    """Codes of any integers; returns how many are known now."""
    mask = np.uint64(len(slots) - 1)
    for row in range(len(values)):
        value = values[row]
        hash_ = hash_word(np.uint64(value), salt)
        slot = hash_ & mask
        while True:
            held = slots[slot]
            code: Any = np.int64(held & LOW)
            if held == FREE_SLOT:
                code = n_known
                slots[slot] = (hash_ & HIGH) | np.uint64(code)
                hashes[code] = hash_
                known[code] = value
                n_known += 1
                break
            if (held ^ hash_) <= LOW and known[code] == value:
                break
            slot = (slot + np.uint64(1)) & mask
        codes[row] = code
    return n_known


@njit(cache=True, nogil=True)
def intern_texts(
    data: Bytes,
    offsets: Int64,
    new_hashes: Words,
    slots: Words,
    hashes: Words,
    known_data: Bytes,
    known_offsets: Int64,
    n_known: int,
    codes: Int32,
) -> int:
    """Codes of texts; new texts are copied after the known ones. Returns how many are known now."""
    mask = np.uint64(len(slots) - 1)
    n = len(offsets) - 1
    for row in range(n):
        if row % TOUCHED == 0:
            _touch(new_hashes[row : row + TOUCHED], slots, known_data, known_offsets, n_known)
        start, length = offsets[row], offsets[row + 1] - offsets[row]
        hash_ = new_hashes[row]
        slot = hash_ & mask
        while True:
            held = slots[slot]
            code: Any = np.int64(held & LOW)
            if held == FREE_SLOT:
                code = n_known
                slots[slot] = (hash_ & HIGH) | np.uint64(code)
                hashes[code] = hash_
                at = known_offsets[code]
                for i in range(length):
                    known_data[at + i] = data[start + i]
                known_offsets[code + 1] = at + length
                n_known += 1
                break
            if (held ^ hash_) <= LOW:
                at = known_offsets[code]
                same = known_offsets[code + 1] - at == length
                i = 0
                while same and i < length:
                    same = known_data[at + i] == data[start + i]
                    i += 1
                if same:
                    break
            slot = (slot + np.uint64(1)) & mask
        codes[row] = code
    return n_known


@njit(cache=True, nogil=True)
def _touch(
    new_hashes: Words, slots: Words, known_data: Bytes, known_offsets: Int64, n_known: int
) -> Any:
    """Load what some texts will be compared with into the cache, all at once.

    Otherwise every text would wait for memory three times. The sum is returned so
    that the loops are not optimized away.
    """
    mask = np.uint64(len(slots) - 1)
    total = np.uint64(0)
    for hash_ in new_hashes:
        total += slots[hash_ & mask]
    for hash_ in new_hashes:
        code = np.int64(slots[hash_ & mask] & LOW)
        if code < n_known:
            total += np.uint64(known_offsets[code])
    for hash_ in new_hashes:
        code = np.int64(slots[hash_ & mask] & LOW)
        if code < n_known:
            total += np.uint64(known_data[known_offsets[code]])
    return total


@njit(cache=True, nogil=True)
def seat(hashes: Words, n_known: int, slots: Words) -> None:
    """Enter the known ids into a new, larger table by their hashes."""
    mask = np.uint64(len(slots) - 1)
    for code in range(n_known):
        slot = hashes[code] & mask
        while slots[slot] != FREE_SLOT:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = (hashes[code] & HIGH) | np.uint64(code)


@njit(cache=True, nogil=True)
def spread(codes_of: Int32, indices: Int32, codes: Int32) -> bool:
    """Replace indices of a dictionary by codes; -1 stays. Returns whether there is any -1."""
    missing = False
    for row in range(len(indices)):
        index = indices[row]
        code = codes_of[index] if index >= 0 else FREE
        missing |= code == FREE
        codes[row] = code
    return missing
