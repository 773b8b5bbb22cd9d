"""Codes for ids, by tables that several threads fill at once.

Ids are dealt to shards by the upper bits of their hash, and each shard is a hash table of its own,
with linear probing. A shard numbers its ids 0, 1, 2, ... as it first sees them; the code of an id
is number * SHARDS + shard, until `renumber` closes the gaps. Integers from a narrow range are
looked up in a table of that range instead.

A slot of text is the hash and the place of a record: the number and the length of the text, then
its bytes. A slot of an integer is the integer and its code. Kernels stop when a table has no room
for a new id, so that the caller makes room and goes on: at most half of the slots are used.
"""

from __future__ import annotations

import cython
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    ConstByte,
    ConstInt32,
    ConstInt64,
    ConstWord,
    Int32,
    Int64,
    Size,
    Word,
    fold_product,
    hash_word,
    load_end,
    load_word,
    prefetch,
)

SHARD_BITS = cython.declare(cython.const[cython.int], 4)
SHARDS = cython.declare(cython.const[cython.int], 16)
# Slots are loaded into the cache two times this many rows ahead, and the records that they lead to
# one time: otherwise every row would wait for memory, twice.
AHEAD = cython.declare(cython.const[cython.int], 12)

FREE = cython.declare(cython.const[cython.int], -1)
FREE_SLOT = cython.declare(cython.const[Word], 0xFFFFFFFFFFFFFFFF)
LOW = cython.declare(cython.const[Word], 0xFFFFFFFF)
# Of the state of a shard: how many ids it has that are in no dense table;
# of texts, how many words of records are used and how many bytes the texts have;
# of integers, how many slots are taken.
KNOWN = cython.declare(cython.const[cython.int], 0)
WORDS = cython.declare(cython.const[cython.int], 1)
LENGTH = cython.declare(cython.const[cython.int], 2)
SEATED = cython.declare(cython.const[cython.int], 1)


def hash_texts(
    data: ConstByte[::1], offsets: ConstInt64[::1], secret: ConstWord[::1], hashes: Word[::1]
) -> cython.bint:
    """Hash texts by four secret words, so that no input can be made whose texts collide.

    Returns whether all texts lie within `data`; no other kernel checks that again.
    """
    if len(offsets) != len(hashes) + 1 or len(secret) < 4:
        raise ValueError("texts have one offset more than hashes, and a secret has four words")
    within: cython.bint = True
    with cython.nogil:
        for row in range(len(hashes)):
            at, stop = offsets[row], offsets[row + 1]
            if at < 0 or stop < at or stop > len(data):
                within = False
                break
            length = cython.cast(Word, stop - at)
            h: Word = secret[0]
            while stop - at > 16:
                h = fold_product(load_word(data, at) ^ secret[1], load_word(data, at + 8) ^ h)
                at += 16
            low: Word = 0
            high: Word = 0
            if stop - at >= 8:
                low = load_word(data, at)
                at += 8
            if stop - at == 8:
                high = load_word(data, at)
            elif stop > at:
                high = load_end(data, at, stop - at)
            h = fold_product(low ^ secret[1], high ^ h)
            hashes[row] = fold_product(h ^ secret[2], length ^ secret[3])
    return within


def hash_integer_ids(values: ConstInt64[::1], secret: ConstWord[::1], hashes: Word[::1]) -> None:
    """Hash integers by a secret word."""
    if len(hashes) != len(values) or len(secret) < 1:
        raise ValueError("values and hashes differ in length, or the secret is empty")
    with cython.nogil:
        for row in range(len(values)):
            hashes[row] = hash_word(values[row], secret[0])


def deal(hashes: ConstWord[::1], order: Int32[::1], ends: Int64[::1]) -> None:
    """Rows in the order of their shards, and where the rows of each shard end."""
    if len(order) != len(hashes) or len(ends) != SHARDS:
        raise ValueError("hashes and order differ in length, or there is not one end per shard")
    shard: Size
    total: Int64 = 0
    with cython.nogil:
        for shard in range(SHARDS):
            ends[shard] = 0
        for row in range(len(hashes)):
            ends[hashes[row] >> (64 - SHARD_BITS)] += 1
        for shard in range(SHARDS):
            size = ends[shard]
            ends[shard] = total
            total += size
        for row in range(len(hashes)):
            shard = hashes[row] >> (64 - SHARD_BITS)
            order[ends[shard]] = row
            ends[shard] += 1


