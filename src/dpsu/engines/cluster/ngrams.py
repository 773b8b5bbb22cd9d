"""N-grams length by length on a cluster: one query for each length.

    texts -> SendCorpus -> [users] -> WeighGrams k -> [sum by gram] -> FlipGrams k -> grams

Between two queries, the driver knows what is released and nothing else: the domain of the next
length, which is public. It draws the grams that nobody weighs, for which it asks two things more:
how many grams have weight, and which of some pairs, that the key drew, are among them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids, integers, numbers
from dpsu.engines import local
from dpsu.engines.cluster.corpora import received_corpora
from dpsu.engines.cluster.messages import arrived
from dpsu.engines.cluster.steps import Batches, Job, numbered, summed, without_item
from dpsu.engines.local_texts import LocalTexts
from dpsu.privacy.curves import Gaussian
from dpsu.randomness.coins import flip_coins
from dpsu.randomness.keys import Key
from dpsu.rounds.ngrams import NGramRounds, drawn_pair
from dpsu.text.domain import Domain

# What a row of an answer says of its gram. A row without a gram says how many have weight.
RELEASED, WEIGHED = 1, 2
# Of grams that nobody weighs, about so many more are asked about than are expected to come out.
MARGIN, LEAST_ASKED = 2, 64


@dataclass(frozen=True, repr=False)
class WeighGrams:
    """What the users of a partition give to the grams of one length that domains allow.

    One more row has no gram, and the number of users for its weight, so that it can be checked.
    """

    job: Job
    domains: tuple[Domain, ...]

    @property
    def round_number(self) -> int:
        """The length."""
        return len(self.domains) + 1

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (gram, weight): tokens, or pairs of the last domain."""
        job, rounds = self.job, self.job.plan.selection
        assert isinstance(rounds, NGramRounds)
        for corpus in received_corpora(job.plan, arrived(batches)):
            engine = LocalTexts(corpus)
            for domain in self.domains:
                engine.allow_extensions(domain)
            held, weights = engine.weigh(
                self.round_number, rounds.max_items, rounds.policy, job.key
            )
            given = np.flatnonzero(weights)
            names = Ids(integers(held) if isinstance(held, np.ndarray) else held)
            yield from numbered(names.take(given), weights[given], job.item_type)
            yield from without_item(len(corpus.users), job.item_type)


@dataclass(frozen=True, repr=False)
class FlipGrams:
    """One coin for each gram, by its weight over all users; and what the driver asks. PRIVATE.

    `asked` are pairs, sorted: those that have weight are in the answer.
    """

    job: Job
    known: Domain | None
    curve: Gaussian
    round_number: int
    asked: NDArray[np.int64]

    def __call__(self, batches: Batches) -> Batches:
        """Rows of (gram, what about it)."""
        job, rounds = self.job, self.job.plan.selection
        assert isinstance(rounds, NGramRounds)
        for item, sums in summed(batches):
            named = item.is_valid().to_numpy(zero_copy_only=False)
            # The sum of the rows without a gram is the number of users.
            local.refuse_too_many(job.plan, int(sums[~named].sum()))
            grams, weights = item.drop_null(), sums[named]
            pairs = np.empty(0, np.int64) if self.known is None else numbers(grams, np.int64)
            names = Ids(grams if self.known is None else self.known.spelled(pairs))
            coins = flip_coins(
                self.curve, weights, rounds.fraction_bits, names, job.key, self.round_number
            )
            taken = np.flatnonzero(coins)
            hit = np.flatnonzero(np.isin(pairs, self.asked))
            for places, what in ((taken, RELEASED), (hit, WEIGHED)):
                yield from numbered(
                    Ids(grams).take(places), np.full(len(places), what), job.item_type
                )
            yield from numbered(
                Ids(pa.nulls(1, item.type)), np.array([len(weights)]), job.item_type
            )


