"""Noisy counts of the items that were released, paid for with a share of the budget.

Once a set is released it is a public domain. A user of at most `max_items` released items counts
fully for each of them; one of more counts for each by the part that keeps the l2 norm of what it
adds the same. Every count gets exact rounded Gaussian noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError
from dpsu.options import Typed, option
from dpsu.privacy.calibration import ROUND_UP, gaussian_scale

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions
    from dpsu.contributions.ids import Ids
    from dpsu.privacy.guarantee import Privacy
    from dpsu.randomness.keys import Key

PURPOSE = "count"
# Parts of a user are whole numbers of 2^-16.
FRACTION_BITS = 16
LARGEST_COUNTS_ITEMS = 100_000


@dataclass(frozen=True, kw_only=True)
class Counts(Typed):
    """Also release a noisy number of users for every released item.

    Parameters
    ----------
    share : float
        Share of epsilon and delta that counts take from the selection.
    max_items : int
        How many released items of a user count in full. A user of more, `n` in all, counts for
        each by the part ``sqrt(max_items / n)``, and counts are too low by that: by half where
        users hold four times `max_items`. More noise is the price of a larger number.

    Examples
    --------
    >>> import dpsu
    >>> dpsu.plan(epsilon=1, delta=1e-6, counts=dpsu.Counts(share=0.5)).noisy_counts.epsilon
    0.5
    """

    share: float = option(
        0.2,
        float,
        "Share of epsilon and delta that noisy counts take.",
        low=0.001,
        high=0.999,
        name="counts_share",
    )
    max_items: int = option(
        100,
        int,
        "A user of more released items than this adds less than 1 to the count of each of them.",
        low=1,
        high=LARGEST_COUNTS_ITEMS,
        name="counts_items",
    )

    def design(self, privacy: Privacy) -> NoisyCounts:
        """What counts cost, and their noise."""
        return design_counts(
            self.share * privacy.epsilon,
            self.share * privacy.delta,
            self.max_items,
            privacy.ids_per_person,
        )


def counts_of(given: Any) -> Counts | None:
    """What was typed for `counts`: False, True, or more."""
    if isinstance(given, Counts):
        return given
    if given is Counts:
        raise ParameterError("{counts} is the class Counts; make one: dpsu.Counts()", counts=...)
    if not isinstance(given, bool):
        raise ParameterError("{counts} is neither True nor False nor dpsu.Counts()", counts=given)
    return Counts() if given else None


@dataclass(frozen=True)
class NoisyCounts:
    """What counts cost, how many items of a user count in full, and the scale of their noise."""

    epsilon: float
    delta: float
    max_items: int
    scale: float

    @property
    def standard_error(self) -> float:
        """Standard deviation of every count: the noise, and its rounding to whole users."""
        return math.sqrt(self.scale**2 + 1.0 / 12.0)

    def part(self, size: int) -> int:
        """What a user of `size` released items counts for each of them, in units."""
        if size <= self.max_items:
            return 1 << FRACTION_BITS
        return math.isqrt((self.max_items << 2 * FRACTION_BITS) // size)

    def sums(self, held: Contributions) -> NDArray[np.int64]:
        """What these users count for each item, in units. PRIVATE."""
        import numpy as np

        from dpsu.kernels import weights

        sizes = np.unique(held.sizes)
        parts = np.zeros(int(sizes.max(initial=0)) + 1, np.int64)
        for size in sizes[sizes > 0]:
            parts[size] = self.part(int(size))
        sums = np.zeros(held.n_items, np.int64)
        weights.weighted(held.start, held.stop, held.items, parts, sums)
        return sums

    def noisy(self, sums: NDArray[np.int64], items: Ids, key: Key) -> NDArray[np.int64]:
        """Sums of these items, held or not, with noise, rounded to whole users."""
        from dpsu.randomness.noise import Noise

        noise = Noise(key, items, PURPOSE).rounded(0, math.ldexp(self.scale, FRACTION_BITS))
        return (sums + noise + (1 << FRACTION_BITS - 1)) >> FRACTION_BITS


def design_counts(epsilon: float, delta: float, max_items: int, ids: int = 1) -> NoisyCounts:
    """Noise for counts to which each id of a person adds a vector of norm ``sqrt(max_items)``."""
    scale = ids * ROUND_UP * math.sqrt(max_items) * gaussian_scale(epsilon, delta)
    return NoisyCounts(epsilon, delta, max_items, scale)
