"""Everything that serves as randomness: right, rejected when it is not, independent, never flaky.

Each test is repeated with 60 keys, which are the same in every run, and each repetition also rejects
the same sample scaled by 1.3 and by 0.7.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpsu.contributions.ids import Ids
from dpsu.inputs.iterables import from_iterable
from dpsu.inputs.keyed import Keyed
from dpsu.kernels.grouping import keep_sample
from dpsu.kernels.hashing import digests
from dpsu.randomness.coins import PURPOSE
from dpsu.randomness.keys import Key, prefix
from tests.support.cases import every
from tests.support.databases import LISTED, listed_users

N = 3000
REPEATS = 60
LEVEL = 1e-20
OTHER = Key.from_insecure_seed(-1)
ITEMS = Ids(pa.array([f"item {k}" for k in range(N)], pa.large_string()))


def coin_words(key: Key, round_: int = 0) -> np.ndarray:
    words = digests(key.secret, prefix(PURPOSE, round_, 0), *ITEMS.buffers(), 1)[:, 0]
    return np.asarray(words, np.float64) / 2.0**64


def order_hashes(key: Key) -> np.ndarray:
    return ITEMS.hashes(key.salt("user order")).astype(np.float64) / 2.0**64


def listed_ids(key: Key) -> np.ndarray:
    rows = from_iterable([{"a"}] * N, Keyed(LISTED), key)
    return np.array([int(u[:16], 16) for u in listed_users(rows)], np.float64) / 2.0**64


def kept_of_long_users(key: Key) -> np.ndarray:
    """Which single item of 50 each of N users keeps, spread over [0, 1)."""
    users = ITEMS.hashes(key.salt("sample by user"))
    items = Ids(pa.array([f"word {k}" for k in range(50)], pa.large_string()))
    start = np.arange(N + 1, dtype=np.int64) * 50
    held = np.tile(np.arange(50, dtype=np.int32), N)
    stop = start[1:].copy()
    hashes = items.hashes(key.salt("sample by item"))
    keep_sample(start, stop, held, 1, users, hashes, 0, N)
    kept = held[start[:-1]]
    return (kept + np.random.default_rng(0).random(N)) / 50.0


SOURCES: dict[str, Callable[[Key], np.ndarray]] = {
    "coins": coin_words,
    "orders": order_hashes,
    "ids of listed users": listed_ids,
    "samples": kept_of_long_users,
}


@pytest.mark.slow
@every("source", SOURCES)
def test_uniform_and_the_test_would_notice_every_time(source: str) -> None:
    chances = []
    for seed in range(REPEATS):
        uniform = SOURCES[source](Key.from_insecure_seed(seed))
        chances.append(stats.kstest(uniform, "uniform").pvalue)
        assert chances[-1] > LEVEL
        assert stats.kstest(1.3 * uniform, "uniform").pvalue < LEVEL
        assert stats.kstest(0.7 * uniform, "uniform").pvalue < LEVEL
    # Together they must look like what they are: uniform chances.
    assert stats.kstest(chances, "uniform").pvalue > LEVEL


def correlation_chance(a: np.ndarray, b: np.ndarray) -> float:
    counts, _, _ = np.histogram2d(a, b, bins=4, range=[[0, 1], [0, 1]])
    return float(stats.chisquare(counts.ravel()).pvalue)


PAIRS: dict[str, Callable[[Key], tuple[np.ndarray, np.ndarray]]] = {
    "coins of neighboring items": lambda key: (coin_words(key)[:-1], coin_words(key)[1:]),
    "coins of two rounds": lambda key: (coin_words(key, 0), coin_words(key, 1)),
    "coins under two keys": lambda key: (coin_words(key), coin_words(OTHER)),
    "coins and orders": lambda key: (coin_words(key), order_hashes(key)),
    "samples of neighboring users": lambda key: (
        kept_of_long_users(key)[:-1],
        kept_of_long_users(key)[1:],
    ),
}


@pytest.mark.slow
@every("pair", PAIRS)
def test_independent_and_the_test_would_notice(pair: str) -> None:
    for seed in range(REPEATS // 2):
        a, b = PAIRS[pair](Key.from_insecure_seed(seed))
        assert correlation_chance(a, b) > LEVEL
        half = np.where(np.arange(len(a)) % 2 == 0, a, b)  # half of the pairs are equal
        assert correlation_chance(a, half) < LEVEL
