"""Sips: weighted Gaussian selection a few times over, each time on what is not released yet.

The share of the budget grows from round to round: the first rounds release the clear cases, and in
the last one users give their weight to items that are still open (Swanberg, Desfontaines
and Haney 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.policies.weighted import Weighted
from dpsu.privacy.calibration import ROUND_UP, gaussian_scale, gaussian_threshold
from dpsu.privacy.curves import Gaussian, weight_needed
from dpsu.privacy.guarantee import rest_of
from dpsu.privacy.several_ids import threshold_for

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.ids import Ids
    from dpsu.randomness.keys import Key
    from dpsu.rounds.protocols import RoundEngine

GROWTH = 0.3
# Parts of delta for the thresholds, with the rest for the noise; all are tried for a plan.
SPLITS = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7)


@dataclass(frozen=True)
class SipsRounds:
    """Rounds with their shares of the budget and their curves."""

    max_items: int
    fraction_bits: int
    shares: tuple[float, ...]
    curves: tuple[Gaussian, ...]
    kind: ClassVar[str] = "sips"

    def weight_needed(self, probability: float) -> float:
        """Weight in the last round that is enough with this probability."""
        return weight_needed(self.curves[-1], probability)

    def given(self) -> NDArray[np.int64]:
        """What a user gives to each of its items, by the number of its items."""
        import numpy as np

        weighted = Weighted(2, self.fraction_bits)
        sizes = range(1, self.max_items + 1)
        return np.array([0, *(weighted.share(size) for size in sizes)], np.int64)

    def run(self, engine: RoundEngine, items: Ids, key: Key) -> NDArray[np.bool_]:
        """Which items are released, from an engine that knows the users."""
        import numpy as np

        from dpsu.randomness.coins import flip_coins

        given = self.given()
        released = np.zeros(len(items), bool)
        for round_, curve in enumerate(self.curves):
            weights = engine.share(released, self.max_items, given, round_)
            released |= flip_coins(curve, weights, self.fraction_bits, items, key, round_)
        return released


def design_sips(
    epsilon: float,
    delta: float,
    *,
    rounds: int,
    max_items: int,
    fraction_bits: int,
    published: bool = False,
    ids: int = 1,
) -> tuple[SipsRounds, dict[str, float]]:
    """Shares that grow by 1/0.3 from round to round, and the split of delta that serves best.

    The best split has the lowest threshold in the last round, which has most of the budget. It
    depends on public parameters alone. If `published`, noise and thresholds get one half each.
    Where a person has several ids, noise is for all of them, and so are thresholds.
    """
    grow = [GROWTH ** (rounds - k) for k in range(1, rounds + 1)]
    shares = tuple(g / math.fsum(grow) * (1.0 - 1e-14) for g in grow)

    def curve(share: float, novel: float) -> Gaussian:
        sigma = ROUND_UP * gaussian_scale(epsilon, rest_of(delta, novel)) / math.sqrt(share)
        if ids > 1:
            threshold = threshold_for(sigma, share * novel, ids * max_items)
            return Gaussian(ids * sigma, ids * threshold)
        return Gaussian(sigma, gaussian_threshold(sigma, share * novel, max_items))

    splits = (0.5,) if published else SPLITS
    novel = min((part * delta for part in splits), key=lambda n: curve(shares[-1], n).threshold)
    curves = tuple(curve(share, novel) for share in shares)
    split = {"noise": rest_of(delta, novel), "novel items": novel}
    return SipsRounds(max_items, fraction_bits, shares, curves), split
