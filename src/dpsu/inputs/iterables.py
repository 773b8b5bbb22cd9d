"""Plain Python data: mappings of users, pairs, and lists of collections.

Cells are Python objects without a schema: they are text, or what was declared (see `id_columns`).
"""

from __future__ import annotations

import contextlib
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpsu.contributions.cells import END_DAY, FIRST_DAY
from dpsu.contributions.id_columns import NO_ID, Column, Lose, lose_nothing, repeats_of
from dpsu.contributions.pairs import Rows
from dpsu.errors import DataError, ParameterError, warn, without_values
from dpsu.inputs import frames
from dpsu.inputs.columns import (
    ONE_PER_ENTRY,
    DefaultName,
    MissingColumnError,
    column_error,
)
from dpsu.inputs.keyed import Keyed, check_types, label, one_per_entry
from dpsu.randomness.keys import Key

Collections = (list, set, frozenset)
NO_PAIR = "some elements are not pairs of a user and an item"
NO_COLLECTION = "some users have no list or set of items"
USERS_TWICE = (
    f"user={ONE_PER_ENTRY!r} is for tables and lists without users, and these data have users; "
    "drop it (a tuple is always a user and an item: if each is the items of one person, make lists "
    "of them)"
)
TABLE = "give a table: a DataFrame with one row for each user and item"


def _listed(held: Any) -> list[Any] | None:
    """The items of one user; None if this is not a collection of items."""
    # Whatever one user's object does when it is looked at must not end the run.
    with contextlib.suppress(Exception):
        return list(held) if _is_collection(held) else None
    return None


def _is_collection(held: Any) -> bool:
    # Types of objects may fail, too, when they are looked at.
    with contextlib.suppress(Exception):
        return hasattr(type(held), "__len__") and not issubclass(type(held), (str, bytes, type))
    return False


def _is_mapping(held: Any) -> bool:
    with contextlib.suppress(Exception):
        return issubclass(type(held), Mapping)
    return False


def _repeats(held: Any, things: Sequence[Any]) -> list[Any]:
    """How often a user holds each item: what a mapping says of it, and otherwise once."""
    if not _is_mapping(held):
        return [1] * len(things)
    with contextlib.suppress(Exception):
        return [held.get(thing) for thing in things]
    return [None] * len(things)


def from_mapping(data: Mapping[Any, Any], keyed: Keyed, with_repeats: bool) -> Rows:
    """User -> items, or user -> {item: repeats}; for texts, user -> text or texts."""
    check_shape(data, keyed)
    texts, lose = keyed.items[0].option == "text", keyed.tally.lose
    users: list[Any] = []
    sizes: list[int] = []
    items: list[Any] = []
    repeats: list[Any] = []
    columns = [*keyed.users, *keyed.items]
    typed = [column for column in columns if not isinstance(column.name, DefaultName)]
    found = [column for column in typed or columns if _has(data, column.name)]
    if found and (typed or len(found) == len(data) == len(columns)):
        warn(
            f"data is a mapping, and what it has under {' and '.join(map(str, found))} is read as "
            "the items of a user; if it is a column, name the columns of users and of items, or "
            "give a table"
        )
    for who, given in data.items():
        things = _listed([given] if texts and issubclass(type(given), str) else given)
        if things is None:
            lose(NO_COLLECTION)
            continue
        users.append(who)
        # The number of what was iterated: the length of some objects is something else.
        sizes.append(len(things))
        items.extend(things)
        if with_repeats:
            repeats.extend(_repeats(given, things))
    indices = np.repeat(np.arange(len(users), dtype=np.int32), sizes)
    owners = [_repeated(ids, indices) for ids in _untyped(keyed.users, users, lose)]
    return _rows(keyed, owners, items, repeats if with_repeats else None, shared_users=False)


def _has(data: Mapping[Any, Any], name: str) -> bool:
    """Whether a user is called like this; ids of others may fail when they are compared."""
    with contextlib.suppress(Exception):
        return name in data
    return False


def from_iterable(data: Iterable[Any], keyed: Keyed, key: Key) -> Rows:
    """Read (user, item) pairs, or the items of one user per element if that was declared."""
    if isinstance(data, ItemsView):
        raise ParameterError("data are the items of a mapping; give the mapping itself")
    elements, lose = list(data), keyed.tally.lose
    check_shape(elements, keyed)
    listed = one_per_entry(keyed.users)
    if listed:
        fits = (each for each in elements if _fits(each, listed))
        fitting: list[Any] = [things for each in fits if (things := _listed(each)) is not None]
    else:
        fitting = [pair for each in elements if (pair := _tuple_of(each, 2)) is not None]
    if len(fitting) < len(elements):
        lose(NO_COLLECTION if listed else NO_PAIR)
    if not listed:
        owners = _untyped(keyed.users, [user for user, _ in fitting], lose)
        return _rows(keyed, owners, [item for _, item in fitting], None)
    users: list[str] = []
    items: list[Any] = []
    for position, held in enumerate(fitting):
        # A position is no identity: it changes when an earlier user leaves, and so would every
        # order derived from it. So ids are drawn from the key, independently of each other.
        drawn = key.digest("listed user", 0, 0, b"%d" % position).hex()
        users.extend([drawn] * len(held))
        items.extend(held)
    # Ids that we draw are text, whatever type was declared; they have a column now.
    keyed.users = [Column("listed user", "user")]
    drawn_ids = pa.array(users, pa.large_string())
    return _rows(keyed, [drawn_ids], items, None, shared_users=False)


