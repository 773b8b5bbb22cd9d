"""What releases cost together, beside exact divergences and another library's account."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.pld import pld_privacy_accountant
from scipy.integrate import trapezoid
from scipy.optimize import brentq
from scipy.stats import norm

import dpsu
from dpsu.engines import local, local_texts
from dpsu.ledger.accounting import ALLOWANCE, Cost, cost_of, total
from dpsu.plans.counts import FRACTION_BITS
from dpsu.plans.mechanisms.auto import Hints
from dpsu.privacy.curves import Gaussian
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift
from dpsu.randomness import coins, noise
from dpsu.rounds import SieveRounds
from tests.support import flat, reference
from tests.support.cases import every

SURE: dict[str, Any] = {"mechanism": "weighted-gaussian"}
GAUSSIAN: list[dict[str, Any]] = [
    {"mechanism": "sieve"}, {"mechanism": "sips"}, {"mechanism": "sips", "calibration": "paper"},
    {"mechanism": "sieve", "rounds": 3, "counts": True},
    {"mechanism": "ngrams", "text": "body", "longest": 3},
    {"mechanism": "weighted-gaussian", "calibration": "paper"},
    {"mechanism": "weighted-gaussian", "min_users": 5},
    {"mechanism": "count-gaussian", "calibration": "paper", "max_items": 7},
    {"mechanism": "policy-gaussian", "calibration": "paper", "max_items": 30},
]  # fmt: skip
OTHERS: list[dict[str, Any]] = [
    {"mechanism": "greedy"}, {"mechanism": "policy-laplace"}, {"mechanism": "weighted-laplace"},
    {"mechanism": "count-laplace", "max_items": 3}, {"mechanism": "bits"},
    {"mechanism": "bits", "expected_items_per_user": 5}, {"mechanism": "bits", "rounds": 1},
    {"mechanism": "auto", "expected_items_per_user": 1},
]  # fmt: skip


@every("options", GAUSSIAN)
@every("privacy", [(1.0, 1e-6), (3.0, math.exp(-10)), (0.1, 1e-9)])
def test_one_gaussian_release_costs_no_more_than_it_says(
    options: dict[str, Any], privacy: tuple[float, float]
) -> None:
    plan = flat.plan(epsilon=privacy[0], delta=privacy[1], **options)
    cost = cost_of(plan)
    assert cost.shift is not None
    found = float(total([cost]).gaussian_delta(privacy[0]))
    # Users of sieve with few items have full norm, and those with many more novel items; an account
    # of all users has both, and is worth it from the second release on.
    both = 0.0
    if isinstance(plan.mechanism, dpsu.Sieve):
        account = plan.design.selection.account
        both = account.allowed(account.max_items) - account.allowed(1)
        assert total([cost]).within(plan.privacy)
    assert found <= (privacy[1] + both) * (1 + 1e-6)
    # Parts of the budget that were added up before may now be used twice as well.
    assert found > (0.5 if plan.counts is None and plan.min_users is None else 0.01) * privacy[1]


@every("options", [{}, {"rounds": 6, "max_items": 20}, {"scout_items": 0}])
def test_a_sieve_counts_full_norm_and_the_novel_items_of_full_sets(options: dict[str, Any]) -> None:
    """One user may have few items in one release and many in another: neither may be forgotten."""
    for epsilon, delta in ((1.0, 1e-5), (3.0, math.exp(-10))):
        plan = flat.plan(epsilon=epsilon, delta=delta, mechanism="sieve", **options)
        sieve = plan.design.selection
        account, shift = sieve.account, cost_of(plan).shift
        assert shift is not None
        assert Fraction(shift.squared) >= 1 / Fraction(sieve.sigma) ** 2
        assert Fraction(shift.novel) >= Fraction(account.scouting) + Fraction(account.crossing)
        assert math.fsum(part for _, part in plan.delta_split) == pytest.approx(delta, rel=1e-12)
        # Every class of its own would have less than what all of them together are charged.
        charged = total([cost_of(plan)] * 4).gaussian_delta(2 * epsilon)
        for size in (1, account.max_items):
            norm = account.norm(size, sieve.sigma)
            novel = account.scouting + account.allowed(size)
            own = Cost(plan.privacy, Shift((norm / sieve.sigma) ** 2, novel))
            assert total([own] * 4).gaussian_delta(2 * epsilon) < charged


class Drawn:
    """Scales of all Gaussian noise that a release draws: of coins, and in units of counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.coins: list[float] = []
        self.noise: list[tuple[str, float]] = []
        flip_coins, rounded = coins.flip_coins, noise.Noise.rounded

        def flipped(curve: Any, *given: Any) -> Any:
            self.coins.append(curve.scale)
            return flip_coins(curve, *given)

        def drawn(self_: noise.Noise, round_: int, scale: float) -> Any:
            self.noise.append((self_._purpose, scale))
            return rounded(self_, round_, scale)

        monkeypatch.setattr(coins, "flip_coins", flipped)
        monkeypatch.setattr(local, "flip_coins", flipped)
        monkeypatch.setattr(local_texts, "flip_coins", flipped)
        monkeypatch.setattr(noise.Noise, "rounded", drawn)

    def squared(self, norm: Fraction, unit: int, counted: int) -> Fraction:
        """Square of the shift by a user of l2 norm sqrt `norm`, who counts for so many items."""
        shifts = [norm / Fraction(scale) ** 2 for scale in self.coins]
        for purpose, scale in self.noise:
            moved = counted << 2 * FRACTION_BITS if purpose == "count" else norm * unit**2
            shifts.append(moved / Fraction(scale) ** 2)
        return sum(shifts, Fraction(0))


