"""Codes for ids, by tables that several threads fill at once.

Ids are dealt to shards by the upper bits of their hash, and each shard is a hash table of its own,
with linear probing. A shard numbers its ids 0, 1, 2, ... as it first sees them; the code of an id
is number * SHARDS + shard, until `renumber` closes the gaps. Integers
from a narrow range are looked up in a table of that range instead.

A slot of text is the hash and the place of a record: the number and the length of the text, then
its bytes. A slot of an integer is the integer and its code. Kernels stop when a table has no room
for a new id, so that the caller makes room and goes on: at most half of the slots are used.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.hashing import hash_word
from dpsu.kernels.loads import fold_product, load_end, load_word, prefetch
from dpsu.runtime.jit import njit

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]

SHARD_BITS = 4
SHARDS = 1 << SHARD_BITS
# Slots are loaded into the cache two times as many rows ahead, and the records that they lead to
# one time: otherwise every row would wait for memory, twice.
AHEAD = 12

FREE = -1
FREE_SLOT = np.uint64(2**64 - 1)
LOW = np.uint64(2**32 - 1)
# Of the state of a shard: how many ids it has that are in no dense table; of texts how many words
# of records are used and how many bytes the texts have, of integers how many slots are taken.
KNOWN, WORDS, LENGTH, SEATED = 0, 1, 2, 1


@njit(cache=True, nogil=True)
def hash_texts(data: Bytes, offsets: Int64, secret: Words, hashes: Words) -> bool:
    """Hash texts by four secret words, so that nobody can choose texts that collide.

    Returns whether all texts lie within `data`; no other kernel checks that again.
    """
    for row in range(len(hashes)):
        at, stop = offsets[row], offsets[row + 1]
        if at < 0 or stop < at or stop > len(data):
            return False
        length = np.uint64(stop - at)
        h = secret[0]
        while stop - at > 16:
            h = fold_product(load_word(data, at) ^ secret[1], load_word(data, at + 8) ^ h)
            at += 16
        low, high = np.uint64(0), np.uint64(0)
        if stop - at >= 8:
            low = load_word(data, at)
            at += 8
        if stop - at == 8:
            high = load_word(data, at)
        elif stop > at:
            high = load_end(data, at, stop - at)
        h = fold_product(low ^ secret[1], high ^ h)
        hashes[row] = fold_product(h ^ secret[2], length ^ secret[3])
    return True


@njit(cache=True, nogil=True)
def hash_integer_ids(values: Int64, secret: Words, hashes: Words) -> None:
    """Hash integers by a secret word."""
    for row in range(len(values)):
        hashes[row] = hash_word(np.uint64(values[row]), secret[0])


@njit(cache=True, nogil=True)
def deal(hashes: Words, order: Int32, ends: Int64) -> None:
    """Rows in the order of their shards, and where the rows of each shard end."""
    by = np.uint64(64 - SHARD_BITS)
    ends[:] = 0
    for row in range(len(hashes)):
        ends[hashes[row] >> by] += 1
    total = 0
    for shard in range(len(ends)):
        size = ends[shard]
        ends[shard] = total
        total += size
    for row in range(len(hashes)):
        shard = hashes[row] >> by
        order[ends[shard]] = row
        ends[shard] += 1


@njit(cache=True, nogil=True)
def intern_texts(
    data: Bytes,
    offsets: Int64,
    hashes: Words,
    rows: Int32,
    slots: Words,
    records: Words,
    state: Int64,
    first_code: int,
    codes: Int32,
) -> int:
    """Codes of the texts in these rows; returns how many rows were done until there was no room."""
    mask = np.uint64(len(slots) // 2 - 1)
    room = len(slots) // 4
    known, used = state[KNOWN], state[WORDS]
    done = len(rows)
    for i in range(len(rows)):
        if i + 2 * AHEAD < len(rows):
            prefetch(slots, 2 * np.int64(hashes[rows[i + 2 * AHEAD]] & mask))
            prefetch(data, offsets[rows[i + 2 * AHEAD]])
        if i + AHEAD < len(rows):
            place = slots[2 * (hashes[rows[i + AHEAD]] & mask) + 1]
            if place != FREE_SLOT:
                prefetch(records, np.int64(place))
        row = rows[i]
        hash_ = hashes[row]
        start = offsets[row]
        length = offsets[row + 1] - start
        slot = hash_ & mask
        number: Any = np.int64(-1)
        while number < 0:
            place = slots[2 * slot + 1]
            if place == FREE_SLOT:
                words = (length + 7) >> 3
                if known == room or used + 1 + words > len(records):
                    break
                number = known
                slots[2 * slot] = hash_
                slots[2 * slot + 1] = np.uint64(used)
                records[used] = (np.uint64(length) << np.uint64(32)) | np.uint64(number)
                _copy_text(data, start, length, records, used + 1)
                used += 1 + words
                known += 1
                state[LENGTH] += length
            elif slots[2 * slot] == hash_ and _same_text(
                data, start, length, records, np.int64(place)
            ):
                number = np.int64(records[np.int64(place)] & LOW)
            slot = (slot + np.uint64(1)) & mask
        if number < 0:
            done = i
            break
        codes[row] = first_code + (number << SHARD_BITS)
    state[KNOWN], state[WORDS] = known, used
    return done


@njit(cache=True, inline="always")
def _same_text(data: Bytes, start: Any, length: Any, records: Words, place: Any) -> Any:
    """Whether a text is that of a record, compared byte by byte, eight at a time."""
    if records[place] >> np.uint64(32) != np.uint64(length):
        return False
    at, end = place + 1, place + 1 + (length >> 3)
    while at < end:
        if records[at] != load_word(data, start):
            return False
        at += 1
        start += 8
    rest = length & 7
    return rest == 0 or records[at] == load_end(data, start, rest)


@njit(cache=True, inline="always")
def _copy_text(data: Bytes, start: Any, length: Any, records: Words, at: Any) -> None:
    """Write a text into records, the last word filled up with zeros."""
    end = at + (length >> 3)
    while at < end:
        records[at] = load_word(data, start)
        at += 1
        start += 8
    rest = length & 7
    if rest > 0:
        records[at] = load_end(data, start, rest)


@njit(cache=True, nogil=True)
def intern_integers(
    values: Int64,
    hashes: Words,
    rows: Int32,
    slots: Int64,
    state: Int64,
    first_code: int,
    codes: Int32,
) -> int:
    """Codes of the integers in these rows; returns how many rows were done, as `intern_texts`."""
    mask = np.uint64(len(slots) // 2 - 1)
    room = len(slots) // 4
    known, seated = state[KNOWN], state[SEATED]
    done = len(rows)
    for i in range(len(rows)):
        if i + AHEAD < len(rows):
            prefetch(slots, 2 * np.int64(hashes[rows[i + AHEAD]] & mask))
        row = rows[i]
        value = values[row]
        slot = hashes[row] & mask
        while slots[2 * slot + 1] != FREE and slots[2 * slot] != value:
            slot = (slot + np.uint64(1)) & mask
        if slots[2 * slot + 1] == FREE:
            if seated == room:
                done = i
                break
            slots[2 * slot] = value
            slots[2 * slot + 1] = first_code + (known << SHARD_BITS)
            known += 1
            seated += 1
        codes[row] = slots[2 * slot + 1]
    state[KNOWN], state[SEATED] = known, seated
    return done


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
def seat_texts(old: Words, slots: Words) -> None:
    """Enter the texts of a table into a larger one that is empty."""
    mask = np.uint64(len(slots) // 2 - 1)
    for at in range(0, len(old), 2):
        if old[at + 1] != FREE_SLOT:
            slot = old[at] & mask
            while slots[2 * slot + 1] != FREE_SLOT:
                slot = (slot + np.uint64(1)) & mask
            slots[2 * slot], slots[2 * slot + 1] = old[at], old[at + 1]


@njit(cache=True, nogil=True)
def seat_integers(values: Int64, codes: Int64, secret: Words, slots: Int64) -> None:
    """Enter integers that differ into a table, with their codes; those of code -1 are left out."""
    mask = np.uint64(len(slots) // 2 - 1)
    for at in range(len(values)):
        if codes[at] != FREE:
            slot = hash_word(np.uint64(values[at]), secret[0]) & mask
            while slots[2 * slot + 1] != FREE:
                slot = (slot + np.uint64(1)) & mask
            slots[2 * slot], slots[2 * slot + 1] = values[at], codes[at]


@njit(cache=True, nogil=True)
def write_records(records: Words, at: Any, ends: Int64, data: Bytes) -> None:
    """Write the texts of a shard one after the other, from `at` on, and where each ends."""
    place: Any = 0
    for number in range(len(ends)):
        length = np.int64(records[place] >> np.uint64(32))
        for i in range(length):
            word = records[place + 1 + (i >> 3)]
            data[at + i] = np.uint8(word >> np.uint64(8 * (i & 7)))
        at += length
        ends[number] = at
        place += 1 + ((length + 7) >> 3)


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


@njit(cache=True, nogil=True)
def renumber(codes: Int32, n_dense: int, first: Int64) -> None:
    """Replace codes by numbers without gaps: shard after shard, after those of a dense table."""
    for row in range(len(codes)):
        code = codes[row] - n_dense
        if code >= 0:
            codes[row] = n_dense + first[code & (SHARDS - 1)] + (code >> SHARD_BITS)
