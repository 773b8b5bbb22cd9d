"""From rows of (user, text) to rows of (user, item, count), a few megabytes of text at a time.

Tokens become codes inside a piece of text, n-grams become codes of codes, and every text's items
are merged and counted before they leave: only distinct items are ever spelled out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.errors import DataError
from dpsu.ids import TEXT, canonical, family, text_buffers
from dpsu.kernels import grams as kernels
from dpsu.pairs import Columns, Part, Rows
from dpsu.text.paper import PostsOnce
from dpsu.text.source import LONGEST_ITEM, PAPER, Split, TextSource
from dpsu.text.tokenizing import Segments, Tokenize, tokenize_by

# Large enough that starting on a piece costs nothing, small enough to stay near the processor.
BYTES_AT_ONCE = 1 << 22
NO_TEXT = "some rows have no text"
TOO_LONG = f"some tokens have more than {LONGEST_ITEM:,} bytes"


def items_of_texts(
    rows: Rows, source: TextSource, tokenizer: str | Split | None, *, counted: bool
) -> Rows:
    """Rows of items from rows of texts; local counts only where they are wanted."""
    tokenize = tokenize_by(tokenizer)
    once = PostsOnce(rows.names[0]) if source.tokenizer == PAPER else None
    made = Rows((), (rows.names[0], source.column, None), shared_users=False)

    def parts() -> Iterator[Part]:
        for users, texts in pieces(rows, source.column):
            yield partial(_part, users, texts, source, tokenize, once, counted, made)

    return Rows(parts(), made.names, made.shared_users, made.lost)


def pieces(rows: Rows, column: str) -> Iterator[tuple[pa.Array, pa.Array]]:
    """Users and normalized texts, some megabytes at a time."""
    for part in rows.parts:
        user, text, _ = part()
        users = pa.concat_arrays(_plain(user))
        texts = pa.concat_arrays([_normalized(column, chunk) for chunk in _plain(text)])
        if len(users) != len(texts):
            raise DataError(f"columns {rows.names[0]!r} and {column!r} have different lengths")
        _, offsets = text_buffers(texts)
        if len(texts) == 0:
            yield users, texts  # columns without rows have types all the same
        first = 0
        while first < len(texts):
            last = int(np.searchsorted(offsets, offsets[first] + BYTES_AT_ONCE, "right")) - 1
            last = min(max(last, first + 1), len(texts))
            yield users.slice(first, last - first), texts.slice(first, last - first)
            first = last


def _plain(column: pa.ChunkedArray) -> list[pa.Array]:
    chunks = column.chunks or [pa.nulls(0, column.type)]
    return [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in chunks]


def _normalized(column: str, chunk: pa.Array) -> pa.Array:
    if family(column, chunk) not in (TEXT, "nothing"):
        raise DataError(f"column {column!r} holds integers; texts must be text")
    return canonical(column, chunk).cast(pa.large_string())


@dataclass(frozen=True, repr=False)
class Grams:
    """Items of some texts: for each length of n-grams, the code that starts at each segment."""

    lines: NDArray[np.int32]
    texts: pa.Array


def _part(
    users: pa.Array,
    texts: pa.Array,
    source: TextSource,
    tokenize: Tokenize,
    once: PostsOnce | None,
    counted: bool,
    made: Rows,
) -> Columns:
    if texts.null_count:
        made.lost[NO_TEXT] += texts.null_count
        there = texts.is_valid()
        users, texts = users.filter(there), texts.filter(there)
    if once is not None:
        keep = pa.array(once.keep(users, texts))
        users, texts = users.filter(keep), texts.filter(keep)
    segments = tokenize(texts)
    if segments.too_long:
        made.lost[TOO_LONG] += segments.too_long
    held = items_of_rows(segments, source, counted=counted)
    user_column = pa.DictionaryArray.from_arrays(_indices(held.rows), users)
    item_column = pa.DictionaryArray.from_arrays(_indices(held.items), held.texts)
    counts = None if held.counts is None else pa.chunked_array([_indices(held.counts)])
    return pa.chunked_array([user_column]), pa.chunked_array([item_column]), counts


@dataclass(frozen=True, repr=False)
class HeldItems:
    """Distinct items of every text: its row, the place of the item in `texts`, and how often."""

    rows: NDArray[np.int32]
    items: NDArray[np.int32]
    counts: NDArray[np.int32] | None
    texts: pa.Array


def items_of_rows(segments: Segments, source: TextSource, *, counted: bool) -> HeldItems:
    """Merge the n-grams of every text."""
    found = grams_of(segments, source.shortest, source.longest)
    room = found.lines.size
    rows, items = np.empty(room, np.int32), np.empty(room, np.int32)
    counts = np.empty(room if counted else 0, np.int32)
    n = kernels.merge_rows(found.lines, segments.row_stops, rows, items, counts)
    return HeldItems(rows[:n], items[:n], counts[:n] if counted else None, found.texts)


def grams_of(segments: Segments, shortest: int, longest: int) -> Grams:
    """Codes of all n-grams of these lengths, and the texts that they stand for."""
    n = len(segments.begins)
    salt = np.uint64(int.from_bytes(os.urandom(8), "big"))
    codes, first = np.empty(n, np.int32), np.empty(n, np.int64)
    n_tokens = kernels.intern_segments(
        segments.data, segments.begins, segments.lengths, salt, _slots(n), first, codes
    )
    lines = np.empty((longest - shortest + 1, n), np.int32)
    texts: list[pa.Array] = []
    n_known = 0
    for length in range(shortest, longest + 1):
        if length == 1:
            lines[0], n_grams = codes, n_tokens
        else:
            n_grams = kernels.intern_grams(
                codes, segments.row_stops, length, salt, _slots(n), first, n_known,
                lines[length - shortest],
            )  # fmt: skip
        texts.append(_spelled(segments, first[:n_grams], length))
        n_known += n_grams
    return Grams(lines, pa.concat_arrays(texts))


def _spelled(segments: Segments, first: NDArray[np.int64], length: int) -> pa.Array:
    sizes = np.empty(len(first), np.int64)
    kernels.gram_sizes(segments.lengths, first, length, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    out = np.empty(int(offsets[-1]), np.uint8)
    kernels.write_grams(
        segments.data, segments.begins, segments.lengths, first, length, offsets, out
    )
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.large_string(), len(first), buffers)


def _slots(n: int) -> NDArray[np.int32]:
    return np.full(2 << max(4, n.bit_length()), kernels.FREE, np.int32)


def _indices(values: NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])
