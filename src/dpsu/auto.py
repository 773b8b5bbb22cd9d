"""Choosing a mechanism from hints that are public, or from estimates that are paid for.

What decides is how many items users hold. With one item each there is nothing to share out, and the
optimal selector of whole votes is optimal. With a few, budgets that go to one item after the other
win; with more, sieve. The bounds between them were found on made-up data (popularity by Zipf's law,
log-normal set sizes, 5,000 to 400,000 users) by benchmarks/few_items.py, and on nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.calibration import ROUND_UP, gaussian_scale

if TYPE_CHECKING:
    from dpsu.keys import Key
    from dpsu.pairs import Pairs

# Set sizes are counted in bins with these lower ends; the last has no end.
BINS = (1, 2, 3, 4, 6, 9, 13, 20, 30, 45, 70, 100, 150, 230, 350, 500, 800, 1200, 2000)
ONE_ITEM = 1.15
SURE_CUTOFF = 10_000
USUAL_USERS = 50_000
LARGE_EPSILON = 2.0
PURPOSE = "set sizes"


@dataclass(frozen=True)
class Hints:
    """What is known about users without looking, or was estimated for a share of the budget."""

    expected_users: int | None = None
    expected_items_per_user: float | None = None
    epsilon: float = 0.0
    delta: float = 0.0


def choose(epsilon: float, hints: Hints) -> tuple[str, dict[str, Any]]:
    """Mechanism and options for users like these."""
    size = hints.expected_items_per_user
    if size is None:
        return "sieve", {}
    if size <= ONE_ITEM:
        return "greedy", {"order": "hash", "cutoff": SURE_CUTOFF}
    users = hints.expected_users or USUAL_USERS
    large = epsilon >= LARGE_EPSILON
    few = 3.2 * (users / 5000) ** 0.22 if large else 2.6 * (users / 5000) ** 0.2
    if size < max(2.0, few):
        return ("greedy", {}) if large else ("policy-laplace", {})
    return "sieve", {"max_items": min(1000, max(100, round(30.0 * math.sqrt(size))))}


def estimate(pairs: Pairs, key: Key, epsilon: float, delta: float) -> Hints:
    """Noisy number of users and mean set size, from a histogram of set sizes.

    Every user counts once in one bin, so that the l2 sensitivity is 1; the noise is exact and
    rounded, and what is made of the noisy histogram is post-processing.
    """
    import numpy as np
    import pyarrow as pa

    from dpsu.contributions import arrange
    from dpsu.ids import Ids
    from dpsu.noise import Noise

    orders = np.arange(len(pairs.users)), np.arange(len(pairs.items))
    sizes = arrange(pairs, *orders, counted=False).sizes
    bins = np.searchsorted(BINS, sizes[sizes > 0], side="right") - 1
    counts = np.bincount(bins, minlength=len(BINS))
    places = Ids(pa.array([f"{low}" for low in BINS], pa.large_string()))
    scale = ROUND_UP * gaussian_scale(epsilon, delta)
    noisy = counts + Noise(key, places, PURPOSE).rounded(0, scale)
    # Bins that noise alone explains say nothing.
    kept = np.where(noisy > 4.0 * scale, noisy, 0)
    users = int(kept.sum())
    if users <= 0:
        return Hints(None, None, epsilon, delta)
    ends = [*BINS[1:], 2 * BINS[-1]]
    middles = [math.sqrt(low * max(low, high - 1)) for low, high in zip(BINS, ends, strict=True)]
    mean = float(np.dot(kept, middles)) / users
    return Hints(users, mean, epsilon, delta)
