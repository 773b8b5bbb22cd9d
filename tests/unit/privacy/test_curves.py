"""Release curves: identities, exactness, and the bound no private selector can exceed."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsu.plans.mechanisms import OneShot
from dpsu.privacy.curves import (
    Gaussian,
    Laplace,
    Optimal,
    ReleaseCurve,
    TruncatedLaplace,
    weight_needed,
)
from dpsu.privacy.guarantee import Privacy
from tests.support import reference
from tests.support.cases import every
from tests.support.databases import ONE_SHOT, design_of

SETTINGS = [(3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 1e-6), (0.05, 1e-9), (10.0, 0.2), (2.0, 0.5)]

epsilons = st.floats(0.01, 20)
deltas = st.floats(-60, math.log(0.5)).map(math.exp)


def curves(epsilon: float, delta: float) -> list[ReleaseCurve]:
    return [
        Laplace(1 / epsilon, 4.7),
        Gaussian(1.3, 6.4),
        TruncatedLaplace(epsilon, delta),
        TruncatedLaplace(epsilon, delta, 7.0),
        Optimal(epsilon, delta),
    ]


def test_published_values_of_the_optimal_selector() -> None:
    ours = [Optimal(3, math.exp(-10)).probability(n) for n in range(3, 8)]
    assert ours == pytest.approx([0.0193, 0.3872, 0.9695, 0.9985, 0.9999], abs=1e-4)
    ours = [Optimal(1, 1e-5).probability(n) for n in range(10, 15)]
    assert ours == pytest.approx([0.1282, 0.3484, 0.7603, 0.9118, 0.9676], abs=1e-4)


def follows_its_recursion(epsilon: float, delta: float) -> None:
    curve = Optimal(epsilon, delta)
    last = min(60, 3 * curve.switch + 3)
    for n in {1, 2, 3, curve.switch - 1, curve.switch, curve.switch + 1, last}:
        if 0 < n <= 400:
            exact = reference.optimal_probability(n, epsilon, delta)
            assert curve.probability(n) == pytest.approx(float(exact), rel=1e-10)
            low, high = curve.exact(Fraction(n), 200)
            scaled = mpmath.ldexp(exact, 200)
            assert low <= scaled <= high


@every(("epsilon", "delta"), SETTINGS)
def test_optimal_is_its_recursion(epsilon: float, delta: float) -> None:
    follows_its_recursion(epsilon, delta)


@given(epsilons, deltas)
@settings(max_examples=100, deadline=None)
def test_optimal_is_its_recursion_everywhere(epsilon: float, delta: float) -> None:
    follows_its_recursion(epsilon, delta)


@every(("epsilon", "delta"), SETTINGS)
def test_nothing_comes_of_nothing(epsilon: float, delta: float) -> None:
    for curve in curves(epsilon, delta):
        assert curve.probability(0.0) == 0.0
        assert curve.exact(Fraction(0), 64) == (0, 0)


@every(("epsilon", "delta"), SETTINGS)
def test_a_sensitivity_is_a_unit_of_weight(epsilon: float, delta: float) -> None:
    one, seven = TruncatedLaplace(epsilon, delta), TruncatedLaplace(epsilon, delta, 7.0)
    for weight in (0.25, 1.0, one.threshold, 1.5 * one.threshold, 3 * one.threshold):
        expected = pytest.approx(one.probability(weight), rel=1e-9)
        assert seven.probability(7 * weight) == expected
        assert seven.exact(Fraction(7 * weight), 200)[1] / 2.0**200 == expected


@every(("epsilon", "delta"), SETTINGS)
def test_truncated_laplace_is_its_noise(epsilon: float, delta: float) -> None:
    curve = TruncatedLaplace(epsilon, delta)
    a = curve.threshold
    parts_of_threshold = (0.5, 1 - 1e-12, 1, 1.001, 1.7, 2, 3)
    for weight in (2.0**-52, 0.25, 1.0, *(a * part for part in parts_of_threshold)):
        exact = reference.truncated_laplace_probability(Fraction(weight), epsilon, delta)
        assert curve.probability(weight) == pytest.approx(float(exact), rel=1e-9)
        low, high = curve.exact(Fraction(weight), 300)
        assert low <= mpmath.ldexp(exact, 300) <= high


@every(("epsilon", "delta"), SETTINGS)
def test_truncated_laplace_follows_the_optimal_selector(epsilon: float, delta: float) -> None:
    """The continuous form equals the optimal one while it grows, and never exceeds it."""
    truncated, optimal = TruncatedLaplace(epsilon, delta), Optimal(epsilon, delta)
    for n in range(1, 200):
        ours, best = truncated.probability(n), optimal.probability(n)
        assert ours <= best * (1 + 1e-12)
        if n <= truncated.threshold:
            assert ours == pytest.approx(best, rel=1e-9)


@every(("epsilon", "delta"), SETTINGS)
@every(("name", "calibration"), ONE_SHOT)
def test_no_mechanism_exceeds_the_universal_bound(
    name: str, calibration: str, epsilon: float, delta: float
) -> None:
    """An item of b holders weighs at most b, and no private selector releases it more often."""
    max_items = None if name == "greedy" else 1
    design = design_of(name, calibration, Privacy(epsilon, delta), max_items)
    assert isinstance(design.selection, OneShot)
    bound = Optimal(epsilon, delta)
    for holders in range(1, 120):
        weight = min(holders, design.cutoff or holders)
        assert design.selection.curve.probability(weight) <= bound.probability(holders) * (1 + 1e-9)


@given(epsilons, deltas, st.floats(0, 60), st.floats(0, 5))
@settings(max_examples=300, deadline=None)
def test_curves_rise_from_zero(epsilon: float, delta: float, weight: float, step: float) -> None:
    for curve in curves(epsilon, delta):
        if isinstance(curve, Optimal):
            weight, step = math.floor(weight), math.floor(step)
        assert curve.probability(0.0) == 0.0
        assert curve.exact(Fraction(0), 64) == (0, 0)
        here, above = curve.probability(weight), curve.probability(weight + step)
        assert 0.0 <= here <= above * (1 + 1e-12) <= 1.0 + 1e-12


@given(epsilons, deltas, st.fractions(Fraction(1, 2**52), 50, max_denominator=2**52))
@settings(max_examples=200, deadline=None)
def test_formula_lies_within_its_stated_error(
    epsilon: float, delta: float, weight: Fraction
) -> None:
    """What the coins take on trust: half of 2^-36 relative, for the three continuous curves."""
    for curve in curves(epsilon, delta)[:4]:
        rounded = Fraction(float(weight))
        low, high = curve.exact(rounded, 400)
        ours = Fraction(curve.probability(float(rounded)))
        # Below 2^-200 no word of 64 bits can tell the value from zero.
        if low > 1 << 200:
            assert Fraction(low, 1 << 400) * (1 - Fraction(1, 2**37)) <= ours
            assert ours <= Fraction(high, 1 << 400) * (1 + Fraction(1, 2**37))


@every(("epsilon", "delta"), SETTINGS)
def test_weights_needed_are_the_smallest(epsilon: float, delta: float) -> None:
    for curve in curves(epsilon, delta):
        for probability in (0.5, 0.9, 0.99):
            weight = weight_needed(curve, probability)
            assert curve.probability(weight) >= probability
            less = weight - 1 if isinstance(curve, Optimal) else weight * (1 - 1e-6)
            assert curve.probability(less) < probability
    kinds = {curve.kind for curve in curves(epsilon, delta)}
    assert kinds == {kind.kind for kind in ReleaseCurve.__subclasses__()}
