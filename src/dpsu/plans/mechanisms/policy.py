"""Users one after the other raise items that still need it (Gopi et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsu.errors import ParameterError
from dpsu.plans.mechanisms.base import (
    DEFAULT_MAX_ITEMS,
    MAX_USERS,
    Design,
    Published,
    WithMinUsers,
    WithPrior,
    max_items,
    spread_over,
)
from dpsu.plans.mechanisms.one_shot import (
    NOVEL_SLACK,
    WithCutoff,
    all_delta_for_novel_items,
    fraction_bits,
    l1_curve,
    l2_curve,
    passes,
)
from dpsu.policies import L1Descent, L2Descent
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift, shift_of_weights

# What all roundings of an l2 descent together may add to its sensitivity.
ROUNDING_ALLOWANCE = 2.0**-20
FEWEST_USERS = 1000


@dataclass(frozen=True, kw_only=True)
class PolicyLaplace(Published, WithCutoff, WithMinUsers, WithPrior):
    """Users in turn raise items that still need it; Laplace noise, truncated when tight."""

    max_items: int | None = max_items(None, "all items")
    several_ids: ClassVar[bool] = True
    passes: int = passes()
    name: ClassVar[str] = "policy-laplace"
    summary: ClassVar[str] = (
        "users in turn raise items that still need it, Laplace noise (Gopi et al.)"
    )
    parallel: ClassVar[bool] = False

    def design(self, privacy: Privacy) -> Design:
        """An l1 descent, with a Laplace curve for it."""
        if self.as_published and self.shift:
            # Whoever fills an item makes others lift items above the minimum that it never held,
            # and the published curve has no small probabilities for small weights (test_breaches).
            raise ParameterError(
                f"{self.name} as published is not private with {{min_users}}; use "
                "calibration='tight', which is and releases more, or drop {min_users}",
                min_users=self.min_users,
            )
        # Rounding gives a novel item at most one unit more than its share, in every pass.
        curve, theorem = l1_curve(
            privacy,
            self.max_items,
            as_published=self.as_published,
            name=self.name,
            slack=self.passes * 2.0**-31,
        )
        cutoff = self.full_at(curve.threshold, curve.scale, self.shift)
        bits = fraction_bits(cutoff)
        policy = L1Descent(math.floor(cutoff * 2**bits), bits, self.passes)
        split = all_delta_for_novel_items(privacy.delta)
        return self._one_shot(policy, curve, self.max_items, split, theorem, cutoff)

    def people(self, design: Design, weight: float) -> str:
        """Users spread their weight."""
        return spread_over(weight, design.max_items, root=False, bound="at most ")


@dataclass(frozen=True, kw_only=True)
class PolicyGaussian(Published, WithCutoff, WithPrior):
    """Users in turn move items towards a cutoff; Gaussian noise."""

    max_items: int = max_items(DEFAULT_MAX_ITEMS)
    several_ids: ClassVar[bool] = True
    passes: int = passes()
    name: ClassVar[str] = "policy-gaussian"
    summary: ClassVar[str] = (
        "users in turn move items towards a cutoff, Gaussian noise (Gopi et al.)"
    )
    parallel: ClassVar[bool] = False

    def design(self, privacy: Privacy) -> Design:
        """An l2 descent, with a Gaussian curve for it."""
        most, scale = self.max_items, 1.0 + ROUNDING_ALLOWANCE
        # Nobody else raises a novel item, so in every pass none is farther from the cutoff: it gets
        # at least an equal share.
        lowest = (1.0 / math.sqrt(most) - self.passes * NOVEL_SLACK) / scale
        curve, split, theorem = l2_curve(
            privacy, most, max(0.0, lowest), apart=self.as_published, sensitivity=scale
        )
        cutoff = self.full_at(curve.threshold, curve.scale)
        bits = fraction_bits(cutoff)
        policy = L2Descent(math.floor(cutoff * 2**bits), bits, self.passes)
        max_users = min(MAX_USERS, math.floor(ROUNDING_ALLOWANCE / policy.roundings(most)))
        if max_users < FEWEST_USERS:
            raise ParameterError(
                f"{{cutoff}}, {{passes}} and {{max_items}} leave no room for rounding beyond "
                f"{max_users:,} users; lower one of them",
                cutoff=cutoff,
                passes=self.passes,
                max_items=most,
            )
        return self._one_shot(policy, curve, most, split, theorem, cutoff, max_users)

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """Of t novel items each weighs at most 1 / sqrt(t), and what rounding adds."""
        norm = 1.0 + ROUNDING_ALLOWANCE
        return shift_of_weights(design.selection.curve, self.max_items, norm, ids)

    def people(self, design: Design, weight: float) -> str:
        """Users spread their weight."""
        return spread_over(weight, design.max_items, root=True, bound="at most ")
