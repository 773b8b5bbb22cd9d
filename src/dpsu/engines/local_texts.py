"""Texts of one machine, asked for weights length after length: see `dpsu.rounds.protocols`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions import bounding
from dpsu.contributions.grouped import arrange
from dpsu.contributions.ids import Ids, integers, numbers
from dpsu.contributions.pairs import Block, Pairs
from dpsu.policies import order
from dpsu.policies.passes import Done, nobody_waits
from dpsu.policies.weighted import Weighted
from dpsu.randomness.keys import Key
from dpsu.runtime.memory import Memory
from dpsu.text.corpus import Corpus
from dpsu.text.domain import Domain


class LocalSequences:
    """All texts in memory: at every position the released gram that starts there, if any."""

    def __init__(
        self, corpus: Corpus, memory: Memory | None = None, done: Done = nobody_waits
    ) -> None:
        self._corpus, self._memory, self._done = corpus, memory, done
        self._at = corpus.codes
        self._known: Domain | None = None

    def _starting(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions where an allowed gram starts, and which: a token's code, or a pair."""
        if self._known is None:
            positions = np.flatnonzero(self._at >= 0)
            return positions, self._at[positions].astype(np.int64)
        # Both parts are released; they overlap because they start side by side in one text.
        both = (self._at[:-1] >= 0) & (self._at[1:] >= 0)
        positions = np.flatnonzero(both)
        heads = self._at[positions].astype(np.int64)
        return positions, heads * len(self._known) + self._at[positions + 1]

    def weigh(
        self, length: int, max_items: int, policy: Weighted, key: Key
    ) -> tuple[pa.Array | NDArray[np.int64], NDArray[np.int64]]:
        """Held and allowed grams with their weights; capped after what is not allowed is gone."""
        positions, grams = self._starting()
        coded = integers(grams).dictionary_encode()
        codes, distinct = numbers(coded.indices, np.int32), numbers(coded.dictionary, np.int64)
        if self._known is None:
            held: pa.Array | NDArray[np.int64] = self._corpus.tokens.take(distinct).values
            names = Ids(held)
        else:
            held, names = distinct, Ids(self._known.spelled(distinct))
        block = Block(self._corpus.owners[positions], codes, None)
        pairs = Pairs(self._corpus.users, names, [block] if len(positions) else [])
        # Weights do not depend on the order of users; ties of a user's counts go by a keyed hash.
        users = np.arange(len(pairs.users))
        items = order.hash_order(names, key.salt(f"gram order, length {length}"))
        grouped = arrange(pairs, users, items, counted=True, memory=self._memory)
        kept = bounding.first(order.by_local_count(grouped), max_items)
        weights = np.empty(len(distinct), np.int64)
        weights[items] = policy.weights(kept, self._done)
        return held, weights

    def go_on(self, released: Domain) -> None:
        """Look up which released gram starts at every position."""
        positions, grams = self._starting()
        found: NDArray[np.int64]
        if self._known is None:
            texts = self._corpus.tokens.values
            places = pa.compute.index_in(texts, value_set=released.texts).fill_null(-1)
            found = numbers(places.cast(pa.int64()), np.int64)[grams]
        else:
            found = released.places(grams, self._known)
        at = np.full(len(self._at), -1, np.int32)
        at[positions] = found
        self._at, self._known = at, released
