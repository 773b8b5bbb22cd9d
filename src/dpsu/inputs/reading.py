"""Anything that holds (user, item) rows, read part by part into Arrow columns."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from dpsu.errors import DataError, ParameterError
from dpsu.inputs import files, frames, iterables
from dpsu.inputs.columns import pick
from dpsu.inputs.sql import Query
from dpsu.inputs.textual import ReadTable
from dpsu.keys import Key
from dpsu.memory import Memory
from dpsu.pairs import Part, Rows
from dpsu.text.source import Split, TextSource

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
    text: TextSource | None = None,
    tokenizer: str | Split | None = None,
) -> Rows:
    """Rows of `data`, whatever it is: columns of users, items and perhaps local counts.

    `counted` says that local counts matter (they come from `count`, from mappings of items to
    counts, from repeated rows, or from repeated tokens of texts).
    """
    if text is None:
        return read_columns(
            data, (user, item, count), counted=counted, key=key, format=format, memory=memory
        )
    from dpsu.text.grams import items_of_texts

    texts = read_texts(data, user, text, key=key, format=format)
    return items_of_texts(texts, text, tokenizer, counted=counted)


def read_texts(
    data: Any, user: str, text: TextSource, *, key: Key, format: str | None = None
) -> Rows:
    """Rows of users and their texts."""
    names = (user, text.column, None)
    return read_columns(data, names, counted=False, key=key, format=format, texts=True)


def read_columns(
    data: Any,
    names_typed: tuple[str, str, str | None],
    *,
    counted: bool,
    key: Key,
    format: str | None = None,
    memory: Memory | None = None,
    texts: bool = False,
) -> Rows:
    """Columns as they are; `texts` says that the second is text, not items."""
    user, item, count = names_typed
    names = [user, item] + ([count] if count else [])
    if len(set(names)) < len(names):
        kinds = "user and text" if texts else "user, item and count"
        raise ParameterError(f"{kinds} must be different columns, not {names}")
    if isinstance(data, Query):
        tables = data.tables(names)
        return Rows((_columns(table, names) for table in tables), (user, item, count))
    paths = _paths(data)
    if paths:
        spelled = names[1:] if texts else []
        sources = [
            files.open_rows(path, names, format, spelled) for path in files.expand(paths, format)
        ]
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
        return iterables.from_mapping(data, (user, item), counted, texts=texts)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return iterables.from_iterable(data, (user, item), key)
    raise DataError(
        f"data is a {type(data).__name__}; give a path, a frame, a mapping of users to items, or "
        "an iterable of (user, item) pairs"
    )


def refuse_by_names(
    data: Any,
    names_typed: tuple[str, str, str | None],
    format: str | None,
    tokenizer: str | Split | None = None,
) -> None:
    """Refuse what names of files, columns and tokenizers alone say is wrong; no row is read."""
    if tokenizer is not None:
        from dpsu.text.tokenizing import tokenize_by

        tokenize_by(tokenizer)
    names = [name for name in names_typed if name]
    if isinstance(data, Query):
        data.refuse_early()
        return
    paths = _paths(data)
    for path in files.expand(paths, format) if paths else ():
        files.check_columns(path, names, format)
    if not paths and isinstance(data, pa.Table):
        pick(names, data.column_names)


def _paths(data: Any) -> list[str | os.PathLike[str]]:
    """The files that data names; empty if it is something else."""
    given = [data] if isinstance(data, (str, os.PathLike)) else data
    named = isinstance(given, (list, tuple)) and all(
        isinstance(part, (str, os.PathLike)) for part in given
    )
    return list(given) if named else []


def _slice(table: pa.Table, first: int, names: list[str]) -> Part:
    return _columns(lambda: table.slice(first, ROWS_AT_ONCE), names)


def _columns(read_table: ReadTable, names: list[str]) -> Part:
    def part() -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray | None]:
        table = read_table()
        return table[names[0]], table[names[1]], table[names[2]] if len(names) > 2 else None

    return part
