"""Noisy facts about users, paid for with a share of the budget, by which a mechanism is chosen."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from dpsu.plans.auto import Hints
from dpsu.privacy.calibration import ROUND_UP, gaussian_scale

if TYPE_CHECKING:
    from dpsu.contributions.pairs import Pairs
    from dpsu.randomness.keys import Key
    from dpsu.runtime.memory import Memory

# Set sizes are summed up to these limits; the first counts users.
LIMITS = (1, 20, 400)
UNIT = 1 << 10
NEARLY = 0.75
PURPOSE = "set sizes"


def estimate(
    pairs: Pairs, key: Key, epsilon: float, delta: float, *, memory: Memory | None = None
) -> Hints:
    """Noisy number of users and mean set size, from sums of set sizes up to public limits.

    Every user adds at most 1 to each sum, as a part of the limit and in whole units, so that the l2
    sensitivity is the square root of their number. The noise is exact and rounded; what is made of
    the noisy sums is post-processing.
    """
    import numpy as np
    import pyarrow as pa

    from dpsu.contributions.grouped import arrange
    from dpsu.contributions.ids import Ids
    from dpsu.randomness.noise import Noise

    orders = np.arange(len(pairs.users)), np.arange(len(pairs.items))
    sizes = arrange(pairs, *orders, with_repeats=False, memory=memory).sizes
    sums = np.array([int((np.minimum(sizes, most) * UNIT // most).sum()) for most in LIMITS])
    places = Ids(pa.array([f"{most}" for most in LIMITS], pa.large_string()))
    scale = ROUND_UP * math.sqrt(len(LIMITS)) * gaussian_scale(epsilon, delta)
    noisy = (sums + Noise(key, places, PURPOSE).rounded(0, scale * UNIT)) / UNIT
    users = float(noisy[0])
    if users < 8.0 * scale:
        # Too few to tell; who must choose without knowing chooses sieve.
        return Hints(None, None, epsilon, delta)
    means = [
        max(1.0, float(total) * most / users) for total, most in zip(noisy, LIMITS, strict=True)
    ]
    # A mean near its limit says that the limit cut it off.
    mean = means[1] if means[1] < NEARLY * LIMITS[1] else means[2]
    return Hints(round(users), mean, epsilon, delta)
