"""Each user spreads a fixed budget evenly over its items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsu.plans.mechanisms.base import (
    DEFAULT_MAX_ITEMS,
    UNBOUNDED_FRACTION_BITS,
    Design,
    Published,
    WithMinUsers,
    WithPrior,
    max_items,
    spread_over,
)
from dpsu.plans.mechanisms.one_shot import (
    NOVEL_SLACK,
    all_delta_for_novel_items,
    l1_curve,
    l2_curve,
)
from dpsu.policies import Weighted
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift, shift_of_weights


@dataclass(frozen=True, kw_only=True)
class WeightedLaplace(Published, WithMinUsers, WithPrior):
    """Each user spreads weight 1 over its items; Laplace noise, truncated when tight."""

    max_items: int | None = max_items(None, "all items")
    several_ids: ClassVar[bool] = True
    name: ClassVar[str] = "weighted-laplace"
    summary: ClassVar[str] = "each user spreads weight 1 over its items, Laplace noise"

    def design(self, privacy: Privacy) -> Design:
        """Weights of l1 sensitivity 1, with a Laplace curve for it."""
        curve, theorem = l1_curve(
            privacy, self.max_items, as_published=self.as_published, name=self.name, slack=0.0
        )
        policy = Weighted(1, UNBOUNDED_FRACTION_BITS)
        split = all_delta_for_novel_items(privacy.delta)
        return self._one_shot(policy, curve, self.max_items, split, theorem)

    def people(self, design: Design, weight: float) -> str:
        """Users spread their weight."""
        return spread_over(weight, design.max_items, root=False)


@dataclass(frozen=True, kw_only=True)
class WeightedGaussian(Published, WithMinUsers, WithPrior):
    """Each user spreads l2 norm 1 over its items; Gaussian noise. The order of users is nothing."""

    max_items: int = max_items(DEFAULT_MAX_ITEMS)
    several_ids: ClassVar[bool] = True
    name: ClassVar[str] = "weighted-gaussian"
    summary: ClassVar[str] = (
        "each user spreads l2 norm 1 over its items, Gaussian noise; order-free"
    )

    def design(self, privacy: Privacy) -> Design:
        """Weights of l2 sensitivity 1, with a Gaussian curve for it."""
        most = self.max_items
        lowest = 1.0 / math.sqrt(most) - NOVEL_SLACK
        curve, split, theorem = l2_curve(
            privacy, most, max(0.0, lowest), apart=self.as_published or self.shift > 0
        )
        policy = Weighted(2, UNBOUNDED_FRACTION_BITS)
        return self._one_shot(policy, curve, most, split, theorem)

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """Of t novel items each weighs at most 1 / sqrt(t)."""
        return shift_of_weights(design.selection.curve, self.max_items, 1.0, ids)

    def people(self, design: Design, weight: float) -> str:
        """Users spread their weight."""
        return spread_over(weight, design.max_items, root=True)
