"""Boundaries that novel items hardly ever cross: many rounds add to one sum of evidence.

In a phase with shares f_1, f_2, ... of the budget, evidence for an item grows by f_k X_k, where X_k
is the weight that users give it plus Gaussian noise of variance sigma^2 / f_k. An item that only
one user holds gets at most c s_k from that user in round k. So its evidence after round k is at
most c G_k plus a normal variable of variance sigma^2 F_k, with F_k the sum of the shares and G_k
that of f_j s_j, however the user's weights were steered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from dpsu.privacy.calibration import ROUND_UP
from dpsu.privacy.normal import RELATIVE_ERROR, upper_tail

CAP_STEPS = 384
# Evidence is a sum of doubles: it is off by far less than this.
SUM_ERROR = 1e-9
# Beyond it, that error grows with the boundary: 100 sums of so much err by less than 1e-10.
LARGE_BOUND = 1e3


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

    def caps(self) -> tuple[float, ...]:
        """Caps from the one that is safe for a full set to that of weight 1 in the first round."""
        most = max(self.cap, 1.0 / self.shapes[0])
        step = (most - self.cap) / CAP_STEPS
        return tuple(self.cap + step * k for k in range(CAP_STEPS + 1))


def crossing_at_most(phase: Phase, sigma: float, unit: float, cap: float) -> float:
    """Upper bound of P[one novel item of weight `cap` times shape crosses in any round].

    It is rounded up by more than its own error, so that it may also be compared with a rounded
    quotient.
    """
    total = 0.0
    for spent, drift, bound in zip(*_sums(phase.shares, phase.shapes), phase.boundary, strict=True):
        room = bound - cap * drift - _rounding(spent, unit, bound)
        # Noise is drawn with a scale that is rounded up.
        total += upper_tail(room / (sigma * ROUND_UP * math.sqrt(spent)))
    return total * (1.0 + 2.0 * RELATIVE_ERROR)


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
        heights = (
            (cap * g + height * sigma * math.sqrt(total) * (f / total) ** exponent) * (1.0 + 1e-12)
            for f, g in zip(spent, drift, strict=True)
        )
        bounds = tuple(b + _rounding(f, unit, b) for f, b in zip(spent, heights, strict=True))
        return Phase(max_items, delta, cap, shares, shapes, bounds)

    def safe(height: float) -> bool:
        return crossing_at_most(phase(height), sigma, unit, cap) <= delta / max_items

    low, high = 0.0, 40.0
    while high - low > 1e-10 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if safe(middle) else (middle, high)
    return phase(high)


@lru_cache(maxsize=16)
def _sums(
    shares: tuple[float, ...], shapes: tuple[float, ...]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Sums of the shares and of shares times shapes up to each round."""
    weighed = [share * shape for share, shape in zip(shares, shapes, strict=True)]
    ends = range(1, len(shares) + 1)
    return (
        tuple(math.fsum(shares[:end]) for end in ends),
        tuple(math.fsum(weighed[:end]) for end in ends),
    )


def _rounding(spent: float, unit: float, bound: float) -> float:
    """The most that rounding noise to whole units, and sums in doubles, can add to evidence."""
    return spent / unit + SUM_ERROR * max(1.0, bound / LARGE_BOUND)
