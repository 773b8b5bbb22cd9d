"""Anything that holds (user, item) rows, read part by part into Arrow columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from dpsu.contributions.cells import Column
from dpsu.contributions.pairs import Part, Rows, Tally
from dpsu.errors import DataError, ParameterError
from dpsu.inputs import files, frames, iterables
from dpsu.inputs.columns import check_names
from dpsu.inputs.delimited import ReadTable
from dpsu.inputs.formats import STDIN
from dpsu.inputs.sql import Query
from dpsu.randomness.keys import Key
from dpsu.runtime.memory import Memory
from dpsu.text.source import Split, TextSource

# Frames are interned in slices, so that what is made of them on the way stays small.
ROWS_AT_ONCE = 1 << 21
Types = tuple[str | None, str | None]


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
    types: Types = (None, None),
) -> Rows:
    """Rows of `data`, whatever it is: columns of users, items and perhaps local counts.

    `counted` says that local counts matter (they come from `count`, from mappings of items to
    counts, from repeated rows, or from repeated tokens of texts); `types` are what users and items
    are declared to be.
    """
    if text is None:
        columns = wanted(user, item, count, types=types)
        return read_columns(data, columns, counted=counted, key=key, format=format, memory=memory)
    from dpsu.text.grams import items_of_texts

    texts = read_texts(data, user, text, key=key, format=format, user_type=types[0])
    return items_of_texts(texts, text, tokenizer, counted=counted)


def read_texts(
    data: Any,
    user: str,
    text: TextSource,
    *,
    key: Key,
    format: str | None = None,
    user_type: str | None = None,
) -> Rows:
    """Rows of users and their texts."""
    columns = wanted(user, text.column, None, texts=True, types=(user_type, None))
    return read_columns(data, columns, counted=False, key=key, format=format)


def wanted(
    user: str,
    item: str,
    count: str | None,
    *,
    texts: bool = False,
    types: Types = (None, None),
) -> list[Column]:
    """The columns that are read; `texts` says that the second is text, not items."""
    option = "text" if texts else "item"
    check_names(**{"user": user, option: item, "count": count})
    columns = [Column(user, "user", types[0]), Column(item, option, types[1])]
    columns += [] if count is None else [Column(count, "count")]
    names = [column.name for column in columns]
    if len(set(names)) < len(names):
        kinds = "user and text" if texts else "user, item and count"
        raise ParameterError(f"{kinds} must be different columns, not {names}")
    return columns


def read_columns(
    data: Any,
    columns: list[Column],
    *,
    counted: bool,
    key: Key,
    format: str | None = None,
    memory: Memory | None = None,
) -> Rows:
    """Columns as they are."""
    user, item = columns[:2]
    names = [column.name for column in columns]
    tally = Tally(None)

    def rows(parts: Iterable[Part]) -> Rows:
        count = names[2] if len(names) > 2 else None
        types = (user.declared, item.declared)
        return Rows(parts, (user.name, item.name, count), tally=tally, types=types)

    if isinstance(data, Query):
        return rows(_columns(table, names) for table in data.tables(columns))
    paths = _paths(data)
    if paths:
        sources = [
            files.open_rows(path, columns, format, tally.lose)
            for path in files.expand(paths, format)
        ]
        if memory is not None:
            memory.expect(sum(source.known_rows for source in sources))
        tables = (table for source in sources for table in source.tables)
        return rows(_columns(table, names) for table in tables)
    _refuse_kind(data)
    if frames.is_frame(data):
        table = frames.columns_of(data, columns, tally.lose)
        starts = range(0, max(1, len(table)), ROWS_AT_ONCE)
        return rows([_slice(table, first, names) for first in starts])
    _refuse_count(columns)
    if isinstance(data, Mapping):
        texts = item.option == "text"
        return iterables.from_mapping(data, (user, item), counted, texts=texts)
    return iterables.from_iterable(data, (user, item), key)


def _refuse_kind(data: Any) -> None:
    """Refuse what is neither a table nor users and items, by its type alone."""
    if type(data).__module__.partition(".")[0] != "pyspark" and frames.is_frame(data):
        return
    iterables.refuse_other_objects(data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return
    raise DataError(
        f"data is a {type(data).__name__}; give a path, a frame, a mapping of users to items, or "
        "an iterable of (user, item) pairs"
    )


def refuse_private_as_public(data: Any, format: str | None, **public: Any) -> None:
    """Refuse a file of private data that is also given as public: it would come out whole."""
    named = {name: given for name, given in public.items() if isinstance(given, (str, os.PathLike))}
    paths = _paths(data) if named else []
    private = [_identity(path) for path in files.expand(paths, format)]
    for name, given in named.items():
        found = _identity(given)
        if found is not None and found in private:
            raise ParameterError(f"{name} is the file of the private data; give public data there")


def _identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """What makes a file the same under another name; None for what is no file."""
    try:
        found = os.fstat(sys.stdin.fileno()) if str(path) == STDIN else Path(path).stat()
    except (OSError, ValueError, AttributeError):
        return None
    return found.st_dev, found.st_ino


def refuse_by_names(
    data: Any,
    columns: list[Column],
    format: str | None,
    tokenizer: str | Split | None = None,
) -> None:
    """Refuse what files, schemas and tokenizers say is wrong before any row of data is read."""
    if tokenizer is not None:
        from dpsu.text.tokenizing import tokenize_by

        tokenize_by(tokenizer)
    if isinstance(data, Query):
        data.check_columns(columns)
        return
    paths = _paths(data)
    if paths:
        for path in files.expand(paths, format):
            files.check_columns(path, columns, format)
        return
    _refuse_kind(data)
    if frames.is_frame(data):
        frames.check_columns(data, columns)
    else:
        _refuse_count(columns)


def _refuse_count(columns: list[Column]) -> None:
    if len(columns) > 2:
        raise ParameterError(
            f"count={columns[2].name!r} names a column, but the data has none; give a table, or a "
            "mapping of users to {item: count}"
        )


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
