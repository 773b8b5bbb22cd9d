"""Turn rows of (user, text) into rows of (user, item, repeats), a few megabytes at a time.

Tokens become codes within a piece of text, and n-grams become codes of sequences of codes. The
items of every text are merged and counted before text is made of them, once for each distinct item.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.pairs import Columns, Rows
from dpsu.errors import DataError
from dpsu.kernels import grams as kernels
from dpsu.text.pieces import Piece, Tokens, pieces
from dpsu.text.spec import Split, TextSpec
from dpsu.text.tokenizing import Segments

# Codes have 32 bits. A piece of several texts has a few megabytes, so that this is for one text.
MOST_GRAMS = 2**31 - 1


def items_of_texts(
    rows: Rows, source: TextSpec, tokenizer: str | Split | None, *, with_repeats: bool
) -> Rows:
    """Rows of items from rows of texts, with repeats if they are wanted."""
    tally = rows.tally.of_texts(f"no text of a {rows.names[0]!r} has a token", rows.shared_users)
    tokens = Tokens(rows.names[0], source, tokenizer, tally, with_repeats=with_repeats)
    parts = (
        partial(_part, piece, tokens, source, with_repeats) for piece in pieces(rows, source.column)
    )
    return Rows(
        parts, (rows.names[0], source.column, None), False, tally, types=(rows.types[0], None)
    )


@dataclass(frozen=True, repr=False)
class Grams:
    """Items of some texts: for each length, the code of the n-gram that starts at each segment."""

    lines: NDArray[np.int32]
    texts: pa.Array


def _part(piece: Piece, tokens: Tokens, source: TextSpec, with_repeats: bool) -> Columns:
    users, segments = tokens.of(piece)
    held = items_of_rows(segments, source, with_repeats=with_repeats)
    user_column = pa.DictionaryArray.from_arrays(_indices(held.rows), users)
    item_column = pa.DictionaryArray.from_arrays(_indices(held.items), held.texts)
    repeats = None if held.repeats is None else pa.chunked_array([_indices(held.repeats)])
    return pa.chunked_array([user_column]), pa.chunked_array([item_column]), repeats


@dataclass(frozen=True, repr=False)
class HeldItems:
    """Distinct items of every text: row of the text, place of the item in `texts`, repeats."""

    rows: NDArray[np.int32]
    items: NDArray[np.int32]
    repeats: NDArray[np.int32] | None
    texts: pa.Array


def items_of_rows(segments: Segments, source: TextSpec, *, with_repeats: bool) -> HeldItems:
    """Merge the n-grams of every text."""
    found = grams_of(segments, source.shortest, source.longest)
    room = found.lines.size
    rows, items = np.empty(room, np.int32), np.empty(room, np.int32)
    repeats = np.empty(room if with_repeats else 0, np.int32)
    n = kernels.merge_rows(found.lines, segments.row_stops, rows, items, repeats)
    return HeldItems(rows[:n], items[:n], repeats[:n] if with_repeats else None, found.texts)


def grams_of(segments: Segments, shortest: int, longest: int) -> Grams:
    """Codes of all n-grams of these lengths, and the texts that they stand for."""
    n = len(segments.begins)
    _refuse_beyond_codes(n)
    salt = np.uint64(int.from_bytes(os.urandom(8), "big"))
    codes, first = np.empty(n, np.int32), np.empty(n, np.int64)
    n_tokens = kernels.intern_segments(
        segments.data, segments.begins, segments.lengths, salt, first, codes
    )
    lines = np.empty((longest - shortest + 1, n), np.int32)
    texts: list[pa.Array] = []
    n_known = 0
    for length in range(shortest, longest + 1):
        _refuse_beyond_codes(n_known + n)
        if length == 1:
            lines[0], n_grams = codes, n_tokens
        else:
            n_grams = kernels.intern_grams(
                codes, segments.row_stops, length, salt, first, n_known, lines[length - shortest]
            )  # fmt: skip
        texts.append(_spelled(segments, first[:n_grams], length))
        n_known += n_grams
    return Grams(lines, pa.concat_arrays(texts))


def _refuse_beyond_codes(grams: int) -> None:
    if grams > MOST_GRAMS:
        raise DataError(f"a text has more than {MOST_GRAMS:,} n-grams; leave it out")


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
