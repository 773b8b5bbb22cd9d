"""Thresholds and noise scales: published constants, independent formulas, safe rounding."""

from __future__ import annotations

import math
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

import dpsu
from dpsu.privacy import calibration, joint
from dpsu.privacy.curves import Optimal, TruncatedLaplace
from tests.support import flat, reference
from tests.support.cases import every

SIZES = (1, 10, 50, 100, 200, 300)
CONSTANTS = [
    (
        3.0, math.exp(-10), 1.332791,
        (6.4353, 6.4353, 6.6862, 6.8237, 6.9689, 7.0561),
        (4.1023, 4.1023, 4.4263, 4.6473, 4.8734, 5.0069), 4.085263, 5,
    ),
    (
        1.0, 1e-5, 3.884141,
        (18.1569, 19.3160, 20.3364, 20.7897, 21.2444, 21.5097),
        (11.8198, 13.2224, 14.7518, 15.4349, 16.1231, 16.5269), 11.361115, 13,
    ),
    (
        0.5, 1e-6, 8.348320,
        (41.8370, 44.7854, 46.9922, 47.9420, 48.8848, 49.4320),
        (27.2447, 30.9499, 34.0888, 35.4651, 36.8464, 37.6556), 25.379229, 29,
    ),
]  # fmt: skip
SETTINGS = [(3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 1e-6), (0.01, 1e-9), (8.0, 0.1), (20.0, 1e-30)]


@every(("epsilon", "delta", "sigma", "gauss", "laplace", "a", "votes"), CONSTANTS)
def test_published_constants(
    epsilon: float,
    delta: float,
    sigma: float,
    gauss: tuple[float, ...],
    laplace: tuple[float, ...],
    a: float,
    votes: int,
) -> None:
    ours = calibration.gaussian_scale(epsilon, delta / 2)
    assert ours == pytest.approx(sigma, abs=1e-6)
    for size, rho_gauss, rho_laplace in zip(SIZES, gauss, laplace, strict=True):
        assert calibration.gaussian_threshold(ours, delta / 2, size) == pytest.approx(
            rho_gauss, abs=1e-4
        )
        assert calibration.laplace_threshold(1 / epsilon, delta, size, 0.0) == pytest.approx(
            rho_laplace, abs=1e-4
        )
    assert TruncatedLaplace(epsilon, delta).threshold == pytest.approx(a, abs=1e-6)
    assert Optimal(epsilon, delta).best_cutoff() == votes


def test_published_count_constants() -> None:
    options = {"epsilon": 3.0, "delta": math.exp(-10), "max_items": 100, "calibration": "paper"}
    laplace = flat.plan(mechanism="count-laplace", **options)
    assert laplace.threshold == pytest.approx(464.7334, abs=1e-4)
    gaussian = flat.plan(mechanism="count-gaussian", **options)
    assert gaussian.noise_scale == pytest.approx(13.3279, abs=1e-4)
    assert gaussian.threshold == pytest.approx(68.2366, abs=1e-4)


@every(("epsilon", "delta"), SETTINGS)
def test_rounding_is_outward_and_small(epsilon: float, delta: float) -> None:
    """At least the exact value, and within a millionth of it."""

    def safe(ours: float, exact: mpmath.mpf) -> bool:
        return bool(exact <= ours <= exact * (1 + mpmath.mpf(10) ** -6) + mpmath.mpf(10) ** -9)

    sigma = calibration.gaussian_scale(epsilon, delta / 2)
    assert safe(sigma, reference.gaussian_sigma(epsilon, mpmath.mpf(delta) / 2))
    for size in (1, 7, 100):
        assert safe(
            calibration.laplace_threshold(1 / epsilon, delta, size, 0.0),
            reference.laplace_threshold(epsilon, delta, size),
        )
        assert safe(
            calibration.count_laplace_threshold(size / epsilon, delta, size),
            reference.count_laplace_threshold(epsilon, delta, size),
        )
        assert safe(
            calibration.gaussian_threshold(sigma, delta / 2, size),
            reference.gaussian_threshold(epsilon, delta, size),
        )


