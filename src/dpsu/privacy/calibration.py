"""How large noise and threshold must be: the published formulas, rounded outward.

Everything here is a function of public parameters. `joint.py` holds the one account that is not a
formula. Names follow Gopi et al. 2020; "novel" items are those that only the added user brings.
"""

from __future__ import annotations

import math
from functools import lru_cache

from dpsu.privacy.normal import RELATIVE_ERROR, hockey_stick_at_most, upper_quantile, upper_tail

ROUND_UP = 1.0 + 1e-12


@lru_cache(maxsize=256, typed=True)
def gaussian_scale(epsilon: float, delta: float) -> float:
    """Smallest sigma for which l2 sensitivity 1 is (epsilon, delta)-private (Balle and Wang 2018).

    Rounded up: the returned sigma satisfies the condition, the true minimum is at most 1e-13 below.
    """
    low, high = 0.0, 1.0
    while hockey_stick_at_most(epsilon, 1.0 / high) > delta:
        low, high = high, 2.0 * high
    while high - low > 1e-13 * high:
        middle = (low + high) / 2.0
        if hockey_stick_at_most(epsilon, 1.0 / middle) > delta:
            low = middle
        else:
            high = middle
    return high


def laplace_scale(epsilon: float, sensitivity: float) -> float:
    """Scale of Laplace noise for this l1 sensitivity."""
    return ROUND_UP * sensitivity / epsilon


def laplace_threshold(scale: float, delta: float, max_items: int, slack: float) -> float:
    """Theorem 4.1/B.1: novel items weigh at most 1/t + slack each if there are t of them."""
    needed = max(
        1.0 / t + slack - scale * math.log(-2.0 * math.expm1(math.log1p(-delta) / t))
        for t in range(1, max_items + 1)
    )
    # Near delta = 1/2 the logarithm vanishes, and with it any rounding relative to the sum.
    return ROUND_UP * needed + 1e-12 * scale


def count_laplace_threshold(scale: float, delta: float, max_items: int) -> float:
    """Korolova et al. 2009, Wilson et al. 2020: weight 1 per item, at most `max_items` of them."""
    share = -2.0 * math.expm1(math.log1p(-delta) / max_items)
    return ROUND_UP * (1.0 - scale * math.log(share)) + 1e-12 * scale


def greedy_published_threshold(epsilon: float, delta: float) -> float:
    """Carvalho et al. 2022, equation (1). Not a private threshold for their mechanism."""
    return 1.0 - math.log(2.0 * delta) / epsilon


def gaussian_threshold(sigma: float, delta: float, max_items: int) -> float:
    """Theorem 5.1/B.2: t novel items weigh at most 1/sqrt(t) each; `delta` is the novel share."""

    def needed(t: int) -> float:
        return 1.0 / math.sqrt(t) + sigma * upper_quantile(-math.expm1(math.log1p(-delta) / t))

    threshold = ROUND_UP * max(needed(1), needed(max_items))
    # The maximum sits at an end, but nobody has to believe that: every t is checked.
    while not all(
        novel_at_most(sigma, threshold, t, 1.0 / math.sqrt(t)) <= delta
        for t in range(1, max_items + 1)
    ):
        threshold *= 1.0 + 1e-9
    return ROUND_UP * threshold


def count_gaussian_threshold(sigma: float, delta: float, max_items: int) -> float:
    """Weight 1 per item, l2 sensitivity sqrt(max_items) already inside `sigma`."""
    share = -math.expm1(math.log1p(-delta) / max_items)
    return ROUND_UP * (1.0 + sigma * upper_quantile(share))


def novel_at_most(sigma: float, threshold: float, novel: int, weight: float) -> float:
    """Upper bound of P[any of `novel` items of this weight is released] under Gaussian noise."""
    tail = upper_tail((threshold - weight) / sigma) * (1.0 + RELATIVE_ERROR)
    if tail >= 1.0:
        return 1.0
    return -math.expm1(novel * math.log1p(-tail)) * (1.0 + RELATIVE_ERROR)
