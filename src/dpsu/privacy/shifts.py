"""Releases as Gaussian noise that one user shifts: what lets ledgers count many as one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dpsu.privacy.calibration import ROUND_UP, novel_at_most
from dpsu.privacy.curves import Gaussian


@dataclass(frozen=True)
class Shift:
    """A release as Gaussian noise that one user shifts, and a chance of being told apart anyway.

    Attributes
    ----------
    squared : float
        Square of the shift in standard deviations, summed over all rounds.
    novel : float
        Probability that an item comes out that only one user brings.
    """

    squared: float
    novel: float


def shift_of_counts(curve: Gaussian, max_items: int) -> Shift:
    """Counts of at most `max_items` items per user: every novel item weighs exactly 1."""
    return _shift(curve, math.sqrt(max_items) * ROUND_UP, range(max_items, max_items + 1))


def shift_of_weights(curve: Gaussian, max_items: int, norm: float) -> Shift:
    """Weights of this l2 norm: of t novel items each weighs at most `norm` / sqrt(t)."""
    return _shift(curve, norm, range(1, max_items + 1))


def _shift(curve: Gaussian, norm: float, numbers: range) -> Shift:
    """Noise and novel items apart, however the plan accounted for them."""
    novel = max(
        novel_at_most(curve.scale, curve.threshold, t, ROUND_UP * norm / math.sqrt(t))
        for t in numbers
    )
    return Shift(ROUND_UP * (norm / curve.scale) ** 2, novel)


def shift_of_rounds(scales: Iterable[float], delta_split: Iterable[tuple[str, float]]) -> Shift:
    """Rounds of l2 norm 1 with noise of these scales; novel items have their part of delta."""
    squared = ROUND_UP * math.fsum(1.0 / scale**2 for scale in scales)
    novel = math.fsum(delta for what, delta in delta_split if what.startswith("novel"))
    return Shift(squared, novel * ROUND_UP)
