"""The last round of bits: its curve, its check and what sets it apart from other rounds."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import numpy as np
import pytest

from dpsu.kernels.bit_curves import use_at_most
from dpsu.privacy.bits import (
    BUDGET,
    CAPS,
    CERTAIN,
    BitsAccount,
    BitsCurve,
    bits_account,
    prices_of,
    round_curve,
    verify,
)
from dpsu.privacy.last_bits import (
    CELLS,
    FEW_CELLS,
    LONG,
    LastCurve,
    difference_at_least,
    last_curve,
    last_limits_of,
    tangents_of,
    verify_last,
)
from tests.support.bit_products import plain_norm
from tests.support.cases import every
from tests.unit.privacy.test_bits import GUARANTEES, account, weight_at, with_chance

SHARE = 0.7


# Every cap at two guarantees, the largest and the smallest among them.
CURVES = [
    (guarantee, cap)
    for number, guarantee in enumerate(GUARANTEES[1:])
    for cap in CAPS[number % 2 :: 2]
]


@every(("guarantee", "cap"), CURVES)
def test_every_last_curve_passes_and_is_no_worse(
    guarantee: tuple[float, float], cap: float
) -> None:
    made = bits_account(*guarantee)
    last, other = last_curve(made, SHARE, cap), round_curve(made, SHARE, cap)
    assert 1.0 - 1e-6 <= verify_last(last, made) <= 1.0
    assert weight_at(last, 0.5) <= weight_at(other, 0.5)


def test_long_tables_have_coarser_cells_and_pass() -> None:
    made = bits_account(*GUARANTEES[0])
    curve = last_curve(made, SHARE, 0.1)
    assert len(curve.chances) > LONG
    plain = BitsCurve(curve.cap, curve.share, curve.prices, curve.budget, curve.chances)
    assert verify_last(curve, made) <= 1.0 < verify(plain, made)


def test_a_curve_for_the_last_round_is_refused_before_it() -> None:
    for cap in (0.05, 0.2, 0.5):
        curve = last_curve(account(), SHARE, cap)
        # By its numbers, and by its type: mypy complains of a comment that ignores no error.
        assert verify(curve, account()) > 1.2  # type: ignore[arg-type]
    assert not issubclass(LastCurve, BitsCurve)
    assert not isinstance(round_curve(account(), SHARE, 0.2), LastCurve)


def uses(made: BitsAccount, curve: LastCurve, cells: int) -> list[tuple[float, float]]:
    """What pairs use here and there, and what a plain sum says."""
    sure, limits, parts = last_limits_of(curve.prices, curve.budget, curve.share, made)
    nodes = tangents_of(cells)
    last = len(curve.chances) - 1
    found = []
    for units in (1, 3, 8, len(curve.prices) - 1):
        for weight in {1, units, *range(4, last - units, last // 9), last - units - 1}:
            p, q = (np.uint64(curve.chances[w]) for w in (weight + units, weight))
            power = made.order - 1.0
            use = use_at_most(p, q, sure[units], power, limits[units], parts[units], nodes)
            found.append((use, max(0.0, plain_norm(curve, made, weight, units))))
    return found


@every(("guarantee", "cap"), zip(GUARANTEES[1:], [0.1, 0.35, 0.1, 0.35], strict=True))
def test_pairs_of_the_last_round_agree_with_a_sum_over_complex_orders(
    guarantee: tuple[float, float], cap: float
) -> None:
    made = bits_account(*guarantee)
    curve = last_curve(made, SHARE, cap)
    fine, coarse = uses(made, curve, CELLS), uses(made, curve, FEW_CELLS)
    for (use, plain), (coarse_use, _) in zip(fine, coarse, strict=True):
        # Left ends of cells bound the sum, and do not exceed it by much.
        assert plain - 2e-4 <= use <= plain + 0.05
        assert use <= coarse_use


def test_with_many_cells_the_bound_is_the_sum() -> None:
    curve = last_curve(account(), SHARE, 0.2)
    for use, plain in uses(account(), curve, 4000):
        assert use == pytest.approx(plain, abs=1e-3)


@every("order", [1.001, 1.5, 5.6, 238.0, 1e6])
def test_what_the_line_charges_is_rounded_down(order: float) -> None:
    with mpmath.workprec(200):
        alpha = mpmath.mpf(order)
        line = mpmath.log(2 * mpmath.sqrt(alpha * (alpha - 1)))
        moment = mpmath.log(alpha) - (alpha - 1) * mpmath.log1p(-1 / alpha)
        exact = line - moment
        assert exact - 1e-10 < difference_at_least(order) < exact


def test_tangents_are_at_left_ends_and_rounded_down() -> None:
    nodes = tangents_of(CELLS)
    assert nodes[0] == 0.0
    with mpmath.workprec(200):
        for k in range(1, CELLS):
            exact = mpmath.tan(k * mpmath.pi / 2 / CELLS) ** 2
            assert exact * (1 - mpmath.mpf(2) ** -39) < nodes[k] < exact


@every("weight", [1, 2, 9, 50, 100, 200])
def test_a_last_chance_that_is_one_percent_too_large_is_refused(weight: int) -> None:
    curve = last_curve(account(), SHARE, 0.35)
    shown = curve.chances[weight]
    hidden = CERTAIN - shown
    raised = with_chance(curve, weight, shown + min(shown, hidden) // 100)
    assert verify_last(raised, account()) > 1.0


def test_last_curves_of_another_form_are_refused() -> None:
    curve = last_curve(account(), SHARE, 0.35)
    assert verify_last(replace(curve, share=0.69), account()) > 1.0
    assert verify_last(replace(curve, chances=(1, *curve.chances[1:])), account()) == math.inf
    assert verify_last(curve, replace(account(), sure=0.0)) == math.inf
    assert verify_last(curve, replace(account(), rate=0.99 * account().rate)) > 1.0
    # So small a share that the line charges more than there is.
    assert verify_last(replace(curve, share=0.01), account()) > 1.0


@every(("epsilon", "delta"), GUARANTEES)
def test_limits_of_a_last_round_are_rounded_down(epsilon: float, delta: float) -> None:
    made, prices = bits_account(epsilon, delta), prices_of(0.35)
    _, limits, parts = last_limits_of(prices, BUDGET, SHARE, made)
    with mpmath.workprec(200):
        alpha = mpmath.mpf(made.order)
        line = mpmath.log(2 * mpmath.sqrt(alpha * (alpha - 1)))
        moment = mpmath.log(alpha) - (alpha - 1) * mpmath.log1p(-1 / alpha)
        whole = mpmath.mpf(SHARE) * (alpha - 1) * mpmath.mpf(made.rate) + line - moment
        for price, limit, part in zip(prices, limits, parts, strict=True):
            exact = Fraction(price, BUDGET)
            assert exact * (1 - Fraction(1, 1 << 49)) <= Fraction(float(part)) <= exact
            allowed = mpmath.mpf(price) / BUDGET * whole
            assert allowed * (1 - 1e-9) <= mpmath.mpf(float(limit)) <= allowed


@every(("epsilon", "delta"), [(0.01, 0.3), (1e-4, 0.5)])
def test_a_line_that_charges_more_than_there_is_lets_no_curve_pass(
    epsilon: float, delta: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Divided by a negative limit, every use would pass: even a jump from 5 % to nearly 1.
    made, prices = bits_account(epsilon, delta), prices_of(1.0)
    sure, limits, _ = last_limits_of(prices, BUDGET, SHARE, made)
    assert limits[1] < 0.0
    novel = [int(mass) for mass in sure]
    nearly = CERTAIN - novel[1] // 2
    jump = LastCurve(1.0, SHARE, prices, BUDGET, (*novel, *[nearly] * 20, CERTAIN))
    assert jump.chances[8] < 0.1 * CERTAIN < 0.999 * CERTAIN < jump.chances[9]
    assert verify_last(jump, made) > 1.0
    curve = last_curve(made, SHARE, 1.0)
    assert curve.chances == round_curve(made, SHARE, 1.0).chances
    # Whatever the kernel makes of such a limit.
    monkeypatch.setattr("dpsu.privacy.last_bits.verify", lambda *given: 2.0)
    monkeypatch.setattr("dpsu.kernels.bit_curves.worst_use", lambda *given: 0.0)
    assert verify_last(jump, made) == 2.0


def test_a_small_last_share_has_the_curve_of_any_round() -> None:
    assert last_curve(account(), 0.01, 0.5).chances == round_curve(account(), 0.01, 0.5).chances


def test_no_last_curve_leaves_without_its_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpsu.privacy.last_bits.verify_last", lambda curve, account: 1.0 + 1e-15)
    with pytest.raises(RuntimeError, match="did not pass"):
        last_curve(account(), 0.124, 0.35)
