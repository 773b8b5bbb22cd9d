"""Coins: exact against many digits where doubles cannot tell, fair where they can."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from dpsu.contributions.ids import Ids
from dpsu.privacy.curves import (
    FORMULA_ERROR,
    Gaussian,
    Laplace,
    Optimal,
    ReleaseCurve,
    TruncatedLaplace,
)
from dpsu.randomness import coins
from dpsu.randomness.keys import Key
from tests.support.cases import every

KEY = Key.from_insecure_seed(1)
CURVES: list[ReleaseCurve] = [
    Laplace(1 / 3, 4.7),
    Gaussian(1.2824, 6.3974),
    TruncatedLaplace(1.0, 1e-5),
    Optimal(1.0, 1e-5),
]


def ids(n: int, prefix: str = "item") -> Ids:
    return Ids(pa.array([f"{prefix} {k}" for k in range(n)], pa.large_string()))


@every("curve", CURVES)
def test_compiled_bounds_bracket_the_exact_probability(curve: ReleaseCurve) -> None:
    rng = np.random.default_rng(0)
    bits = 0 if isinstance(curve, Optimal) else 40
    weights = np.unique(
        np.concatenate([[1, 2, 3], rng.integers(1, 40 << bits, 300), np.arange(1, 40) << bits])
    ).astype(np.int64)
    low, last_open = coins._word_bounds(curve, weights, bits)
    for weight, below, above in zip(
        weights.tolist(), low.tolist(), last_open.tolist(), strict=True
    ):
        exact_low, exact_high = curve.exact(Fraction(weight, 1 << bits), 128)
        assert below << 64 <= exact_low
        assert exact_high <= (above + 1) << 64
        # And they are tight enough that the slow path stays rare.
        assert above - below <= 2 * (2**64 * FORMULA_ERROR) + 3


@every("curve", CURVES)
def test_undecided_words_are_settled_exactly(
    curve: ReleaseCurve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Put U next to pi on purpose: 10 bits, 200 bits and 500 bits deep, on either side."""
    weight = {"optimal": Fraction(13), "truncated-laplace": Fraction(85, 8)}.get(
        curve.kind, Fraction(37, 8)
    )
    deep = 512
    low, high = curve.exact(weight, deep)
    for distance in (10, 200, 500):
        for side in (-1, 1):
            uniform = (low if side < 0 else high) + side * (1 << (deep - distance))
            blocks = uniform.to_bytes(64, "big")

            def digest(key: Key, purpose: str, round_: int, block: int, item: bytes) -> bytes:
                return blocks[32 * block : 32 * block + 32]  # noqa: B023

            monkeypatch.setattr(Key, "digest", digest)
            assert coins.decide(curve, weight, b"", Key(b"k" * 32), 0) is (side < 0)


def test_slow_path_is_taken_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    """With useless bounds every coin goes the exact way, and none falls differently."""
    curve, n = Gaussian(1.28, 6.4), 400
    weights = np.random.default_rng(1).integers(0, 12 << 20, n).astype(np.int64)
    quick = coins.flip_coins(curve, weights, 20, ids(n), KEY)
    monkeypatch.setattr(coins, "FORMULA_ERROR", 1.0)
    assert (coins.flip_coins(curve, weights, 20, ids(n), KEY) == quick).all()
    assert 0 < quick.sum() < n


def test_the_last_word_is_not_a_rejection(monkeypatch: pytest.MonkeyPatch) -> None:
    """U just below 1 must release an item whose probability is 1."""
    monkeypatch.setattr(coins, "digests", lambda *a: np.full((1, 1), 2**64 - 1, np.uint64))
    monkeypatch.setattr(Key, "digest", lambda self, *a: b"\xff" * 32)
    sure = np.array([100 << 20], np.int64)
    assert coins.flip_coins(TruncatedLaplace(1.0, 1e-5), sure, 20, ids(1), KEY).all()


def test_weight_zero_is_never_released() -> None:
    weights = np.zeros(1000, np.int64)
    assert not coins.flip_coins(Gaussian(1e9, 1.0), weights, 0, ids(1000), KEY).any()
    weights[17] = 1
    released = coins.flip_coins(Gaussian(1e9, -1e12), weights, 0, ids(1000), KEY)
    assert released.tolist() == [k == 17 for k in range(1000)]


def test_a_coin_depends_on_key_and_item_alone() -> None:
    curve, n = Gaussian(1.0, 5.0), 2000
    weights = np.full(n, 5 << 10, np.int64)
    key = Key.from_insecure_seed(3)
    released = coins.flip_coins(curve, weights, 10, ids(n), key)
    mixed = np.random.default_rng(0).permutation(n)[: n // 3]
    assert (
        coins.flip_coins(curve, weights[mixed], 10, ids(n).take(mixed), key) == released[mixed]
    ).all()
    other = coins.flip_coins(curve, weights, 10, ids(n), Key.from_insecure_seed(4))
    again = coins.flip_coins(curve, weights, 10, ids(n), key, round_=1)
    assert 800 < (other != released).sum() < 1200
    assert 800 < (again != released).sum() < 1200


@every("curve", CURVES)
def test_coins_are_fair_and_the_test_would_notice(curve: ReleaseCurve) -> None:
    """Accept the true probability; reject it times 1.3 and times 0.7 (p = 1e-20)."""
    n = 100_000
    for target in (0.02, 0.3, 0.65):
        bits = 0 if isinstance(curve, Optimal) else 30
        grid = np.arange(1, 40) if bits == 0 else np.linspace(0.01, 30, 5000)
        weight = min(grid, key=lambda w: abs(curve.probability(float(w)) - target))
        units = round(float(weight) * 2**bits)
        probability = curve.probability(units / 2**bits)
        hits = int(coins.flip_coins(curve, np.full(n, units, np.int64), bits, ids(n), KEY).sum())
        assert stats.binomtest(hits, n, probability).pvalue > 1e-20
        assert stats.binomtest(hits, n, min(0.999, 1.3 * probability)).pvalue < 1e-20
        assert stats.binomtest(hits, n, 0.7 * probability).pvalue < 1e-20
