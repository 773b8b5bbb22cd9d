"""HMAC-SHA256 and xxHash64 of many byte strings at once.

Strings come as one buffer and int64 offsets, the layout of an Arrow ``large_string`` array. The
tests compare both with the standard library and with the xxhash package.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.loads import load_end, load_word
from dpsu.runtime.jit import njit
from dpsu.runtime.threads import in_ranges

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint32]

# FIPS 180-4: fractional parts of the cube roots of the first 64 primes, and of square roots.
_ROUND_CONSTANTS = np.array(
    [
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
    ],
    dtype=np.uint32,
)  # fmt: skip
_INITIAL_STATE = np.array(
    [
        0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB,
        0x5BE0CD19,
    ],
    dtype=np.uint32,
)  # fmt: skip

# So many short strings are hashed at a time, found by measuring: enough that no instruction waits
# for another's result, and few enough that what is computed of them stays near the processor. A
# string is short if it fits one block with padding.
LANES = 128
ONE_BLOCK = 55

_PRIME_1 = np.uint64(0x9E3779B185EBCA87)
_PRIME_2 = np.uint64(0xC2B2AE3D27D4EB4F)
_PRIME_3 = np.uint64(0x165667B19E3779F9)
_PRIME_4 = np.uint64(0x85EBCA77C2B2AE63)
_PRIME_5 = np.uint64(0x27D4EB2F165667C5)
_LOW_HALF, _LOW_BYTE = np.uint64(2**32 - 1), np.uint64(255)


def digests(
    secret: bytes, prefix: bytes, data: Bytes, offsets: NDArray[np.int64], width: int
) -> NDArray[np.uint64]:
    """HMAC-SHA256(secret, prefix + length + string) of every string: the first `width` words."""
    block = np.zeros(64, np.uint8)
    block[: len(secret)] = np.frombuffer(secret, np.uint8)
    inner, outer = _INITIAL_STATE.copy(), _INITIAL_STATE.copy()
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


@njit(cache=True, inline="always")
def _rotate_right(word: Any, by: Any) -> Any:
    return (word >> np.uint32(by)) | (word << np.uint32(32 - by))


@njit(cache=True)
def _compress(state: Words, block: Bytes, w: Words) -> None:
    for i in range(16):
        w[i] = (
            (np.uint32(block[4 * i]) << np.uint32(24))
            | (np.uint32(block[4 * i + 1]) << np.uint32(16))
            | (np.uint32(block[4 * i + 2]) << np.uint32(8))
            | np.uint32(block[4 * i + 3])
        )
    for i in range(16, 64):
        x, y = w[i - 15], w[i - 2]
        s0 = _rotate_right(x, 7) ^ _rotate_right(x, 18) ^ (x >> np.uint32(3))
        s1 = _rotate_right(y, 17) ^ _rotate_right(y, 19) ^ (y >> np.uint32(10))
        w[i] = np.uint32(w[i - 16] + s0 + w[i - 7] + s1)
    a, b, c, d = state[0], state[1], state[2], state[3]
    e, f, g, h = state[4], state[5], state[6], state[7]
    for i in range(64):
        s1 = _rotate_right(e, 6) ^ _rotate_right(e, 11) ^ _rotate_right(e, 25)
        choice = (e & f) ^ (~e & g)
        t1 = np.uint32(h + s1 + choice + _ROUND_CONSTANTS[i] + w[i])
        s0 = _rotate_right(a, 2) ^ _rotate_right(a, 13) ^ _rotate_right(a, 22)
        majority = (a & b) ^ (a & c) ^ (b & c)
        t2 = np.uint32(s0 + majority)
        h, g, f, e = g, f, e, np.uint32(d + t1)
        d, c, b, a = c, b, a, np.uint32(t1 + t2)
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d
    state[4] += e
    state[5] += f
    state[6] += g
    state[7] += h


@njit(cache=True)
def _finish(state: Words, block: Bytes, filled: int, length: int, schedule: Words) -> None:
    """Pad the last block; `length` is the number of bytes hashed, including the key block."""
    block[filled] = 0x80
    block[filled + 1 :] = 0
    if filled >= 56:
        _compress(state, block, schedule)
        block[:] = 0
    bits = np.uint64(length) * np.uint64(8)
    for i in range(8):
        block[63 - i] = np.uint8((bits >> np.uint64(8 * i)) & np.uint64(0xFF))
    _compress(state, block, schedule)


@njit(cache=True, inline="always")
def _put(blocks: Words, lane: int, at: int, byte: Any) -> None:
    blocks[at >> 2, lane] |= np.uint32(byte) << np.uint32(24 - 8 * (at & 3))


@njit(cache=True)
def _fill_lane(
    blocks: Words, lane: int, shared: Words, filled: int, data: Bytes, start: int, stop: int
) -> None:
    """Write the one padded block of prefix, length and string into a lane.

    `shared` is a block that holds the prefix in its first `filled` bytes. The length takes eight
    bytes, and that of a short string is in the last of them.
    """
    for i in range(16):
        blocks[i, lane] = shared[i]
    length = stop - start
    at = filled + 8
    _put(blocks, lane, at - 1, length)
    for i in range(length):
        _put(blocks, lane, at + i, data[start + i])
    _put(blocks, lane, at + length, 0x80)
    blocks[15, lane] = np.uint32(8 * (64 + at + length))


@njit(cache=True)
def _put_words(words: NDArray[np.uint64], at: NDArray[np.int64], states: Words) -> None:
    """Write the first words of the digest in each lane to the row that the lane stands for."""
    for lane in range(len(at)):
        for i in range(words.shape[1]):
            high, low = np.uint64(states[2 * i, lane]), np.uint64(states[2 * i + 1, lane])
            words[at[lane], i] = (high << np.uint64(32)) | low


@njit(cache=True)
def _finish_lanes(inner: Words, outer: Words, blocks: Words, states: Words, w: Words) -> None:
    """HMAC of one block per lane; the key blocks have been hashed before."""
    for i in range(8):
        states[i, :] = inner[i]
    _compress_lanes(states, blocks, w)
    blocks[:8] = states
    blocks[8] = 0x80000000
    blocks[9:15] = 0
    blocks[15] = 8 * (64 + 32)
    for i in range(8):
        states[i, :] = outer[i]
    _compress_lanes(states, blocks, w)


@njit(cache=True)
def _compress_lanes(states: Words, blocks: Words, w: Words) -> None:
    """`_compress` on all lanes at once: inner loops over lanes become vector instructions."""
    w[:16] = blocks
    for i in range(16, 64):
        for k in range(LANES):
            x, y = w[i - 15, k], w[i - 2, k]
            s0 = _rotate_right(x, 7) ^ _rotate_right(x, 18) ^ (x >> np.uint32(3))
            s1 = _rotate_right(y, 17) ^ _rotate_right(y, 19) ^ (y >> np.uint32(10))
            w[i, k] = np.uint32(w[i - 16, k] + s0 + w[i - 7, k] + s1)
    # There is one row for each of a to h. A round renames rows instead of moving them: in round i,
    # a is in row -i modulo 8, b in the next row, and so on.
    rows = states.copy()
    for i in range(64):
        a, b, c, d = (-i) & 7, (1 - i) & 7, (2 - i) & 7, (3 - i) & 7
        e, f, g, h = (4 - i) & 7, (5 - i) & 7, (6 - i) & 7, (7 - i) & 7
        constant = _ROUND_CONSTANTS[i]
        for k in range(LANES):
            now, was = rows[e, k], rows[a, k]
            s1 = _rotate_right(now, 6) ^ _rotate_right(now, 11) ^ _rotate_right(now, 25)
            choice = (now & rows[f, k]) ^ (~now & rows[g, k])
            t1 = np.uint32(rows[h, k] + s1 + choice + constant + w[i, k])
            s0 = _rotate_right(was, 2) ^ _rotate_right(was, 13) ^ _rotate_right(was, 22)
            majority = (was & rows[b, k]) ^ (was & rows[c, k]) ^ (rows[b, k] & rows[c, k])
            rows[d, k] = np.uint32(rows[d, k] + t1)
            rows[h, k] = np.uint32(t1 + s0 + majority)
    for i in range(8):
        for k in range(LANES):
            states[i, k] += rows[i, k]


@njit(cache=True, nogil=True)
def _digests(
    inner: Words,
    outer: Words,
    prefix: Bytes,
    data: Bytes,
    offsets: NDArray[np.int64],
    words: NDArray[np.uint64],
    first: int,
    last: int,
) -> None:
    block = np.empty(64, np.uint8)
    schedule = np.empty(64, np.uint32)
    state = np.empty(8, np.uint32)
    size = np.empty(8, np.uint8)
    blocks = np.zeros((16, LANES), np.uint32)
    states = np.empty((8, LANES), np.uint32)
    schedules = np.empty((64, LANES), np.uint32)
    in_lane = np.empty(LANES, np.int64)
    filled_lanes = 0
    room = ONE_BLOCK - len(prefix) - 8
    shared = np.zeros((16, 1), np.uint32)
    for i in range(min(len(prefix), ONE_BLOCK)):
        _put(shared, 0, i, prefix[i])
    for k in range(first, last):
        start, stop = offsets[k], offsets[k + 1]
        if stop - start <= room:
            _fill_lane(blocks, filled_lanes, shared[:, 0], len(prefix), data, start, stop)
            in_lane[filled_lanes] = k
            filled_lanes += 1
            if filled_lanes == LANES:
                _finish_lanes(inner, outer, blocks, states, schedules)
                _put_words(words, in_lane, states)
                filled_lanes = 0
            continue
        for i in range(8):
            size[7 - i] = np.uint8((np.uint64(stop - start) >> np.uint64(8 * i)) & np.uint64(0xFF))
        state[:] = inner
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
                block[4 * i + j] = np.uint8((state[i] >> np.uint32(24 - 8 * j)) & np.uint32(0xFF))
        state[:] = outer
        _finish(state, block, 32, 64 + 32, schedule)
        for i in range(words.shape[1]):
            words[k, i] = (np.uint64(state[2 * i]) << np.uint64(32)) | np.uint64(state[2 * i + 1])
    if filled_lanes > 0:
        _finish_lanes(inner, outer, blocks, states, schedules)
        _put_words(words, in_lane[:filled_lanes], states)


@njit(cache=True, inline="always")
def _rotate_left(word: Any, by: Any) -> Any:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@njit(cache=True, inline="always")
def _lane(accumulator: Any, word: Any) -> Any:
    return _rotate_left(accumulator + word * _PRIME_2, 31) * _PRIME_1


@njit(cache=True, inline="always")
def _avalanche(h: Any) -> Any:
    h ^= h >> np.uint64(33)
    h *= _PRIME_2
    h ^= h >> np.uint64(29)
    h *= _PRIME_3
    return h ^ (h >> np.uint64(32))


@njit(cache=True)
def hash_bytes(data: Bytes, start: int, stop: int, seed: Any) -> Any:
    """XxHash64 of some bytes."""
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
        h = _rotate_left(v1, 1) + _rotate_left(v2, 7) + _rotate_left(v3, 12) + _rotate_left(v4, 18)
        for v in (v1, v2, v3, v4):
            h = (h ^ _lane(np.uint64(0), v)) * _PRIME_1 + _PRIME_4
    else:
        h = seed + _PRIME_5
    h += np.uint64(length)
    while at + 8 <= stop:
        h ^= _lane(np.uint64(0), load_word(data, at))
        h = _rotate_left(h, 27) * _PRIME_1 + _PRIME_4
        at += 8
    if at < stop:
        rest = load_end(data, at, stop - at)
        if at + 4 <= stop:
            h ^= (rest & _LOW_HALF) * _PRIME_1
            h = _rotate_left(h, 23) * _PRIME_2 + _PRIME_3
            rest >>= np.uint64(32)
            at += 4
        while at < stop:
            h ^= (rest & _LOW_BYTE) * _PRIME_5
            h = _rotate_left(h, 11) * _PRIME_1
            rest >>= np.uint64(8)
            at += 1
    return _avalanche(h)


@njit(cache=True)
def hash_word(word: Any, seed: Any) -> Any:
    """XxHash64 of the eight little-endian bytes of `word`."""
    h = seed + _PRIME_5 + np.uint64(8)
    h ^= _lane(np.uint64(0), word)
    h = _rotate_left(h, 27) * _PRIME_1 + _PRIME_4
    return _avalanche(h)


@njit(cache=True, nogil=True)
def hash_strings(data: Bytes, offsets: NDArray[np.int64], seed: Any) -> NDArray[np.uint64]:
    """XxHash64 of every string, with a 64-bit seed."""
    n = len(offsets) - 1
    hashes = np.empty(n, np.uint64)
    for k in range(n):
        hashes[k] = hash_bytes(data, offsets[k], offsets[k + 1], seed)
    return hashes


@njit(cache=True, nogil=True)
def hash_integers(values: NDArray[np.int64], seed: Any) -> NDArray[np.uint64]:
    """XxHash64 of the decimal digits of every integer, with a 64-bit seed."""
    hashes = np.empty(len(values), np.uint64)
    digits = np.empty(20, np.uint8)
    for k in range(len(values)):
        value = values[k]
        # The negative of the smallest integer does not fit in 64 bits with a sign.
        rest = np.uint64(value) if value >= 0 else np.uint64(0) - np.uint64(value)
        at = len(digits)
        while rest > 0 or at == len(digits):
            at -= 1
            digits[at] = np.uint8(48) + np.uint8(rest % np.uint64(10))
            rest //= np.uint64(10)
        if value < 0:
            at -= 1
            digits[at] = np.uint8(45)
        hashes[k] = hash_bytes(digits, at, len(digits), seed)
    return hashes
