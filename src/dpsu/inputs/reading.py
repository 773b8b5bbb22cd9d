"""Private data on one machine: what can be checked before they are read, and how they are read.

Anything that holds (user, item) rows is read part by part, into Arrow columns.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from dpsu.contributions.id_columns import Column
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs, Rows
from dpsu.errors import DataError, ParameterError
from dpsu.inputs import files, frames, iterables
from dpsu.inputs.also_public import refuse_same_files
from dpsu.inputs.columns import ONE_PER_ENTRY, Items, Users, column_error, names_of
from dpsu.inputs.formats import FORMATS
from dpsu.inputs.keyed import Keyed, one_per_entry
from dpsu.inputs.melted import Melted, columns_of_values
from dpsu.inputs.pipes import Pipes
from dpsu.inputs.sql import Query
from dpsu.inputs.tokens import Tokens
from dpsu.inputs.values import Values, naming_columns
from dpsu.options import one_of
from dpsu.randomness.keys import Key
from dpsu.runtime.cores import usable_cores
from dpsu.runtime.memory import Memory
from dpsu.text.spec import TextSpec

if TYPE_CHECKING:
    from dpsu.text.corpus import Corpus

# Frames are interned in slices of this many rows, so that intermediate arrays stay small.
ROWS_AT_ONCE = 1 << 21
# Whose frames stay where they are; they have doors of their own.
CLUSTERS = ("pyspark", "dask")
Progress = Callable[[int], None]


@dataclass(frozen=True, repr=False)
class Source:
    """Data as they were given, and where users and items are in them."""

    data: Any
    user: Users
    item: Items | Tokens
    format: str | None = None
    strict: bool = False
    pipes: Pipes = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.format is not None:
            one_of("format", self.format, FORMATS)
        if isinstance(self.item, Tokens):
            self.item.refuse_function_name()

    def check(self) -> None:
        """Refuse what names, schemas and tokenizers say is wrong; no row is read."""
        # A DPSU_THREADS that is no number.
        usable_cores()
        columns = wanted(self.user, self.item, self.item.repeats)
        if isinstance(self.item, Tokens):
            from dpsu.text.tokenizing import try_tokenizer

            try_tokenizer(self.item.tokenizer)
        if isinstance(self.item, Values):
            refuse_no_table(self.data, columns)
        with naming_columns(self.item):
            _refuse_by_names(self, columns)

    def refuse_public(self, paths: Iterable[tuple[str, Any]]) -> None:
        """Refuse a file of data that is also given as public: it would come out whole."""
        named = list(paths)
        refuse_same_files(files.expand(_paths(self.data) if named else [], self.format), named)

    def pairs(
        self,
        key: Key,
        *,
        with_repeats: bool,
        memory: Memory | None = None,
        progress: Progress = lambda rows: None,
    ) -> Pairs:
        """Who holds what; `with_repeats` says that it matters how often. PRIVATE."""
        with naming_columns(self.item):
            rows = self.rows(key, with_repeats=with_repeats, memory=memory)
            pairs = intern(rows, strict=self.strict, memory=memory, progress=progress)
        return replace(pairs, codec=rows.item_keys.codec)

    def corpus(self, text: TextSpec, key: Key, progress: Progress = lambda texts: None) -> Corpus:
        """All texts as tokens. PRIVATE."""
        from dpsu.text.corpus import read_corpus

        rows, tokenizer = self.untokenized(key), self.item.tokenizer
        return read_corpus(rows, text, tokenizer, strict=self.strict, progress=progress)

    def rows(self, key: Key, *, with_repeats: bool, memory: Memory | None = None) -> Rows:
        """Columns of users, items and perhaps repeats, part by part.

        Repeats come from the column that is named, from mappings of items to numbers, from repeated
        rows, or from repeated tokens of texts.
        """
        if not isinstance(self.item, Tokens):
            return self.untokenized(key, with_repeats=with_repeats, memory=memory)
        from dpsu.text.grams import items_of_texts

        texts, item = self.untokenized(key), self.item
        return items_of_texts(texts, item.source, item.tokenizer, with_repeats=with_repeats)

    def untokenized(
        self, key: Key, *, with_repeats: bool = False, memory: Memory | None = None
    ) -> Rows:
        """The same without tokens: rows of users and their texts, if items are made of texts."""
        columns, data = wanted(self.user, self.item, self.item.repeats), self.data
        keyed: Keyed | Melted = Keyed(columns, key=key)
        # A row of the table leads to so many rows of a user and an item.
        kinds = 1
        if isinstance(self.item, Values):
            refuse_no_table(data, columns)
            keyed, kinds = Melted(columns, self.item.kinds), len(self.item.kinds)
        columns = to_read(columns)
        if isinstance(data, Query):
            return keyed.rows(data._tables(columns))
        paths = _paths(data)
        if paths:
            sources = [
                files.open_rows(path, columns, self.format, keyed.tally.lose, self.pipes)
                for path in files.expand(paths, self.format, files.warn_of_hidden)
            ]
            if memory is not None:
                memory.expect(kinds * sum(source.known_rows for source in sources))
            return keyed.rows(table for source in sources for table in source.tables)
        _refuse_kind(data)
        if frames.is_frame(data):
            table = frames.columns_of(data, columns, keyed.tally.lose)
            at_once = max(1, ROWS_AT_ONCE // kinds)
            starts = range(0, max(1, len(table)), at_once)
            return keyed.rows([partial(table.slice, first, at_once) for first in starts])
        if isinstance(data, Mapping) and iterables.is_table(data, columns):
            return keyed.rows([lambda: iterables.table_of(data, columns, keyed.tally.lose)])
        _refuse_repeats(columns)
        assert isinstance(keyed, Keyed), "values are in tables, and anything else was refused"
        iterables.refuse_shared(keyed)
        if isinstance(data, Mapping):
            return iterables.from_mapping(data, keyed, with_repeats)
        return iterables.from_iterable(data, keyed, key)


def wanted(user: Users, item: Items | Tokens, repeats: str | None = None) -> list[Column]:
    """The columns that are read: those of users, those of items or of texts, and of repeats."""
    if isinstance(item, Values):
        return columns_of_values(user, item)
    option = "text" if isinstance(item, Tokens) else "item"
    columns = [
        Column(name, purpose, given.type, alone=isinstance(given.columns, str))
        for purpose, given in (("user", user), (option, item))
        for name in names_of(given.columns)
    ]
    columns += [] if repeats is None else [Column(repeats, "repeats")]
    users, items = set(user.names), set(names_of(item.columns))
    # Users and items may share a column, such as a site, but not all columns of users.
    if users <= {*items, repeats} or repeats in users | items:
        names = [column.name for column in columns]
        options = list(dict.fromkeys(column.option for column in columns))
        *first, last = (f"{{{option}}}" for option in options)
        raise column_error(
            f"{', '.join(first)} and {last} must be different columns, not {names}",
            **dict.fromkeys(options, ...),
        )
    return columns


def to_read(columns: Sequence[Column]) -> list[Column]:
    """The columns that a table must have, each once; where each row is a person, none of users."""
    named = {column.name: column for column in reversed(columns)}
    if one_per_entry([column for column in columns if column.option == "user"]):
        del named[ONE_PER_ENTRY]
    return list(named.values())[::-1]


def refuse_no_table(data: Any, columns: list[Column]) -> None:
    """Refuse users and their items, and tuples of them: values have columns."""
    if isinstance(data, Query) or _paths(data):
        return
    _refuse_kind(data)
    if frames.is_frame(data):
        return
    if not isinstance(data, Mapping):
        raise DataError(
            f"data is a {type(data).__name__}, which has no columns; give a table: a file, a "
            "frame, a query, or a mapping of names to columns"
        )
    for column in columns:
        if column.name not in data:
            option = "user" if column.option == "user" else "columns"
            raise ParameterError(
                f"data is a mapping without the key {column}; give a table, or a mapping of names "
                f"to columns, and name the right ones with {{{option}}}",
                **{option: ...},
            )


def _refuse_kind(data: Any) -> None:
    """Refuse data that is neither a table nor users and items, by its type alone."""
    if type(data).__module__.partition(".")[0] not in CLUSTERS and frames.is_frame(data):
        return
    iterables.refuse_other_objects(data)
    if isinstance(data, Iterable) and not isinstance(data, (str, bytes)):
        return
    raise DataError(
        f"data is a {type(data).__name__}; give a path, a frame, a mapping of users to items, or "
        "an iterable of (user, item) pairs"
    )


def _refuse_by_names(source: Source, columns: list[Column]) -> None:
    """Refuse what names and schemas show to be wrong, before any row is read."""
    data, keyed, columns = source.data, Keyed(columns), to_read(columns)
    if isinstance(data, Query):
        data._check_columns(columns)
        return
    paths = _paths(data)
    if paths:
        for path in files.expand(paths, source.format):
            files.check_columns(path, columns, source.format, source.pipes)
        return
    _refuse_kind(data)
    if frames.is_frame(data):
        frames.check_columns(data, columns)
    elif isinstance(data, Mapping) and iterables.is_table(data, columns):
        iterables.check_table(data, columns)
    else:
        _refuse_repeats(columns)
        iterables.check_shape(data, keyed)


def _refuse_repeats(columns: list[Column]) -> None:
    if columns[-1].option == "repeats":
        raise column_error(
            "{repeats} names a column, but the data has none; give a table, or a mapping of users "
            "to items and how often each is held",
            repeats=columns[-1].name,
        )


def _paths(data: Any) -> list[str | os.PathLike[str]]:
    """The files that `data` names; empty if it is something else."""
    given = [data] if isinstance(data, (str, os.PathLike)) else data
    named = isinstance(given, (list, tuple)) and all(map(_is_path, given))
    return list(given) if named else []


def _is_path(part: Any) -> bool:
    """Whether an element names a file; it may be one person's object, of which nothing is sure."""
    with contextlib.suppress(Exception):
        return issubclass(type(part), (str, os.PathLike))
    return False