# Runs both steps on all texts, with a sum by gram between them, and collects the answer.
AskCluster = Callable[[WeighGrams, FlipGrams], pa.Table]


class ClusterTexts:
    """The texts of a cluster as :class:`dpsu.rounds.protocols.TextEngine`."""

    def __init__(self, job: Job, ask: AskCluster) -> None:
        self._job, self._ask = job, ask
        self._domains: tuple[Domain, ...] = ()

    def select(
        self, length: int, rounds: NGramRounds, curve: Gaussian, key: Key
    ) -> tuple[pa.Array | NDArray[np.int64], WeighedPairs]:
        """One coin for each gram that has weight, on the cluster."""
        known = self._domains[-1] if self._domains else None
        job = self._job if known is None else replace(self._job, item_type=pa.int64())
        weigh = WeighGrams(job, self._domains)

        def ask(asked: NDArray[np.int64]) -> Answer:
            found = self._ask(weigh, FlipGrams(job, known, curve, length, asked))
            return Answer.of(found, tokens=known is None)

        expected = 0.0 if known is None else rounds.spurious * min(known.n_pairs, len(known))
        weighed = WeighedPairs(known, key, length, ask, expected)
        return weighed.released, weighed

    def allow_extensions(self, released: Domain) -> None:
        """The next length is made of these."""
        self._domains = (*self._domains, released)


@dataclass(frozen=True, repr=False)
class Answer:
    """What came back: released grams, how many grams have weight, and which of those asked."""

    released: pa.Array | NDArray[np.int64]
    n_weighed: int
    weighed: frozenset[int]

    @classmethod
    def of(cls, table: pa.Table, *, tokens: bool) -> Answer:
        """Sort the rows of an answer by what they say."""
        type_ = pa.large_string() if tokens else pa.int64()
        item = pa.concat_arrays([pa.nulls(0, type_), *table["item"].cast(type_).chunks])
        what = table["number"].to_numpy()
        named = item.is_valid().to_numpy(zero_copy_only=False)

        def those(said: int) -> pa.Array:
            return item.filter(pa.array(named & (what == said)))

        released = those(RELEASED)
        return cls(
            released if tokens else numbers(released, np.int64),
            int(what[~named].sum()),
            frozenset() if tokens else frozenset(those(WEIGHED).to_pylist()),
        )


class WeighedPairs:
    """The pairs that have weight, as far as the cluster was asked about them. PRIVATE.

    It is asked about the pairs that the key draws first, and again if these were too few.
    """

    def __init__(
        self,
        known: Domain | None,
        key: Key,
        length: int,
        ask: Callable[[NDArray[np.int64]], Answer],
        expected: float,
    ) -> None:
        self._known, self._key, self._length, self._ask = known, key, length, ask
        self._attempts = math.ceil(MARGIN * (expected + 6 * math.sqrt(expected))) + LEAST_ASKED
        self._asked: set[int] = set()
        self._weighed: set[int] = set()
        answer = self._answer()
        self.released, self._n_weighed = answer.released, answer.n_weighed

    def _answer(self) -> Answer:
        asked = self._candidates()
        answer = self._ask(asked)
        self._asked.update(asked.tolist())
        self._weighed.update(answer.weighed)
        return answer

    def _candidates(self) -> NDArray[np.int64]:
        known = self._known
        n_pairs = 0 if known is None else known.n_pairs
        if known is None or n_pairs == 0:
            return np.empty(0, np.int64)
        if n_pairs <= MARGIN * self._attempts:
            return np.unique([known.pair(place) for place in range(n_pairs)])
        drawn = [
            drawn_pair(known, self._key, self._length, attempt) for attempt in range(self._attempts)
        ]
        return np.unique(drawn)

    def __len__(self) -> int:
        return self._n_weighed

    def __contains__(self, pair: object) -> bool:
        while pair not in self._asked:
            self._attempts *= 4
            self._answer()
        return pair in self._weighed