def _fits(element: Any, listed: bool) -> bool:
    """Whether an element is the items of one user, or a pair of a user and an item."""
    if listed:
        return issubclass(type(element), Collections)
    return _tuple_of(element, 2) is not None


def _tuple_of(cell: Any, size: int) -> tuple[Any, ...] | None:
    """The cells of a tuple of this size; None if it is none. Methods of a subclass are not used."""
    if not issubclass(type(cell), tuple) or tuple.__len__(cell) != size:
        return None
    return cell if type(cell) is tuple else tuple.__getitem__(cell, slice(None))


def check_shape(data: Any, keyed: Keyed) -> None:
    """Refuse data in which no element has the declared shape.

    If one element has it, the others are dropped as rows: one person's element must not end the
    run.
    """
    listed = one_per_entry(keyed.users)
    if listed and isinstance(data, Mapping):
        raise ParameterError(USERS_TWICE)
    if listed:
        _refuse_rows(keyed)
    if isinstance(data, Mapping) and data:
        held, texts = data.values(), keyed.items[0].option == "text"
        if not any(_is_collection(each) or (texts and type(each) is str) for each in held):
            raise ParameterError(
                f"data maps users to {type(next(iter(held))).__name__}; each user needs a list or "
                "set of items"
            )
    # Iterators can be read only once, so their shape is checked when they are read.
    if not isinstance(data, (list, tuple)) or not data:
        return
    if any(_fits(element, listed) for element in data):
        return
    if listed and all(issubclass(type(element), tuple) for element in data):
        raise ParameterError(USERS_TWICE)
    if all(map(_is_mapping, data)):
        raise DataError(
            "data is a list of mappings, which may be rows; give a table: pandas.DataFrame(data), "
            "or pyarrow.Table.from_pylist(data)"
        )
    if all(issubclass(type(element), Collections) for element in data):
        _refuse_rows(keyed)
    raise DataError(
        "data is an iterable of neither (user, item) tuples nor lists or sets of items, one "
        f"per user; tuples are always read as pairs. For anything else, {TABLE}"
    )


def _refuse_rows(keyed: Keyed) -> None:
    """Refuse lists in a list unless it was said that each is one person's.

    If they are rows, and not sets of items, the ids of users would be published.
    """
    said = one_per_entry(keyed.users)
    rows = f"if they are rows, user ids would be published: {TABLE}, or (user, item) tuples"
    for column in (*keyed.users, *keyed.items):
        if column.option == "text" or isinstance(column.name, DefaultName):
            continue
        if column.option == "item" or not said:
            raise column_error(
                f"{{{column.option}}} names a column, but lists in a list have no columns; {rows}. "
                f"If each is the items of one person, drop {{item}} and say user={ONE_PER_ENTRY!r}",
                **({"item": ...} | {column.option: column.name}),
            )
    if not said:
        raise ParameterError(
            f"data is a list of lists or sets without ids of users; {rows}. If each "
            f"holds the items of one person, and no person has two, say user={ONE_PER_ENTRY!r}"
        )


def refuse_other_objects(data: Any) -> None:
    """Refuse objects whose elements are not users and items."""
    library = type(data).__module__.partition(".")[0]
    kind = f"{library} {type(data).__name__}"
    door = library.removeprefix("py")
    if door in ("spark", "dask"):
        raise ParameterError(
            f"data is a {door.title()} DataFrame; dpsu.{door}.release (or domains, select) "
            "releases it where it is, and this would have to bring all of it here"
        )
    if "groupby" in type(data).__name__.lower():
        raise ParameterError(f"data is a {kind}; give the DataFrame that was grouped")
    if type(data).__name__ == "Series":
        raise ParameterError(
            f"data is a {kind}, which has items but no column of users (an index is not read); "
            f"{TABLE} (for lists of items: series.explode().reset_index())"
        )
    if library in ("pandas", "polars", "numpy", "pyarrow", "duckdb", "torch", "scipy", "xarray"):
        raise ParameterError(
            f"data is a {kind}, which has no names of columns; {TABLE}, or (user, item) tuples"
        )


def refuse_shared(keyed: Keyed) -> None:
    """Refuse one name for a cell of users and a cell of items: here each has its own."""
    shared = [each.name for each in keyed.items if each.name in {user.name for user in keyed.users}]
    if shared:
        raise column_error(
            f"{{user}} and {{item}} both name {shared[0]!r}; tuples of cells have no columns that "
            "they could share: name them differently, or give a table",
            user=...,
            item=...,
        )


