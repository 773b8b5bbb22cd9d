"""The texts of one machine give weights for every length: see `dpsu.rounds.protocols`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions import bounding, order
from dpsu.contributions.grouped import arrange
from dpsu.contributions.ids import Ids, integers, numbers
from dpsu.contributions.pairs import Block, Pairs
from dpsu.engines.found import Report
from dpsu.plans.plan import Plan
from dpsu.policies.passes import Progress, no_progress
from dpsu.policies.weighted import Weighted
from dpsu.privacy.curves import Gaussian
from dpsu.randomness.coins import flip_coins
from dpsu.randomness.keys import Key
from dpsu.rounds.ngrams import NGramRounds
from dpsu.runtime.memory import Memory
from dpsu.text.corpus import Corpus
from dpsu.text.domain import Domain


def run(plan: Plan, corpus: Corpus, key: Key, memory: Memory, report: Report) -> pa.Array:
    """Released n-grams of all lengths, sorted."""
    assert isinstance(plan.selection, NGramRounds)
    report("weighing n-grams", 0)
    engine = LocalTexts(corpus, memory, lambda users: report("weighing n-grams", users))
    return all_lengths(plan.selection.run(engine, key))


def all_lengths(released: list[Domain]) -> pa.Array:
    """Grams of all domains, sorted."""
    found = pa.concat_arrays([domain.texts for domain in released])
    return found.take(pa.compute.sort_indices(found))


class LocalTexts:
    """All texts in memory, and for every position the released gram that starts there, if any."""

    def __init__(
        self, corpus: Corpus, memory: Memory | None = None, progress: Progress = no_progress
    ) -> None:
        self._corpus, self._memory, self._progress = corpus, memory, progress
        self._at = corpus.codes
        self._known: Domain | None = None

    def _starting(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions where an allowed gram starts, and the gram: a token's code, or a pair."""
        if self._known is None:
            positions = np.flatnonzero(self._at >= 0)
            return positions, self._at[positions].astype(np.int64)
        # Both parts are released; they overlap because they start side by side in one text.
        both = (self._at[:-1] >= 0) & (self._at[1:] >= 0)
        positions = np.flatnonzero(both)
        heads = self._at[positions].astype(np.int64)
        return positions, heads * len(self._known) + self._at[positions + 1]

    def select(
        self, length: int, rounds: NGramRounds, curve: Gaussian, key: Key
    ) -> tuple[pa.Array | NDArray[np.int64], frozenset[int]]:
        """One coin for each gram that has weight."""
        held, weights = self.weigh(length, rounds.max_items, rounds.policy, key)
        names = Ids(held) if self._known is None else Ids(self._known.spelled(held))
        coins = flip_coins(curve, weights, rounds.fraction_bits, names, key, length)
        taken = np.flatnonzero(coins)
        if self._known is None:
            return names.take(taken).values, frozenset()
        pairs: NDArray[np.int64] = held
        return pairs[taken], frozenset(pairs[weights > 0].tolist())

    def weigh(
        self, length: int, max_items: int, policy: Weighted, key: Key
    ) -> tuple[pa.Array | NDArray[np.int64], NDArray[np.int64]]:
        """Held and allowed grams and their weights; only allowed ones count towards `max_items`."""
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
        # Weights do not depend on the order of users. Grams that a user repeats equally often are
        # ordered by a keyed hash.
        users = np.arange(len(pairs.users))
        items = order.hash_order(names, key.salt(f"gram order, length {length}"))
        grouped = arrange(pairs, users, items, with_repeats=True, memory=self._memory)
        kept = bounding.first(order.by_repeats(grouped), max_items)
        weights = np.empty(len(distinct), np.int64)
        weights[items] = policy.weights(kept, self._progress)
        return held, weights

    def allow_extensions(self, released: Domain) -> None:
        """Find the released gram that starts at every position, if there is one."""
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
