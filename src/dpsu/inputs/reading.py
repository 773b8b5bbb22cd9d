"""Anything that holds (user, item) rows, read part by part into Arrow columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dpsu.errors import DataError, ParameterError
from dpsu.inputs import files, frames, iterables
from dpsu.inputs.textual import ReadTable
from dpsu.keys import Key
from dpsu.memory import Memory
from dpsu.pairs import Part, Rows

# Frames are interned in slices, so that what is made of them on the way stays small.
ROWS_AT_ONCE = 1 << 21


def read(
    data: Any,
    *,
    user: str,
    item: str,
    count: str | None,
    counted: bool,
    key: Key,
    format: str | None = None,
    memory: Memory | None = None,
) -> Rows:
    """Rows of `data`, whatever it is: columns of users, items and perhaps local counts.

    `counted` says that local counts matter (they come from `count`, from mappings of items to
    counts, or from repeated rows).
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
        sources = [files.open_rows(path, names, format) for path in files.expand(data, format)]
        if memory is not None:
            memory.expect(sum(source.known_rows for source in sources))
        tables = (table for source in sources for table in source.tables)
        return Rows((_columns(table, names) for table in tables), (user, item, count))
    if frames.is_frame(data):
        table = frames.to_arrow(data, names)
        starts = range(0, max(1, len(table)), ROWS_AT_ONCE)
        return Rows([_slice(table, first, names) for first in starts], (user, item, count))
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


def _slice(table: pa.Table, first: int, names: list[str]) -> Part:
    return _columns(lambda: table.slice(first, ROWS_AT_ONCE), names)


def _columns(read_table: ReadTable, names: list[str]) -> Part:
    def part() -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray | None]:
        table = read_table()
        return table[names[0]], table[names[1]], table[names[2]] if len(names) > 2 else None

    return part