def test_rounding_of_shares_is_in_the_published_threshold() -> None:
    """A novel item may weigh one unit more than its share, in every pass."""
    for size in (1, 7, 100):
        exact = calibration.laplace_threshold(1.0, 1e-5, size, 0.0)
        assert calibration.laplace_threshold(1.0, 1e-5, size, 1e-3) >= exact + 1e-3
    options = {"epsilon": 1.0, "delta": 1e-5, "calibration": "paper", "max_items": 1}
    plain = flat.plan(mechanism="weighted-laplace", **options)
    for passes in (1, 9):
        plan = flat.plan(mechanism="policy-laplace", passes=passes, **options)
        assert plan.threshold is not None
        assert plain.threshold is not None
        unit = 2.0**-plan.policy.fraction_bits
        assert plan.threshold >= plain.threshold + passes * unit


def joint_cost_on_a_grid(
    epsilon: float, sigma: float, threshold: float, max_items: int, lowest: float, points: int
) -> float:
    """The account of the joint Gaussian by brute force, straight from its definition."""
    worst = 0.0
    for t in range(max_items + 1):
        v = np.linspace(lowest, 1 / math.sqrt(max(t, 1)), points)
        log_q = t * special.log_ndtr((threshold - v) / sigma)
        shift = np.sqrt(np.maximum(0.0, 1 - t * v * v)) / sigma

        def stick(e: Any, m: Any = shift) -> Any:
            with np.errstate(divide="ignore", invalid="ignore"):
                moved = special.ndtr(m / 2 - e / m) - np.exp(e) * special.ndtr(-m / 2 - e / m)
            return np.where(m == 0, np.maximum(0.0, -np.expm1(e)), moved)

        present = -np.expm1(log_q) + np.exp(log_q) * stick(epsilon - log_q)
        worst = max(worst, float(present.max()), float(stick(epsilon + log_q).max()))
    return worst


@every(("epsilon", "delta"), [(3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 0.05)])
@every("max_items", [1, 2, 10, 40])
@every("free", [False, True])
def test_joint_account_against_brute_force(
    epsilon: float, delta: float, max_items: int, free: bool
) -> None:
    lowest = 0.0 if free else 1 / math.sqrt(max_items)
    sigma, threshold = joint.joint_scale_and_threshold(
        epsilon, delta, joint.NovelWeights(max_items, lowest, 1.0)
    )
    worst = joint_cost_on_a_grid(epsilon, sigma, threshold, max_items, lowest, 60)
    assert worst <= delta
    # Not wasteful either: one percent below the threshold the account fails.
    assert joint_cost_on_a_grid(epsilon, sigma, 0.98 * threshold, max_items, lowest, 60) > delta


def joint_cost(epsilon: float, sigma: float, threshold: float, t: int, v: float) -> mpmath.mpf:
    """The account for t novel items of weight v, from its definition, in many digits."""
    with mpmath.workdps(60):
        hidden = mpmath.ncdf((mpmath.mpf(threshold) - v) / sigma) ** t
        squared = max(mpmath.mpf(0), 1 - t * mpmath.mpf(v) ** 2) / mpmath.mpf(sigma) ** 2

        def stick(e: mpmath.mpf) -> mpmath.mpf:
            if squared == 0:
                return max(mpmath.mpf(0), 1 - mpmath.exp(e))
            return reference.hockey_stick(e, squared)

        present = 1 - hidden + hidden * stick(epsilon - mpmath.log(hidden))
        return max(present, stick(epsilon + mpmath.log(hidden)))


