"""Read rows and number their distinct users and items; the columns themselves are not kept.

A batch is first prepared, in any thread, and then interned, in the order of the batches. The codes
that ids get depend on other users, because they change when somebody leaves. So nothing is derived
from a code: only `Ids` are hashed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.id_columns import Column, Lose
from dpsu.contributions.id_types import TEXT_TYPE
from dpsu.contributions.ids import (
    NOTHING,
    TEXT,
    Ids,
    integers,
    is_text,
    numbers,
    places_in_dictionary,
    text_buffers,
    type_name,
)
from dpsu.contributions.pairs import (
    Block,
    Pairs,
    Part,
    Rows,
    question_users,
    report_lost,
    report_nothing,
)
from dpsu.errors import DataError, warn_or_refuse
from dpsu.kernels import interning
from dpsu.kernels.grouping import MOST_REPEATS
from dpsu.kernels.hashing import hash_strings
from dpsu.runtime.memory import Memory, refuse_beyond_memory
from dpsu.runtime.threads import in_order_ahead

# Integers in a range up to 16 million (64 MB of codes) are looked up in a table of that range,
# those in a larger range only if the table is smaller than the codes of the rows.
SMALL_SPAN = 1 << 24
MOST_IDS = 2**31 - 2
FIRST_ROOM = 1 << 12


def intern(
    rows: Rows,
    *,
    strict: bool = False,
    memory: Memory | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Pairs:
    """Read and intern rows; those without a user, an item or positive repeats are dropped.

    To refuse them would let one user's row abort the release. `strict` refuses them all the same,
    for curators who would rather repair their data. `progress` is called with the number of rows of
    each part that was read.
    """
    user_name, item_name, repeats_name = rows.names
    memory = Memory() if memory is None else memory
    users = Interner(Column(user_name, "user", rows.types[0]), rows.tally.lose)
    items = Interner(Column(item_name, "item", rows.types[1]), rows.tally.lose)

    def prepare(part: Part) -> tuple[list[Prepared], list[Prepared], NDArray[np.int32] | None]:
        user, item, times = part()
        if len({len(column) for column in (user, item, times) if column is not None}) > 1:
            raise DataError(f"columns {user_name!r} and {item_name!r} have different lengths")
        repeats = None if times is None else _repeats(str(repeats_name), times)
        return users.prepare(user), items.prepare(item), repeats

    def codes(interner: Interner, chunks: list[Prepared]) -> tuple[NDArray[np.int32], bool]:
        found, first, missing = memory.empty(sum(chunk.rows for chunk in chunks)), 0, False
        for chunk in chunks:
            missing |= interner.intern(chunk, found[first : first + chunk.rows])
            first += chunk.rows
        return found, missing

    blocks, dropped = [], False
    for user, item, repeats in in_order_ahead(prepare, rows.parts):
        user_codes, no_user = codes(users, user)
        item_codes, no_item = codes(items, item)
        block = Block(user_codes, item_codes, repeats)
        progress(len(block.users))
        if no_user or no_item or (repeats is not None and repeats.min(initial=1) <= 0):
            block, dropped = block.complete_rows(), True
        if len(block.users):
            blocks.append(block)
    report_lost(rows.tally, strict)
    if dropped:
        problem = f"some rows have no {user_name!r} or no {item_name!r}"
        if rows.names[2] is not None:
            problem += f" or no positive {repeats_name!r}"
        warn_or_refuse(
            problem, "they were ignored", "drop or repair them, or do without strict", strict
        )
    pairs = Pairs(users.ids(), items.ids(), blocks)
    # The memory of the columns is needed for grouping now.
    pa.default_memory_pool().release_unused()
    if not blocks:
        # The empty database is a neighbor of every database of one user: its release is the empty
        # set, since an error would distinguish the two.
        report_nothing(rows.tally, strict, f"no row has both {user_name!r} and {item_name!r}")
    elif rows.shared_users and 1 < len(pairs) <= len(pairs.users) and _all_differ(blocks):
        question_users("row", user_name)
    elif rows.tally.suspicious(len(pairs.users)):
        question_users("text", user_name)
    return pairs


def _all_differ(blocks: list[Block]) -> bool:
    codes = np.concatenate([block.users for block in blocks])
    return len(codes) == np.count_nonzero(np.bincount(codes))


def _repeats(name: str, column: pa.ChunkedArray) -> NDArray[np.int32]:
    if is_text(column.type):
        # CSV is text. A cell that is no number is missing: one user's cell must not stop the run.
        whole = pc.match_substring_regex(column, r"^[0-9]{1,18}$")
        column = pc.if_else(whole, column, pa.scalar(None, column.type)).cast(pa.int64())
    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise DataError(
            f"column {name!r} has type {type_name(column.type)}; repeats must be integers: "
            "convert it"
        )
    repeats: NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(0).to_numpy()
    return np.clip(repeats, 0, MOST_REPEATS).astype(np.int32)


@dataclass(frozen=True, repr=False)
class Prepared:
    """A chunk of a column: its ids without nulls, and for each row the place of its id among them.

    `indices` is None if there is one id for each row, in order; -1 marks a row without an id.
    `hashes` are the hashes of texts, and empty for integers.
    """

    id_type: str
    ids: pa.Array
    hashes: NDArray[np.uint64]
    indices: NDArray[np.int32] | None
    rows: int


class Interner:
    """The distinct ids of one column so far; errors name the column and never a value."""

    def __init__(self, column: Column, lose: Lose = lambda reason: None) -> None:
        self._column, self._lose = column, lose
        # A random salt, so that nobody can choose ids that collide.
        self._salt = np.uint64(int.from_bytes(os.urandom(8), "big"))
        self._id_type = NOTHING
        self._table: _Integers | _Texts | None = None
        # A declared type holds even if there are no rows: the type of a release is public.
        self._fix_id_type(column.id_type(pa.null()))

    def prepare(self, column: pa.ChunkedArray) -> list[Prepared]:
        """Do all work that does not need the ids of earlier batches."""
        chunks = column.chunks or [pa.nulls(0, column.type)]
        return [self._prepare(chunk) for chunk in chunks]

    def _prepare(self, chunk: pa.Array) -> Prepared:
        id_type, rows = self._column.id_type(chunk.type), len(chunk)
        hashes, indices = np.empty(0, np.uint64), None
        if id_type == NOTHING or pa.types.is_null(chunk.type):
            nothing = pa.nulls(0, pa.large_string() if id_type == TEXT else pa.int64())
            return Prepared(id_type, nothing, hashes, np.full(rows, -1, np.int32), rows)
        if id_type == TEXT or not pa.types.is_integer(chunk.type):
            indices, chunk = places_in_dictionary(self._column.name, chunk)
        ids = self._canonical_ids(chunk, indices)
        if ids.null_count:
            present = ids.is_valid().to_numpy(zero_copy_only=False)
            moved = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
            indices = moved if indices is None else np.append(moved, np.int32(-1))[indices]
            ids = ids.drop_null()
        if id_type == TEXT:
            hashes = hash_strings(*text_buffers(ids), self._salt)
        return Prepared(id_type, ids, hashes, indices, rows)

    def _canonical_ids(self, values: pa.Array, indices: NDArray[np.int32] | None) -> pa.Array:
        """Canonical ids; reports cells that have none, unless no row refers to them."""
        reasons: list[str] = []
        ids = self._column.canonical_ids(values, reasons.append)
        if reasons and indices is not None:
            lost = ids.is_null().to_numpy(zero_copy_only=False)
            lost &= values.is_valid().to_numpy(zero_copy_only=False)
            reasons = reasons if lost[indices[indices >= 0]].any() else []
        for reason in reasons:
            self._lose(reason)
        return ids

    def intern(self, prepared: Prepared, codes: NDArray[np.int32]) -> bool:
        """Write the codes of the rows; rows without an id get -1. Returns whether any did."""
        self._fix_id_type(prepared.id_type)
        if self._table is None or prepared.id_type == NOTHING:
            codes[:] = -1
            return prepared.rows > 0
        if prepared.indices is None:
            self._table.intern(prepared, codes)
            return False
        codes_of = np.empty(len(prepared.ids), np.int32)
        self._table.intern(prepared, codes_of)
        missing: bool = interning.spread(codes_of, prepared.indices, codes)
        return missing

    def _fix_id_type(self, id_type: str) -> None:
        if id_type in (NOTHING, self._id_type):
            return
        if self._id_type != NOTHING:
            both = " in one file and ".join(sorted([id_type, self._id_type]))
            raise DataError(
                f"column {self._column} is {both} in another; make them the same, or declare one "
                f"type: {self._column.fix(TEXT_TYPE)}"
            )
        self._id_type = id_type
        self._table = _Texts() if id_type == TEXT else _Integers(self._salt)

    def ids(self) -> Ids:
        """The distinct ids, in the order of their codes; text if no type was ever known."""
        return Ids(pa.nulls(0, pa.large_string()) if self._table is None else self._table.ids())


class _Slots:
    """A hash table of codes, and the hash of the id that each code stands for."""

    def __init__(self) -> None:
        self.slots = np.full(2 * FIRST_ROOM, interning.FREE_SLOT, np.uint64)
        self.hashes = np.empty(FIRST_ROOM, np.uint64)

    def make_room(self, n_known: int, n_new: int) -> None:
        """Make room for `n_new` more ids, so that at most half of the slots are used."""
        if n_known + n_new > len(self.hashes):
            room = _next_power(n_known + n_new)
            self.hashes = _grown(self.hashes, n_known, room)
            self.slots = np.full(2 * room, interning.FREE_SLOT, np.uint64)
            interning.seat(self.hashes, n_known, self.slots)


class _Texts(_Slots):
    def __init__(self) -> None:
        super().__init__()
        self._n = 0
        self._data = np.empty(1 << 16, np.uint8)
        self._offsets = np.zeros(FIRST_ROOM + 1, np.int64)

    def intern(self, prepared: Prepared, codes: NDArray[np.int32]) -> None:
        data, offsets = text_buffers(prepared.ids)
        self.make_room(self._n, len(prepared.ids))
        if len(self._offsets) <= len(self.hashes):
            self._offsets = _grown(self._offsets, self._n + 1, len(self.hashes) + 1)
        used = int(self._offsets[self._n])
        most = used + int(offsets[-1] - offsets[0])
        if most >= len(self._data):
            self._data = _grown(self._data, used, _next_power(most + 1))
        self._n = interning.intern_texts(
            data, offsets, prepared.hashes, self.slots, self.hashes, self._data, self._offsets,
            self._n, codes,
        )  # fmt: skip

    def ids(self) -> pa.Array:
        offsets = self._offsets[: self._n + 1].copy()
        data = self._data[: offsets[-1]].copy()
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
        return pa.Array.from_buffers(pa.large_string(), self._n, buffers)


class _Integers:
    """Codes of integers, in a table of their range while it is narrow, then in a hash table."""

    def __init__(self, salt: np.uint64) -> None:
        self._salt = salt
        self._n = 0
        self._rows = 0
        self._known = np.empty(FIRST_ROOM, np.int64)
        self._lowest = 0
        self._range: NDArray[np.int32] | None = np.empty(0, np.int32)
        self._hashed = _Slots()

    def intern(self, prepared: Prepared, codes: NDArray[np.int32]) -> None:
        values = numbers(prepared.ids, np.int64)
        self._rows += len(values)
        if len(values) == 0:
            return
        if self._n + len(values) > len(self._known):
            self._known = _grown(self._known, self._n, _next_power(self._n + len(values)))
        if self._range is not None:
            self._widen(int(values.min()), int(values.max()))
        if self._range is not None:
            self._n = interning.intern_dense(
                values, self._lowest, self._range, self._known, self._n, codes
            )
        else:
            self._n = self._intern_hashed(values, self._n, codes)

    def _intern_hashed(self, values: NDArray[np.int64], n: int, codes: NDArray[np.int32]) -> int:
        self._hashed.make_room(n, len(values))
        slots, hashes = self._hashed.slots, self._hashed.hashes
        known: int = interning.intern_integers(
            values, self._salt, slots, hashes, self._known, n, codes
        )
        return known

    def _widen(self, lowest: int, highest: int) -> None:
        """Extend the table to reach from `lowest` to `highest`, or change to a hash table."""
        assert self._range is not None
        if len(self._range):
            lowest = min(lowest, self._lowest)
            highest = max(highest, self._lowest + len(self._range) - 1)
        span = highest - lowest + 1
        if span == len(self._range):
            return
        if span > max(SMALL_SPAN, self._rows) or max(-lowest, highest) >= 2**62:
            self._range = None
            known = self._known[: self._n].copy()
            self._intern_hashed(known, 0, np.empty(self._n, np.int32))
            return
        # Add half as much again at the upper end, where ids grow: widening copies the table.
        wider = np.full(span + span // 2 if len(self._range) else span, interning.FREE, np.int32)
        offset = self._lowest - lowest if len(self._range) else 0
        wider[offset : offset + len(self._range)] = self._range
        self._lowest, self._range = lowest, wider

    def ids(self) -> pa.Array:
        return integers(self._known[: self._n].copy())


def _grown(array: NDArray[Any], used: int, size: int) -> NDArray[Any]:
    if size > MOST_IDS and array.itemsize > 1:
        raise DataError(f"a column has more than {MOST_IDS // 2:,} distinct values")
    refuse_beyond_memory(size * array.itemsize, "the distinct users and items")
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger


def _next_power(size: int) -> int:
    return 1 << (size - 1).bit_length()
