"""The audit passes what is shipped and catches what is broken."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from scipy import stats

import dpsu
from dpsu.plans.mechanisms import one_shot
from dpsu.privacy import binomial, joint
from dpsu.privacy.curves import TruncatedLaplace
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import CALIBRATED, limited


@every(
    ("hits", "trials"), [(0, 100), (1, 100), (50, 100), (100, 100), (20, 20_000), (19_990, 20_000)]
)
@every("error", [1e-6, 0.05])
def test_bounds_are_clopper_and_pearson(hits: int, trials: int, error: float) -> None:
    exact = stats.binomtest(hits, trials).proportion_ci(1 - 2 * error, method="exact")
    assert binomial.lower_bound(hits, trials, error) == pytest.approx(
        exact.low, rel=1e-6, abs=1e-12
    )
    assert binomial.upper_bound(hits, trials, error) == pytest.approx(exact.high, rel=1e-6)


SHIPPED: list[dict[str, Any]] = [
    {"mechanism": name, "calibration": calibration, **limited(name, 5)}
    for name, calibration in CALIBRATED
    if name != "greedy"
] + [
    {"mechanism": "greedy"},
    {"mechanism": "greedy", "cutoff": 2.5, "passes": 2},
    {"mechanism": "greedy", "order": "popular"},
    {"mechanism": "greedy", "order": "scarce", "expected_users": 100, "cutoff": 1.7},
    {"mechanism": "policy-laplace", "passes": 2},
    {"mechanism": "policy-gaussian", "passes": 2, "user": "who", "item": "what"},
]


# Each plan at one guarantee, in turns, for a third of the time: a defect of one plan at another
# guarantee alone would not be seen here. `dpsu audit` tests a plan at any of them.
GUARANTEES = cycle([(1.0, 0.05), (0.5, 0.15), (3.0, 0.02)])
AUDITED = [(options, *guarantee) for options, guarantee in zip(SHIPPED, GUARANTEES, strict=False)]
# Of the others, tests/privacy/test_exact_privacy.py has the exact divergence.
IN_ROUNDS = [each for each in AUDITED if each[0]["mechanism"] in ("auto", "bits", "sieve", "sips")]


@pytest.mark.slow
@every(("options", "epsilon", "delta"), IN_ROUNDS)
def test_what_is_shipped_in_rounds_passes(
    options: dict[str, Any], epsilon: float, delta: float
) -> None:
    check_audit(options, epsilon, delta)


@pytest.mark.thorough
@every(("options", "epsilon", "delta"), AUDITED)
def test_what_is_shipped_passes(options: dict[str, Any], epsilon: float, delta: float) -> None:
    check_audit(options, epsilon, delta)


def check_audit(options: dict[str, Any], epsilon: float, delta: float) -> None:
    result = flat.audit(epsilon=epsilon, delta=delta, trials=20_000, **options)
    assert result.passed, [f for f in result.findings if not f.passed]
    kinds = {finding.quantity for finding in result.findings}
    assert kinds == {"delta", "epsilon"}
    assert len({f.direction for f in result.findings if f.quantity == "epsilon"}) == 4


def test_an_audit_sees_almost_all_of_an_optimal_mechanism() -> None:
    """Votes spend everything they are allowed, and the audit finds nearly all of it."""
    result = dpsu.audit(dpsu.plan(epsilon=1.0, delta=0.05, mechanism="greedy"), trials=60_000)
    assert result.passed
    for quantity, allowed in (("delta", 0.05), ("epsilon", 1.0)):
        best = max(f.proved for f in result.findings if f.quantity == quantity)
        assert best > 0.85 * allowed


def broken_threshold(monkeypatch: pytest.MonkeyPatch) -> None:
    real = joint.joint_scale_and_threshold
    monkeypatch.setattr(
        joint, "joint_scale_and_threshold", lambda *a: (real(*a)[0], 0.8 * real(*a)[1])
    )


def broken_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    real = joint.joint_scale_and_threshold
    monkeypatch.setattr(
        joint, "joint_scale_and_threshold", lambda *a: (0.5 * real(*a)[0], real(*a)[1])
    )


def broken_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    from dpsu.randomness import coins

    real = coins._word_bounds

    def shifted(curve: Any, weights: Any, bits: int) -> Any:
        return real(curve, weights + (1 << bits), bits)

    monkeypatch.setattr(coins, "_word_bounds", shifted)


@every("broken", [broken_threshold, broken_noise, broken_coins])
def test_what_is_broken_fails(broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    assert not dpsu.audit(
        dpsu.plan(epsilon=1.0, delta=0.05, mechanism=dpsu.PolicyGaussian(max_items=5)),
        trials=40_000,
    ).passed


def test_an_understated_epsilon_fails() -> None:
    """A release at epsilon 1.6 that claims 1 is caught."""
    result = dpsu.audit(dpsu.plan(epsilon=1.6, delta=0.05, mechanism="greedy"), trials=60_000)
    claimed = [replace(f, allowed=1.0) for f in result.findings if f.quantity == "epsilon"]
    assert result.passed
    assert not all(finding.passed for finding in claimed)


def test_an_understated_delta_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison that forgot a factor e in another library, in one line."""

    class Lax(TruncatedLaplace):
        def __init__(self, epsilon: float, delta: float, sensitivity: float = 1.0) -> None:
            super().__init__(epsilon, min(0.5, 2.718 * delta), sensitivity)

    monkeypatch.setattr(one_shot, "TruncatedLaplace", Lax)
    assert not dpsu.audit(
        dpsu.plan(epsilon=1.0, delta=0.05, mechanism="policy-laplace"), trials=20_000
    ).passed


@every("option", [{"insecure_seed": 1}, {"public_items": ["a"]}])
def test_an_audit_makes_its_own_data_and_keys(option: dict[str, Any]) -> None:
    with pytest.raises(dpsu.ParameterError, match="makes its own data"):
        flat.audit(**option)
    with pytest.raises(dpsu.ParameterError, match="trials=5"):
        dpsu.audit(dpsu.plan(epsilon=1.0, delta=0.05), trials=5)


def test_progress_of_an_audit() -> None:
    told: list[tuple[int, int]] = []
    dpsu.audit(
        dpsu.plan(epsilon=1.0, delta=0.05, mechanism=dpsu.Sieve(max_items=2)),
        trials=4000,
        progress=lambda now, total: told.append((now, total)),
    )
    assert told[-1][0] == told[-1][1]
    assert [now for now, _ in told] == sorted(now for now, _ in told)
    json.dumps(told)


def test_directions_share_the_chance_of_a_false_alarm(monkeypatch: pytest.MonkeyPatch) -> None:
    """All bounds of a scenario together are wrong with no more than the stated probability."""
    spent: list[float] = []

    bound = binomial.lower_bound

    def noted(hits: int, trials: int, error: float) -> float:
        spent.append(error)
        return bound(hits, trials, error)

    # The upper bound is a lower one, of what did not happen.
    monkeypatch.setattr(binomial, "lower_bound", noted)
    plan = dpsu.plan(epsilon=1, delta=0.05, mechanism="weighted-laplace")
    result = dpsu.audit(plan, trials=4000, error=1e-3)
    scenarios = {finding.scenario for finding in result.findings}
    assert sum(spent) == pytest.approx(1e-3 * len(scenarios))