@every(("epsilon", "delta"), [(20.0, 1e-3), (8.0, 0.1)])
@every(("max_items", "worst"), [(12, 5), (12, 8), (12, 6)])
def test_joint_account_where_an_inner_number_of_novel_items_is_worst(
    epsilon: float, delta: float, max_items: int, worst: int
) -> None:
    """With weights of 1/sqrt(worst) at most, no number that the search looks at is the worst."""
    weight = 1 / math.sqrt(worst)
    novel = joint.NovelWeights(max_items, weight, weight)
    sigma, threshold = joint.joint_scale_and_threshold(epsilon, delta, novel)
    costs = [
        joint_cost(epsilon, sigma, threshold, t, min(weight, 1 / math.sqrt(max(t, 1))))
        for t in range(max_items + 1)
    ]
    assert max(costs) <= delta
    assert max(costs[1:]) == costs[worst] > 0.999 * delta
    assert worst not in joint._representatives(max_items)
    # The account asks for this number and no other.
    lower = threshold * (1 - 1e-4)
    assert not joint.is_private(epsilon, delta, sigma, lower, novel, [worst])
    others = [t for t in range(max_items + 1) if t != worst]
    assert joint.is_private(epsilon, delta, sigma, lower, novel, others)


ALLOWANCES: list[tuple[dict[str, Any], float, float]] = [
    ({"mechanism": "policy-gaussian"}, 2.0**-20, 1.0),
    ({"mechanism": "policy-gaussian", "passes": 3}, 2.0**-20, 3.0),
    ({"mechanism": "reroute"}, 2.0**-12, 1.0),
    ({"mechanism": "weighted-gaussian"}, 0.0, 1.0),
]


@every("max_items", [1, 10, 100])
@every(("options", "allowance", "passes"), ALLOWANCES)
def test_noise_and_threshold_cover_what_rounding_may_add(
    options: dict[str, Any], allowance: float, passes: float, max_items: int
) -> None:
    """A design for sensitivity 1, all of it stretched by 1 plus the allowance."""
    for epsilon, delta in ((3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 0.05)):
        plan = flat.plan(epsilon=epsilon, delta=delta, max_items=max_items, **options)
        lightest = (1 / math.sqrt(max_items) - passes * 2.0**-28) / (1 + allowance)
        sigma, threshold = joint.joint_scale_and_threshold(
            epsilon, delta, joint.NovelWeights(max_items, lightest, 1.0)
        )
        assert plan.noise_scale == pytest.approx(sigma * (1 + allowance), rel=1e-13)
        assert plan.threshold == pytest.approx(threshold * (1 + allowance), rel=1e-13)


@every("max_items", [1, 30])
def test_published_noise_and_threshold_cover_what_rounding_may_add(max_items: int) -> None:
    stretched = 1 + mpmath.mpf(2) ** -20
    for epsilon, delta in ((3.0, math.exp(-10)), (1.0, 1e-5)):
        plan = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=dpsu.PolicyGaussian(max_items=max_items, calibration="paper"))  # fmt: skip
        sigma = reference.gaussian_sigma(epsilon, mpmath.mpf(delta) / 2) * stretched
        threshold = reference.gaussian_threshold(epsilon, delta, max_items) * stretched
        for ours, exact in ((plan.noise_scale, sigma), (plan.threshold, threshold)):
            assert ours is not None
            assert exact * (1 - mpmath.mpf(10) ** -13) <= ours <= exact * (1 + mpmath.mpf(10) ** -8)


@every(("options", "allowance", "passes"), ALLOWANCES[:3])
def test_roundings_of_all_users_fit_into_the_allowance(
    options: dict[str, Any], allowance: float, passes: float
) -> None:
    """Less than a unit per item and pass for each user, two for reroute."""
    for max_items in (1, 100, 10_000):
        plan = flat.plan(epsilon=1, delta=1e-5, max_items=max_items, **options)
        units = passes * (2.0 if plan.name == "reroute" else 1.0)
        each = math.sqrt(max_items) * math.ldexp(units, -plan.policy.fraction_bits)
        assert plan.max_users * each <= allowance


def test_joint_account_beats_the_published_split() -> None:
    for max_items, published, ours in ((10, 6.4353, 6.03), (100, 6.8237, 6.41)):
        plan = dpsu.plan(
            epsilon=3, delta=math.exp(-10), mechanism=dpsu.PolicyGaussian(max_items=max_items)
        )
        assert plan.threshold is not None
        assert plan.threshold < ours < published
