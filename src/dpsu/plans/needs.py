"""What an item needs to be released, and how sure that can be."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsu.plans.mechanisms import Choice
from dpsu.privacy.curves import weight_needed

if TYPE_CHECKING:
    from dpsu.plans.plan import Plan

PROBABILITIES = (0.5, 0.9, 0.99)


def weights_needed(plan: Plan) -> dict[float, float | None]:
    """Weight for each of the probabilities; None where the cutoff keeps every weight below it."""
    if isinstance(plan.selection, Choice):
        each = [few.needed for few in plan.for_few_items]
        most = {p: max(found[p] or math.inf for found in each) for p in PROBABILITIES}
        return {p: (w if w < math.inf else None) for p, w in most.items()}
    if plan.rounds is not None:
        return {p: plan.rounds.weight_needed(p) for p in PROBABILITIES}
    weights = {p: weight_needed(plan.curve, p) + plan.shift for p in PROBABILITIES}
    limit = float("inf") if plan.cutoff is None else plan.cutoff
    return {p: (w if w <= limit else None) for p, w in weights.items()}


def largest_probability(plan: Plan) -> float:
    """Probability of an item that everybody holds."""
    if isinstance(plan.selection, Choice):
        return min(each.largest_probability for each in plan.candidates)
    if plan.rounds is not None:
        return 1.0
    return plan.curve.probability(1e300 if plan.cutoff is None else plan.cutoff - plan.shift)
