"""The exact divergence of two releases, in integers rounded against us.

Given the salts, a release is a product of exact coins, so its distribution over all sets of items can
be enumerated. Probabilities are brackets of integers over 2^BITS; products are rounded up where the
bound grows with them and down where it falls.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath

from dpsu.plans.plan import Plan

BITS = 128
UNIT = 1 << BITS
Weights = dict[Any, Fraction]


@lru_cache(maxsize=100_000)
def bracket(curve: Any, weight: Fraction) -> tuple[int, int]:
    low, high = curve.exact(weight, BITS)
    return low, high


@lru_cache(maxsize=1000)
def growth_at_least(epsilon: float) -> int:
    """A lower bound of e^epsilon, times 2^BITS."""
    with mpmath.workprec(2 * BITS + 128):
        return int(mpmath.floor(mpmath.ldexp(mpmath.exp(mpmath.mpf(epsilon)), BITS))) - 1


def divergence_at_most(plan: Plan, p: Weights, q: Weights) -> Fraction:
    """Upper bound of sup over O of P(O) - e^epsilon Q(O)."""
    zero = Fraction(0)
    curve: Any = plan.curve
    outputs = [(UNIT, UNIT)]  # for each output: P at most, Q at least
    for item in sorted(p.keys() | q.keys(), key=str):
        p_low, p_high = bracket(curve, p.get(item, zero))
        q_low, q_high = bracket(curve, q.get(item, zero))
        outputs = [
            pair
            for likely, unlikely in outputs
            for pair in (
                (_up(likely * p_high), (unlikely * q_low) >> BITS),
                (_up(likely * (UNIT - p_low)), (unlikely * (UNIT - q_high)) >> BITS),
            )
        ]
    growth = growth_at_least(plan.privacy.epsilon)
    total = sum(max(0, likely - ((growth * unlikely) >> BITS)) for likely, unlikely in outputs)
    return Fraction(total, UNIT)


def worst(plan: Plan, more: Weights, less: Weights) -> Fraction:
    """The larger of both directions."""
    return max(divergence_at_most(plan, more, less), divergence_at_most(plan, less, more))


def within(plan: Plan, cost: Fraction) -> bool:
    """Whether a bound respects delta, but for the rounding of the bound itself."""
    return cost <= Fraction(plan.privacy.delta) + Fraction(1, 1 << 100)


def _up(product: int) -> int:
    return -((-product) >> BITS)
