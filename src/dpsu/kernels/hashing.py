"""HMAC-SHA256 and xxHash64 of many byte strings at once.

Strings come as one buffer and int64 offsets, the layout of an Arrow ``large_string`` array. The
tests compare both with the standard library and with the xxhash package.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    ConstByte,
    ConstInt64,
    ConstUInt32,
    Int32,
    Int64,
    Size,
    UInt32,
    Word,
    load_end,
    load_word,
    rotate_left,
)
from cython.cimports.dpsu.kernels.primitives import hash_word as _hash_word

from dpsu.runtime.threads import in_ranges

# FIPS 180-4: fractional parts of the cube roots of the first 64 primes, and of square roots.
_ROUND_CONSTANTS = cython.declare(UInt32[64], [
    0x428A2F98, 0x71374491, 0xB5C0FBCF, 0xE9B5DBA5, 0x3956C25B, 0x59F111F1, 0x923F82A4,
    0xAB1C5ED5, 0xD807AA98, 0x12835B01, 0x243185BE, 0x550C7DC3, 0x72BE5D74, 0x80DEB1FE,
    0x9BDC06A7, 0xC19BF174, 0xE49B69C1, 0xEFBE4786, 0x0FC19DC6, 0x240CA1CC, 0x2DE92C6F,
    0x4A7484AA, 0x5CB0A9DC, 0x76F988DA, 0x983E5152, 0xA831C66D, 0xB00327C8, 0xBF597FC7,
    0xC6E00BF3, 0xD5A79147, 0x06CA6351, 0x14292967, 0x27B70A85, 0x2E1B2138, 0x4D2C6DFC,
    0x53380D13, 0x650A7354, 0x766A0ABB, 0x81C2C92E, 0x92722C85, 0xA2BFE8A1, 0xA81A664B,
    0xC24B8B70, 0xC76C51A3, 0xD192E819, 0xD6990624, 0xF40E3585, 0x106AA070, 0x19A4C116,
    0x1E376C08, 0x2748774C, 0x34B0BCB5, 0x391C0CB3, 0x4ED8AA4A, 0x5B9CCA4F, 0x682E6FF3,
    0x748F82EE, 0x78A5636F, 0x84C87814, 0x8CC70208, 0x90BEFFFA, 0xA4506CEB, 0xBEF9A3F7,
    0xC67178F2,
])  # fmt: skip
_INITIAL_STATE = (
    0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19,
)  # fmt: skip

# This many short strings are hashed at a time, found by measuring: enough that no instruction waits
# for another's result, and few enough that what is computed of them stays near the processor. A
# string is short if it fits one block with padding.
LANES = cython.declare(cython.const[cython.int], 128)
ONE_BLOCK = cython.declare(cython.const[cython.int], 55)

_PRIME_1 = cython.declare(cython.const[Word], 0x9E3779B185EBCA87)
_PRIME_2 = cython.declare(cython.const[Word], 0xC2B2AE3D27D4EB4F)
_PRIME_3 = cython.declare(cython.const[Word], 0x165667B19E3779F9)
_PRIME_4 = cython.declare(cython.const[Word], 0x85EBCA77C2B2AE63)
_PRIME_5 = cython.declare(cython.const[Word], 0x27D4EB2F165667C5)
_LOW_HALF = cython.declare(cython.const[Word], 0xFFFFFFFF)


def digests(
    secret: bytes, prefix: bytes, data: ConstByte[::1], offsets: ConstInt64[::1], width: Int32
) -> object:
    """HMAC-SHA256(secret, prefix + length + string) of every string: the first `width` words."""
    if len(secret) > 64 or not 0 <= width <= 4:
        raise ValueError("a secret has at most 64 bytes, and a digest has 4 words")
    block = np.zeros(64, np.uint8)
    block[: len(secret)] = np.frombuffer(secret, np.uint8)
    inner = np.array(_INITIAL_STATE, np.uint32)
    outer = inner.copy()
    schedule = np.empty(64, np.uint32)
    _compress(inner, block ^ np.uint8(0x36), schedule)
    _compress(outer, block ^ np.uint8(0x5C), schedule)
    shared = np.frombuffer(prefix, np.uint8)
    words = np.empty((len(offsets) - 1, width), np.uint64)
    in_ranges(
        lambda first, last: _digests(inner, outer, shared, data, offsets, words, first, last),
        len(words),
    )
    return words


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _rotate_right(word: UInt32, by: Int32) -> UInt32:
    return (word >> by) | (word << (32 - by))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _compress(state: UInt32[::1], block: Byte[::1], w: UInt32[::1]) -> cython.void:
    # Cython would infer a C long, whose sums could overflow.
    s0: UInt32
    s1: UInt32
    for i in range(16):
        w[i] = (
            (cython.cast(UInt32, block[4 * i]) << 24)
            | (cython.cast(UInt32, block[4 * i + 1]) << 16)
            | (cython.cast(UInt32, block[4 * i + 2]) << 8)
            | cython.cast(UInt32, block[4 * i + 3])
        )
    for i in range(16, 64):
        x, y = w[i - 15], w[i - 2]
        s0 = _rotate_right(x, 7) ^ _rotate_right(x, 18) ^ (x >> 3)
        s1 = _rotate_right(y, 17) ^ _rotate_right(y, 19) ^ (y >> 10)
        w[i] = w[i - 16] + s0 + w[i - 7] + s1
    a, b, c, d = state[0], state[1], state[2], state[3]
    e, f, g, h = state[4], state[5], state[6], state[7]
    for i in range(64):
        s1 = _rotate_right(e, 6) ^ _rotate_right(e, 11) ^ _rotate_right(e, 25)
        choice = (e & f) ^ (~e & g)
        t1 = h + s1 + choice + _ROUND_CONSTANTS[i] + w[i]
        s0 = _rotate_right(a, 2) ^ _rotate_right(a, 13) ^ _rotate_right(a, 22)
        majority = (a & b) ^ (a & c) ^ (b & c)
        t2 = s0 + majority
        h, g, f, e = g, f, e, d + t1
        d, c, b, a = c, b, a, t1 + t2
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _finish(
    state: UInt32[::1], block: Byte[::1], filled: Size, length: Size, schedule: UInt32[::1]
) -> cython.void:
    """Pad the last block; `length` is the number of bytes hashed, including the key block."""
    block[filled] = 0x80
    for i in range(filled + 1, 64):
        block[i] = 0
    if filled >= 56:
        _compress(state, block, schedule)
        for i in range(64):
            block[i] = 0
    bits: Word = 8 * cython.cast(Word, length)
    for i in range(8):
        block[63 - i] = (bits >> (8 * i)) & 0xFF
    _compress(state, block, schedule)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _put(blocks: UInt32[:, ::1], lane: Size, at: Size, byte: UInt32) -> cython.void:
    blocks[at >> 2, lane] |= cython.cast(UInt32, byte) << (24 - 8 * (at & 3))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _fill_lane(
    blocks: UInt32[:, ::1],
    lane: Size,
    shared: UInt32[:, ::1],
    filled: Size,
    data: ConstByte[::1],
    start: Size,
    stop: Size,
) -> cython.void:
    """Write the one padded block of prefix, length and string into a lane.

    `shared` is a block that holds the prefix in its first `filled` bytes. The length takes eight
    bytes, and that of a short string is in the last of them.
    """
    for i in range(16):
        blocks[i, lane] = shared[i, 0]
    length = stop - start
    at = filled + 8
    _put(blocks, lane, at - 1, length)
    for i in range(length):
        _put(blocks, lane, at + i, data[start + i])
    _put(blocks, lane, at + length, 0x80)
    blocks[15, lane] = 8 * (64 + at + length)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _put_words(
    words: Word[:, ::1], at: Int64[::1], lanes: Size, states: UInt32[:, ::1]
) -> cython.void:
    """Write the first words of the digest in each lane to the row that the lane stands for."""
    for lane in range(lanes):
        for i in range(words.shape[1]):
            high = cython.cast(Word, states[2 * i, lane])
            low = cython.cast(Word, states[2 * i + 1, lane])
            words[at[lane], i] = (high << 32) | low


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _finish_lanes(
    inner: ConstUInt32[::1],
    outer: ConstUInt32[::1],
    blocks: UInt32[:, ::1],
    states: UInt32[:, ::1],
    w: UInt32[:, ::1],
    rows: UInt32[:, ::1],
) -> cython.void:
    """HMAC of one block per lane; the key blocks have been hashed before."""
    for i in range(8):
        for k in range(LANES):
            states[i, k] = inner[i]
    _compress_lanes(states, blocks, w, rows)
    for k in range(LANES):
        for i in range(8):
            blocks[i, k] = states[i, k]
        blocks[8, k] = 0x80000000
        for i in range(9, 15):
            blocks[i, k] = 0
        blocks[15, k] = 8 * (64 + 32)
    for i in range(8):
        for k in range(LANES):
            states[i, k] = outer[i]
    _compress_lanes(states, blocks, w, rows)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _compress_lanes(
    states: UInt32[:, ::1], blocks: UInt32[:, ::1], w: UInt32[:, ::1], rows: UInt32[:, ::1]
) -> cython.void:
    """`_compress` on all lanes at once: inner loops over lanes become vector instructions."""
    s0: UInt32
    s1: UInt32
    for i in range(16):
        for k in range(LANES):
            w[i, k] = blocks[i, k]
    for i in range(16, 64):
        for k in range(LANES):
            x, y = w[i - 15, k], w[i - 2, k]
            s0 = _rotate_right(x, 7) ^ _rotate_right(x, 18) ^ (x >> 3)
            s1 = _rotate_right(y, 17) ^ _rotate_right(y, 19) ^ (y >> 10)
            w[i, k] = w[i - 16, k] + s0 + w[i - 7, k] + s1
    # There is one row for each of a to h. A round renames rows instead of moving them: in round i,
    # a is in row -i modulo 8, b in the next row, and so on.
    for i in range(8):
        for k in range(LANES):
            rows[i, k] = states[i, k]
    for i in range(64):
        a, b, c, d = (-i) & 7, (1 - i) & 7, (2 - i) & 7, (3 - i) & 7
        e, f, g, h = (4 - i) & 7, (5 - i) & 7, (6 - i) & 7, (7 - i) & 7
        constant = _ROUND_CONSTANTS[i]
        for k in range(LANES):
            now, was = rows[e, k], rows[a, k]
            s1 = _rotate_right(now, 6) ^ _rotate_right(now, 11) ^ _rotate_right(now, 25)
            choice = (now & rows[f, k]) ^ (~now & rows[g, k])
            t1 = rows[h, k] + s1 + choice + constant + w[i, k]
            s0 = _rotate_right(was, 2) ^ _rotate_right(was, 13) ^ _rotate_right(was, 22)
            majority = (was & rows[b, k]) ^ (was & rows[c, k]) ^ (rows[b, k] & rows[c, k])
            rows[d, k] += t1
            rows[h, k] = t1 + s0 + majority
    for i in range(8):
        for k in range(LANES):
            states[i, k] += rows[i, k]


def _digests(
    inner: ConstUInt32[::1],
    outer: ConstUInt32[::1],
    prefix: ConstByte[::1],
    data: ConstByte[::1],
    offsets: ConstInt64[::1],
    words: Word[:, ::1],
    first: Int64,
    last: Int64,
) -> None:
    block: Byte[::1] = np.empty(64, np.uint8)
    schedule: UInt32[::1] = np.empty(64, np.uint32)
    state: UInt32[::1] = np.empty(8, np.uint32)
    size: Byte[::1] = np.empty(8, np.uint8)
    blocks: UInt32[:, ::1] = np.zeros((16, LANES), np.uint32)
    states: UInt32[:, ::1] = np.empty((8, LANES), np.uint32)
    rows: UInt32[:, ::1] = np.empty((8, LANES), np.uint32)
    schedules: UInt32[:, ::1] = np.empty((64, LANES), np.uint32)
    in_lane: Int64[::1] = np.empty(LANES, np.int64)
    shared: UInt32[:, ::1] = np.zeros((16, 1), np.uint32)
    filled_lanes: Size = 0
    filled: Size
    room = ONE_BLOCK - len(prefix) - 8
    with cython.nogil:
        for i in range(min(len(prefix), ONE_BLOCK)):
            _put(shared, 0, i, prefix[i])
        for k in range(first, last):
            start, stop = offsets[k], offsets[k + 1]
            if stop - start <= room:
                _fill_lane(blocks, filled_lanes, shared, len(prefix), data, start, stop)
                in_lane[filled_lanes] = k
                filled_lanes += 1
                if filled_lanes == LANES:
                    _finish_lanes(inner, outer, blocks, states, schedules, rows)
                    _put_words(words, in_lane, LANES, states)
                    filled_lanes = 0
                continue
            for i in range(8):
                size[7 - i] = (cython.cast(Word, stop - start) >> (8 * i)) & 0xFF
            for i in range(8):
                state[i] = inner[i]
            filled = 0
            for part in range(3):
                count = len(prefix) if part == 0 else (8 if part == 1 else stop - start)
                for i in range(count):
                    if part == 0:
                        block[filled] = prefix[i]
                    elif part == 1:
                        block[filled] = size[i]
                    else:
                        block[filled] = data[start + i]
                    filled += 1
                    if filled == 64:
                        _compress(state, block, schedule)
                        filled = 0
            _finish(state, block, filled, 64 + len(prefix) + 8 + (stop - start), schedule)
            for i in range(8):
                for j in range(4):
                    block[4 * i + j] = (state[i] >> (24 - 8 * j)) & 0xFF
            for i in range(8):
                state[i] = outer[i]
            _finish(state, block, 32, 64 + 32, schedule)
            for i in range(words.shape[1]):
                words[k, i] = (cython.cast(Word, state[2 * i]) << 32) | cython.cast(
                    Word, state[2 * i + 1]
                )
        if filled_lanes > 0:
            _finish_lanes(inner, outer, blocks, states, schedules, rows)
            _put_words(words, in_lane, filled_lanes, states)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _lane(accumulator: Word, word: Word) -> Word:
    return rotate_left(accumulator + word * _PRIME_2, 31) * _PRIME_1


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _merged(h: Word, v: Word) -> Word:
    return (h ^ _lane(0, v)) * _PRIME_1 + _PRIME_4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _avalanche(h: Word) -> Word:
    h ^= h >> 33
    h *= _PRIME_2
    h ^= h >> 29
    h *= _PRIME_3
    return h ^ (h >> 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def hash_bytes(data: ConstByte[::1], start: Size, stop: Size, seed: Word) -> Word:
    """XxHash64 of some bytes."""
    h: Word
    length = stop - start
    at = start
    if length >= 32:
        v1 = seed + _PRIME_1 + _PRIME_2
        v2 = seed + _PRIME_2
        v3 = seed
        v4 = seed - _PRIME_1
        while at + 32 <= stop:
            v1 = _lane(v1, load_word(data, at))
            v2 = _lane(v2, load_word(data, at + 8))
            v3 = _lane(v3, load_word(data, at + 16))
            v4 = _lane(v4, load_word(data, at + 24))
            at += 32
        h = rotate_left(v1, 1) + rotate_left(v2, 7) + rotate_left(v3, 12) + rotate_left(v4, 18)
        h = _merged(_merged(_merged(_merged(h, v1), v2), v3), v4)
    else:
        h = seed + _PRIME_5
    h += cython.cast(Word, length)
    while at + 8 <= stop:
        h ^= _lane(0, load_word(data, at))
        h = rotate_left(h, 27) * _PRIME_1 + _PRIME_4
        at += 8
    if at < stop:
        rest: Word = load_end(data, at, stop - at)
        if at + 4 <= stop:
            h ^= (rest & _LOW_HALF) * _PRIME_1
            h = rotate_left(h, 23) * _PRIME_2 + _PRIME_3
            rest >>= 32
            at += 4
        while at < stop:
            h ^= (rest & 0xFF) * _PRIME_5
            h = rotate_left(h, 11) * _PRIME_1
            rest >>= 8
            at += 1
    return _avalanche(h)


def hash_word(word: Word, seed: Word) -> Word:
    """XxHash64 of the eight little-endian bytes of `word`; loops take it from primitives.pxd."""
    return _hash_word(word, seed)


def hash_strings(data: ConstByte[::1], offsets: ConstInt64[::1], seed: Word) -> object:
    """XxHash64 of every string, with a 64-bit seed."""
    found = np.empty(len(offsets) - 1, np.uint64)
    hashes: Word[::1] = found
    with cython.nogil:
        for k in range(len(hashes)):
            hashes[k] = hash_bytes(data, offsets[k], offsets[k + 1], seed)
    return found


def hash_integers(values: ConstInt64[::1], seed: Word) -> object:
    """XxHash64 of the decimal digits of every integer, with a 64-bit seed."""
    found = np.empty(len(values), np.uint64)
    hashes: Word[::1] = found
    digits: Byte[::1] = np.empty(20, np.uint8)
    rest: Word
    at: Size
    with cython.nogil:
        for k in range(len(values)):
            value = values[k]
            # The negative of the smallest integer does not fit in 64 bits with a sign.
            rest = value
            if value < 0:
                rest = 0 - rest
            at = len(digits)
            while rest > 0 or at == len(digits):
                at -= 1
                digits[at] = 48 + rest % 10
                rest //= 10
            if value < 0:
                at -= 1
                digits[at] = 45
            hashes[k] = hash_bytes(digits, at, len(digits), seed)
    return found
