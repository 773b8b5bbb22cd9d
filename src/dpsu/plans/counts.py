"""Noisy counts of the items that were released, paid for with a share of the budget.

Once a set is released it is a public domain. Every user counts for at most `max_items` of its
items, sampled by a salted hash, and every count gets exact rounded Gaussian noise.
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
LARGEST_COUNTS_ITEMS = 100_000


@dataclass(frozen=True, kw_only=True)
class Counts(Typed):
    """Also release a noisy number of users for every released item.

    Parameters
    ----------
    share : float
        Share of epsilon and delta that counts take from the selection.
    max_items : int
        For how many released items a user counts at most.

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
        30,
        int,
        "Count each user for at most this many released items.",
        low=1,
        high=LARGEST_COUNTS_ITEMS,
        name="counts_items",
    )

    def design(self, privacy: Privacy) -> NoisyCounts:
        """What counts cost, and their noise."""
        return design_counts(
            self.share * privacy.epsilon, self.share * privacy.delta, self.max_items
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


def design_counts(epsilon: float, delta: float, max_items: int) -> NoisyCounts:
    """Noise for counts to which one user adds at most 1 in each of `max_items` places."""
    scale = ROUND_UP * math.sqrt(max_items) * gaussian_scale(epsilon, delta)
    return NoisyCounts(epsilon, delta, max_items, scale)
