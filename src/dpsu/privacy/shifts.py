"""Releases as Gaussian noise that one user shifts: what lets ledgers count many as one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from dpsu.privacy.calibration import ROUND_UP, novel_at_most
from dpsu.privacy.curves import Gaussian
from dpsu.privacy.several_ids import novel_in_norm_at_most


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


def shift_of_counts(curve: Gaussian, max_items: int, ids: int) -> Shift:
    """Counts of at most `max_items` items per id: every novel item weighs exactly 1 for each id."""
    norm = math.sqrt(max_items) * ROUND_UP
    if ids > 1:
        return _shift_of_ids(curve, ids, max_items, norm, ROUND_UP / math.sqrt(max_items))
    return _shift(curve, norm, range(max_items, max_items + 1))


def shift_of_weights(curve: Gaussian, max_items: int, norm: float, ids: int) -> Shift:
    """Weights of this l2 norm: of t novel items of one id each weighs at most `norm` / sqrt(t)."""
    if ids > 1:
        return _shift_of_ids(curve, ids, max_items, norm, 1.0)
    return _shift(curve, norm, range(1, max_items + 1))


def _shift_of_ids(curve: Gaussian, ids: int, max_items: int, norm: float, highest: float) -> Shift:
    """So many ids of this norm: of novel items, only norm and number are known."""
    whole = ids * norm * ROUND_UP
    scale, threshold = curve.scale / whole, curve.threshold / whole * (1.0 - 1e-12)
    novel = novel_in_norm_at_most(scale, threshold, ids * max_items, min(1.0, highest))
    return Shift(ROUND_UP * (whole / curve.scale) ** 2, novel)


def _shift(curve: Gaussian, norm: float, numbers: range) -> Shift:
    """Noise and novel items apart, however the plan accounted for them."""
    novel = max(
        novel_at_most(curve.scale, curve.threshold, t, ROUND_UP * norm / math.sqrt(t))
        for t in numbers
    )
    return Shift(ROUND_UP * (norm / curve.scale) ** 2, novel)


def shift_of_rounds(
    scales: Iterable[float], delta_split: Iterable[tuple[str, float]], ids: int
) -> Shift:
    """Rounds of l2 norm 1 per id, with noise of these scales; novel items have part of delta."""
    squared = ROUND_UP * math.fsum((ids / scale) ** 2 for scale in scales)
    novel = math.fsum(delta for what, delta in delta_split if what.startswith("novel"))
    return Shift(squared, novel * ROUND_UP)
