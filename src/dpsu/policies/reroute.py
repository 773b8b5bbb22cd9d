"""Reroute: users share their weight evenly, and full items give back what they do not need.

It makes two passes over the users in any order, so that it runs in parallel. The idea is that of
Chen et al. 2025; constants and proof are ours.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.policies.passes import Progress, no_progress
from dpsu.policies.weighted import Weighted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions


@dataclass(frozen=True)
class ReroutePolicy:
    """Give 1/sqrt|W| to each item; items give back what lifts them above the cutoff.

    A user of at most `degree` items adds 1/(2 degree) of what it got back to every item it holds.
    Sensitivity is at most 1 plus the roundings of all users, which `roundings` bounds.
    """

    cutoff: int
    fraction_bits: int
    degree: int
    kind: ClassVar[str] = "reroute"

    def roundings(self) -> float:
        """How much one user can add to the sensitivity by rounding, in l2.

        What a user reroutes is rounded down once; in the two runs of neighbors it differs from the
        exact difference by less than one unit on each of its items, and errors of doubles add far
        less than another unit.
        """
        return 2.0 * math.sqrt(self.degree) * math.ldexp(1.0, -self.fraction_bits)

    def weights(
        self, contributions: Contributions, progress: Progress = no_progress
    ) -> NDArray[np.int64]:
        """Share evenly, cut off at the cutoff, and reroute what was cut off."""
        kept, back = self.cut(self.given(contributions))
        return kept + self.rerouted(contributions, back, progress)

    def given(self, contributions: Contributions) -> NDArray[np.int64]:
        """What users of at most `degree` items give, in equal shares."""
        import numpy as np

        from dpsu.kernels import weights as kernels

        small, _ = self._shares(contributions)
        weights = np.zeros(contributions.n_items, np.int64)
        for start, stop in contributions.chunks(no_progress):
            kernels.weighted(start, stop, contributions.items, small, weights)
        return weights

    def cut(self, weights: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The weight that each item keeps, and the part of what it was given that it gives back."""
        import numpy as np

        back = np.maximum(0.0, 1.0 - self.cutoff / np.maximum(weights, 1))
        return np.minimum(weights, self.cutoff), back

    def rerouted(
        self,
        contributions: Contributions,
        back: NDArray[np.float64],
        progress: Progress = no_progress,
    ) -> NDArray[np.int64]:
        """What users reroute of what they got back, and the shares of users with more items."""
        import numpy as np

        from dpsu.kernels import weights as kernels

        small, large = self._shares(contributions)
        weights = np.zeros(contributions.n_items, np.int64)
        for start, stop in contributions.chunks(progress):
            kernels.reroute(start, stop, contributions.items, small, back, self.degree, weights)
            kernels.weighted(start, stop, contributions.items, large, weights)
        return weights

    def _shares(self, contributions: Contributions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Shares by size, of users who take part in rerouting and of those who do not."""
        share = Weighted(2, self.fraction_bits).shares(contributions)
        small, large = share.copy(), share.copy()
        small[self.degree + 1 :] = 0
        large[: self.degree + 1] = 0
        return small, large
