"""Accounts, prices and curves of rounds of bits."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import mpmath
import numpy as np
import pytest

from dpsu.errors import ParameterError
from dpsu.kernels.bit_curves import use_at_most
from dpsu.privacy.bits import (
    BUDGET,
    CAPS,
    CERTAIN,
    LONGEST,
    BitsAccount,
    CoinTable,
    bits_account,
    limits_of,
    prices_of,
    rate_at_least,
    round_curve,
    usable_caps,
    verify,
)
from tests.support.bit_products import plain_use
from tests.support.cases import every

Table = TypeVar("Table", bound=CoinTable)
SHARES = (0.04, 0.08, 0.18, 0.70)
GUARANTEES = [(0.1, 1e-9), (0.5, 1e-6), (1.0, 1e-5), (3.0, math.exp(-10)), (8.0, 1e-3)]
EXTREME = [(1e-4, 1e-100), (1e-4, 0.5), (50.0, 1e-100), (50.0, 0.5), (0.01, 1e-12), (20.0, 0.1)]


def account() -> BitsAccount:
    return bits_account(3.0, math.exp(-10))


def weight_at(curve: CoinTable, probability: float) -> float:
    """Weight of this probability, linear between units."""
    goal = probability * CERTAIN
    above = next(n for n, chance in enumerate(curve.chances) if chance >= goal)
    low, high = curve.chances[above - 1 : above + 1]
    return curve.unit * (above - 1 + (goal - low) / (high - low))


def with_chance(curve: Table, weight: int, chance: int) -> Table:
    chances = list(curve.chances)
    chances[weight] = chance
    return replace(curve, chances=tuple(chances))


def cost_of(account: BitsAccount, epsilon: float) -> mpmath.mpf:
    """Delta that an account implies (Canonne, Kamath, Steinke 2020, Proposition 7)."""
    order, rate = mpmath.mpf(account.order), mpmath.mpf(account.rate)
    moment = mpmath.exp((order - 1) * (rate - mpmath.mpf(epsilon)))
    return account.sure + moment / order * (1 - 1 / order) ** (order - 1)


@every(("epsilon", "delta"), GUARANTEES + EXTREME)
def test_an_account_costs_no_more_than_its_guarantee(epsilon: float, delta: float) -> None:
    with mpmath.workprec(200):
        made = bits_account(epsilon, delta)
        cost = cost_of(made, epsilon)
        assert cost <= mpmath.mpf(delta)
        # The rest is left for shares whose sum exceeds 1 by a rounding.
        assert cost >= mpmath.mpf(delta) * (1 - 1e-6)
        assert cost_of(replace(made, rate=made.rate * (1 + 2.0**-42)), epsilon) <= delta


@every("order", [1.0001, 1.5, 5.5, 1e3, 3e6])
def test_a_rate_is_rounded_down(order: float) -> None:
    for delta in (1e-100, 1e-9, 0.4):
        with mpmath.workprec(200):
            alpha = mpmath.mpf(order)
            exact = (
                3
                - mpmath.log((alpha - 1) / alpha)
                + (mpmath.log(mpmath.mpf(delta)) + mpmath.log(alpha)) / (alpha - 1)
            )
            size = 4 + 400 / (alpha - 1)
            assert exact - 1e-13 * size <= rate_at_least(3.0, delta, order) < exact


def test_the_order_is_near_the_best() -> None:
    # Orders that a scan over orders and shares found best for the last round.
    assert bits_account(3.0, math.exp(-10)).order == pytest.approx(5.6, abs=0.4)
    assert bits_account(1.0, 1e-5).order == pytest.approx(14.4, abs=1.0)


@every("cap", CAPS)
def test_prices_are_the_formula_rounded_up(cap: float) -> None:
    exact = Fraction(str(cap))
    prices = prices_of(cap)

    def formula(n: int) -> Fraction:
        v = n * exact / 8
        return v**2 * max(Fraction(1), v / exact) ** 3

    assert prices[0] == 0
    assert all(a < b for a, b in pairwise(prices))
    assert all(
        formula(n) * BUDGET <= price < formula(n) * BUDGET + 1 for n, price in enumerate(prices)
    )
    assert prices[-1] <= BUDGET < formula(len(prices)) * BUDGET
    assert prices[1] > 1 << 15  # rounding costs next to nothing


# Any two of a guarantee, a cap and a share are together in some curve.
CURVES = [
    (guarantee, cap, SHARES[(first + second) % len(SHARES)])
    for first, guarantee in enumerate(GUARANTEES)
    for second, cap in enumerate(CAPS)
]


@every(("guarantee", "cap", "share"), CURVES)
def test_every_curve_passes_and_wastes_nothing(
    guarantee: tuple[float, float], cap: float, share: float
) -> None:
    made = bits_account(*guarantee)
    curve = round_curve(made, share, cap)
    assert curve.chances[0] == 0
    assert curve.chances[-1] == CERTAIN > curve.chances[-2]
    assert 1.0 - 1e-6 <= verify(curve, made) <= 1.0
    # Novel items of n units take all that is set aside for them, or what the pairs below allow.
    assert 0 < curve.chances[1] <= share * made.sure * curve.prices[1] / BUDGET * CERTAIN


@every(("cap", "share"), [(0.2, 0.7), (1.0, 0.04), (1.0, 1.0)])
def test_the_check_is_the_theorem_in_plain_numbers(cap: float, share: float) -> None:
    curve = round_curve(account(), share, cap)
    plain = max(
        plain_use(curve, account(), weight, units)
        for units in range(1, len(curve.prices))
        for weight in range(len(curve.chances))
    )
    # Rounded up, by no more than doubles cost.
    assert plain <= verify(curve, account()) <= plain * (1 + 1e-9)


@every(("epsilon", "delta"), GUARANTEES)
def test_pairs_here_and_there_agree_with_plain_numbers(epsilon: float, delta: float) -> None:
    made = bits_account(epsilon, delta)
    for cap, share in ((0.03, 0.04), (0.1, 0.18), (0.5, 0.7)):
        curve = round_curve(made, share, cap)
        sure, limits = limits_of(curve.prices, curve.budget, share, made)
        last = len(curve.chances) - 1
        for units in (1, 2, 5, len(curve.prices) - 1):
            # Both ends, where chances are tiny or nearly certain, and all between.
            for weight in {1, 2, 3, units, *range(5, last - units, last // 12)} | {
                last - units - k for k in range(1, 5)
            }:
                p, q = (np.uint64(curve.chances[w]) for w in (weight + units, weight))
                use = use_at_most(
                    p, q, sure[units], made.order - 1.0, limits[units], 0.0, np.zeros(0)
                )
                plain = plain_use(curve, made, weight, units)
                assert plain <= use <= plain * (1 + 1e-8) + 1e-9


@every(("epsilon", "delta"), GUARANTEES)
def test_limits_of_pairs_are_rounded_down(epsilon: float, delta: float) -> None:
    made = bits_account(epsilon, delta)
    for cap, share in ((0.03, 0.04), (0.2, 0.18), (1.0, 0.7)):
        sure, limits = limits_of(prices_of(cap), BUDGET, share, made)
        for price, mass, limit in zip(prices_of(cap), sure, limits, strict=True):
            part = Fraction(share) * Fraction(price, BUDGET)
            exact = part * Fraction(made.rate) * (Fraction(made.order) - 1)
            assert exact * (1 - Fraction(1, 1 << 49)) <= Fraction(float(limit)) <= exact
            allowed = part * Fraction(made.sure) * CERTAIN
            assert allowed - 1 < int(mass) <= allowed


def test_no_chance_of_a_curve_can_be_raised() -> None:
    curve = round_curve(account(), 0.7, 0.35)
    for weight in range(1, len(curve.chances) - 20):
        raised = int(curve.chances[weight] * 1.00001)
        if raised <= curve.chances[weight + 1]:
            assert verify(with_chance(curve, weight, raised), account()) > 1.0, weight


@every("weight", [1, 2, 9, 20, 100, 200])
def test_a_chance_that_is_one_percent_too_large_is_refused(weight: int) -> None:
    curve = round_curve(account(), 0.7, 0.35)
    shown = curve.chances[weight]
    hidden = CERTAIN - shown
    more = shown + (shown // 100 if shown < hidden else hidden // 100)
    assert more <= curve.chances[weight + 1]
    assert verify(with_chance(curve, weight, more), account()) > 1.0


def test_certainty_that_comes_too_early_is_refused() -> None:
    curve = round_curve(account(), 0.7, 0.35)
    early = replace(curve, chances=(*curve.chances[:-2], CERTAIN))
    assert verify(early, account()) == math.inf
    # The last chance before 1 is near enough to 1 for one unit, but not those some units below.
    jump = (*curve.chances[:-20], *curve.chances[-2:])
    assert verify(replace(curve, chances=jump), account()) == math.inf
    # The other direction: a pair is too far apart whichever of its chances moved.
    for weight in (3, 50, 150):
        assert verify(with_chance(curve, weight, curve.chances[weight - 1]), account()) > 1.0


@every(
    "change",
    [
        {"share": 0.6},
        {"share": 0.0},
        {"share": 1.5},
        {"share": math.nan},
        {"budget": 2 * BUDGET},
        {"budget": 1},
        {"prices": (0,)},
        {"prices": (0, BUDGET, BUDGET)},
        {"prices": (1, *prices_of(0.35)[1:])},
        {"prices": tuple(9 * price // 10 for price in prices_of(0.35))},
        {"chances": (CERTAIN,)},
        {"chances": (0, CERTAIN)},
        {"chances": (0, 5, 4, CERTAIN)},
    ],
)
def test_curves_of_another_form_are_refused(change: dict[str, object]) -> None:
    curve = replace(round_curve(account(), 0.7, 0.35), **change)  # type: ignore[arg-type]
    assert verify(curve, account()) > 1.0


def test_an_item_without_weight_never_comes_out() -> None:
    curve = round_curve(account(), 0.7, 0.35)
    assert verify(with_chance(curve, 0, 1), account()) == math.inf


@every(
    "change",
    [
        {"order": 1.0},
        {"order": math.inf},
        {"rate": 0.0},
        {"rate": math.nan},
        {"sure": 0.0},
        {"ids": 0},
    ],
)
def test_accounts_that_make_no_sense_are_refused(change: dict[str, Any]) -> None:
    curve = round_curve(account(), 0.7, 0.35)
    assert verify(curve, replace(account(), **change)) == math.inf


def test_the_largest_number_of_units_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("dpsu.privacy.bits.prices_of", lambda cap: prices_of(cap)[:-1])
        fewer = round_curve(account(), 0.71, 1.0)
    assert len(fewer.prices) == 8
    assert verify(fewer, account()) <= 1.0
    assert verify(replace(fewer, prices=prices_of(1.0)), account()) > 1.0


def test_a_curve_is_refused_by_an_account_that_allows_less() -> None:
    curve = round_curve(account(), 0.7, 0.35)
    assert verify(curve, replace(account(), rate=0.999 * account().rate)) > 1.0
    assert verify(curve, replace(account(), sure=0.999 * account().sure)) > 1.0


@every(("cap", "certified"), [(1.0, 5.85), (0.5, 5.01), (0.2, 3.58), (0.1, 2.95), (0.05, 2.55)])
def test_even_chances_need_a_little_more_than_one_certified_round(
    cap: float, certified: float
) -> None:
    # What one round needs at (3, e^-10) with an account that does not allow for adaptive rounds,
    # and with a cap that is hard: 5 to 15 % less. The soft cap adds up to 8 %.
    weight = weight_at(round_curve(account(), 1.0, cap), 0.5)
    assert 1.02 * certified < weight < 1.25 * certified
    # The Gaussian threshold, for comparison.
    assert weight < 6.4


def test_all_caps_are_usable_at_usual_guarantees() -> None:
    for epsilon, delta in GUARANTEES:
        assert usable_caps(bits_account(epsilon, delta), SHARES) == CAPS


def test_tiny_guarantees_leave_large_caps_only() -> None:
    small_delta = bits_account(1.0, 1e-14)
    caps = usable_caps(small_delta, SHARES)
    assert caps == CAPS[-len(caps) :] != CAPS
    assert verify(round_curve(small_delta, min(SHARES), caps[0]), small_delta) <= 1.0
    with pytest.raises(ParameterError, match="larger delta"):
        round_curve(small_delta, min(SHARES), CAPS[0])
    assert usable_caps(bits_account(1.0, 1e-30), SHARES) == ()
    assert usable_caps(bits_account(1e-4, 1e-9), SHARES) == ()


def test_tables_of_usable_caps_are_short_enough() -> None:
    for epsilon, delta in [*GUARANTEES, (50.0, 0.5), (1.0, 1e-12)]:
        made = bits_account(epsilon, delta)
        for share in (0.04, 0.7):
            deviation = math.sqrt(made.order / (2 * share * made.rate))
            curve = round_curve(made, share, 1.0)
            assert len(curve.chances) * curve.unit < 20 * deviation


def test_a_table_that_becomes_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsu.privacy.bits.LONGEST", 200)
    with pytest.raises(ParameterError, match="too long"):
        round_curve(account(), 0.123, 0.35)
    assert LONGEST > 200


def test_no_curve_leaves_without_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsu.privacy.bits.verify", lambda curve, account: 1.0 + 1e-15)
    with pytest.raises(RuntimeError, match="did not pass"):
        round_curve(account(), 0.124, 0.35)
