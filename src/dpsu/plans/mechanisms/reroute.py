"""Each user spreads l2 norm 1, and full items give back what they do not need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsu.options import number
from dpsu.plans.mechanisms.base import (
    DEFAULT_MAX_ITEMS,
    Design,
    WithPrior,
    max_items,
    spread_over,
)
from dpsu.plans.mechanisms.one_shot import NOVEL_SLACK, WithCutoff, l2_curve
from dpsu.policies import ReroutePolicy
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift, shift_of_weights

# What all roundings together may add to the sensitivity, and the bits of weights: with both, some
# millions of users.
REROUTE_ALLOWANCE = 2.0**-12
REROUTE_FRACTION_BITS = 39


@dataclass(frozen=True, kw_only=True)
class Reroute(WithCutoff, WithPrior):
    """Each user spreads l2 norm 1, and full items give back what they do not need."""

    max_items: int = max_items(DEFAULT_MAX_ITEMS)
    several_ids: ClassVar[bool] = True
    name: ClassVar[str] = "reroute"
    summary: ClassVar[str] = (
        "each user spreads l2 norm 1, and full items give back what they do not need; parallel"
    )

    def design(self, privacy: Privacy) -> Design:
        """Two rounds of weights of l2 sensitivity 1, with a Gaussian curve for it."""
        most, scale, bits = self.max_items, 1.0 + REROUTE_ALLOWANCE, REROUTE_FRACTION_BITS
        lowest = (1.0 / math.sqrt(most) - NOVEL_SLACK) / scale
        curve, split, theorem = l2_curve(
            privacy, most, max(0.0, lowest), apart=False, sensitivity=scale
        )
        cutoff = self.full_at(curve.threshold, curve.scale)
        number("cutoff", cutoff, 1.0, 2.0 ** (62 - bits))
        policy = ReroutePolicy(math.floor(cutoff * 2**bits), bits, most)
        max_users = min(2 ** (62 - bits), math.floor(REROUTE_ALLOWANCE / policy.roundings()))
        return self._one_shot(policy, curve, most, split, theorem, cutoff, max_users)

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """Of t novel items each weighs at most 1 / sqrt(t), and what rounding adds."""
        norm = 1.0 + REROUTE_ALLOWANCE
        return shift_of_weights(design.selection.curve, self.max_items, norm, ids)

    def people(self, design: Design, weight: float) -> str:
        """Users spread their weight."""
        return spread_over(weight, design.max_items, root=True, bound="at most ")
