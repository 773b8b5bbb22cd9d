"""What changes when one person may have several ids: the guarantee is for all of them together.

Every id takes the part that a user has elsewhere, and noise grows by the number of ids, which is
the same as if each id had so small a part of the weight. What does not follow from that is novel
items: several ids bring several times as many of them, and of unequal weights. All that is known of
them is their number and the norm of their weights, and all that is used is this.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

from dpsu.errors import ParameterError
from dpsu.privacy.calibration import ROUND_UP, gaussian_scale
from dpsu.privacy.guarantee import SMALLEST_DELTA, SMALLEST_EPSILON, Privacy, rest_of
from dpsu.privacy.normal import RELATIVE_ERROR, SMALLEST_TAIL, upper_quantile, upper_tail

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Cells of weights, in each of which the largest tail stands for all.
CELLS = 4096
# Parts of delta for novel items, with the rest for noise; all are tried for a plan.
SPLITS = (0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6)
# More than the roundings of a product or of a difference.
TINY = 1e-15
SEARCHES = 60


def for_each_id(privacy: Privacy) -> Privacy:
    """A guarantee for one id that implies this one for all ids of a person (group privacy)."""
    ids = privacy.ids_per_person
    if ids == 1:
        return privacy
    epsilon = privacy.epsilon / ids * (1.0 - TINY)
    if epsilon < SMALLEST_EPSILON:
        raise ParameterError(
            "{epsilon} leaves each of {ids_per_person} ids too little; raise it to "
            f"{1.01 * ids * SMALLEST_EPSILON:.3g}, or choose sieve",
            epsilon=privacy.epsilon,
            ids_per_person=ids,
        )
    growth = math.expm1(ids * epsilon) / math.expm1(epsilon)
    delta = privacy.delta / growth * (1.0 - 1e-12)
    if delta < SMALLEST_DELTA:
        raise ParameterError(
            "{delta} leaves each of {ids_per_person} ids too little; raise it, or choose sieve",
            delta=privacy.delta,
            ids_per_person=ids,
        )
    return Privacy(epsilon, delta)


def scale_and_threshold(
    privacy: Privacy, max_items: int, highest: float = 1.0
) -> tuple[float, float, float]:
    """Noise scale, threshold and the part of delta for novel items, where all ids have norm 1.

    Parameters
    ----------
    privacy : Privacy
        The guarantee, with the number of ids of a person.
    max_items : int
        Items of one id.
    highest : float
        Largest weight that all ids together can give to one novel item.
    """
    items = privacy.ids_per_person * max_items

    def first(part: float) -> float:
        scale = gaussian_scale(privacy.epsilon, privacy.delta * (1.0 - part))
        return _least_threshold(scale, privacy.delta * part, items, highest)

    novel = min(SPLITS, key=first) * privacy.delta
    scale = gaussian_scale(privacy.epsilon, rest_of(privacy.delta, novel))
    return scale, threshold_for(scale, novel, items, highest), novel


@lru_cache(maxsize=256)
def threshold_for(sigma: float, delta: float, items: int, highest: float = 1.0) -> float:
    """A threshold that novel items of a vector of norm 1 exceed with probability at most delta.

    What is returned has passed :func:`novel_in_norm_at_most`.
    """
    low = _least_threshold(sigma, delta, items, highest)
    step = 1e-4
    while novel_in_norm_at_most(sigma, low * (1.0 + step), items, highest) > delta:
        step *= 2.0
    lower, upper = 0.0, step
    for _ in range(12):
        middle = (lower + upper) / 2.0
        if novel_in_norm_at_most(sigma, low * (1.0 + middle), items, highest) > delta:
            lower = middle
        else:
            upper = middle
    return ROUND_UP * low * (1.0 + upper)


def _least_threshold(sigma: float, delta: float, items: int, highest: float) -> float:
    """What equal novel weights need, a few or as many as there may be."""
    numbers = {items, max(1, math.floor(1.0 / highest**2))}
    return max(
        min(highest, 1.0 / math.sqrt(t))
        + sigma * upper_quantile(-math.expm1(math.log1p(-delta) / t))
        for t in numbers
    )


def novel_in_norm_at_most(
    sigma: float, threshold: float, items: int, highest: float = 1.0
) -> float:
    """Upper bound of P[a novel item is released], for any novel weights of l2 norm at most 1.

    Let p(v) be the probability for weight v. For every price B there is an A with
    ``p(v) <= A + B v**2`` for all v up to `highest`; so novel weights of norm 1 together have at
    most ``items * A + B``. The price that is best costs nothing to look for: each is valid.
    """
    import numpy as np

    low = np.arange(CELLS) * (highest / CELLS)
    tails = _tails(sigma, threshold, highest)
    squares = low**2 * (1.0 - TINY)

    def bound(price: float) -> float:
        most = float(np.max(tails - price * squares * (1.0 - TINY)))
        return (items * max(most, 0.0) * (1.0 + TINY) + price) * ROUND_UP

    # Convex in the price, which is somewhere between nothing and all of the largest tail.
    left, right = math.log(tails[0]) - 20.0, math.log(float(tails[-1]) / highest**2) + 1.0
    best = bound(math.exp(right))
    for _ in range(SEARCHES):
        third = (right - left) / 3.0
        one, other = left + third, right - third
        at_one, at_other = bound(math.exp(one)), bound(math.exp(other))
        best = min(best, at_one, at_other)
        if at_one <= at_other:
            right = other
        else:
            left = one
    return min(1.0, best)


def _tails(sigma: float, threshold: float, highest: float) -> NDArray[np.float64]:
    """The largest probability of release in every cell of weights, rounded up."""
    import numpy as np

    ends = (highest * (k + 1) / CELLS * (1.0 + TINY) for k in range(CELLS))
    found = (upper_tail((threshold - end) / sigma) for end in ends)
    return np.fromiter(found, np.float64, CELLS) * (1.0 + 2.0 * RELATIVE_ERROR) + SMALLEST_TAIL
