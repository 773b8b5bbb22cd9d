"""Number the distinct ids of one column, chunk by chunk and in several threads.

Texts are entered as they were read, and made canonical at the end, each distinct one once. Other
cells are made canonical first, chunk by chunk: in dictionaries, each distinct one of a chunk once.
Unsigned integers below 2^63 are entered as signed ones, which are the same ids; larger ones have a
table of their own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.id_columns import Column, Lose
from dpsu.contributions.id_tables import IntegerIds, TextIds
from dpsu.contributions.id_types import TEXT_TYPE
from dpsu.contributions.ids import (
    INTEGERS,
    NOTHING,
    TEXT,
    Ids,
    integers,
    is_text,
    is_unsigned,
    numbers,
    places_in_dictionary,
    within_buffer,
)
from dpsu.errors import DataError
from dpsu.kernels import interning


@dataclass(frozen=True, repr=False)
class _Prepared:
    """A chunk of a column: its ids without nulls, and for each row the place of its id among them.

    `indices` is None if there is one id for each row, in order; -1 marks a row without an id.
    """

    id_type: str
    ids: pa.Array
    indices: NDArray[np.int32] | None
    rows: int


class Interner:
    """The distinct ids of one column so far; errors name the column and never a value."""

    def __init__(self, column: Column, lose: Lose = lambda reason: None) -> None:
        self._column, self._lose = column, lose
        self._lock = threading.Lock()
        self._id_type = NOTHING
        self._table: IntegerIds | TextIds | None = None
        # Integers from 2^63 on, if a part of the data may have them. Their rows hold -2 - code.
        self._large: IntegerIds | None = None
        # A declared type holds even if there are no rows: the type of a release is public.
        self._fix_id_type(column.id_type(pa.null()))

    def intern(self, cells: pa.Array | pa.ChunkedArray, codes: NDArray[np.int32]) -> bool:
        """Write a code for each row, for `Numbered`, in any thread; returns whether any is -1.

        Rows without an id get -1.
        """
        chunks = [cells] if isinstance(cells, pa.Array) else cells.chunks
        first, missing = 0, False
        for chunk in chunks or [pa.nulls(0, cells.type)]:
            missing |= self._intern(self._prepared(chunk), codes[first : first + len(chunk)])
            first += len(chunk)
        return missing

    def _prepared(self, chunk: pa.Array) -> _Prepared:
        """The ids of a chunk; texts are not canonical yet."""
        id_type, rows = self._column.id_type(chunk.type), len(chunk)
        indices = None
        if id_type == NOTHING or pa.types.is_null(chunk.type):
            nothing = pa.nulls(0, pa.large_string() if id_type == TEXT else pa.int64())
            return _Prepared(id_type, nothing, np.full(rows, -1, np.int32), rows)
        plain_text = id_type == TEXT and is_text(chunk.type)
        if not plain_text and (id_type == TEXT or not pa.types.is_integer(chunk.type)):
            indices, chunk = places_in_dictionary(self._column.name, chunk)
        if id_type == TEXT and is_text(chunk.type):
            ids = chunk.cast(pa.large_string())
            if ids.null_count and not within_buffer(ids):
                raise DataError(self._damaged)
        elif id_type == INTEGERS and is_unsigned(chunk.type):
            ids = chunk
        else:
            ids = self._canonical_ids(chunk, indices)
        if ids.null_count:
            present = ids.is_valid().to_numpy(zero_copy_only=False)
            moved = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
            indices = moved if indices is None else np.append(moved, np.int32(-1))[indices]
            ids = ids.drop_null()
        return _Prepared(id_type, ids, indices, rows)

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

    def _intern(self, prepared: _Prepared, codes: NDArray[np.int32]) -> bool:
        self._fix_id_type(prepared.id_type)
        if self._table is None or prepared.id_type == NOTHING:
            codes[:] = -1
            return prepared.rows > 0
        codes_of = codes
        if prepared.indices is not None:
            codes_of = np.empty(len(prepared.ids), np.int32)
        if is_unsigned(prepared.ids.type):
            self._intern_unsigned(self._table, numbers(prepared.ids, np.uint64), codes_of)
        elif not self._table.intern(prepared.ids, codes_of):
            raise DataError(self._damaged)
        if prepared.indices is None:
            return False
        missing: bool = interning.spread(codes_of, prepared.indices, codes)
        return missing

    def _intern_unsigned(
        self, small: IntegerIds | TextIds, values: NDArray[np.uint64], codes: NDArray[np.int32]
    ) -> None:
        with self._lock:
            self._large = large = self._large or IntegerIds()
        is_large = values >= np.uint64(2**63)
        # The 64 bits of those of the second table are entered as negative integers.
        for table, own in ((small, ~is_large), (large, is_large)):
            found = np.empty(np.count_nonzero(own), np.int32)
            table.intern(integers(values[own].view(np.int64)), found)
            codes[own] = -2 - found if table is large else found

    @property
    def _damaged(self) -> str:
        return f"column {self._column} is damaged; get an undamaged copy"

    def _fix_id_type(self, id_type: str) -> None:
        if id_type in (NOTHING, self._id_type):
            return
        with self._lock:
            if self._id_type not in (NOTHING, id_type):
                both = " in one file and ".join(sorted([id_type, self._id_type]))
                raise DataError(
                    f"column {self._column} is {both} in another; make them the same, or declare "
                    f"one type: {self._column.fix(TEXT_TYPE)}"
                )
            # The table first: the type is read without the lock, and says that there is one.
            if self._table is None:
                self._table = TextIds() if id_type == TEXT else IntegerIds()
            self._id_type = id_type

    def numbered(self) -> Numbered:
        """The distinct ids, when nothing is entered any more."""
        table = self._table
        if table is None:
            # Text, if no type was ever known.
            return Numbered(Ids(pa.nulls(0, pa.large_string())), None, None, [], self._lose)
        ids = table.take_ids()
        if self._large is not None:
            large = self._large.take_ids().view(pa.uint64())
            texts = pa.concat_arrays([each.cast(pa.large_string()) for each in (ids, large)])
            return Numbered(Ids(texts), table, None, [], self._lose, (self._large, len(ids)))
        if isinstance(table, IntegerIds):
            return Numbered(Ids(ids), table, None, [], self._lose)
        reasons: list[str] = []
        canonical = self._column.canonical_ids(ids, reasons.append)
        if canonical.equals(ids):
            return Numbered(Ids(ids), table, None, [], self._lose)
        # Several texts may be one id, and some may be none.
        moved = np.full(len(ids), -1, np.int32)
        again, there = TextIds(), canonical.is_valid().to_numpy(zero_copy_only=False)
        codes = np.empty(int(there.sum()), np.int32)
        again.intern(canonical.drop_null(), codes)
        again_ids = again.take_ids()
        again.renumber(codes)
        moved[there] = codes
        return Numbered(Ids(again_ids), table, moved, reasons, self._lose)


class Numbered:
    """The distinct ids of a column, and their numbers: 0, 1, 2, ... in the order of `ids`."""

    def __init__(
        self,
        ids: Ids,
        table: IntegerIds | TextIds | None,
        moved: NDArray[np.int32] | None,
        reasons: list[str],
        lose: Lose,
        large: tuple[IntegerIds, int] | None = None,
    ) -> None:
        self.ids = ids
        self._table, self._moved = table, moved
        self._reasons, self._lose = reasons, lose
        # The table of integers from 2^63 on, and the number of ids before them.
        self._large = large

    def renumber(self, codes: NDArray[np.int32]) -> bool:
        """Replace codes by numbers; -1 stays. Returns whether more ids are missing than before."""
        if self._table is not None:
            self._table.renumber(codes)
        if self._large is not None:
            table, first = self._large
            is_large = np.flatnonzero(codes < -1)
            found = -2 - codes[is_large]
            table.renumber(found)
            codes[is_large] = first + found
        if self._moved is None:
            return False
        before = np.count_nonzero(codes < 0)
        interning.spread(self._moved, codes, codes)
        missing = bool(np.count_nonzero(codes < 0) > before)
        if missing:
            for reason in self._reasons:
                self._lose(reason)
        return missing
