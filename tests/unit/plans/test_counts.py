"""Noisy counts of released items, and items that at least so many users hold."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsu
from dpsu.contributions.ids import Ids
from dpsu.engines import local
from dpsu.inputs.reading import Source
from dpsu.plans.counts import FRACTION_BITS, NoisyCounts, design_counts
from dpsu.plans.mechanisms import Hints
from dpsu.plans.shares import left_for_selection
from dpsu.privacy.calibration import gaussian_scale
from dpsu.privacy.guarantee import rest_of
from dpsu.randomness.keys import Key
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import weights_of

pytestmark = pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
HOLDERS = {f"item {k}": 300 + 5 * k for k in range(40)}
DATA = {u: [item for item, holders in HOLDERS.items() if u < holders][:30] for u in range(520)}
SURE: dict[str, Any] = {"mechanism": "weighted-gaussian", "epsilon": 8, "delta": 1e-3}


def test_counts_have_the_stated_error() -> None:
    """Standardized errors are standard normal at p = 1e-9; 1.3 and 0.7 times as wide are not."""
    true = {item: sum(item in held for held in DATA.values()) for item in HOLDERS}
    errors = []
    for seed in range(40):
        made = flat.release(DATA, counts=True, counts_items=30, insecure_seed=seed, **SURE)
        assert made.counts is not None
        errors += [
            n - true[str(i)] for i, n in zip(made.items, made.counts.to_pylist(), strict=True)
        ]
    scale = made.counts_error
    assert scale is not None
    assert len(errors) > 1000

    def p_value(factor: float) -> float:
        return float(stats.kstest(np.array(errors) / (factor * scale), "norm").pvalue)

    assert p_value(1.0) > 1e-9
    assert p_value(1.3) < 1e-9
    assert p_value(0.7) < 1e-9


def test_counts_are_paid_for() -> None:
    plan = dpsu.plan(epsilon=2, delta=1e-5, counts=dpsu.Counts(share=0.25, max_items=9))
    assert plan.noisy_counts is not None
    assert plan.noisy_counts.epsilon == 0.5
    assert plan.noisy_counts.scale >= 3 * gaussian_scale(0.5, 0.25e-5)
    assert plan.noisy_counts.scale == pytest.approx(3 * gaussian_scale(0.5, 0.25e-5))
    assert math.fsum(delta for _, delta in plan.delta_split) <= 1e-5 * (1 + 1e-12)
    alone = dpsu.plan(epsilon=1.5, delta=rest_of(1e-5, plan.noisy_counts.delta))
    assert plan.selection == alone.selection
    assert dpsu.Plan.from_json(plan.to_json()) == plan
    error = plan.noisy_counts.standard_error
    assert f"below {2 * error:.0f} users a count is mostly noise" in str(plan)
    assert "too low where users hold more than 9 released items" in str(plan)


def test_shares_and_what_they_leave_add_up_to_at_most_the_whole() -> None:
    rng = random.Random(5)
    for _ in range(3000):
        whole = dpsu.Privacy(50 ** rng.uniform(-2, 1), 10 ** rng.uniform(-90, -0.4))
        counts, estimate = rng.uniform(0.001, 0.5), rng.uniform(1e-4, 0.5)
        noisy = NoisyCounts(counts * whole.epsilon, counts * whole.delta, 1, 1.0)
        hints = Hints(epsilon=estimate * (whole.epsilon - noisy.epsilon))
        left = left_for_selection(whole, noisy, hints, None)
        for name in ("epsilon", "delta"):
            parts = [getattr(each, name) for each in (left, noisy, hints)]
            exact = Fraction(getattr(whole, name)) - sum(map(Fraction, parts[1:]))
            # Rounded down, and by one double at most.
            assert parts[0] <= exact < math.nextafter(parts[0], math.inf)


@every("full", [1, 2, 3, 30, 100, 99_999, 100_000])
def test_what_a_user_counts_has_the_norm_that_the_noise_covers(full: int) -> None:
    """In whole numbers, for every size up to 3,000 and some beyond; one unit more would be over."""
    counts = design_counts(1.0, 1e-6, full)
    most = full << 2 * FRACTION_BITS
    for size in [*range(1, 3000), full, full + 1, 10**6, 2**31]:
        part = counts.part(size)
        assert size * part**2 <= most
        assert part <= 1 << FRACTION_BITS
        assert part == 1 << FRACTION_BITS or size * (part + 1) ** 2 > most


def test_counts_are_rounded_to_the_nearest_user() -> None:
    whole = 1 << FRACTION_BITS
    sums = [0, 7 * whole, whole // 2 - 1, whole // 2, -whole // 2 - 1, 1000 * whole - 1]
    items = Ids(pa.array([f"i{k}" for k in range(len(sums))], pa.large_string()))
    quiet = NoisyCounts(1.0, 1e-6, 1, 1e-9)
    found = quiet.noisy(np.array(sums), items, Key.from_insecure_seed(1))
    assert found.tolist() == [0, 7, 0, 1, -1, 1000]


@every("kept", [1, 3])
def test_one_user_moves_counts_by_at_most_its_bound(kept: int) -> None:
    rng = np.random.default_rng(3)
    plan = dpsu.plan(epsilon=1, delta=1e-5, counts=dpsu.Counts(max_items=kept))
    assert plan.counts is not None
    released = pa.array([f"i{k}" for k in range(6)] + ["unheld"], pa.large_string())
    for case in range(150):
        data = {
            f"u{u}": [f"i{k}" for k in rng.choice(9, rng.integers(1, 8), replace=False)]
            for u in range(rng.integers(2, 9))
        }
        key = Key.from_insecure_seed(case)

        def counts(held: dict[str, list[str]]) -> np.ndarray:
            source = Source(held, dpsu.Users(), dpsu.Items())
            return local.counted(plan, source.pairs(key, with_repeats=False), released)  # noqa: B023

        fewer = {u: items for u, items in data.items() if u != "u0"}
        moved = counts(data) - counts(fewer)
        # As the pseudocode of the proof has it.
        own = [item in data["u0"] for item in released.to_pylist()]
        part = min(1.0, math.sqrt(kept / max(1, sum(own))))
        assert np.abs(moved - np.ldexp(part, FRACTION_BITS) * np.array(own)).max() < 1
        assert sum(int(value) ** 2 for value in moved) <= kept << 2 * FRACTION_BITS


def test_counts_of_items_nobody_holds_are_noise() -> None:
    made = flat.release(DATA, counts=True, public_items=[f"known {k}" for k in range(500)], **SURE)
    assert made.counts is not None
    known = [
        n for i, n in zip(made.items, made.counts.to_pylist(), strict=True) if "known" in str(i)
    ]
    assert made.counts_error is not None
    assert abs(np.mean(known)) < 8 * made.counts_error / math.sqrt(500)
    assert np.std(known) == pytest.approx(made.counts_error, rel=0.3)


@every(
    "options",
    [
        {"mechanism": "count-laplace", "max_items": 4},
        {"mechanism": "count-gaussian", "max_items": 4},
        {"mechanism": "weighted-laplace"},
        {"mechanism": "weighted-gaussian"},
        {"mechanism": "policy-laplace"},
        {"mechanism": "greedy"},
        {"mechanism": "greedy", "cutoff": 30.5},
    ],
)
def test_items_of_fewer_users_have_no_weight(options: dict[str, Any]) -> None:
    data = {f"u{u}": [f"i{k}" for k in range(6) if u < 2 + k] for u in range(8)}
    plan = flat.plan(epsilon=1, delta=1e-2, min_users=5, **options)
    free = flat.plan(epsilon=1, delta=1e-2, **options)
    for seed in range(20):
        weights = weights_of(plan, data, Key.from_insecure_seed(seed))
        assert all(sum(item in held for held in data.values()) >= 5 for item in weights)
    assert plan.needed[0.5] is not None
    assert free.needed[0.5] is not None
    assert plan.needed[0.5] >= free.needed[0.5] + 4 - 1e-9


@every("mechanism", ["count-gaussian", "weighted-gaussian"])
def test_a_minimum_of_users_takes_the_published_account(mechanism: str) -> None:
    """What is left of novel items above the minimum has no lower bound, which the joint one needs."""
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "mechanism": mechanism}
    plan = flat.plan(min_users=3, **options)
    assert plan.curve == flat.plan(calibration="paper", **options).curve
    assert plan.theorem == "gaussian"
    assert flat.plan(min_users=1, **options).theorem == "gaussian-joint"


@every("mechanism", ["policy-gaussian", "reroute", "sips", "sieve"])
def test_where_a_minimum_is_not_proved_it_is_refused(mechanism: str) -> None:
    with pytest.raises(dpsu.ParameterError, match="has no option min_users"):
        dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.mechanism(mechanism, min_users=3))
    with pytest.raises(dpsu.ParameterError, match="min_users=0"):
        dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.CountGaussian(min_users=0))
    with pytest.raises(dpsu.ParameterError, match="cutoff=3"):
        dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(min_users=9, cutoff=3))
