"""From columns as they were read to one column of users and one of items.

Lists of items become rows, fields of structs become columns, and the columns of a key become one
column of ids (see `dpsu.contributions.codecs`). One column of text or integers is left as it is.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsu.contributions.codecs import (
    Keys,
    Typed,
    cells_of,
    encode,
    is_list,
    is_plain,
    parts_of,
    refuse_equal_names,
    without_views,
)
from dpsu.contributions.id_columns import Column
from dpsu.contributions.ids import integers, is_text, numbers
from dpsu.contributions.pairs import Columns, Part, Rows, Tally
from dpsu.errors import DataError
from dpsu.inputs.columns import ONE_PER_ENTRY
from dpsu.inputs.delimited import ReadTable
from dpsu.randomness.keys import Key

ID_BYTES = 16


class Keyed:
    """Columns of users, items and perhaps repeats, and what is known of their types so far."""

    def __init__(
        self, columns: Sequence[Column], tally: Tally | None = None, key: Key | None = None
    ) -> None:
        self.users = [column for column in columns if column.option == "user"]
        self.items = [column for column in columns if column.option in ("item", "text")]
        self.repeats = next((column for column in columns if column.option == "repeats"), None)
        self.tally = Tally(None) if tally is None else tally
        self._key = key
        if one_per_entry(self.users):
            # Ids that we draw are text, whatever type was declared.
            self.users = [Column(self.users[0].name, "user")]
        self._user_keys, self.item_keys = Keys(), Keys()

    def rows(self, tables: Iterable[ReadTable], *, shared_users: bool = True) -> Rows:
        """Rows of the tables that these functions read."""
        repeats = None if self.repeats is None else self.repeats.name
        parts = (self._part(number, read) for number, read in enumerate(tables))
        return Rows(
            # Rows in memory may be read again.
            list(parts) if isinstance(tables, list) else parts,
            (label(self.users), label(self.items), repeats),
            shared_users and not one_per_entry(self.users),
            self.tally,
            (self.users[0].declared, self.items[0].declared),
            self.item_keys,
        )

    def _part(self, number: int, read_table: ReadTable) -> Part:
        if not one_per_entry(self.users):
            return lambda: self.columns_of(read_table())
        return lambda: self.columns_of(self._with_users(read_table(), number))

    def _with_users(self, table: pa.Table, number: int) -> pa.Table:
        """A table of which each row is another person's, with ids that are drawn for them."""
        assert self._key is not None, "ids are drawn from the key of a release"
        drawn = drawn_ids(self._key, number, len(table))
        return table.append_column(ONE_PER_ENTRY, drawn)

    def columns_of(self, table: pa.Table) -> Columns:
        """One column of users, one of items and perhaps one of repeats."""
        users, items = _typed(self.users, table.schema), _typed(self.items, table.schema)
        self._user_keys.note(users)
        self.item_keys.note(items)
        repeats = None if self.repeats is None else self.repeats.name
        names = self.users[0].name, self.items[0].name
        nested = any(pa.types.is_nested(table.schema.field(name).type) for name in names)
        if is_plain(users) and is_plain(items) and not nested:
            return table[names[0]], table[names[1]], None if repeats is None else table[repeats]
        batches = [self._encoded(batch) for batch in table.to_batches() or [no_rows(table.schema)]]
        user, item, times = (
            pa.chunked_array(arrays) if arrays[0] is not None else None
            for arrays in zip(*batches, strict=True)
        )
        return user, item, times

    def _listed(self, schema: pa.Schema) -> Column | None:
        """The column whose cells are lists of items, if there is one."""
        found = [each for each in self.items if is_list(schema.field(each.name).type)]
        return found[0] if found else None

    def _encoded(self, batch: pa.RecordBatch) -> tuple[pa.Array, pa.Array, pa.Array | None]:
        cells = {name: without_views(batch.column(name)) for name in batch.schema.names}
        listed = self._listed(batch.schema)
        if listed is not None:
            lists = cells.pop(listed.name)
            if lists.null_count:
                self.tally.lose(listed.no_list)
            # Arrow's own parents of items are those of its buffers: not in views, nor under nulls.
            lengths = numbers(pc.list_value_length(lists).fill_null(0).cast(pa.int64()), np.int64)
            rows = integers(np.repeat(np.arange(len(lists)), lengths))
            cells = {name: _repeated(each, rows) for name, each in cells.items()}
            cells[listed.name] = without_views(pc.list_flatten(lists))
        users, items = (
            encode([part for column in columns for part in cells_of(column, cells[column.name])],
                   self.tally.lose)
            for columns in (self.users, self.items)
        )  # fmt: skip
        return users, items, None if self.repeats is None else cells[self.repeats.name]


def one_per_entry(users: Sequence[Column]) -> bool:
    """Whether there is no column of users, because each entry is another person's."""
    return [column.name for column in users] == [ONE_PER_ENTRY]


def drawn_ids(key: Key, number: int, rows: int) -> pa.Array:
    """An id for each row of a part: 128 bits of a stream that the key and the part's number seed.

    A position would be no identity: it changes when an earlier row leaves, and so would every order
    that is derived from it. Ids that are drawn independently have the same law for the others,
    whoever else is there, and whichever of them each gets.
    """
    seed = key.digest("row", number, 0, b"")
    text = hashlib.shake_256(seed).hexdigest(ID_BYTES * rows).encode()
    ends = np.arange(rows + 1, dtype=np.int64) * (2 * ID_BYTES)
    return pa.LargeStringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(text))


def label(columns: Sequence[Column]) -> str:
    """The names of columns, as messages have them."""
    return ", ".join(column.name for column in columns)


def check_types(columns: Sequence[Column], schema: pa.Schema) -> None:
    """Refuse columns whose types can be no users, items or repeats; no row is read."""
    for column in columns:
        parts_of(column, schema.field(column.name).type)
    items = [column for column in columns if column.option == "item"]
    for column in items:
        if column.alone:
            _typed([column], schema)
    _typed([column for column in items if not column.alone], schema)


def _typed(columns: Sequence[Column], schema: pa.Schema) -> list[Typed]:
    """The columns that these stand for, with their types."""
    types = [schema.field(column.name).type for column in columns]
    if sum(map(is_list, types)) > 1:
        raise DataError(
            f"more than one of the columns {label(columns)!r} has lists; make one list of each "
            "row's items, or give one row for each item"
        )
    found = [parts_of(column, type_) for column, type_ in zip(columns, types, strict=True)]
    parts = [part for each in found for part in each]
    refuse_equal_names(parts)
    return parts


def _repeated(cells: pa.Array, rows: pa.Array) -> pa.Array:
    """Cells once more for each item of their rows; the same text is not copied for each."""
    if is_text(cells.type):
        cells = cells.dictionary_encode()
    return cells.take(rows)


def no_rows(schema: pa.Schema) -> pa.RecordBatch:
    """A column without rows has a type, too."""
    return pa.RecordBatch.from_arrays([pa.nulls(0, type_) for type_ in schema.types], schema=schema)
