"""What is not private, shown: published greedy, published Laplace above a minimum, greedy by gap."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import dpsu
from dpsu.policies import GreedyPolicy, L1Descent
from dpsu.privacy.calibration import laplace_scale, laplace_threshold
from dpsu.privacy.curves import Laplace, ReleaseCurve, TruncatedLaplace
from tests.support import flat, reference
from tests.support.cases import every
from tests.support.databases import policy_weights

CHAIN = [[4, 1, 5], [5], [5, 1], [4, 5, 0, 1], [5, 3, 2], [3, 5, 2, 4]]


def test_one_user_gives_first_weight_to_items_it_does_not_hold() -> None:
    """Removing the user of [5] takes all weight from items 0, 1 and 2, which it never held."""
    cutoff = Fraction(19, 10)
    more = reference.greedy(CHAIN, cutoff)
    less = reference.greedy([u for u in CHAIN if u != [5]], cutoff)
    novel = {item for item in more if item not in less}
    assert novel == {0, 1, 2}
    bits = 40
    policy = GreedyPolicy(math.floor(cutoff * 2**bits), bits, 1)
    ours = policy_weights(policy, CHAIN, 6)
    without = policy_weights(policy, [u for u in CHAIN if u != [5]], 6)
    assert {i for i in range(6) if ours[i] > 0 and without[i] == 0} == novel
    # The l1 bound still holds, which is all the truncated curve needs.
    assert (ours - without).sum() <= 1 << bits


@every(("k", "times"), [(2, 1.21), (10, 4.07)])
def test_novel_items_exceed_the_published_failure_probability(k: int, times: float) -> None:
    """k novel items of weight 1/k fail with probability k e^(-eps(1 - 1/k)) delta at epsilon 1."""
    epsilon, delta = 1.0, 1e-7
    published = Laplace(1 / epsilon, 1 - math.log(2 * delta) / epsilon)
    failure = 1 - (1 - published.probability(1 / k)) ** k
    assert failure / delta == pytest.approx(times, rel=0.005)
    repaired = TruncatedLaplace(epsilon, delta)
    assert 1 - (1 - repaired.probability(1 / k)) ** k <= delta


def test_published_greedy_needs_an_explicit_yes() -> None:
    options = {"mechanism": "greedy", "calibration": "paper", "epsilon": 1, "delta": 1e-5}
    with pytest.raises(dpsu.ParameterError, match="allow_unproven=True"):
        flat.plan(**options)
    assert not flat.plan(**options, allow_unproven=True).private


def spilled_weights(policy: L1Descent, size: int) -> np.ndarray:
    """Weights above 1 that exist only because of a user who holds a single item, in units.

    Item 0 lacks one user's weight when that user comes and fills it. Behind stand `size` users who
    hold item 0 and `size` - 1 items of their own, each of which lacks the last 1/`size` of the
    weight 1: without the user, it gets just that.
    """
    own = range(1, 1 + size * (size - 1))
    before = [list(own[g : g + size]) for g in range(0, len(own), size)] * (size - 1)
    line = [[0, *own[g : g + size - 1]] for g in range(0, len(own), size - 1)]
    more = policy_weights(policy, [*before, [0], [0], *line], 1 + len(own))
    less = policy_weights(policy, [*before, [0], *line], 1 + len(own))
    unit = 1 << policy.fraction_bits
    assert abs(more - less).sum() == unit
    return np.where(less <= unit, np.maximum(more - unit, 0), 0)[1:]


def chance_of_any(curve: ReleaseCurve, weights: np.ndarray, fraction_bits: int) -> float:
    """Probability that one of these items, each of which only the added user lifts, comes out."""
    numbers, repeats = np.unique(weights, return_counts=True)
    kept = [1.0 - curve.probability(int(n) / 2**fraction_bits) for n in numbers]
    return float(1.0 - np.prod(np.power(kept, repeats)))


@every(("size", "times"), [(16, 14.06), (64, 60.18)])
def test_published_laplace_above_a_minimum_of_users_breaks_its_promise(
    size: int, times: float
) -> None:
    epsilon, delta, bits = 1.0, 1e-3, 40
    policy = L1Descent(2 << bits, bits, 1)
    weights = spilled_weights(policy, size)
    assert np.count_nonzero(weights) == size * (size - 1)
    scale = laplace_scale(epsilon, 1.0)
    published = Laplace(scale, laplace_threshold(scale, delta, size, 2.0**-31))
    assert chance_of_any(published, weights, bits) / delta == pytest.approx(times, rel=1e-3)
    assert chance_of_any(TruncatedLaplace(epsilon, delta), weights, bits) <= delta


@every("calibration", ["tight", "paper"])
@every("size", [16, 64])
def test_what_is_planned_with_a_minimum_of_users_keeps_its_promise(
    calibration: str, size: int
) -> None:
    """The same users under whatever `plan` accepts: fails if the refusal is taken out."""
    options = {"mechanism": "policy-laplace", "max_items": size, "cutoff": 2.0, "min_users": 2}
    refusal = ""
    try:
        plan = flat.plan(epsilon=1, delta=1e-3, calibration=calibration, **options)
    except dpsu.ParameterError as error:
        refusal = str(error)
    if not refusal:
        assert isinstance(plan.policy, L1Descent)
        weights = spilled_weights(plan.policy, size)
        assert chance_of_any(plan.curve, weights, plan.policy.fraction_bits) <= 1e-3
    assert ("use calibration='tight'" in refusal) == (calibration == "paper")


@every("followers", [5, 20, 80])
def test_greedy_by_gap_has_unbounded_sensitivity(followers: int) -> None:
    """Gopi et al. 2020, Appendix C: everyone follows whichever item is ahead."""
    start = [["a"]]
    leader = ["b"]
    rest = [["a", "b"]] * followers
    half = Fraction(1, 2)
    # Item a leads by half a user; one more holder of b makes b lead, and everybody follows.
    cutoff = Fraction(10 * followers) + half
    more = reference.greedy_by_gap([*start, leader, leader, *rest], cutoff)
    less = reference.greedy_by_gap([*start, leader, *rest], cutoff)
    zero = Fraction(0)
    moved = sum((abs(more.get(i, zero) - less.get(i, zero)) for i in "ab"), zero)
    assert moved >= followers
    # The same data under a policy we ship.
    bits = 20
    policy = L1Descent(math.floor(cutoff * 2**bits), bits, 1)
    codes = {"a": 0, "b": 1}
    ours = [
        policy_weights(policy, [[codes[i] for i in u] for u in users], 2)
        for users in ([*start, leader, leader, *rest], [*start, leader, *rest])
    ]
    assert abs(ours[0] - ours[1]).sum() <= 1 << bits


def test_greedy_by_gap_cannot_be_asked_for() -> None:
    for name in ("greedy-by-gap", "gap"):
        with pytest.raises(dpsu.ParameterError):
            dpsu.plan(epsilon=1, delta=1e-5, mechanism=name)
        with pytest.raises(dpsu.ParameterError):
            dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(order=name))
