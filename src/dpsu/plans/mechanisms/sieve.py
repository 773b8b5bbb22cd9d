"""Many small rounds, each steering the next."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from dpsu.errors import ParameterError
from dpsu.options import option
from dpsu.plans.mechanisms.base import (
    LARGEST_MAX_ITEMS,
    Design,
    Mechanism,
    max_items,
    rounds,
)
from dpsu.privacy.calibration import ROUND_UP
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.shifts import Shift
from dpsu.rounds.sieve import design_sieve

if TYPE_CHECKING:
    from dpsu.inputs.columns import Items
    from dpsu.inputs.tokens import Tokens

# N-grams of several tokens make large sets; this many of them serve long texts and cost short ones
# one percent (benchmarks/texts.py).
USUAL_ITEMS, USUAL_NGRAMS = 300, 1000
SCOUTED = 3000


@dataclass(frozen=True, kw_only=True)
class Sieve(Mechanism):
    """Many small rounds, each steering the next: usually best for ten items per user or more."""

    max_items: int | None = max_items(None, "300 (1000 for n-grams of several tokens)")
    rounds: int = rounds(20)
    scout_items: int | None = option(
        None,
        int,
        "Consider this many items per user first, then keep max_items of them; 0 to skip.",
        low=0,
        high=LARGEST_MAX_ITEMS,
        usual="3000",
    )
    name: ClassVar[str] = "sieve"
    several_ids: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "many small rounds, each steering the next; usually best for ten items per user or more; "
        "parallel"
    )

    def reading(self, item: Items | Tokens) -> Mechanism:
        """Of n-grams more count than of other items, where nothing else was said."""
        if self.max_items is None and item.longest > 1:
            return replace(self, max_items=USUAL_NGRAMS)
        return self

    def design(self, privacy: Privacy) -> Design:
        """Rounds of scouting and of deciding, with a boundary for novel items."""
        most = USUAL_ITEMS if self.max_items is None else self.max_items
        scouted = max(SCOUTED, most) if self.scout_items is None else self.scout_items
        if 0 < scouted < most:
            raise ParameterError(
                "{scout_items} must be 0 (no scouting) or at least {max_items}: what is decided on "
                "is chosen among what was scouted",
                scout_items=scouted,
                max_items=most,
            )
        sieve, split = design_sieve(
            privacy.epsilon,
            privacy.delta,
            rounds=self.rounds,
            max_items=most,
            scout_items=scouted,
            ids=privacy.ids_per_person,
        )
        return Design(sieve, most, "hash", None, tuple(split.items()), "sieve")

    def as_gaussian(self, design: Design, ids: int) -> Shift | None:
        """All rounds as one with norm 1, and the delta that novel items of the largest users have.

        Users with fewer items have less for novel items, and those with more a smaller norm; a
        ledger does not know who is who, so each counts in full.
        """
        sieve = design.selection
        return Shift(ROUND_UP / sieve.sigma**2, ROUND_UP * sieve.account.novel)

    def facts(self, design: Design) -> list[tuple[str, str]]:
        """Noise, and of every round its share and boundary."""
        sieve = design.selection
        facts = [("noise scale", f"{sieve.sigma:.6g} / sqrt(share of a round)")]
        norms, most = sieve.limits()[-1].norms, sieve.account.max_items
        if norms[-1] < norms[0]:
            fall = f"1 with one item, falling to {norms[-1]:.5f} with {most:,} items or more"
            facts.append(("norm of a user", fall))
        first = 1
        names = ["scouting", "deciding"][-len(sieve.phases) :]
        for name, phase in zip(names, sieve.phases, strict=True):
            cap = f"cap {phase.cap:g} (up to 1 for users with few items)"
            rounds = enumerate(zip(phase.shares, phase.boundary, strict=True), first)
            numbers = "; ".join(
                f"round {number}: share {share:.4f}, boundary {boundary:.4g}"
                for number, (share, boundary) in rounds
            )
            facts.append((name, f"at most {phase.max_items:,} items per user, {cap}; {numbers}"))
            first += len(phase.shares)
        return facts
