"""One count per item and user."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsu.plans.mechanisms.base import (
    DEFAULT_MAX_ITEMS,
    Design,
    Published,
    WithMinUsers,
    WithPrior,
    max_items,
)
from dpsu.plans.mechanisms.one_shot import (
    all_delta_for_novel_items,
    halves,
    needs_max_items,
    noise_and_novel,
    together,
)
from dpsu.policies import Count
from dpsu.privacy import calibration, joint, several_ids
from dpsu.privacy.curves import Gaussian, Laplace, ReleaseCurve, TruncatedLaplace
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift, shift_of_counts


@dataclass(frozen=True, kw_only=True)
class CountLaplace(Published, WithMinUsers, WithPrior):
    """Every user counts once for each of its items; Laplace noise, truncated when tight.

    Korolova et al. 2009, Wilson et al. 2020. It always needs `max_items`.
    """

    max_items: int | None = max_items(None, "none (it is required)")
    several_ids: ClassVar[bool] = True
    name: ClassVar[str] = "count-laplace"
    summary: ClassVar[str] = (
        "one count per item and user, Laplace noise (Korolova et al., Wilson et al.)"
    )
    usual_items: ClassVar[int | None] = 10

    def check(self) -> None:
        """Refuse users without a bound."""
        if self.max_items is None:
            raise needs_max_items(self.name)

    def design(self, privacy: Privacy) -> Design:
        """Counts of sensitivity `max_items`, with a Laplace curve for it."""
        epsilon, delta, most = privacy.epsilon, privacy.delta, self.max_items
        assert most is not None
        curve: ReleaseCurve
        if self.as_published:
            scale = calibration.laplace_scale(epsilon, most)
            threshold = calibration.count_laplace_threshold(scale, delta, most)
            curve, theorem = Laplace(scale, threshold), "laplace"
        else:
            sensitivity = float(privacy.ids_per_person * most)
            curve, theorem = TruncatedLaplace(epsilon, delta, sensitivity), "truncated-laplace"
        return self._one_shot(Count(), curve, most, all_delta_for_novel_items(delta), theorem)

    def people(self, design: Design, weight: float) -> str:
        """Everybody who holds an item counts."""
        return f"{math.ceil(weight):,} users who hold it"


@dataclass(frozen=True, kw_only=True)
class CountGaussian(Published, WithMinUsers, WithPrior):
    """Every user counts once for each of its items; Gaussian noise."""

    max_items: int = max_items(DEFAULT_MAX_ITEMS)
    several_ids: ClassVar[bool] = True
    name: ClassVar[str] = "count-gaussian"
    summary: ClassVar[str] = "one count per item and user, Gaussian noise"

    def design(self, privacy: Privacy) -> Design:
        """Counts of l2 sensitivity sqrt(max_items), with a Gaussian curve for it."""
        epsilon, delta, most = privacy.epsilon, privacy.delta, self.max_items
        ids = privacy.ids_per_person
        norm = ids * math.sqrt(most) * calibration.ROUND_UP
        if ids > 1:
            highest = min(1.0, calibration.ROUND_UP / math.sqrt(most))
            sigma, threshold, novel = several_ids.scale_and_threshold(privacy, most, highest)
            sigma, threshold = norm * sigma, norm * threshold
            split, theorem = noise_and_novel(delta, novel), "several-ids"
        elif self.as_published or self.shift:
            sigma = norm * calibration.gaussian_scale(epsilon, delta / 2.0)
            threshold = calibration.count_gaussian_threshold(sigma, delta / 2.0, most)
            split, theorem = halves(delta), "gaussian"
        else:
            share = 1.0 / math.sqrt(most)
            weights = joint.NovelWeights(most, share * (1.0 - 1e-11), share)
            sigma, threshold = joint.joint_scale_and_threshold(epsilon, delta, weights)
            sigma, threshold = norm * sigma, norm * threshold
            split, theorem = together(delta), "gaussian-joint"
        return self._one_shot(Count(), Gaussian(sigma, threshold), most, split, theorem)

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """Every novel item weighs exactly 1."""
        return shift_of_counts(design.selection.curve, self.max_items, ids)

    def people(self, design: Design, weight: float) -> str:
        """Everybody who holds an item counts."""
        return f"{math.ceil(weight):,} users who hold it"