def intern_texts(
    data: ConstByte[::1],
    offsets: ConstInt64[::1],
    hashes: ConstWord[::1],
    rows: ConstInt32[::1],
    slots: Word[::1],
    records: Word[::1],
    state: Int64[::1],
    first_code: Int64,
    codes: Int32[::1],
) -> Int64:
    """Codes of the texts in these rows; returns how many rows were done until there was no room."""
    if len(offsets) != len(hashes) + 1 or len(codes) < len(hashes) or len(state) < 3:
        raise ValueError("offsets, hashes, codes and state do not belong together")
    _check_slots(len(slots))
    number: Int64
    mask: Word = len(slots) // 2 - 1
    room: Int64 = len(slots) // 4
    known, used = state[KNOWN], state[WORDS]
    done: Int64 = len(rows)
    # A pointer, and no index: an empty text may begin where the data end.
    first_byte: cython.p_const_uchar = cython.address(data[0]) if len(data) else cython.NULL
    with cython.nogil:
        for i in range(len(rows)):
            if i + 2 * AHEAD < len(rows):
                prefetch(cython.address(slots[2 * (hashes[rows[i + 2 * AHEAD]] & mask)]))
                prefetch(first_byte + offsets[rows[i + 2 * AHEAD]])
            if i + AHEAD < len(rows):
                place = slots[2 * (hashes[rows[i + AHEAD]] & mask) + 1]
                if place != FREE_SLOT:
                    prefetch(cython.address(records[place]))
            row = rows[i]
            hash_ = hashes[row]
            start = offsets[row]
            length = offsets[row + 1] - start
            slot = hash_ & mask
            number = -1
            while number < 0:
                place = slots[2 * slot + 1]
                if place == FREE_SLOT:
                    words = (length + 7) >> 3
                    if known == room or used + 1 + words > len(records):
                        break
                    number = known
                    slots[2 * slot] = hash_
                    slots[2 * slot + 1] = used
                    records[used] = (cython.cast(Word, length) << 32) | number
                    _copy_text(data, start, length, records, used + 1)
                    used += 1 + words
                    known += 1
                    state[LENGTH] += length
                elif slots[2 * slot] == hash_ and _same_text(data, start, length, records, place):
                    number = records[place] & LOW
                slot = (slot + 1) & mask
            if number < 0:
                done = i
                break
            codes[row] = first_code + (number << SHARD_BITS)
    state[KNOWN], state[WORDS] = known, used
    return done


@cython.cfunc
@cython.exceptval(check=True)
def _check_slots(size: Size) -> cython.void:
    if size < 4 or size & (size - 1):
        raise ValueError("slots must be a power of 2, two for each place")


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _same_text(
    data: ConstByte[::1], start: Int64, length: Int64, records: Word[::1], place: Word
) -> cython.bint:
    """Whether a text is that of a record, compared byte by byte, eight at a time."""
    if records[place] >> 32 != cython.cast(Word, length):
        return False
    at, end = place + 1, place + 1 + (length >> 3)
    while at < end:
        if records[at] != load_word(data, start):
            return False
        at += 1
        start += 8
    rest = length & 7
    return rest == 0 or records[at] == load_end(data, start, rest)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _copy_text(
    data: ConstByte[::1], start: Int64, length: Int64, records: Word[::1], at: Int64
) -> cython.void:
    """Write a text into records, the last word filled up with zeros."""
    end = at + (length >> 3)
    while at < end:
        records[at] = load_word(data, start)
        at += 1
        start += 8
    rest = length & 7
    if rest > 0:
        records[at] = load_end(data, start, rest)


def intern_integers(
    values: ConstInt64[::1],
    hashes: ConstWord[::1],
    rows: ConstInt32[::1],
    slots: Int64[::1],
    state: Int64[::1],
    first_code: Int64,
    codes: Int32[::1],
) -> Int64:
    """Codes of the integers in these rows; returns how many rows were done, as `intern_texts`."""
    if len(hashes) != len(values) or len(codes) < len(values) or len(state) < 2:
        raise ValueError("values, hashes, codes and state do not belong together")
    _check_slots(len(slots))
    mask: Word = len(slots) // 2 - 1
    room: Int64 = len(slots) // 4
    known, seated = state[KNOWN], state[SEATED]
    done: Int64 = len(rows)
    with cython.nogil:
        for i in range(len(rows)):
            if i + AHEAD < len(rows):
                prefetch(cython.address(slots[2 * (hashes[rows[i + AHEAD]] & mask)]))
            row = rows[i]
            value = values[row]
            slot = hashes[row] & mask
            while slots[2 * slot + 1] != FREE and slots[2 * slot] != value:
                slot = (slot + 1) & mask
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


