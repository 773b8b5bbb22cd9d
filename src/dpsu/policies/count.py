"""Count: every user gives 1 to each of its items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.policies.passes import Progress, no_progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions


@dataclass(frozen=True)
class Count:
    """Weight 1 per item (Korolova et al. 2009, Wilson et al. 2020).

    With at most k items per user the l1 sensitivity is k and the l2 sensitivity sqrt(k); the curve
    carries it.
    """

    fraction_bits: int = 0
    kind: ClassVar[str] = "count"

    def weights(
        self, contributions: Contributions, progress: Progress = no_progress
    ) -> NDArray[np.int64]:
        """Number of users that hold each item."""
        import numpy as np

        from dpsu.kernels import weights as kernels

        weights = np.zeros(contributions.n_items, np.int64)
        for start, stop in contributions.chunks(progress):
            kernels.count(start, stop, contributions.items, weights)
        return weights
