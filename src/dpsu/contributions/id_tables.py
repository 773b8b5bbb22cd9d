"""Tables that number distinct ids while several threads enter them.

Everything here is private; the classes have no repr, so that no traceback prints their values. The
numbers that ids get depend on other users and on the timing of threads: nothing is derived from
them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.ids import integers, numbers, text_buffers
from dpsu.errors import DataError
from dpsu.kernels import interning
from dpsu.kernels.interning import KNOWN, LENGTH, SEATED, SHARDS, WORDS
from dpsu.runtime.memory import refuse_beyond_memory
from dpsu.runtime.threads import SMALL, side_by_side

# Rows are hashed and dealt to shards so many at a time, so that they are still in the cache then.
ROWS_AT_ONCE = 1 << 16
# Room for ids in a new shard; slots are twice as many.
FIRST_ROOM = 1 << 8
# Integers in a range up to 16 million (64 MB of codes) are looked up in a table of that range,
# those in a larger range only if the table is smaller than the codes of the rows.
SMALL_SPAN = 1 << 24
MOST_IDS = 2**31 - 2
MOST_IN_SHARD = 2**30 // SHARDS
LONGEST = 2**32 - 1

Words = NDArray[np.uint64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


class TextIds:
    """Distinct texts, compared byte by byte."""

    def __init__(self) -> None:
        self._secret = _secret()
        self._shards = [_TextShard() for _ in range(SHARDS)]
        self._first = np.zeros(SHARDS + 1, np.int64)
        self._turns = count()

    def intern(self, ids: pa.Array, codes: Int32) -> bool:
        """Write the codes of some texts, which may repeat; any thread may call this.

        Returns whether the texts are within their buffer.
        """
        data, offsets = text_buffers(ids)
        if int(offsets[-1]) - int(offsets[0]) > LONGEST and np.diff(offsets).max() > LONGEST:
            raise DataError("a cell has more than 4 GB; it can be no id")
        for first in range(0, len(ids), ROWS_AT_ONCE):
            places, found = offsets[first : first + ROWS_AT_ONCE + 1], codes[first:]
            hashes = np.empty(len(places) - 1, np.uint64)
            if not interning.hash_texts(data, places, self._secret, hashes):
                return False
            for shard, rows in _dealt(hashes, next(self._turns)):
                with self._shards[shard].lock:
                    self._shards[shard].intern(data, places, hashes, rows, shard, found)
        return True

    def renumber(self, codes: Int32) -> None:
        """Replace codes by the numbers of the ids that were taken."""
        interning.renumber(codes, 0, self._first)

    def take_ids(self) -> pa.Array:
        """The distinct texts, shard after shard; nothing can be entered any more."""
        shards, self._first = self._shards, _totals(self._shards, KNOWN)
        first, begin = self._first, _totals(self._shards, LENGTH)
        refuse_beyond_memory(int(begin[-1]), "the distinct users and items")
        offsets, data = np.zeros(int(first[-1]) + 1, np.int64), np.empty(int(begin[-1]), np.uint8)

        def write(k: int) -> None:
            ends = offsets[1 + first[k] : 1 + first[k + 1]]
            interning.write_records(shards[k].records, int(begin[k]), ends, data)

        if len(offsets) < SMALL:
            # To spread few texts costs more than to write them.
            for k in range(SHARDS):
                write(k)
        else:
            side_by_side(write, SHARDS)
        self._shards = []
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_string(), len(offsets) - 1, buffers)


class _TextShard:
    """One shard of texts."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.slots = np.full(4 * FIRST_ROOM, interning.FREE_SLOT, np.uint64)
        self.records = np.empty(4 * FIRST_ROOM, np.uint64)
        self.state = np.zeros(3, np.int64)

    def intern(
        self, data: Any, offsets: Int64, hashes: Words, rows: Int32, shard: int, codes: Int32
    ) -> None:
        while True:
            done = interning.intern_texts(
                data, offsets, hashes, rows, self.slots, self.records, self.state, shard, codes
            )
            rows = rows[done:]
            if len(rows) == 0:
                return
            self._make_room(int(offsets[rows[0] + 1] - offsets[rows[0]]))

    def _make_room(self, length: int) -> None:
        known, used = int(self.state[KNOWN]), int(self.state[WORDS])
        if known == len(self.slots) // 4:
            old = self.slots
            self.slots = _larger(known, len(old), interning.FREE_SLOT, np.uint64)
            interning.seat_texts(old, self.slots)
        needed = used + 2 + length // 8
        if needed > len(self.records):
            self.records = grown(self.records, used, _next_power(needed + needed // 4))


class IntegerIds:
    """Distinct integers, in a table of their range while it is narrow, then in hash tables."""

    def __init__(self) -> None:
        self._secret = _secret()
        self._lock = threading.Lock()
        self._n_dense = 0
        self._rows = 0
        self._dense = np.empty(FIRST_ROOM, np.int64)
        self._lowest = 0
        self._range: Int32 | None = np.empty(0, np.int32)
        self._shards = [_IntegerShard() for _ in range(SHARDS)]
        self._first = np.zeros(SHARDS + 1, np.int64)
        self._turns = count()

    def intern(self, ids: pa.Array, codes: Int32) -> bool:
        """Write the codes of some integers, which may repeat; any thread may call this."""
        values = numbers(ids, np.int64)
        if len(values) == 0:
            return True
        lowest, highest = int(values.min()), int(values.max())
        with self._lock:
            if self._range is not None:
                self._rows += len(values)
                self._widen(lowest, highest)
            if self._range is not None:
                if self._n_dense + len(values) > len(self._dense):
                    room = _next_power(self._n_dense + len(values))
                    refuse_more_than(MOST_IDS, room)
                    self._dense = grown(self._dense, self._n_dense, room)
                self._n_dense = interning.intern_dense(
                    values, self._lowest, self._range, self._dense, self._n_dense, codes
                )
                return True
        for first in range(0, len(values), ROWS_AT_ONCE):
            some, found = values[first : first + ROWS_AT_ONCE], codes[first:]
            hashes = np.empty(len(some), np.uint64)
            interning.hash_integer_ids(some, self._secret, hashes)
            for shard, rows in _dealt(hashes, next(self._turns)):
                first_code = self._n_dense + shard
                with self._shards[shard].lock:
                    self._shards[shard].intern(some, hashes, rows, self._secret, first_code, found)
        return True

    def _widen(self, lowest: int, highest: int) -> None:
        """Extend the table to reach from `lowest` to `highest`, or change to hash tables."""
        assert self._range is not None
        if len(self._range):
            lowest = min(lowest, self._lowest)
            highest = max(highest, self._lowest + len(self._range) - 1)
        span = highest - lowest + 1
        if span == len(self._range):
            return
        if span > max(SMALL_SPAN, self._rows) or max(-lowest, highest) >= 2**62:
            self._range = None
            self._hash_dense()
            return
        # Add half as much again at the upper end, where ids grow: widening copies the table.
        grows = len(self._range) and highest > self._lowest + len(self._range) - 1
        wider = np.full(span + span // 2 if grows else span, interning.FREE, np.int32)
        offset = self._lowest - lowest if len(self._range) else 0
        wider[offset : offset + len(self._range)] = self._range
        self._lowest, self._range = lowest, wider

    def _hash_dense(self) -> None:
        """Enter the ids of the dense table into hash tables; they keep their codes."""
        known = self._dense[: self._n_dense]
        hashes = np.empty(len(known), np.uint64)
        interning.hash_integer_ids(known, self._secret, hashes)
        for shard, rows in _dealt(hashes, 0):
            self._shards[shard].seat(known[rows], rows.astype(np.int64), self._secret)

    def renumber(self, codes: Int32) -> None:
        """Replace codes by the numbers of the ids that were taken."""
        if self._first[-1]:
            interning.renumber(codes, self._n_dense, self._first)

    def take_ids(self) -> pa.Array:
        """The distinct integers: those of the dense table, then shard after shard."""
        self._first = _totals(self._shards, KNOWN)
        hashed = [shard.ids(self._n_dense) for shard in self._shards]
        found = np.concatenate([self._dense[: self._n_dense], *hashed])
        self._range, self._shards = None, []
        return integers(found)


class _IntegerShard:
    """One shard of integers; `state[SEATED]` counts those of a dense table, too."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.slots = np.full(4 * FIRST_ROOM, interning.FREE, np.int64)
        self.state = np.zeros(2, np.int64)

    def intern(
        self, values: Int64, hashes: Words, rows: Int32, secret: Words, first_code: int,
        codes: Int32,
    ) -> None:  # fmt: skip
        while True:
            done = interning.intern_integers(
                values, hashes, rows, self.slots, self.state, first_code, codes
            )
            rows = rows[done:]
            if len(rows) == 0:
                return
            self._make_room(int(self.state[SEATED]) + 1, secret)

    def seat(self, values: Int64, codes: Int64, secret: Words) -> None:
        self._make_room(len(values), secret)
        interning.seat_integers(values, codes, secret, self.slots)
        self.state[SEATED] = len(values)

    def _make_room(self, used: int, secret: Words) -> None:
        while used > len(self.slots) // 4:
            old = self.slots
            self.slots = _larger(len(old) // 4, len(old), interning.FREE, np.int64)
            interning.seat_integers(old[::2].copy(), old[1::2].copy(), secret, self.slots)

    def ids(self, n_dense: int) -> Int64:
        values, codes = self.slots[::2], self.slots[1::2]
        mine = codes >= n_dense
        found = np.empty(int(self.state[KNOWN]), np.int64)
        found[(codes[mine] - n_dense) >> interning.SHARD_BITS] = values[mine]
        return found


def _dealt(hashes: Words, turn: int) -> list[tuple[int, Int32]]:
    """The rows of each shard that has any; threads begin with different shards."""
    order, ends = np.empty(len(hashes), np.int32), np.empty(SHARDS, np.int64)
    interning.deal(hashes, order, ends)
    starts = [0, *ends.tolist()]
    shards = [(k + 5 * turn) % SHARDS for k in range(SHARDS)]
    return [(k, order[starts[k] : starts[k + 1]]) for k in shards if starts[k] < starts[k + 1]]


def _totals(shards: Sequence[_TextShard | _IntegerShard], what: int) -> Int64:
    """Where the ids, or bytes, of each shard begin, and where those of the last end."""
    sizes = [int(shard.state[what]) for shard in shards]
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _secret() -> Words:
    return np.frombuffer(os.urandom(32), np.uint64)


def _larger(known: int, size: int, free: Any, dtype: Any) -> NDArray[Any]:
    """Empty slots, twice as many."""
    refuse_more_than(MOST_IN_SHARD, known + 1)
    refuse_beyond_memory(2 * size * 8, "the distinct users and items")
    return np.full(2 * size, free, dtype)


def refuse_more_than(most: int, ids: int) -> None:
    """Refuse more ids than codes of 32 bits can tell apart."""
    if ids > most:
        raise DataError(f"a column has more than {MOST_IDS // 2:,} distinct values")


def grown(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    """The same beginning in a larger array; what does not fit in memory is refused."""
    refuse_beyond_memory(size * array.itemsize, "the distinct users and items")
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger


def _next_power(size: int) -> int:
    return 1 << (size - 1).bit_length()
