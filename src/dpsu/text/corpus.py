"""Texts as sequences of token codes, for mechanisms that need the order of tokens.

Everything here is private; the class has no repr, so that no traceback prints its values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.id_columns import Column
from dpsu.contributions.ids import Ids
from dpsu.contributions.interner import Interner
from dpsu.contributions.pairs import Rows, Tally, question_users, report_lost, report_nothing
from dpsu.kernels.grams import BARRIER
from dpsu.runtime.threads import in_order_ahead
from dpsu.text.grams import grams_of
from dpsu.text.pieces import Piece, Tokens, pieces
from dpsu.text.spec import Split, TextSpec
from dpsu.text.tokenizing import Segments

Int32 = NDArray[np.int32]

WITH_SPACE = "some tokens contain white space"


@dataclass(frozen=True, repr=False)
class Corpus:
    """Codes of tokens, text after text, with -1 after each text and wherever a token was dropped.

    ``owners[p]`` is the user of the text that position p belongs to.
    """

    users: Ids
    tokens: Ids
    codes: Int32
    owners: Int32


def sequences(segments: Segments, tally: Tally) -> tuple[pa.Array, Int32, NDArray[np.int64]]:
    """Distinct tokens, the codes of all texts with -1 after each, and how many codes a text has.

    A token that has white space in it is dropped, and has the code -1.
    """
    found = grams_of(segments, 1, 1)
    spaced = pc.match_substring_regex(found.texts, r"\s").to_numpy(zero_copy_only=False)
    tally.lose(WITH_SPACE, int(spaced.sum()))
    codes = np.where(np.append(spaced, True)[found.lines[0]], BARRIER, found.lines[0])
    # Every text is followed by -1, which separates it from the next and belongs to it.
    codes = np.insert(codes, segments.row_stops, BARRIER).astype(np.int32)
    return found.texts, codes, np.diff(segments.row_stops, prepend=0) + 1


def read_corpus(
    rows: Rows,
    source: TextSpec,
    tokenizer: str | Split | None,
    *,
    strict: bool = False,
    progress: Callable[[int], None] = lambda texts: None,
) -> Corpus:
    """Read, tokenize and intern; `progress` is called with the number of texts of each part."""
    tally = rows.tally.of_texts(f"no text of a {rows.names[0]!r} has a token", rows.shared_users)
    make_tokens = Tokens(rows.names[0], source, tokenizer, tally, with_repeats=True)
    users = Interner(Column(rows.names[0], "user", rows.types[0]), tally.lose)
    tokens = Interner(Column(source.column, "text"), tally.lose)

    def read(piece: Piece) -> tuple[Int32, Int32, int]:
        owner, segments = make_tokens.of(piece)
        texts, codes, sizes = sequences(segments, tally)
        user_codes, token_codes = np.empty(len(owner), np.int32), np.empty(len(texts), np.int32)
        if users.intern(owner, user_codes):
            tally.lose(f"some rows have no {rows.names[0]!r}", 1)
        tokens.intern(texts, token_codes)
        return (
            np.append(token_codes, np.int32(BARRIER))[codes],
            np.repeat(user_codes, sizes),
            len(owner),
        )

    all_codes, all_owners = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for codes, owners, n_texts in in_order_ahead(read, pieces(rows, source.column)):
        progress(n_texts)
        all_codes.append(codes)
        all_owners.append(owners)
    codes, owners = np.concatenate(all_codes), np.concatenate(all_owners)
    all_users, all_tokens = users.numbered(), tokens.numbered()
    all_users.renumber(owners)
    all_tokens.renumber(codes)
    if (owners < 0).any():
        codes, owners = codes[owners >= 0], owners[owners >= 0]
    report_lost(tally, strict)
    ids = all_users.ids, all_tokens.ids
    if not len(ids[1]):
        report_nothing(tally, strict)
    elif tally.suspicious(len(ids[0])):
        question_users("text", rows.names[0])
    return Corpus(*ids, codes, owners)
