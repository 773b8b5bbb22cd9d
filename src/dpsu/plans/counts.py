"""Noisy numbers of holders for the items that were released, paid for with their own share.

Once a set is released it is a public domain. Every user counts for at most `max_items` of its
items, sampled by a salted hash, and every count gets exact rounded Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsu.privacy.calibration import ROUND_UP, gaussian_scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions
    from dpsu.contributions.ids import Ids
    from dpsu.randomness.keys import Key

PURPOSE = "count"


@dataclass(frozen=True)
class Counts:
    """What counts cost, for how many items a user counts, and the scale of their noise."""

    epsilon: float
    delta: float
    max_items: int
    scale: float

    @property
    def standard_error(self) -> float:
        """Standard deviation of every count: the noise, and its rounding to whole users."""
        return math.sqrt(self.scale**2 + 1.0 / 12.0)

    def holders(self, held: Contributions, users: Ids, items: Ids, key: Key) -> NDArray[np.int64]:
        """Number of users that count for each item. PRIVATE; `held` is used up."""
        import numpy as np

        from dpsu.contributions import bounding
        from dpsu.kernels import weights

        bounded = bounding.sample(
            held,
            self.max_items,
            users.hashes(key.salt("count by user")),
            items.hashes(key.salt("count by item")),
        )
        counted = np.zeros(bounded.n_items, np.int64)
        weights.count(bounded.start, bounded.stop, bounded.items, counted)
        return counted

    def noise(self, items: Ids, key: Key) -> NDArray[np.int64]:
        """Noise for the counts of these items, held or not."""
        from dpsu.randomness.noise import Noise

        return Noise(key, items, PURPOSE).rounded(0, self.scale)


def design_counts(epsilon: float, delta: float, max_items: int) -> Counts:
    """Noise for counts to which one user adds at most 1 in each of `max_items` places."""
    scale = ROUND_UP * math.sqrt(max_items) * gaussian_scale(epsilon, delta)
    return Counts(epsilon, delta, max_items, scale)
