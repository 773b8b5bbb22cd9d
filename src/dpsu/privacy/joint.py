"""One account for noise and novel items together: the tight Gaussian calibration.

A user cannot spend its whole l2 budget both on shared items and on novel ones. With t novel items
of equal weight v, the shared items move by at most ``s = sqrt(1 - t v^2)``, and with
``q = P[a novel item stays hidden]`` the exact cost in delta is the larger of

    (1 - q^t) + q^t H(epsilon - t ln q, s / sigma)      the user is present
    H(epsilon + t ln q, s / sigma)                      the user is absent

where H is the hockey-stick divergence of two unit normals. Both grow when q falls and when s grows,
so on a cell ``[v_low, v_high]`` q at v_high with s at v_low bounds them: cells are split until each
is accepted, or too small to split.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dpsu.privacy.calibration import gaussian_scale, gaussian_threshold, novel_at_most
from dpsu.privacy.normal import hockey_stick_at_most

SMALLEST_CELL = 1e-4
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class NovelWeights:
    """What one user's novel items may weigh: t of them, all equal to some v in [lowest, highest].

    `highest` is further limited by 1/sqrt(t).
    """

    max_items: int
    lowest: float
    highest: float


@lru_cache(maxsize=64)
def joint_scale_and_threshold(
    epsilon: float, delta: float, novel: NovelWeights
) -> tuple[float, float]:
    """Noise scale and threshold with a small threshold for l2 sensitivity 1.

    The pair that is returned has passed :func:`is_private` for every number of novel items.

    References
    ----------
    docs/proofs/gaussian-joint.md
    """
    few = _representatives(novel.max_items)
    # Anything below is not private even without novel items; anything above only raises thresholds.
    low = gaussian_scale(epsilon, delta) * (1.0 + 1e-9)
    high = 1.2 * gaussian_scale(epsilon, delta / 2.0)
    ceiling = gaussian_threshold(high, delta / 2.0, novel.max_items)

    def threshold_at(sigma: float) -> float:
        return _smallest_threshold(epsilon, delta, sigma, novel, few, ceiling)

    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = threshold_at(left), threshold_at(right)
    for _ in range(24):
        if at_left <= at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = threshold_at(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = threshold_at(right)
    sigma, threshold = (left, at_left) if at_left <= at_right else (right, at_right)
    while not is_private(epsilon, delta, sigma, threshold, novel, range(novel.max_items + 1)):
        threshold *= 1.0 + 1e-6
    return sigma, threshold * (1.0 + 1e-9)


def is_private(
    epsilon: float,
    delta: float,
    sigma: float,
    threshold: float,
    novel: NovelWeights,
    numbers: Iterable[int],
) -> bool:
    """Whether scale and threshold cost at most delta, for each of these numbers of novel items."""
    for t in numbers:
        if t == 0:
            if hockey_stick_at_most(epsilon, 1.0 / sigma) > delta:
                return False
            continue
        highest = min(novel.highest, (1.0 + 1e-15) / math.sqrt(t))
        cells = [(min(novel.lowest, highest), highest)]
        while cells:
            lowest_weight, highest_weight = cells.pop()
            if _cost_at_most(epsilon, sigma, threshold, t, lowest_weight, highest_weight) <= delta:
                continue
            if highest_weight - lowest_weight < SMALLEST_CELL:
                return False
            middle = (lowest_weight + highest_weight) / 2.0
            cells += [(lowest_weight, middle), (middle, highest_weight)]
    return True


def _cost_at_most(
    epsilon: float, sigma: float, threshold: float, t: int, lowest: float, highest: float
) -> float:
    shown = novel_at_most(sigma, threshold, t, highest)
    if shown >= 1.0:
        return 1.0
    log_hidden = math.log1p(-shown)
    shift = math.sqrt(max(0.0, 1.0 - t * lowest * lowest) + 1e-15) / sigma
    present = shown + (1.0 - shown) * hockey_stick_at_most(epsilon - log_hidden, shift)
    absent = hockey_stick_at_most(epsilon + log_hidden, shift)
    return max(present, absent)


def _smallest_threshold(
    epsilon: float,
    delta: float,
    sigma: float,
    novel: NovelWeights,
    numbers: tuple[int, ...],
    ceiling: float,
) -> float:
    """Bisect over a few numbers of novel items; the caller checks the rest."""
    low, high = 0.0, ceiling
    while not is_private(epsilon, delta, sigma, high, novel, numbers):
        low, high = high, 1.5 * high
        if high > 100.0 * ceiling:
            return math.inf
    while high - low > 1e-8 * high:
        middle = (low + high) / 2.0
        if is_private(epsilon, delta, sigma, middle, novel, numbers):
            high = middle
        else:
            low = middle
    return high


def _representatives(max_items: int) -> tuple[int, ...]:
    numbers, t = {max_items}, 1.0
    while t < max_items:
        numbers.add(round(t))
        t *= 1.6
    return tuple(sorted(numbers, reverse=True))
