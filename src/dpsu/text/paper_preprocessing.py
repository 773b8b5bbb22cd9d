"""The preprocessing of Gopi et al. 2020, which Carvalho et al. 2022 share.

"We filter out duplicate entries, removed posts, and deleted authors. For text preprocessing, we
remove URLs and symbols, lowercase all words, and tokenize using nltk.word_tokenize." Symbols are
taken to be all but letters, digits, white space and ordinary punctuation; the published sample has
full stops, commas and apostrophes as tokens. Duplicates are filtered within one user only: a filter
across users would make the items of one user depend on another user, and no guarantee would hold.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.id_columns import Column
from dpsu.contributions.id_types import TEXT_TYPE
from dpsu.contributions.ids import text_buffers
from dpsu.contributions.interner import Interner
from dpsu.kernels.hashing import hash_strings
from dpsu.runtime.extras import load

GONE = ("[removed]", "[deleted]")
URL = re.compile(r"(?:https?://|www\.)\S+", re.IGNORECASE)
SYMBOL = re.compile(r"""[^\w\s.,!?;:'"()/-]|_""")


def splitter() -> Callable[[str], list[str]]:
    """Clean and tokenize one text; needs nltk, but none of the data that nltk downloads."""
    rules = load("nltk.tokenize.destructive").NLTKWordTokenizer()

    def split(text: str) -> list[str]:
        if text.strip() in GONE:
            return []
        tokens: list[str] = rules.tokenize(SYMBOL.sub(" ", URL.sub(" ", text)).lower())
        return tokens

    return split


class PostsOnce:
    """Which posts to keep: of known authors, and each text of an author once.

    Where only the items of an author matter, and not how often, `of_authors` keeps enough: equal
    posts have equal items. Authors are compared exactly. Texts of one author are compared by a
    salted hash of 64 bits: whether two of them collide depends on that author alone.
    """

    def __init__(self, user: str) -> None:
        self._author = Column(user, "user", TEXT_TYPE)
        self._posts = Interner(Column(user, "user"))
        self._seen = np.zeros(1, bool)
        # A random salt, so that nobody can write two posts of one hash.
        self._salt = np.uint64(int.from_bytes(os.urandom(8), "big"))
        self._lock = threading.Lock()

    def of_authors(self, users: pa.Array) -> NDArray[np.bool_]:
        """Whether each row has an author who is not deleted; one without any is kept here."""
        gone = pc.is_in(self._authors(users), value_set=pa.array(GONE, pa.large_string()))
        there: NDArray[np.bool_] = ~gone.fill_null(False).to_numpy(zero_copy_only=False)
        return there

    def _authors(self, users: pa.Array) -> pa.Array:
        # Cells without an id are dropped and reported where users are interned.
        return self._author.canonical_ids(users, lambda what: None).cast(pa.large_string())

    def keep(self, users: pa.Array, texts: pa.Array) -> NDArray[np.bool_]:
        """Whether to keep each row; posts of earlier calls are remembered."""
        there, authors = self.of_authors(users), self._authors(users)
        hashes = pa.array(hash_strings(*text_buffers(texts), self._salt))
        # Digits, then a space, so that no two pairs of hash and author give the same text.
        between = pa.scalar(" ", pa.large_string())
        posts = pc.binary_join_element_wise(hashes.cast(pa.large_string()), authors, between)
        codes = np.empty(len(posts), np.int32)
        with self._lock:
            self._posts.intern(posts, codes)
            if codes.max(initial=-1) >= len(self._seen):
                self._seen = np.append(self._seen, np.zeros(int(codes.max()) + 1, bool))
            _, first = np.unique(codes, return_index=True)
            fresh = np.zeros(len(codes), bool)
            fresh[first] = ~self._seen[codes[first]]
            self._seen[codes[codes >= 0]] = True
            # A row without an author is kept here: the reader drops and reports it.
            fresh[codes < 0] = True
        keep: NDArray[np.bool_] = there & fresh
        return keep
