"""Boundaries that novel items hardly ever cross: many rounds add to one sum of evidence.

In a phase with shares f_1, f_2, ... of the budget, evidence for an item grows by f_k X_k, where X_k
is the weight that users give it plus Gaussian noise of variance sigma^2 / f_k. An item that only
one user holds gets at most c s_k from that user in round k. So its evidence after round k is at
most c G_k plus a normal variable of variance sigma^2 F_k, with F_k the sum of the shares and G_k
that of f_j s_j, however the user's weights were steered.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from dpsu.privacy.normal import RELATIVE_ERROR, upper_tail

CAP_STEPS = 128
# Evidence is a sum of doubles: it is off by far less than this.
SUM_ERROR = 1e-9


@dataclass(frozen=True)
class Phase:
    """The rounds of one phase: a user's set is fixed, evidence starts at 0.

    Attributes
    ----------
    max_items : int
        Size of a user's set in this phase.
    delta : float
        Bound on the probability that any novel item of one user crosses the boundary.
    cap : float
        Largest weight per item and unit of shape that is safe for `max_items` novel items.
    shares, shapes, boundary : tuple of float
        For each round: its share of the budget, the factor of its caps, and what evidence must
        exceed.
    """

    max_items: int
    delta: float
    cap: float
    shares: tuple[float, ...]
    shapes: tuple[float, ...]
    boundary: tuple[float, ...]

    @property
    def share(self) -> float:
        """Share of the budget that the whole phase takes."""
        return math.fsum(self.shares)

    def caps(self, sigma: float, unit: float) -> list[float]:
        """Largest weight by the number t of items that might be novel; ``caps[0]`` is not used.

        ``caps[t]`` is on a grid, at most 1, and ``t`` novel items of that weight cross with
        probability at most `delta`.
        """
        grid = [self.cap + (1.0 - self.cap) * k / CAP_STEPS for k in range(CAP_STEPS + 1)]
        crossing = [crossing_at_most(self, sigma, unit, cap) for cap in grid]
        most = [self.delta / p if p > 0.0 else math.inf for p in crossing]
        # `most` falls as the cap grows: the largest safe cap is the last with at least t.
        rising = most[::-1]
        caps = [1.0]
        for t in range(1, self.max_items + 1):
            place = bisect_left(rising, float(t))
            caps.append(grid[len(grid) - 1 - place] if place < len(grid) else 0.0)
        return caps


def crossing_at_most(phase: Phase, sigma: float, unit: float, cap: float) -> float:
    """Upper bound of P[one novel item of weight `cap` times shape crosses in any round]."""
    total = 0.0
    for spent, drift, bound in zip(*_sums(phase.shares, phase.shapes), phase.boundary, strict=True):
        room = bound - cap * drift - _rounding(spent, unit)
        total += upper_tail(room / (sigma * math.sqrt(spent)))
    return total * (1.0 + RELATIVE_ERROR)


def make_phase(
    shares: tuple[float, ...],
    shapes: tuple[float, ...],
    sigma: float,
    unit: float,
    *,
    max_items: int,
    delta: float,
    cap: float,
    exponent: float,
) -> Phase:
    """Choose the boundary ``cap G_k + C sigma sqrt(T) (F_k / T)^exponent`` with the smallest C.

    C is such that `max_items` novel items of weight `cap` stay below it except with probability
    `delta`, by a union bound over items and rounds; what is returned has passed that check.
    """
    spent, drift = _sums(shares, shapes)
    total = spent[-1]

    def phase(height: float) -> Phase:
        bounds = tuple(
            (cap * g + height * sigma * math.sqrt(total) * (f / total) ** exponent) * (1.0 + 1e-12)
            + _rounding(f, unit)
            for f, g in zip(spent, drift, strict=True)
        )
        return Phase(max_items, delta, cap, shares, shapes, bounds)

    def safe(height: float) -> bool:
        return max_items * crossing_at_most(phase(height), sigma, unit, cap) <= delta

    low, high = 0.0, 40.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if safe(middle) else (middle, high)
    return phase(high)


def _sums(shares: tuple[float, ...], shapes: tuple[float, ...]) -> tuple[list[float], list[float]]:
    """Sums of the shares and of shares times shapes up to each round."""
    spent = [math.fsum(shares[: k + 1]) for k in range(len(shares))]
    drift = [
        math.fsum(f * s for f, s in zip(shares[: k + 1], shapes[: k + 1], strict=True))
        for k in range(len(shares))
    ]
    return spent, drift


def _rounding(spent: float, unit: float) -> float:
    """The most that rounding noise to whole units, and sums in doubles, can add to evidence."""
    return spent / unit + SUM_ERROR
