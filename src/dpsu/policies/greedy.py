"""Greedy: a user spends its budget on one item after the other, in its own order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.policies.passes import Progress, equal_part, no_progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions


@dataclass(frozen=True)
class GreedyPolicy:
    """Fill items up to the cutoff in the user's own order (GU of Carvalho et al. 2022).

    The order comes with the contributions and depends on the user's own items and on public
    knowledge only; an order that looks at the weights has unbounded sensitivity. With
    ``fraction_bits = 0`` every user casts one whole vote for its first item that has fewer than
    `cutoff` votes, and neighbors differ by one unit on one item.
    """

    cutoff: int
    fraction_bits: int
    passes: int
    kind: ClassVar[str] = "greedy"

    def weights(
        self, contributions: Contributions, progress: Progress = no_progress
    ) -> NDArray[np.int64]:
        """Go through the users `passes` times, each with an equal part of the budget."""
        import numpy as np

        from dpsu.kernels import weights as kernels

        weights = np.zeros(contributions.n_items, np.int64)
        for step in range(self.passes):
            budget = equal_part(1 << self.fraction_bits, step, self.passes)
            for start, stop in contributions.chunks(progress):
                kernels.greedy(start, stop, contributions.items, self.cutoff, budget, weights)
        return weights
