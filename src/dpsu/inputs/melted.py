"""From a table with many columns of values to rows of one user and one item, the long form.

An item is a kind (a column, or levels of columns, by their number in `Values.kinds`) and its cells.
Its id is that of a key whose first cell is the kind, so that equal values of two columns never
meet. A row of the table leads to one row of every kind; a kind of which a cell is missing there is
left out, and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from dpsu.contributions.codecs import Keys, parts_of
from dpsu.contributions.id_columns import Column
from dpsu.contributions.ids import decoded, integers, is_text
from dpsu.contributions.kinds import KindsCodec
from dpsu.contributions.pairs import Columns, Part, Rows, Tally
from dpsu.errors import DataError, ParameterError
from dpsu.inputs.columns import ONE_PER_ENTRY, Users
from dpsu.inputs.delimited import ReadTable
from dpsu.inputs.keyed import Keyed, label
from dpsu.inputs.values import Values


@dataclass(frozen=True)
class ValueColumn(Column):
    """A column whose values are items."""

    def fix(self, type_: str) -> str:
        """How people declare this type, in Python and in the shell."""
        return f'types={{{self.name!r}: "{type_}"}} (--types {self.name}={type_})'

    def inside(self, field: str) -> Column:
        """Refuse fields of structs: nobody said which of them are values."""
        raise DataError(f"column {self} has several fields; make a column of each of them")


def columns_of_values(user: Users, item: Values) -> list[Column]:
    """The columns that are read: those of users, and those whose values are items."""
    if user.name == ONE_PER_ENTRY:
        raise ParameterError(
            "values of many columns need a column of users; if each row is another person's, add a "
            "column that numbers the rows, and name it"
        )
    if set(user.names) <= set(item.names):
        raise ParameterError(
            f"{{columns}} has {user.name!r}, which is the person to protect: ids of people would "
            "be published; name {user} and {columns} that differ",
            columns=...,
            user=...,
        )
    combined = {name for kind in item.kinds if len(kind) > 1 for name in kind}
    types, alone = dict(item.types), isinstance(user.columns, str)
    # A default name is a name like others here: there is no data of values but tables.
    users = [Column(str(name), "user", user.type, alone=alone) for name in user.names]
    values = [
        ValueColumn(name, "item", types.get(name), alone=name not in combined)
        for name in item.names
    ]
    return [*users, *values]


class ValueKeys(Keys):
    """The types of the columns of values, each noted by itself, as all parts of the data have them.

    A column of which no part was read is text.
    """

    def __init__(self, kinds: Sequence[Sequence[str]], columns: Sequence[Column]) -> None:
        super().__init__()
        self._kinds, self._columns = kinds, {column.name: Keys() for column in columns}

    def note_schema(self, columns: Sequence[Column], schema: pa.Schema) -> None:
        """Note the columns of one part of the data."""
        for column in columns:
            self._columns[column.name].note(parts_of(column, schema.field(column.name).type))

    @property
    def codec(self) -> KindsCodec:
        """How values are made of ids."""
        names = tuple(self._columns)
        types = tuple(keys.codec.types[0] for keys in self._columns.values())
        places = tuple(tuple(names.index(name) for name in kind) for kind in self._kinds)
        return KindsCodec(names, types, places)


class Melted:
    """Columns of users and of values, and what is known of their types so far."""

    def __init__(
        self,
        columns: Sequence[Column],
        kinds: Sequence[Sequence[str]],
        tally: Tally | None = None,
    ) -> None:
        self.tally = Tally(None) if tally is None else tally
        self._users = [column for column in columns if column.option == "user"]
        self._values = [column for column in columns if column.option == "item"]
        self.item_keys = ValueKeys(kinds, self._values)
        # The number of a kind is a cell like others, in a column that the data do not have.
        self._mark = "kind"
        while self._mark in {column.name for column in columns}:
            self._mark += "_"
        named = {column.name: column for column in self._values}
        mark = Column(self._mark, "item", alone=False)
        self._kinds = [
            Keyed([*self._users, mark, *(named[name] for name in kind)], self.tally)
            for kind in kinds
        ]

    def __len__(self) -> int:
        return len(self._kinds)

    def rows(self, tables: Iterable[ReadTable]) -> Rows:
        """Rows of the tables that these functions read."""
        parts = map(self._part, tables)
        return Rows(
            list(parts) if isinstance(tables, list) else parts,
            (label(self._users), label(self._values), None),
            # A table of people has one row for each of them: nothing is wrong with that.
            False,
            self.tally,
            (self._users[0].declared, None),
            self.item_keys,
        )

    def _part(self, read_table: ReadTable) -> Part:
        return lambda: self.columns_of(read_table())

    def columns_of(self, table: pa.Table) -> Columns:
        """One column of users and one of items, all kinds one after the other."""
        self.item_keys.note_schema(self._values, table.schema)
        users: list[pa.Array] = []
        items: list[pa.Array] = []
        for number, keyed in enumerate(self._kinds):
            marked = table.append_column(self._mark, _constant(str(number), len(table)))
            user, item, _ = keyed.columns_of(marked.select(_names(keyed)))
            for who, what in zip(_chunks(user, item), item.chunks, strict=True):
                # A cell that is missing is no item, and an ordinary thing in a wide table.
                held = what.is_valid() if what.null_count else None
                users.append(who if held is None else who.filter(held))
                items.append(what if held is None else what.filter(held))
        return pa.chunked_array(_of_one_type(users)), pa.chunked_array(items), None


def _names(keyed: Keyed) -> list[str]:
    """The columns that one kind needs, each once: users and items may share one."""
    return list(dict.fromkeys(column.name for column in (*keyed.users, *keyed.items)))


def _constant(text: str, rows: int) -> pa.Array:
    places = integers(np.zeros(rows, np.int64)).cast(pa.int32())
    return pa.DictionaryArray.from_arrays(places, pa.array([text], pa.large_string()))


def _chunks(user: pa.ChunkedArray, item: pa.ChunkedArray) -> list[pa.Array]:
    """Users in the chunks of items: a key is encoded batch by batch, and so are both."""
    assert [len(chunk) for chunk in user.chunks] == [len(chunk) for chunk in item.chunks]
    return list(user.chunks)


def _of_one_type(users: list[pa.Array]) -> list[pa.Array]:
    """Users without dictionaries if some have one: lists repeat them, and other kinds do not."""
    if len({chunk.type for chunk in users}) == 1:
        return users
    whole = map(decoded, users)
    return [chunk.cast(pa.large_string()) if is_text(chunk.type) else chunk for chunk in whole]
