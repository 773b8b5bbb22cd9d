"""Public knowledge: priors (item -> number) and lists of items that are known anyway.

They may shape a release because they were not made from the confidential data. They are matched to
private items by their text, so that a prior read from CSV fits integer items.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.cells import kind_of
from dpsu.contributions.codecs import Codec, encode
from dpsu.contributions.id_columns import Column, is_integral, lose_nothing
from dpsu.contributions.ids import Ids, canonical, decoded, type_name
from dpsu.errors import DataError, ParameterError, option_error, without_values
from dpsu.inputs import frames
from dpsu.inputs.columns import names_of
from dpsu.inputs.files import read_public_table
from dpsu.runtime.extras import load

WORDFREQ = "wordfreq:"
Names = str | Sequence[str]
NUMBER_COLUMNS = ("holders", "count", "frequency", "number", "prior")


@dataclass(frozen=True)
class Prior:
    """How widely each item is held in public data, by descending number."""

    items: pa.Array
    numbers: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def digest(self) -> str:
        """SHA-256 that identifies the prior in a plan."""
        return _digest([self.items, pa.array(self.numbers)])

    def popularity(self, items: Ids) -> NDArray[np.float64]:
        """The prior's number of each item; unknown items count 1, but never above a known one."""
        unknown = min(1.0, float(self.numbers.min(initial=1.0)))
        at = self._positions(items)
        return np.where(at >= 0, self.numbers[np.maximum(at, 0)], unknown)

    def known(self, items: Ids) -> NDArray[np.bool_]:
        """Which items the prior knows."""
        return self._positions(items) >= 0

    def expected_holders(
        self, items: Ids, expected_users: int
    ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """How many of `expected_users` should hold each item, and which items the prior knows.

        The prior does not say how many users it was made from, so its most popular item is assumed
        to be held by all of them.
        """
        at = self._positions(items)
        scale = expected_users / float(self.numbers.max(initial=1e-300))
        return np.where(at >= 0, self.numbers[np.maximum(at, 0)] * scale, 0.0), at >= 0

    def among_first(self, items: Ids, how_many: int) -> NDArray[np.bool_]:
        """Which items are among the prior's `how_many` most popular ones."""
        at = self._positions(items)
        return (at >= 0) & (at < how_many)

    def _positions(self, items: Ids) -> NDArray[np.int64]:
        at = pc.index_in(items.text(), value_set=self.items).fill_null(-1)
        positions: NDArray[np.int64] = at.to_numpy(zero_copy_only=False).astype(np.int64)
        return positions


def read_prior(source: Any, item: Names = "item") -> Prior:
    """Read a prior from a mapping, a frame, a file or wordfreq; larger is more popular.

    Tables need a column named 'item', or columns as the private ones, and one column of numbers.
    The keys of a mapping are tuples where there are several columns.
    """
    if isinstance(source, Prior):
        return source
    if isinstance(source, str) and source.startswith(WORDFREQ):
        source = _word_frequencies(source.removeprefix(WORDFREQ))
    if isinstance(source, Mapping):
        text = _texts("prior", _columns_of("prior", source, names_of(item)))
        numbers = _numbers("of values", pa.array(list(source.values())))
    else:
        table = _table("prior", source)
        names = table.column_names
        found = _item_columns("prior", names, names_of(item))
        others = [name for name in names if name not in found]
        known = [name for name in others if name in NUMBER_COLUMNS] or others
        if len(known) != 1:
            raise option_error(
                "prior",
                f"needs {_listed(found)} and one column of numbers (such as "
                f"{', '.join(NUMBER_COLUMNS[:3])})",
            )
        text = _texts("prior", [(name, _combined(table[name])) for name in found])
        numbers = _numbers(known[0], _combined(table[known[0]]))
    if text.null_count or len(text) == 0:
        raise option_error("prior", "is empty or has rows without an item")
    values = numbers.to_numpy(zero_copy_only=False).astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise option_error("prior", "has numbers that are negative, missing or not finite")
    # Spellings that normalize to one item are one item, held by all their holders.
    summed = (
        pa.table({"item": text, "number": values}).group_by("item").aggregate([("number", "sum")])
    )
    ordered = summed.sort_by([("number_sum", "descending"), ("item", "ascending")])
    return Prior(_combined(ordered["item"]), _combined(ordered["number_sum"]).to_numpy())


def _word_frequencies(language: str) -> Mapping[str, float]:
    """The frequencies of words in a language, from the optional package wordfreq."""
    try:
        found: Mapping[str, float] = load("wordfreq").get_frequency_dict(language)
    except LookupError:
        raise ParameterError(
            f"{{prior}}: wordfreq knows no language {language!r}; try 'en'",
            prior=WORDFREQ + language,
        ) from None
    return found


@dataclass(frozen=True)
class PublicItems:
    """Items that are published in any case, as sorted text."""

    items: pa.Array

    def __len__(self) -> int:
        return len(self.items)

    @cached_property
    def digest(self) -> str:
        """SHA-256 that identifies the list in a plan."""
        return _digest([self.items])

    def as_type(self, type_: pa.DataType) -> pa.Array:
        """The items in the type of the private ones, each once."""
        typed = without_values(
            lambda: self.items.cast(type_),
            "public_items has text that is not an integer, but the private items are integers",
        )
        return typed.unique()

    def added(self, type_: pa.DataType) -> pa.Array:
        """What joins the items that were found: all of them, held or not."""
        return self.as_type(type_)

    def refuse_other_than(self, codec: Codec) -> None:
        """Refuse public items that are no values of the types of the private ones."""
        if not codec.has(self.items):
            raise DataError(
                "public_items has items that are no values of the columns of items, with their "
                "types and spelled as they are released"
            )

    def among(self, items: Ids) -> NDArray[np.bool_]:
        """Which of the private items are on the public list."""
        known = pc.is_in(items.values, value_set=self.as_type(items.values.type))
        found: NDArray[np.bool_] = known.to_numpy(zero_copy_only=False)
        return found


def read_public_items(source: Any, item: Names = "item") -> PublicItems:
    """Read items from an iterable, a table with columns of items, or a .txt file of lines."""
    if isinstance(source, PublicItems):
        return source
    names = names_of(item)
    if (
        isinstance(source, Iterable)
        and not isinstance(source, (str, os.PathLike))
        and (not frames.is_frame(source))
    ):
        columns = _columns_of("public_items", source, names)
    else:
        table = _table("public_items", source)
        found = _item_columns("public_items", table.column_names, names)
        columns = [(name, _combined(table[name])) for name in found]
    text = _texts("public_items", columns)
    if text.null_count:
        raise option_error("public_items", "has missing items; drop them")
    unique = text.unique()
    return PublicItems(unique.take(pc.sort_indices(unique)))


def _columns_of(
    what: str, items: Iterable[Any], names: tuple[str, ...]
) -> list[tuple[str, pa.Array]]:
    """Columns of Python objects; items of several columns are tuples."""
    listed = list(items)
    if len(names) == 1:
        return [(names[0], _array(what, listed))]
    if not all(isinstance(each, tuple) and len(each) == len(names) for each in listed):
        raise option_error(
            what, f"must hold tuples of {len(names)} cells, one for each of {_listed(names)}"
        )
    return [(name, _array(what, [each[at] for each in listed])) for at, name in enumerate(names)]


def _texts(what: str, columns: list[tuple[str, pa.Array]]) -> pa.Array:
    """Items as ids have them, as text."""
    for name, cells in columns:
        if pa.types.is_floating(cells.type) or kind_of(cells.type) is None:
            raise ParameterError(
                f"{{{what}}}: column {name!r} has type {type_name(cells.type)}; convert it to text "
                "or integers",
                **{what: ...},
            )
    ids = encode([(Column(name, "item"), cells) for name, cells in columns], lose_nothing)
    return Ids(canonical(what, decoded(ids))).text()


def _array(name: str, items: Iterable[Any]) -> pa.Array:
    listed = list(items)
    if all(is_integral(type(item)) for item in listed):
        # Arrow would refuse integers of more than 64 bits.
        listed = [str(int(item)) for item in listed]
    return without_values(
        lambda: pa.array(listed),
        f"{name} must hold items that are all text or all integers",
        ParameterError,
    )


def _table(name: str, source: Any) -> pa.Table:
    if isinstance(source, (str, os.PathLike)):
        return read_public_table(Path(source))
    if frames.is_frame(source):
        return frames.to_arrow(source)
    raise option_error(
        name, f"is a {type(source).__name__}; give a mapping, a frame or the path of a file"
    )


def _item_columns(what: str, names: list[str], item: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of items among those of a table."""
    if set(item) <= set(names):
        return item
    if len(item) == 1 and "item" in names:
        return ("item",)
    wanted = f"there must be {_listed(item)}"
    if len(item) == 1:
        wanted = "'item'" if item[0] == "item" else f"{item[0]!r} or 'item'"
        wanted = f"one of them must be named {wanted}"
    # Names are cells if there is no header, and private ones if it is the wrong file.
    raise option_error(what, f"has {len(names)} columns; {wanted}")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _numbers(name: str, column: pa.Array) -> pa.Array:
    # If the private file was given by mistake, the error must not show its cells.
    return without_values(
        lambda: column.cast(pa.float64()),
        f"prior: column {name!r} does not hold numbers only",
        ParameterError,
    )


def _combined(column: pa.ChunkedArray) -> pa.Array:
    return decoded(column.combine_chunks())


def _digest(arrays: list[pa.Array]) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        for value in array.to_pylist():
            text = value if isinstance(value, str) else repr(value)
            digest.update(b"%d:" % len(text.encode()) + text.encode())
    return digest.hexdigest()
