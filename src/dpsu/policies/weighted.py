"""Weighted: every user spreads one unit of norm evenly over its items."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.policies.passes import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions


@dataclass(frozen=True)
class Weighted:
    """Give 1/|W| (norm 1) or 1/sqrt|W| (norm 2) to each item, rounded down (Gopi et al., App. B).

    Sensitivity is exactly at most 1 in that norm: shares are integers computed by integer division
    and integer square root, because the floor of a float exceeds the norm for some sizes.
    """

    norm: int
    fraction_bits: int
    kind: ClassVar[str] = "weighted"

    def share(self, size: int) -> int:
        """What a user of this many items gives to each of them."""
        if self.norm == 1:
            return (1 << self.fraction_bits) // size
        return math.isqrt((1 << 2 * self.fraction_bits) // size)

    def shares(self, contributions: Contributions) -> NDArray[np.int64]:
        """What users give to each of their items, by their number of items."""
        import numpy as np

        # `np.unique` would do, but loads a part of NumPy that nothing else needs.
        sizes = np.flatnonzero(np.bincount(contributions.sizes))
        share = np.zeros(int(sizes.max(initial=0)) + 1, np.int64)
        for size in sizes[sizes > 0]:
            share[size] = self.share(int(size))
        return share

    def weights(
        self, contributions: Contributions, progress: Progress = no_progress
    ) -> NDArray[np.int64]:
        """Sum of the shares given to each item."""
        import numpy as np

        from dpsu.kernels import weights as kernels

        share = self.shares(contributions)
        weights = np.zeros(contributions.n_items, np.int64)
        for start, stop in contributions.chunks(progress):
            kernels.weighted(start, stop, contributions.items, share, weights)
        return weights
