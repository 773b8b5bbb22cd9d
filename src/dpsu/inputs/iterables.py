"""Plain Python: mappings of users, pairs, and lists of collections."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dpsu.errors import DataError, DataWarning, ParameterError, without_values
from dpsu.keys import Key
from dpsu.pairs import Rows, rows_of

Collections = (list, set, frozenset)


def from_mapping(
    data: Mapping[Any, Any], names: tuple[str, str], counted: bool, *, texts: bool = False
) -> Rows:
    """User -> items, or user -> {item: local count}; of `texts`, user -> text or texts."""
    users: list[Any] = []
    items: list[Any] = []
    counts: list[Any] = []
    for user, given in data.items():
        held = [given] if texts and isinstance(given, str) else given
        _refuse_text(held)
        # extend, not +=: a NumPy array on the right would add its numbers to ours.
        users.extend([user] * len(held))
        items.extend(held)
        counts.extend(held.values() if isinstance(held, Mapping) else [1] * len(held))
    return _rows(users, items, counts if counted else None, names, shared_users=False)


def from_iterable(data: Iterable[Any], names: tuple[str, str], key: Key) -> Rows:
    """(user, item) pairs if the elements are tuples, one user per element if collections."""
    elements = list(data)
    if all(isinstance(element, tuple) and len(element) == 2 for element in elements):
        return _rows([e[0] for e in elements], [e[1] for e in elements], None, names)
    if not all(isinstance(element, Collections) for element in elements):
        raise DataError(
            "data is an iterable of neither (user, item) tuples nor lists or sets of items, one "
            "per user; tuples are always read as pairs"
        )
    if len(elements) > 1 and all(isinstance(e, list) and len(e) == 2 for e in elements):
        warnings.warn(
            "every list has exactly two entries, and each list was read as the items of one user; "
            "if they are [user, item] pairs, both are now treated as items: give tuples instead",
            DataWarning,
            stacklevel=4,
        )
    users: list[str] = []
    items: list[Any] = []
    for position, held in enumerate(elements):
        # A position is no identity: it shifts when somebody before leaves, and with it every order
        # derived from it. Ids drawn from the key are independent of each other instead.
        drawn = key.digest("listed user", 0, 0, b"%d" % position).hex()
        users.extend([drawn] * len(held))
        items.extend(held)
    return _rows(users, items, None, names, shared_users=False)


def _rows(
    users: list[Any],
    items: list[Any],
    counts: list[Any] | None,
    names: tuple[str, str],
    *,
    shared_users: bool = True,
) -> Rows:
    def column(name: str, values: list[Any]) -> pa.ChunkedArray:
        array = without_values(
            lambda: pa.array(values),
            f"the {name} values mix types or cannot be read; they must be all text or all integers",
        )
        # More than two gigabytes of text come in chunks already.
        return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])

    return rows_of(
        column("user", users),
        column("item", items),
        None if counts is None else column("count", counts),
        (names[0], names[1], None if counts is None else "count"),
        shared_users=shared_users,
    )


def _refuse_text(held: Any) -> None:
    if isinstance(held, (str, bytes)) or not hasattr(held, "__len__"):
        raise ParameterError(
            f"data maps users to {type(held).__name__}; each user needs a list or set of items"
        )