# Square of the l2 norm of what one user adds, roundings included, by the pages of the policies.
NORMS: list[tuple[dict[str, Any], Fraction]] = [
    ({"mechanism": "sieve"}, Fraction(1)),
    ({"mechanism": "sieve", "rounds": 3, "max_items": 20}, Fraction(1)),
    ({"mechanism": "sips"}, Fraction(1)),
    ({"mechanism": "sips", "calibration": "paper", "rounds": 5}, Fraction(1)),
    ({"mechanism": "weighted-gaussian", "max_items": 9}, Fraction(1)),
    ({"mechanism": "weighted-gaussian", "max_items": 9, "min_users": 4}, Fraction(1)),
    ({"mechanism": "count-gaussian", "max_items": 7}, Fraction(7)),
    ({"mechanism": "count-gaussian", "max_items": 7, "calibration": "paper"}, Fraction(7)),
    ({"mechanism": "policy-gaussian", "max_items": 9}, (1 + Fraction(1, 2**20)) ** 2),
    ({"mechanism": "reroute", "max_items": 9}, (1 + Fraction(1, 2**12)) ** 2),
]
HELD = {u: [f"i{k}" for k in range(1 + u % 6)] for u in range(60)}


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
@every("counted", [None, 1, 30])
@every(("options", "norm"), NORMS)
def test_the_account_has_all_noise_that_is_drawn(
    options: dict[str, Any],
    norm: Fraction,
    counted: int | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The squared shift against the scales that the engine hands to coins and noise."""
    drawn = Drawn(monkeypatch)
    more = {} if counted is None else {"counts": True, "counts_items": counted}
    made = flat.release(HELD, epsilon=2, delta=1e-4, **(options | more))
    shift = cost_of(made.plan).shift
    assert shift is not None
    assert len([1 for purpose, _ in drawn.noise if purpose == "count"]) == (counted is not None)
    expected = drawn.squared(norm, 1 << 20, counted or 0)
    assert expected > 0
    assert expected <= Fraction(shift.squared) <= expected * (1 + Fraction(1, 10**9))
    # And the noise of the selection is enough for its own share.
    split = dict(made.plan.delta_split)
    spent = 0.0 if made.plan.noisy_counts is None else made.plan.noisy_counts.epsilon
    if "noise" in split:
        drawn.noise = [draw for draw in drawn.noise if draw[0] != "count"]
        # Delta is split as users with full sets pay for it, whose norm is smaller in sieve.
        sieve = made.plan.selection
        least = sieve.limits()[0].norms[-1] if isinstance(sieve, SieveRounds) else 1.0
        alone = drawn.squared(norm * Fraction(least) ** 2, 1 << 20, 0)
        assert reference.hockey_stick(2 - spent, alone) <= split["noise"]
    if made.plan.noisy_counts is not None:
        counts = Fraction(counted or 0) / Fraction(made.plan.noisy_counts.scale) ** 2
        assert reference.hockey_stick(spent, counts) <= split["counts"]


def test_the_account_of_grams_has_all_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = Drawn(monkeypatch)
    posts = dict.fromkeys(range(60), "the cat sat on the mat")
    made = flat.ngrams(posts, text="post", longest=3, shares=(1, 3, 2), epsilon=2, delta=1e-4)
    shift = cost_of(made.plan).shift
    assert shift is not None
    assert len(drawn.coins) == 3
    expected = drawn.squared(Fraction(1), 1, 0)
    assert expected <= Fraction(shift.squared) <= expected * (1 + Fraction(1, 10**9))
    assert reference.hockey_stick(2, expected) <= dict(made.plan.delta_split)["noise"]


@every("options", OTHERS)
def test_other_noise_is_added_up(options: dict[str, Any]) -> None:
    plan = flat.plan(epsilon=1, delta=1e-6, **options)
    assert cost_of(plan) == Cost(Privacy(1.0, 1e-6))


def test_shifts_of_one_id_are_not_those_of_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    """A design for one id that protects several by its price alone has no account of a person."""
    monkeypatch.setattr(dpsu.WeightedGaussian, "several_ids", False)
    for ids in (1, 2):
        users = dpsu.Users(ids_per_person=ids)
        plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="weighted-gaussian", user=users)
        assert (cost_of(plan).shift is None) == (ids > 1)


def test_plans_chosen_from_the_data_have_no_gaussian_account() -> None:
    data = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(300)}
    given: dict[str, Any] = {"epsilon": 2, "delta": 1e-5}
    paid = dpsu.plan(epsilon=2, delta=1e-5, mechanism=dpsu.Auto(budget=0.1))
    estimated = paid.chosen(Hints(50_000, 30.0, 0.2))
    assert estimated.name == "sieve"
    selected = flat.select(data, [SURE], **given).plan
    for plan in (paid, estimated, selected):
        assert cost_of(plan) == Cost(Privacy(2.0, 1e-5))
    for mechanism in (estimated.mechanism, selected.mechanism):
        assert cost_of(dpsu.plan(mechanism=mechanism, **given)).shift is not None


def test_ten_tenths_are_one_and_eleven_are_not() -> None:
    tenth = Cost(Privacy(0.1, 1e-7))
    assert total([tenth] * 10).epsilon > 1  # as doubles are
    assert total([tenth] * 10).within(Privacy(1.0, 1e-6))
    assert not total([tenth] * 11).within(Privacy(1.0, 1.0e-5))
    assert not total([tenth] * 10).within(Privacy(1.0, 9.9e-7))
    tiny = Cost(Privacy(1e-4, 1e-100))
    many = total([Cost(Privacy(1.0, 1e-7)), *[tiny] * 10_000])
    assert many.epsilon == 1 + 10_000 * Fraction(1e-4)  # no digit is lost on the way


def test_the_gaussian_account_is_that_of_dp_accounting() -> None:
    plans = [dpsu.plan(epsilon=e, delta=1e-6, mechanism="sieve") for e in (0.5, 1.0, 1.0, 2.0)]
    sums = total(map(cost_of, plans))
    accountant = pld_privacy_accountant.PLDAccountant(value_discretization_interval=1e-3)
    scales: list[float] = [plan.selection.sigma for plan in plans]  # type: ignore[union-attr]
    for scale in scales:
        accountant.compose(dp_event.GaussianDpEvent(scale))
    for epsilon in (1.0, 2.0, 3.0):
        noise = float(sums.gaussian_delta(epsilon) - sums.novel)
        assert noise == pytest.approx(accountant.get_delta(epsilon), rel=0.02)
        shift = math.sqrt(math.fsum(scale**-2.0 for scale in scales))
        exact = norm.sf(epsilon / shift - shift / 2) - math.exp(epsilon) * norm.sf(
            epsilon / shift + shift / 2
        )
        assert exact <= noise <= exact * (1 + 1e-6)
    at = sums.gaussian_epsilon(1e-5)
    assert at is not None
    assert float(sums.gaussian_delta(at)) <= 1e-5 * (1 + 1e-9)
    assert float(sums.gaussian_delta(at * 0.999)) > 1e-5


def test_what_is_left_is_rounded_down_and_shifts_up(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Mock(return_value=0.0)
    monkeypatch.setattr("dpsu.ledger.accounting.hockey_stick_at_most", asked)
    for n in range(1, 100):
        other = Cost(Privacy(1 / (n + 1), 1e-7))
        sums = total([other, *[Cost(Privacy(1.0, 1e-7), Shift(n / 700, 0.0))] * n])
        sums.gaussian_delta(3.0)
        epsilon, shift = map(Fraction, asked.call_args.args)
        assert epsilon <= Fraction(3) * ALLOWANCE - sums.other_epsilon
        assert shift**2 >= sums.squared


def test_both_kinds_together() -> None:
    sieve = cost_of(dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve"))
    votes = cost_of(dpsu.plan(epsilon=0.5, delta=1e-7, mechanism="greedy"))
    mixed = total([sieve, votes, sieve, sieve])
    apart = float(total([sieve] * 3).gaussian_delta(2.0)) + 1e-7
    assert float(mixed.gaussian_delta(2.5)) == pytest.approx(apart, rel=1e-9)
    assert mixed.gaussian_delta(0.4) == 1  # less than the votes alone
    assert total([votes] * 3).gaussian_delta(1.5) == 3 * Fraction(1e-7)
    hopeless = total([Cost(Privacy(50.0, 0.1), Shift(900.0, 1e-9))])
    assert hopeless.gaussian_delta(50.0) == 1
    assert hopeless.gaussian_epsilon(1e-5) is None


def test_two_releases_of_a_small_database_stay_within_the_account() -> None:
    """Every output of two weighted Gaussian releases, with and without one user, exactly."""
    plan = flat.plan(epsilon=1, delta=1e-3, max_items=4, **SURE)
    account = total([cost_of(plan)] * 2)
    for held in (1, 3, 40, 150):  # by how many others, of one item each
        for novel in range(4):
            without = [float(held)] * (4 - novel) + [0.0] * novel
            with_ = [weight + 0.5 for weight in without]
            laws = [[plan.curve.probability(w) for w in weights] for weights in (with_, without)]
            for epsilon in (0.1, 1.0, 2.0):
                for first, second in (laws, laws[::-1]):
                    gap = 0.0
                    for shown in itertools.product((0, 1), repeat=8):
                        p, q = (
                            math.prod(
                                c if s else 1 - c for s, c in zip(shown, law * 2, strict=True)
                            )
                            for law in (first, second)
                        )
                        gap += max(0.0, p - math.exp(epsilon) * q)
                    assert gap <= float(account.gaussian_delta(epsilon)) * (1 + 1e-9)


# Prices that are chosen by what earlier releases showed.

EPSILON, DELTA = 3.0, 1e-5


def _stick(epsilon: Any, shift: float) -> Any:
    """Hockey-stick divergence of unit normals, at negative epsilons too."""
    if shift == 0.0:
        return np.maximum(0.0, 1.0 - np.exp(np.minimum(epsilon, 0.0)))
    tails = norm.sf(epsilon / shift - shift / 2), norm.sf(epsilon / shift + shift / 2)
    return tails[0] - np.exp(epsilon) * tails[1]


def _chosen(squared: float, then: Callable[[Any], Any]) -> float:
    """Mean, with the user present, of what follows the privacy loss of a Gaussian release."""
    deviation = math.sqrt(squared)
    losses = squared / 2 + deviation * np.linspace(-12.0, 12.0, 200_001)
    density = norm.pdf(losses, squared / 2, deviation)
    return float(trapezoid(density * then(losses), losses))


def _largest_squared() -> float:
    return float(brentq(lambda m: float(_stick(EPSILON, math.sqrt(m))) - DELTA, 1e-3, 9.0))


def test_the_promise_is_needed_and_three_times_delta_do_without_it() -> None:
    """Spend on noise where much was lost, and on novel items elsewhere: beyond delta, below 3."""
    first, largest = 0.2, _largest_squared() * (1 - 1e-9)
    novel = DELTA - float(_stick(EPSILON, math.sqrt(first))) * (1 + 1e-6)
    unpayable, budget = Privacy(50.0, 0.5), Privacy(EPSILON, DELTA)
    paths = [[Shift(first, 0.0), Shift(largest - first, 0.0)], [Shift(first, 0.0), Shift(0, novel)]]
    for path in paths:
        assert total(Cost(unpayable, shift) for shift in path).within(budget)
    rest = math.sqrt(largest - first)

    def then(losses: Any) -> Any:
        return np.maximum(_stick(EPSILON - losses, rest), novel + _stick(EPSILON - losses, 0.0))

    found = _chosen(first, then)
    assert 1.3 * DELTA < found < 2 * DELTA


@every("mechanism", ["weighted-gaussian", "policy-gaussian", "reroute"])
@every("privacy", [(3, math.exp(-10)), (1, 1e-5), (10, 1e-3)])
def test_the_account_has_the_worst_number_of_novel_items(
    mechanism: str, privacy: tuple[float, float]
) -> None:
    plan = dpsu.plan(
        epsilon=privacy[0], delta=privacy[1], mechanism=dpsu.mechanism(mechanism, max_items=100)
    )
    shift = cost_of(plan).shift
    assert shift is not None
    assert plan.theorem == "gaussian-joint"
    assert shift.novel < privacy[1]
    assert isinstance(plan.curve, Gaussian)
    for t in range(1, 101):
        kept = 1.0 - plan.curve.probability(1.0 / math.sqrt(t))
        assert 1.0 - kept**t <= shift.novel * (1 + 1e-9)


def test_plans_of_seeded_grams_carry_no_guarantee() -> None:
    posts = dict.fromkeys(range(60), "the cat sat")
    with pytest.warns(dpsu.DataWarning, match="insecure_seed"):
        made = flat.ngrams(posts, text="post", epsilon=2, delta=1e-4, insecure_seed=np.int8(3))
    assert not made.private
    assert made.plan.insecure_seed == 3


@every("max_items", [1, 100, 100_000])
def test_reroute_is_proved_for_as_many_users_as_rounding_allows(max_items: int) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Reroute(max_items=max_items))
    # Of every user, rounding adds at most this to the norm: sqrt(max_items) units, and a few more.
    most = plan.max_users * math.sqrt(max_items) * 2.0**-plan.policy.fraction_bits
    assert most <= 2.0**-12
    with pytest.raises(dpsu.ParameterError, match="cutoff"):
        dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Reroute(cutoff=2.0**25))
