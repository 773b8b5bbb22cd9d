"""Texts as sequences of token codes, for mechanisms that need to know what follows what.

Everything here is private; the class has no repr, so that no traceback prints its values.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.errors import DataError, DataWarning
from dpsu.ids import Ids
from dpsu.interning import Interner, Prepared
from dpsu.kernels.grams import BARRIER
from dpsu.kernels.threads import in_order_ahead
from dpsu.pairs import Rows
from dpsu.text.grams import NO_TEXT, TOO_LONG, grams_of, pieces
from dpsu.text.paper import PostsOnce
from dpsu.text.source import PAPER, Split, TextSource
from dpsu.text.tokenizing import tokenize_by

WITH_SPACE = "some tokens contain white space"


@dataclass(frozen=True, repr=False)
class Corpus:
    """Codes of tokens, text after text, with -1 after each text and wherever a token was dropped.

    ``owners[p]`` is the user of the text that position p belongs to.
    """

    users: Ids
    tokens: Ids
    codes: NDArray[np.int32]
    owners: NDArray[np.int32]


def read_corpus(
    rows: Rows,
    source: TextSource,
    tokenizer: str | Split | None,
    *,
    strict: bool = False,
    tick: Callable[[int], None] = lambda texts: None,
) -> Corpus:
    """Read, tokenize and intern; `tick` is told how many texts were read."""
    tokenize = tokenize_by(tokenizer)
    once = PostsOnce(rows.names[0]) if source.tokenizer == PAPER else None
    users, tokens = Interner(rows.names[0]), Interner(source.column)
    lost: Counter[str] = Counter()

    def prepare(
        piece: tuple[pa.Array, pa.Array],
    ) -> tuple[Prepared, Prepared, NDArray[np.int32], NDArray[np.int32]]:
        owner, texts = piece
        if texts.null_count:
            lost[NO_TEXT] += texts.null_count
            owner, texts = owner.filter(texts.is_valid()), texts.drop_null()
        if once is not None:
            keep = pa.array(once.keep(owner, texts))
            owner, texts = owner.filter(keep), texts.filter(keep)
        segments = tokenize(texts)
        lost[TOO_LONG] += segments.too_long
        found = grams_of(segments, 1, 1)
        spaced = pc.match_substring_regex(found.texts, r"\s").to_numpy(zero_copy_only=False)
        lost[WITH_SPACE] += int(spaced.sum())
        codes = np.where(np.append(spaced, True)[found.lines[0]], BARRIER, found.lines[0])
        # A barrier after every text; its own place belongs to the text before it.
        codes = np.insert(codes, segments.row_stops, BARRIER).astype(np.int32)
        sizes = np.diff(segments.row_stops, prepend=0) + 1
        owners = np.repeat(np.arange(len(texts), dtype=np.int32), sizes)
        (user,) = users.prepare(pa.chunked_array([owner]))
        (token,) = tokens.prepare(pa.chunked_array([found.texts]))
        return user, token, codes, owners

    all_codes, all_owners = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for user, token, codes, owners in in_order_ahead(prepare, pieces(rows, source.column)):
        user_codes, token_codes = np.empty(user.rows, np.int32), np.empty(token.rows, np.int32)
        if users.intern(user, user_codes):
            lost[f"some rows have no {rows.names[0]!r}"] += 1
        tokens.intern(token, token_codes)
        tick(len(user_codes))
        owned = user_codes[owners]
        there = owned >= 0
        all_codes.append(np.append(token_codes, np.int32(BARRIER))[codes[there]])
        all_owners.append(owned[there])
    for told in sorted(+lost):
        if strict:
            raise DataError(f"{told}; drop or repair them, or do without strict")
        warnings.warn(f"{told}; they were ignored", DataWarning, stacklevel=3)
    ids = users.ids(), tokens.ids()
    return Corpus(*ids, np.concatenate(all_codes), np.concatenate(all_owners))
