"""weighted-gaussian in rounds, each on what is left (Swanberg et al. 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dpsu.plans.mechanisms.base import (
    DEFAULT_MAX_ITEMS,
    UNBOUNDED_FRACTION_BITS,
    Design,
    Published,
    max_items,
    rounds,
)
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift, shift_of_rounds
from dpsu.rounds.sips import design_sips


@dataclass(frozen=True, kw_only=True)
class Sips(Published):
    """weighted-gaussian in rounds, each on what is left."""

    max_items: int = max_items(DEFAULT_MAX_ITEMS)
    several_ids: ClassVar[bool] = True
    rounds: int = rounds(3)
    name: ClassVar[str] = "sips"
    summary: ClassVar[str] = (
        "weighted-gaussian in rounds, each on what is left (Swanberg et al.); parallel"
    )

    def design(self, privacy: Privacy) -> Design:
        """Rounds whose budgets add up to the guarantee."""
        sips, split = design_sips(
            privacy.epsilon,
            privacy.delta,
            rounds=self.rounds,
            max_items=self.max_items,
            fraction_bits=UNBOUNDED_FRACTION_BITS,
            published=self.as_published,
            ids=privacy.ids_per_person,
        )
        return Design(sips, self.max_items, "hash", None, tuple(split.items()), "sips")

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """All rounds as one, and the delta that novel items have."""
        return shift_of_rounds(
            [curve.scale for curve in design.selection.curves], design.delta_split, ids
        )

    def facts(self, design: Design) -> list[tuple[str, str]]:
        """Every round with its share, noise and threshold."""
        sips = design.selection
        facts = [("bounding", f"at most {sips.max_items:,} items per user, sampled every round")]
        for number, (share, curve) in enumerate(zip(sips.shares, sips.curves, strict=True), 1):
            drawn = f"noise scale {curve.scale:.5g}, threshold {curve.threshold:.5g}"
            facts.append((f"round {number}", f"share {share:.4f}, {drawn}"))
        return facts
