"""Cut texts into pieces of a few megabytes, normalize, filter and tokenize them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from dpsu.contributions.codecs import without_views
from dpsu.contributions.id_columns import Column
from dpsu.contributions.ids import NOTHING, canonical, is_text, text_buffers
from dpsu.contributions.pairs import Rows, Tally
from dpsu.errors import DataError, without_values
from dpsu.runtime.threads import in_order_ahead
from dpsu.text.paper_preprocessing import PostsOnce
from dpsu.text.spec import LONGEST_ITEM, PAPER, TextSpec, Tokenizer
from dpsu.text.tokenizing import Segments, tokenize_by

Piece = tuple[pa.Array, pa.Array]

# Large enough that the overhead of a piece is small, small enough to stay in the cache.
BYTES_AT_ONCE = 1 << 22
NO_TEXT = "some rows have no text"
FAILED = "the tokenizer fails on some texts, or does not return a list of texts for them"
TOO_LONG = f"some tokens have more than {LONGEST_ITEM:,} bytes"


def not_utf8(column: str) -> str:
    """What is wrong with texts that are in no encoding we read."""
    return f"some texts of {column!r} are not valid UTF-8"


def pieces(rows: Rows, column: str) -> Iterator[Piece]:
    """Users and texts as they came, some megabytes at a time; no text is copied as a whole."""
    for user, text, _ in in_order_ahead(lambda part: part(), rows.parts):
        if len(user) != len(text):
            raise DataError(f"columns {rows.names[0]!r} and {column!r} have different lengths")
        table = pa.table([user, text], names=["user", "text"])
        # At least one piece, because columns without rows have types, too.
        for batch in table.to_batches() or [table.schema.empty_table().combine_chunks()]:
            users, texts = (_plain(batch[name]) for name in ("user", "text"))
            yield from cut(users, _as_text(column, texts))


def cut(users: pa.Array, texts: pa.Array) -> Iterator[Piece]:
    """Users and ``large_string`` texts, some megabytes at a time."""
    _, offsets = text_buffers(texts)
    first = 0
    while first < len(texts) or first == 0:
        last = int(np.searchsorted(offsets, offsets[first] + BYTES_AT_ONCE, "right")) - 1
        last = min(max(last, first + 1), len(texts))
        yield users.slice(first, last - first), texts.slice(first, last - first)
        first = max(last, 1)


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The column without dictionaries, texts with 64-bit offsets for more than two gigabytes."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    if pa.types.is_dictionary(column.type):
        values = column.dictionary
        if is_text(values.type):
            values = values.cast(pa.large_string())
        return without_values(
            lambda: pa.DictionaryArray.from_arrays(column.indices, values).dictionary_decode(),
            "a column is damaged: its dictionary lacks entries that rows refer to; get an "
            "undamaged copy",
        )
    return column.cast(pa.large_string()) if is_text(column.type) else without_views(column)


def _as_text(column: str, texts: pa.Array) -> pa.Array:
    if Column(column, "text").id_type(texts.type) == NOTHING:
        return pa.nulls(len(texts), pa.large_string())
    return texts


class Tokens:
    """Tokenizes pieces, in any thread, and notes in `tally` what was left out.

    `with_repeats` says that it matters how often an item occurs, so that posts of the papers count
    once. Otherwise every text is looked at alone, and no text is remembered.
    """

    def __init__(
        self,
        user: str,
        source: TextSpec,
        tokenizer: Tokenizer | None,
        tally: Tally,
        *,
        with_repeats: bool,
    ) -> None:
        self._column, self._tally, self._with_repeats = source.column, tally, with_repeats
        self._tokenize = tokenize_by(tokenizer)
        self._posts = PostsOnce(user) if source.tokenizer == PAPER else None

    def of(self, piece: Piece) -> tuple[pa.Array, Segments]:
        """Users of the texts that are kept, and the tokens of each text."""
        users, texts = self.kept(piece)
        return users, self.segments(texts)

    def kept(self, piece: Piece) -> Piece:
        """Users and texts that are not left out; texts are canonical."""
        users, texts = piece
        if texts.null_count:
            self._tally.lose(NO_TEXT, texts.null_count)
            there = texts.is_valid()
            users, texts = users.filter(there), texts.filter(there)
        given, texts = texts.null_count, canonical(self._column, texts)
        if texts.null_count > given:
            self._tally.lose(not_utf8(self._column))
            there = texts.is_valid()
            users, texts = users.filter(there), texts.filter(there)
        if self._posts is not None:
            posts = self._posts
            keep = posts.keep(users, texts) if self._with_repeats else posts.of_authors(users)
            keep = pa.array(keep)
            users, texts = users.filter(keep), texts.filter(keep)
        return users, texts

    def segments(self, texts: pa.Array) -> Segments:
        """The tokens of each text."""
        segments = self._tokenize(texts)
        self._tally.lose(TOO_LONG, segments.too_long)
        self._tally.lose(FAILED, segments.failed)
        self._tally.see(int(np.count_nonzero(np.diff(segments.row_stops, prepend=0))))
        return segments
