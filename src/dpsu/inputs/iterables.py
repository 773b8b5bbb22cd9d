"""Plain Python data: mappings of users, pairs, and lists of collections.

Cells are Python objects without a schema: they are text, or what was declared (see `id_columns`).
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from dpsu.contributions.id_columns import Column, repeats_of
from dpsu.contributions.pairs import Rows, Tally, rows_of
from dpsu.errors import DataError, ParameterError, warn
from dpsu.inputs.columns import DefaultName, column_error
from dpsu.randomness.keys import Key

Collections = (list, set, frozenset)
NO_PAIR = "some elements are not pairs of a user and an item"
NO_COLLECTION = "some users have no list or set of items"
TABLE = "give a table: a DataFrame with one row for each user and item"


def _listed(held: Any) -> list[Any] | None:
    """The items of one user; None if this is not a collection of items."""
    if isinstance(held, (str, bytes, type)) or not hasattr(held, "__len__"):
        return None
    try:
        return list(held)
    except TypeError:
        return None


def from_mapping(
    data: Mapping[Any, Any],
    columns: tuple[Column, Column],
    with_repeats: bool,
    *,
    texts: bool = False,
) -> Rows:
    """User -> items, or user -> {item: repeats}; if `texts`, user -> text or texts."""
    user, item = columns
    if user.name in data and item.name in data:
        raise ParameterError(
            f"data is a mapping with the keys {user} and {item}, which are the names of columns, "
            "and the keys of a mapping are users; give a table, such as pandas.DataFrame(data) or "
            "pyarrow.table(data)"
        )
    tally = Tally(None)
    users: list[Any] = []
    sizes: list[int] = []
    items: list[Any] = []
    repeats: list[Any] = []
    wrong: Any = None
    for who, given in data.items():
        held = [given] if texts and isinstance(given, str) else given
        things = _listed(held)
        if things is None:
            wrong = given
            tally.lose(NO_COLLECTION)
            continue
        users.append(who)
        # The number of what was iterated: the length of some objects is something else.
        sizes.append(len(things))
        items.extend(things)
        if with_repeats:
            repeats.extend(held.values() if isinstance(held, Mapping) else [1] * len(things))
    if wrong is not None and not users:
        raise ParameterError(
            f"data maps users to {type(wrong).__name__}; each user needs a list or set of items"
        )
    indices = np.repeat(np.arange(len(users), dtype=np.int32), sizes)
    owners = _repeated(user.untyped(users, tally.lose), indices)
    return _rows(
        owners, items, repeats if with_repeats else None, columns, tally, shared_users=False
    )


def from_iterable(data: Iterable[Any], columns: tuple[Column, Column], key: Key) -> Rows:
    """Read (user, item) pairs if elements are tuples, one user per element if collections."""
    user, item = columns
    if isinstance(data, ItemsView):
        raise ParameterError("data are the items of a mapping; give the mapping itself")
    elements, tally = list(data), Tally(None)
    if all(isinstance(element, tuple) for element in elements):
        pairs = [element for element in elements if len(element) == 2]
        if pairs or not elements:
            tally.lose(NO_PAIR, len(elements) - len(pairs))
            owners = user.untyped([pair[0] for pair in pairs], tally.lose)
            return _rows(owners, [pair[1] for pair in pairs], None, columns, tally)
    if elements and all(isinstance(element, Mapping) for element in elements):
        raise DataError(
            "data is a list of mappings, which may be rows; give a table: pandas.DataFrame(data), "
            "or pyarrow.Table.from_pylist(data)"
        )
    if not all(isinstance(element, Collections) for element in elements):
        raise DataError(
            "data is an iterable of neither (user, item) tuples nor lists or sets of items, one "
            f"per user; tuples are always read as pairs. For anything else, {TABLE}"
        )
    _refuse_rows(user, item)
    if len(elements) > 1 and all(isinstance(e, list) and len(e) == 2 for e in elements):
        warn(
            "every list has exactly two entries, and each list was read as the items of one user; "
            "if they are [user, item] pairs, both are now treated as items: give tuples instead"
        )
    users: list[str] = []
    items: list[Any] = []
    for position, held in enumerate(elements):
        # A position is no identity: it changes when an earlier user leaves, and so would every
        # order derived from it. So ids are drawn from the key, independently of each other.
        drawn = key.digest("listed user", 0, 0, b"%d" % position).hex()
        users.extend([drawn] * len(held))
        items.extend(held)
    drawn_ids = pa.array(users, pa.large_string())
    # Ids that we draw are text, whatever type was declared.
    drawn_by = Column(user.name, "user")
    return _rows(drawn_ids, items, None, (drawn_by, item), tally, shared_users=False)


def _refuse_rows(user: Column, item: Column) -> None:
    """Refuse lists if columns were named: such a list is a row, not a set of items to publish."""
    for column in (user, item) if item.option == "item" else (user,):
        if not isinstance(column.name, DefaultName):
            raise column_error(
                f"{{{column.option}}} names a column, but a list in a list is read as the items of "
                "one user, with no columns: if the lists are rows, user ids would be published. "
                f"For rows, {TABLE}, or (user, item) tuples; for one list of items per user, drop "
                f"{{{column.option}}}",
                **{column.option: column.name},
            )


def refuse_other_objects(data: Any) -> None:
    """Refuse objects whose elements are not users and items."""
    library = type(data).__module__.partition(".")[0]
    kind = f"{library} {type(data).__name__}"
    if library == "pyspark":
        raise ParameterError(
            "data is a Spark DataFrame; dpsu.spark.release releases it where it is, and "
            "dpsu.release would have to bring all of it here"
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


def _repeated(ids: pa.Array, indices: Any) -> pa.Array:
    if pa.types.is_dictionary(ids.type):
        ids = ids.cast(ids.type.value_type)
    return pa.DictionaryArray.from_arrays(pa.array(indices), ids)


def _rows(
    users: pa.Array,
    items: Sequence[Any],
    repeats: Sequence[Any] | None,
    columns: tuple[Column, Column],
    tally: Tally,
    *,
    shared_users: bool = True,
) -> Rows:
    user, item = columns
    return rows_of(
        pa.chunked_array([users]),
        pa.chunked_array([item.untyped(items, tally.lose)]),
        None if repeats is None else pa.chunked_array([repeats_of(repeats)]),
        (user.name, item.name, None if repeats is None else "repeats"),
        shared_users=shared_users,
        tally=tally,
        types=(user.declared, item.declared),
    )
