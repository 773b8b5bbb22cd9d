"""One exact coin per item and round, without noise: for users who hold many items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsu.errors import ParameterError
from dpsu.options import option
from dpsu.plans.mechanisms.base import Design, Mechanism, items_per_user
from dpsu.privacy.guarantee import Privacy
from dpsu.rounds.bits import PAID, SHARES, UNITS, USUAL_ROUNDS, design_bits


@dataclass(frozen=True, kw_only=True)
class Bits(Mechanism):
    """Rounds of exact coins without noise, four or one: for users who hold hundreds of items."""

    items_per_user: float | None = items_per_user(f"estimated for {PAID:.0%} of the budget")
    rounds: int = option(
        USUAL_ROUNDS,
        int,
        "How often an item has a coin: 4 times, or once, which takes a single aggregation by item, "
        "as a private GROUP BY does, and releases less; 2 and 3 are refused.",
        low=min(SHARES),
        high=max(SHARES),
    )
    name: ClassVar[str] = "bits"
    several_ids: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "four rounds of exact coins without noise, or one, as cheap as a GROUP BY; four release "
        "most where users hold hundreds of items, all of which count; parallel"
    )

    def check(self) -> None:
        """Refuse numbers of rounds for which nobody has chosen shares."""
        if self.rounds not in SHARES:
            raise ParameterError(
                "{rounds} is no number of rounds that bits has: 4 release most, and 1 costs least",
                rounds=self.rounds,
            )

    def design(self, privacy: Privacy) -> Design:
        """Rounds whose shares add up to one account of the guarantee."""
        bits, split = design_bits(
            privacy.epsilon,
            privacy.delta,
            items_per_user=self.items_per_user,
            rounds=self.rounds,
            ids=privacy.ids_per_person,
        )
        return Design(bits, None, "hash", None, tuple(split.items()), "bits")

    def facts(self, design: Design) -> list[tuple[str, str]]:
        """The account, and every round with its share and soft cap."""
        bits = design.selection
        account = f"Renyi order {bits.account.order:.4g}, rate {bits.account.rate:.4g}"
        facts = [("bounding", "all items of a user count"), ("account", account)]
        if not bits.caps:
            scale = f"numbers of users with noise scale {bits.noise / UNITS[0]:.4g}"
            when = " in every round" if len(bits.shares) > 1 else ""
            facts.append(("estimates", f"{PAID:.0%} of the rate; {scale}{when}"))
        for number, share in enumerate(bits.shares, 1):
            cap = f"soft cap {bits.caps[number - 1]:g}" if bits.caps else "soft cap as estimated"
            facts.append((f"round {number}", f"share {share:.4f}, {cap}"))
        return facts

    def people(self, design: Design, weight: float) -> str:
        """Users of one open item, who give it all they have; and users as expected."""
        alone = f"{math.ceil(weight):,} users who hold nothing else that is still open"
        if self.items_per_user is None:
            return f"{alone}, where that is usual; more where users hold more"
        from dpsu.kernels.weights import units_for

        curve = design.selection.deciding_curve
        size = max(1, round(self.items_per_user))
        if size == 1:
            return alone
        import numpy as np

        each, more = units_for(size, np.array(curve.prices, np.int64), curve.budget)
        many = math.ceil(weight * (len(curve.prices) - 1) / (each + more / size))
        return f"{alone}, or {many:,} users with {size:,} open items each"
