"""From rows of (user, text) to rows of (user, item, count), a few megabytes of text at a time.

Tokens become codes inside a piece of text, n-grams become codes of codes, and every text's items
are merged and counted before they leave: only distinct items are ever spelled out.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.pairs import Columns, Rows
from dpsu.kernels import grams as kernels
from dpsu.text.pieces import Piece, Tokens, pieces
from dpsu.text.source import Split, TextSource
from dpsu.text.tokenizing import Segments


def items_of_texts(
    rows: Rows, source: TextSource, tokenizer: str | Split | None, *, counted: bool
) -> Rows:
    """Rows of items from rows of texts; local counts only where they are wanted."""
    tally = rows.tally.of_texts(f"no text of a {rows.names[0]!r} has a token", rows.shared_users)
    tokens = Tokens(rows.names[0], source, tokenizer, tally)
    parts = (
        partial(_part, piece, tokens, source, counted) for piece in pieces(rows, source.column)
    )
    return Rows(
        parts, (rows.names[0], source.column, None), False, tally, types=(rows.types[0], None)
    )


@dataclass(frozen=True, repr=False)
class Grams:
    """Items of some texts: for each length of n-grams, the code that starts at each segment."""

    lines: NDArray[np.int32]
    texts: pa.Array


def _part(piece: Piece, tokens: Tokens, source: TextSource, counted: bool) -> Columns:
    users, segments = tokens.of(piece)
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
        segments.data, segments.begins, segments.lengths, salt, first, codes
    )
    lines = np.empty((longest - shortest + 1, n), np.int32)
    texts: list[pa.Array] = []
    n_known = 0
    for length in range(shortest, longest + 1):
        if length == 1:
            lines[0], n_grams = codes, n_tokens
        else:
            n_grams = kernels.intern_grams(
                codes, segments.row_stops, length, salt, first, n_known, lines[length - shortest]
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


def _indices(values: NDArray[np.int32]) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(values), [None, pa.py_buffer(values)])