def intern_dense(
    values: ConstInt64[::1],
    lowest: Int64,
    table: Int32[::1],
    known: Int64[::1],
    n_known: Int64,
    codes: Int32[::1],
) -> Int64:
    """Codes of integers that all lie in the range of `table`; returns how many are known now."""
    if len(codes) < len(values) or len(known) < n_known + len(values):
        raise ValueError("there is no room for the codes, or for what may become known")
    with cython.nogil:
        for row in range(len(values)):
            code = table[values[row] - lowest]
            if code == FREE:
                code = n_known
                table[values[row] - lowest] = code
                known[n_known] = values[row]
                n_known += 1
            codes[row] = code
    return n_known


def seat_texts(old: ConstWord[::1], slots: Word[::1]) -> None:
    """Enter the texts of a table into a larger one that is empty."""
    if len(slots) < len(old):
        raise ValueError("the new table must be larger")
    _check_slots(len(slots))
    mask: Word = len(slots) // 2 - 1
    with cython.nogil:
        for at in range(0, len(old), 2):
            if old[at + 1] != FREE_SLOT:
                slot = old[at] & mask
                while slots[2 * slot + 1] != FREE_SLOT:
                    slot = (slot + 1) & mask
                slots[2 * slot], slots[2 * slot + 1] = old[at], old[at + 1]


def seat_integers(
    values: ConstInt64[::1], codes: ConstInt64[::1], secret: ConstWord[::1], slots: Int64[::1]
) -> None:
    """Enter integers that differ into a table, with their codes; those of code -1 are dropped."""
    if len(codes) != len(values) or len(secret) < 1 or len(slots) < 2 * len(values):
        raise ValueError("values and codes differ in length, or there is no room for them")
    _check_slots(len(slots))
    mask: Word = len(slots) // 2 - 1
    with cython.nogil:
        for at in range(len(values)):
            if codes[at] != FREE:
                slot = hash_word(values[at], secret[0]) & mask
                while slots[2 * slot + 1] != FREE:
                    slot = (slot + 1) & mask
                slots[2 * slot], slots[2 * slot + 1] = values[at], codes[at]


def write_records(records: ConstWord[::1], at: Int64, ends: Int64[::1], data: Byte[::1]) -> None:
    """Write the texts of a shard one after the other, from `at` on, and where each ends."""
    place: Int64 = 0
    with cython.nogil:
        for number in range(len(ends)):
            length = cython.cast(Int64, records[place] >> 32)
            for i in range(length):
                data[at + i] = records[place + 1 + (i >> 3)] >> (8 * (i & 7))
            at += length
            ends[number] = at
            place += 1 + ((length + 7) >> 3)


def spread(codes_of: ConstInt32[::1], indices: ConstInt32[::1], codes: Int32[::1]) -> cython.bint:
    """Replace indices of a dictionary by codes; -1 stays. Returns whether there is any -1."""
    if len(codes) != len(indices):
        raise ValueError("indices and codes differ in length")
    missing: cython.bint = False
    with cython.nogil:
        for row in range(len(indices)):
            index = indices[row]
            code = codes_of[index] if index >= 0 else FREE
            missing |= code == FREE
            codes[row] = code
    return missing


def renumber(codes: Int32[::1], n_dense: Int64, first: ConstInt64[::1]) -> None:
    """Replace codes by numbers without gaps: shard after shard, after those of a dense table."""
    if len(first) < SHARDS:
        raise ValueError("there is not one first number per shard")
    with cython.nogil:
        for row in range(len(codes)):
            code = codes[row] - n_dense
            if code >= 0:
                codes[row] = n_dense + first[code & (SHARDS - 1)] + (code >> SHARD_BITS)


# Constants of C are invisible to callers.
globals().update(
    SHARD_BITS=SHARD_BITS,
    SHARDS=SHARDS,
    FREE=FREE,
    FREE_SLOT=FREE_SLOT,
    KNOWN=KNOWN,
    WORDS=WORDS,
    LENGTH=LENGTH,
    SEATED=SEATED,
)
