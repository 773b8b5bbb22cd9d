"""How many items users hold, noisily: what a mechanism is chosen by, for a share of epsilon."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from dpsu.plans.mechanisms.auto import Hints
from dpsu.randomness.keys import Key
from dpsu.randomness.laplace import two_sided_geometric

PURPOSE = "set sizes"
# Class b holds users with more than 2^(b-1) and at most 2^b items; the last one all larger sets.
CLASSES = 12
# About how many items the users of a class hold: sizes are spread evenly by their logarithm.
SIZES = np.array([1.0, 2.0, 3.4, *(2.0**b / (2.0 * math.log(2.0)) for b in range(3, CLASSES))])
# Epsilon is rounded down to such parts, so that noise is drawn from fractions of small numbers.
PARTS = 1 << 20
SEEN, SEEN_IF_LARGE, ENOUGH = 2.8, 0.45, 14.0


def histogram(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Users in each class of set sizes; nobody without items is in any. PRIVATE."""
    held = sizes[sizes > 0]
    # Exact for whole numbers below 2^53, unlike a logarithm.
    classes = np.minimum(np.frexp((held - 1).astype(np.float64))[1], CLASSES - 1)
    return np.bincount(classes, minlength=CLASSES).astype(np.int64)


def estimate(counted: NDArray[np.int64], key: Key, epsilon: float, ids: int) -> Hints:
    """Noisy number of users and mean set size.

    Every id is in one class, so that one person changes numbers by the number of its ids. Noise is
    exact, and what is made of the noisy numbers is post-processing.
    """
    share = Fraction(math.floor(Fraction(epsilon) / ids * PARTS), PARTS)
    if share <= 0:
        return Hints(None, None, epsilon)
    noise = [two_sided_geometric(key, PURPOSE, place, share) for place in range(CLASSES)]
    return average(counted + np.array(noise), float(share), epsilon)


def average(noisy: NDArray[np.int64], share: float, epsilon: float) -> Hints:
    """Number of users and their mean set size, if noise leaves anything to see."""
    # What may well be noise alone is none: a few users who do not exist would make a large mean if
    # they were in a class of large sets, so that more is asked of those.
    least = (SEEN + SEEN_IF_LARGE * np.arange(CLASSES)) / share
    seen = np.where(noisy > least, noisy, 0).astype(np.float64)
    users = float(seen.sum())
    if users < ENOUGH / share:
        # Too few to tell; who must choose without knowing chooses sieve.
        return Hints(None, None, epsilon)
    return Hints(round(users), float((seen * SIZES).sum()) / users, epsilon)
