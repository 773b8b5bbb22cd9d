"""Anything that holds (user, item) rows, read into Arrow columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dpsu.contributions import Rows
from dpsu.errors import DataError, ParameterError, without_values
from dpsu.ids import type_name
from dpsu.inputs import files, frames, iterables
from dpsu.inputs.textual import RowsRead
from dpsu.keys import Key


def read(
    data: Any,
    *,
    user: str,
    item: str,
    count: str | None,
    counted: bool,
    key: Key,
    format: str | None = None,
    tick: RowsRead = lambda rows: None,
) -> Rows:
    """Read `data`, whatever it is, into columns of users, items and perhaps local counts.

    `counted` says that local counts matter (they come from `count`, from mappings of items to
    counts, or from repeated rows); `tick` is told how many rows were read.
    """
    if isinstance(data, (str, os.PathLike)):
        data = [data]
    names = [user, item] + ([count] if count else [])
    if len(set(names)) < len(names):
        raise ParameterError(f"user, item and count must be different columns, not {names}")
    if (
        isinstance(data, (list, tuple))
        and data
        and all(isinstance(part, (str, os.PathLike)) for part in data)
    ):
        paths = files.expand(data, format)
        tables = [files.read(path, names, format, tick) for path in paths]
        return _from_tables(tables, user, item, count)
    if frames.is_frame(data):
        table = frames.to_arrow(data, names)
        tick(len(table))
        return _from_tables([table], user, item, count)
    if count is not None:
        raise ParameterError(
            f"count={count!r} names a column, but the data has none; give a table, or a mapping of "
            "users to {item: count}"
        )
    if isinstance(data, Mapping):
        return iterables.from_mapping(data, (user, item), counted)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return iterables.from_iterable(data, (user, item), key)
    raise DataError(
        f"data is a {type(data).__name__}; give a path, a frame, a mapping of users to items, or "
        "an iterable of (user, item) pairs"
    )


def _from_tables(tables: list[pa.Table], user: str, item: str, count: str | None) -> Rows:
    return Rows(
        _joined(user, [table[user] for table in tables]),
        _joined(item, [table[item] for table in tables]),
        _joined(count, [table[count] for table in tables]) if count else None,
        (user, item, count),
    )


def _joined(name: str, columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    families = {_family(column.type) for column in columns} - {"nothing"}
    if len(families) > 1:
        raise DataError(
            f"column {name!r} is {' in one file and '.join(sorted(families))} in another; make "
            "them the same"
        )
    types = {column.type for column in columns}
    if len(types) > 1 and families <= {"integers", "text"}:
        common = pa.int64() if families == {"integers"} else pa.large_string()
        columns = without_values(
            lambda: [column.cast(common) for column in columns],
            f"column {name!r} has integers beyond 64 bits; convert it to text",
        )
    return pa.chunked_array(
        [chunk for column in columns for chunk in column.chunks], columns[0].type
    )


def _family(type_: pa.DataType) -> str:
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    if pa.types.is_null(value):
        return "nothing"
    if pa.types.is_integer(value):
        return "integers"
    if pa.types.is_string(value) or pa.types.is_large_string(value):
        return "text"
    return type_name(value)
