"""Other people's accounting agrees with ours."""

from __future__ import annotations

import math

import pytest

import dpsu
from dpsu.privacy import calibration
from dpsu.privacy.curves import Optimal
from tests.support.cases import every

SETTINGS = [(3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 1e-6), (0.1, 1e-9)]


@every(("epsilon", "delta"), SETTINGS)
def test_gaussian_scale_by_dp_accounting(epsilon: float, delta: float) -> None:
    from dp_accounting import get_sigma_gaussian

    theirs = get_sigma_gaussian(epsilon, delta)
    assert calibration.gaussian_scale(epsilon, delta) == pytest.approx(theirs, rel=1e-3)


@every(("epsilon", "delta"), SETTINGS)
def test_gaussian_scale_by_privacy_loss_distribution(epsilon: float, delta: float) -> None:
    from dp_accounting.pld import privacy_loss_distribution

    sigma = calibration.gaussian_scale(epsilon, delta)
    pld = privacy_loss_distribution.from_gaussian_mechanism(
        sigma, value_discretization_interval=1e-4
    )
    assert pld.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=5e-3)
    less = privacy_loss_distribution.from_gaussian_mechanism(
        0.97 * sigma, value_discretization_interval=1e-4
    )
    assert less.get_delta_for_epsilon(epsilon) > 1.05 * delta


def test_optimal_selector_is_never_below_published_thresholds() -> None:
    for epsilon, delta in SETTINGS:
        ours = Optimal(epsilon, delta)
        paper = dpsu.plan(
            epsilon=epsilon,
            delta=delta,
            mechanism=dpsu.CountLaplace(max_items=1, calibration="paper"),
        )
        assert all(
            ours.probability(n) >= paper.curve.probability(n) * (1 - 1e-9) for n in range(1, 300)
        )
