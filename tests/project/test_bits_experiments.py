"""The experiments with bits run, and what they change nothing of is bits as it is shipped."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks import bits_changes, bits_experiments
from benchmarks.choosing import made_up

import dpsu
from dpsu.privacy.bits import BUDGET, prices_of
from dpsu.randomness.keys import Key
from dpsu.rounds import BitsRounds
from dpsu.rounds.bits import LIMITS, UNITS


@pytest.fixture(scope="module")
def data() -> bits_changes.Data:
    return bits_experiments.data_of(
        made_up(600, 8.0, 0.9, 1.05, n_items=2000), bits_experiments.made_up_prior(2000)
    )


@pytest.mark.slow
def test_the_script_measures_everything_at_a_tiny_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bits_experiments, "PRIVACY", {"1, 1e-5": (1.0, 1e-5)})
    monkeypatch.setattr(bits_experiments, "SHAPES", {"12 items": (50_000, 8.0)})
    monkeypatch.setattr(bits_experiments, "ROUNDS", {"2 rounds": (0.07, 0.93)})
    written = tmp_path / "found.json"
    bits_experiments.main(["--part", "0.01", "--keys", "2", "--results", str(written)])
    result = json.loads(written.read_text("utf-8"))
    assert result["keys"] == 2
    assert list(result["sets"]) == ["Reddit-shaped", "12 items"]
    for name, row in result["rows"].items():
        (only,) = row["sizes"]["12 items"].values()
        assert only["size"] >= 0.0
        assert (only["gain"] == 0.0) or name != row["base"]
    assert {row["base"] for row in result["rows"].values()} == {
        "bits", "weighted-gaussian", "sieve",
    }  # fmt: skip
    assert bits_experiments.table(result) in capsys.readouterr().out


def test_without_gains_it_is_bits_as_shipped(data: bits_changes.Data) -> None:
    plan = dpsu.plan(epsilon=3.0, delta=1e-4, mechanism=dpsu.Bits())
    bits, key = plan.selection, Key.from_insecure_seed(3)
    assert isinstance(bits, BitsRounds)
    released = bits_changes.run(bits, data, key)
    assert released.any()
    np.testing.assert_array_equal(released, bits.run(data.engine(key), data.items, key))


def test_open_items_are_counted_as_the_engine_counts_them(data: bits_changes.Data) -> None:
    released = np.arange(len(data.items)) % 3 == 0
    np.testing.assert_array_equal(
        bits_changes.open_sums(data, (~released).astype(np.float64)),
        data.engine(Key.from_insecure_seed(3)).add_open(released, LIMITS, UNITS),
    )


def test_units_by_gains_cost_no_more_than_the_budget() -> None:
    for cap in (0.05, 0.2, 1.0):
        rng, prices = np.random.default_rng(4), np.array(prices_of(cap), np.int64)
        for size in (1, 2, 7, 100, 5000):
            gains = np.where(rng.random(size) < 0.3, 0.0, rng.random(size))
            gains[0] = 1.0
            weights = np.zeros(size, np.int64)
            hashes = rng.integers(0, 1 << 63, size).astype(np.uint64)
            bits_changes.give_by_gain(
                np.array([0]), np.array([size]), np.arange(size, dtype=np.int32), gains, prices, BUDGET,
                hashes[:1], hashes, weights,
            )  # fmt: skip
            cost = int(prices[weights].sum())
            most = len(prices) - 1
            assert cost <= BUDGET, cap
            assert (weights[gains == 0.0] == 0).all(), cap
            # Nearly all is spent, unless every item has all that there is a price for.
            assert cost > 0.5 * BUDGET or (weights[gains > 0.5] == most).all(), cap


def test_what_the_prior_does_not_know_gets_less(
    data: bits_changes.Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bits_experiments, "RANK", 100)
    assert data.ranks is not None
    for name, gains in bits_experiments.by_prior(data, data.ranks).items():
        if name.startswith("prior"):
            assert gains[0][data.ranks == 0].max() < gains[0][data.ranks == 1].min()
