"""Count: every user gives 1 to each of its items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions import Contributions


@dataclass(frozen=True)
class Count:
    """Weight 1 per item (Korolova et al. 2009, Wilson et al. 2020).

    With at most k items per user the l1 sensitivity is k and the l2 sensitivity sqrt(k); the curve
    carries it.
    """

    fraction_bits: int = 0
    kind: ClassVar[str] = "count"

    def weights(self, contributions: Contributions) -> NDArray[np.int64]:
        """Number of users that hold each item."""
        from dpsu.kernels import weights

        return weights.count(
            contributions.start, contributions.stop, contributions.items, contributions.n_items
        )
