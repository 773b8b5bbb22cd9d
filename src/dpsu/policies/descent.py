"""Descent: one user after the other moves its items towards a cutoff; full items get no more.

These are the update policies of Policy Laplace and Policy Gaussian (Gopi et al. 2020).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.policies.passes import Progress, equal_part, no_progress

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions


@dataclass(frozen=True)
class L1Descent:
    """Raise all unfilled items at the same speed, spending at most 1 in l1 (Algorithm 3).

    Exact in integers: adding a user never lowers a weight and adds at most one unit of budget in
    total, whatever the rounding.
    """

    cutoff: int
    fraction_bits: int
    passes: int
    kind: ClassVar[str] = "l1-descent"

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
                kernels.l1_descent(start, stop, contributions.items, self.cutoff, budget, weights)
        return weights


@dataclass(frozen=True)
class L2Descent:
    """Move towards the cutoff by at most 1 in l2 (Algorithm 5).

    Sensitivity is at most 1 plus the roundings of all users, which `roundings` bounds.
    """

    cutoff: int
    fraction_bits: int
    passes: int
    kind: ClassVar[str] = "l2-descent"

    def roundings(self, max_items: int) -> float:
        """How much one user can add to the sensitivity by rounding, in l2.

        Flooring moves the two runs apart by less than one unit per item and pass; the step computed
        in doubles is off by at most 8 * 2^-53 of its length in each run.
        """
        flooring = math.sqrt(max_items) * math.ldexp(1.0, -self.fraction_bits)
        return 1.001 * (self.passes * flooring + 16 * 2.0**-53)

    def weights(
        self, contributions: Contributions, progress: Progress = no_progress
    ) -> NDArray[np.int64]:
        """Go through the users `passes` times, each with an equal step."""
        import numpy as np

        from dpsu.kernels import weights as kernels

        weights = np.zeros(contributions.n_items, np.int64)
        step = float(1 << self.fraction_bits) / self.passes
        for _ in range(self.passes):
            for start, stop in contributions.chunks(progress):
                kernels.l2_descent(start, stop, contributions.items, self.cutoff, step, weights)
        return weights