def _repeated(ids: pa.Array, indices: Any) -> pa.Array:
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    return pa.DictionaryArray.from_arrays(pa.array(indices), ids)


def _rows(
    keyed: Keyed,
    users: list[pa.Array],
    items: Sequence[Any],
    repeats: Sequence[Any] | None,
    *,
    shared_users: bool = True,
) -> Rows:
    columns = [*keyed.users, *keyed.items]
    arrays = [*users, *_untyped(keyed.items, items, keyed.tally.lose)]
    if repeats is not None:
        names = [column.name for column in columns]
        keyed.repeats = Column("repeats" if "repeats" not in names else "number", "repeats")
        columns.append(keyed.repeats)
        arrays.append(repeats_of(repeats))
    table = pa.table(arrays, names=[column.name for column in columns])
    return keyed.rows([lambda: table], shared_users=shared_users)


def _untyped(columns: Sequence[Column], cells: Sequence[Any], lose: Lose) -> list[pa.Array]:
    """Columns of ids of Python objects; a key of several columns is a tuple of its cells."""
    if len(columns) == 1:
        return [columns[0].untyped(cells, lose)]
    parts, nothing = len(columns), (None,) * len(columns)
    keys = [_tuple_of(cell, parts) for cell in cells]
    if any(key is None and cell is not None for key, cell in zip(keys, cells, strict=True)):
        lose(f"some {label(columns)!r} are not tuples of {parts} cells")
    return [
        column.untyped([(nothing if key is None else key)[place] for key in keys], lose)
        for place, column in enumerate(columns)
    ]


def is_table(data: Mapping[Any, Any], columns: Sequence[Column]) -> bool:
    """Whether a mapping leads from names to columns, and not from users to their items.

    The typed names decide, not the keys: keys may be ids of users, and the id of one person must
    not decide how the rows of others are read.
    """
    if any(isinstance(column.name, DefaultName) for column in columns):
        return False
    for column in columns:
        if column.name not in data:
            raise MissingColumnError(
                f"there is no column {column} in data, a mapping that is read as a table because "
                "its columns were named; if it maps users to items, drop the names (not other "
                "options, as in dpsu.Users(ids_per_person=2)), otherwise ",
                column.option,
            )
    return True


def table_of(data: Mapping[Any, Any], columns: Sequence[Column], lose: Lose) -> pa.Table:
    """A mapping of names to columns as a table; those of Python objects have no type."""
    arrays = [_column(data[column.name], column, lose) for column in columns]
    if len({len(array) for array in arrays}) > 1:
        raise DataError(f"columns {label(columns)!r} have different lengths")
    return pa.table(arrays, names=[column.name for column in columns])


def check_table(data: Mapping[Any, Any], columns: Sequence[Column]) -> None:
    """Refuse what the types of columns show to be wrong; no cell is read."""
    for column in columns:
        cells = data[column.name]
        if isinstance(cells, np.ndarray) and cells.dtype != object:
            check_types([column], table_of({column.name: cells[:0]}, [column], lose_nothing).schema)
        elif isinstance(cells, (pa.Array, pa.ChunkedArray)):
            check_types([column], pa.schema([(column.name, cells.type)]))
        elif frames.is_series(cells):
            frames.check_columns(frames.frame_of(cells, column), [column])


def _column(cells: Any, column: Column, lose: Lose) -> Any:
    if isinstance(cells, (pa.Array, pa.ChunkedArray)):
        return cells
    if isinstance(cells, np.ndarray) and cells.dtype != object and cells.ndim == 1:
        if cells.dtype.kind == "U":
            # A text that is no UTF-8 is lost alone.
            return column.untyped(_texts_of(cells), lose)
        if cells.dtype == np.dtype("M8[D]"):
            # Arrow counts days in 32 bits. Some may be masked.
            days = cells.astype(np.int64)
            inside = np.ma.filled((days >= FIRST_DAY) & (days < END_DAY), fill_value=False)
            cells = np.where(inside, cells, np.datetime64("NaT"))
        return without_values(lambda: pa.array(cells), f"column {column} could not be read")
    if frames.is_series(cells):
        return frames.column_of(cells, column, lose)
    listed = _listed(cells)
    if listed is None or isinstance(cells, (set, frozenset, Mapping)):
        raise ParameterError(
            f"data is a mapping with the key {column}, which is the name of a column, but what it "
            f"leads to is a {type(cells).__name__}, and no column; give a table"
        )
    return repeats_of(listed) if column.option == "repeats" else column.untyped(listed, lose)


def _texts_of(cells: Any) -> list[Any]:
    """The texts of an array of NumPy; one with numbers that are no characters is none."""
    with contextlib.suppress(Exception):
        return list(cells.tolist())
    return [_text_of(cells[at : at + 1]) for at in range(len(cells))]


def _text_of(cell: Any) -> Any:
    with contextlib.suppress(Exception):
        return cell.tolist()[0]
    return NO_ID
