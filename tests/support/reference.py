"""Plain transcription of published set-union algorithms, the oracle of the tests.

Gopi et al. 2020, "Differentially Private Set Union" (arXiv version), and Carvalho et al. 2022,
"Incorporating Item Frequency for Differentially Private Set Union". Clarity over speed: l1
weights are exact fractions, l2 weights are floats, and calibrations are mpmath numbers good to
at least 50 digits.

Users come in processing order, each as a sequence of distinct items in that user's own order and
already bounded. A histogram holds exactly the items of positive weight: an item that somebody
holds but nobody gave weight to is absent, as it is not in the support.
"""

import math
from collections.abc import Hashable, Sequence
from fractions import Fraction
from typing import TypeAlias, TypeVar

import mpmath  # type: ignore[import-untyped,unused-ignore]

Item = TypeVar("Item", bound=Hashable)
Number: TypeAlias = float | Fraction | mpmath.mpf

# Differences of nearby tails lose digits, so 50 good ones need a margin.
_WORKING_DIGITS = 100


def count(users: Sequence[Sequence[Item]]) -> dict[Item, int]:
    """Count the holders of each item (Korolova et al.; baseline of Gopi et al.)."""
    weights: dict[Item, int] = {}
    for items in users:
        for item in items:
            weights[item] = weights.get(item, 0) + 1
    return weights


def weighted_l1(users: Sequence[Sequence[Item]]) -> dict[Item, Fraction]:
    """Give ``1/|W|`` to each item of a user (Gopi et al., Algorithm 7)."""
    weights: dict[Item, Fraction] = {}
    for items in users:
        for item in items:
            weights[item] = weights.get(item, Fraction(0)) + Fraction(1, len(items))
    return weights


def weighted_l2(users: Sequence[Sequence[Item]]) -> dict[Item, float]:
    """Give ``sqrt(1/|W|)`` to each item of a user (Gopi et al., Algorithm 8)."""
    weights: dict[Item, float] = {}
    for items in users:
        for item in items:
            weights[item] = weights.get(item, 0.0) + math.sqrt(1 / len(items))
    return weights


def l1_descent(
    users: Sequence[Sequence[Item]], cutoff: Fraction, passes: int = 1
) -> dict[Item, Fraction]:
    """Raise all unfilled items at the same speed (Gopi et al., Algorithm 3)."""
    weights: dict[Item, Fraction] = {}
    for _ in range(passes):
        for items in users:
            _l1_descent_update(weights, items, cutoff, Fraction(1, passes))
    return weights


def _l1_descent_update(
    weights: dict[Item, Fraction], items: Sequence[Item], cutoff: Fraction, budget: Fraction
) -> None:
    """Update ``weights`` in place with one user (Gopi et al., Algorithm 3)."""
    gaps = _gaps_below_cutoff(weights, items, cutoff)
    order = sorted(gaps, key=lambda item: gaps[item])
    unfilled = len(order)
    for j, closest in enumerate(order):
        # The paper reads G[u_j] while it overwrites it; its value before the inner loop is meant.
        rise = gaps[closest]
        cost = rise * unfilled
        if cost < budget:
            for item in order[j:]:
                weights[item] = weights.get(item, Fraction(0)) + rise
                gaps[item] -= rise
            budget -= cost
            unfilled -= 1
        else:
            for item in order[j:]:
                weights[item] = weights.get(item, Fraction(0)) + budget / unfilled
            # The paper prints this break inside the inner loop; the outer loop is meant.
            break


def _gaps_below_cutoff(
    weights: dict[Item, Fraction], items: Sequence[Item], cutoff: Fraction
) -> dict[Item, Fraction]:
    """Distance to the cutoff of the items below it (the dictionary G of Algorithms 3 and 9)."""
    gaps: dict[Item, Fraction] = {}
    for item in items:
        weight = weights.get(item, Fraction(0))
        if weight < cutoff:
            gaps[item] = cutoff - weight
    return gaps


def l2_descent(
    users: Sequence[Sequence[Item]], cutoff: float, passes: int = 1
) -> dict[Item, float]:
    """Move towards the cutoff by l2 distance ``1/passes`` (Gopi et al., Algorithm 5)."""
    weights: dict[Item, float] = {}
    for _ in range(passes):
        for items in users:
            _l2_descent_update(weights, items, cutoff, 1 / passes)
    return weights


def _l2_descent_update(
    weights: dict[Item, float], items: Sequence[Item], cutoff: float, step: float
) -> None:
    """Update ``weights`` in place with one user (Gopi et al., Algorithm 5)."""
    # Rounding may lift a weight an ulp above the cutoff; clipping keeps it from coming down.
    gaps = {item: max(0.0, cutoff - weights.get(item, 0.0)) for item in items}
    distance = math.sqrt(math.fsum(gap * gap for gap in gaps.values()))
    for item, gap in gaps.items():
        if gap == 0:
            continue
        if distance <= step:
            weights[item] = cutoff
        else:
            weights[item] = weights.get(item, 0.0) + step * gap / distance


def greedy(
    users: Sequence[Sequence[Item]], cutoff: Fraction, passes: int = 1
) -> dict[Item, Fraction]:
    """Fill items in each user's own order (Carvalho et al., Algorithm 2, GU).

    The order of a user's items stands for descending ``C_i``. With an integer cutoff and one pass
    each user casts one whole vote ("votes").
    """
    weights: dict[Item, Fraction] = {}
    for _ in range(passes):
        for items in users:
            _greedy_update(weights, items, cutoff, Fraction(1, passes))
    return weights


def _greedy_update(
    weights: dict[Item, Fraction], items: Sequence[Item], cutoff: Fraction, budget: Fraction
) -> None:
    """Update ``weights`` in place with one user (Carvalho et al., Algorithm 2, GU)."""
    candidates = [item for item in items if weights.get(item, Fraction(0)) < cutoff]
    # The paper loops while budget is left and forgets that the candidates may run out first.
    while budget > 0 and candidates:
        best = candidates.pop(0)
        weight = weights.get(best, Fraction(0))
        cost = cutoff - weight
        if cost <= budget:
            weights[best] = weight + cost
            budget -= cost
        else:
            weights[best] = weight + budget
            break


def greedy_by_gap(users: Sequence[Sequence[Item]], cutoff: Fraction) -> dict[Item, Fraction]:
    """Fill the item closest to the cutoff first; NOT private (Gopi et al., Algorithm 9).

    Equal gaps are taken in the user's own order.
    """
    weights: dict[Item, Fraction] = {}
    for items in users:
        gaps = _gaps_below_cutoff(weights, items, cutoff)
        budget = Fraction(1)
        for item in sorted(gaps, key=lambda item: gaps[item]):
            if budget == 0:
                # The paper adds the zero that is left, which would put the item in the support.
                break
            weight = weights.get(item, Fraction(0))
            if gaps[item] <= budget:
                weights[item] = weight + gaps[item]
                budget -= gaps[item]
            else:
                weights[item] = weight + budget
                break
    return weights


def optimal_probability(n: int, epsilon: Number, delta: Number) -> mpmath.mpf:
    """Release probability of an item with ``n`` votes (Desfontaines et al.; design page, 2.3)."""
    with mpmath.workdps(_WORKING_DIGITS):
        grow = mpmath.exp(mpmath.mpf(epsilon))
        slack = mpmath.mpf(delta)
        probability = mpmath.mpf(0)
        for _ in range(n):
            probability = min(
                grow * probability + slack,
                1 - (1 - probability - slack) / grow,
                mpmath.mpf(1),
            )
        return probability


def truncated_laplace_probability(weight: Number, epsilon: Number, delta: Number) -> mpmath.mpf:
    """``P[weight + Z > A]`` for ``Z`` of density ``~ exp(-epsilon |z|)`` on ``[-A, A]`` (2.2)."""
    if not 0 < delta <= 0.5:
        raise ValueError("delta must be in (0, 1/2]")
    with mpmath.workdps(_WORKING_DIGITS):
        eps = mpmath.mpf(epsilon)
        edge = mpmath.log(1 + mpmath.expm1(eps) / (2 * mpmath.mpf(delta))) / eps

        def mass_from_zero(z: mpmath.mpf) -> mpmath.mpf:
            """Integrate ``exp(-eps |t|)`` over ``t`` from 0 to ``z``."""
            return mpmath.sign(z) * (1 - mpmath.exp(-eps * abs(z))) / eps

        lowest = max(-edge, min(edge, edge - mpmath.mpf(weight)))
        released = mass_from_zero(edge) - mass_from_zero(lowest)
        return released / (mass_from_zero(edge) - mass_from_zero(-edge))


def laplace_threshold(epsilon: Number, delta: Number, max_items: int) -> mpmath.mpf:
    """Threshold of policy and weighted Laplace (Gopi et al., Theorems 4.1 and B.1)."""
    with mpmath.workdps(_WORKING_DIGITS):
        eps = mpmath.mpf(epsilon)
        return max(
            mpmath.mpf(1) / t - mpmath.log(2 * _share_of_failure(delta, t)) / eps
            for t in range(1, max_items + 1)
        )


def count_laplace_threshold(epsilon: Number, delta: Number, max_items: int) -> mpmath.mpf:
    """Threshold of count Laplace, whose l1 sensitivity is ``max_items`` (design page, 2.1)."""
    with mpmath.workdps(_WORKING_DIGITS):
        scale = max_items / mpmath.mpf(epsilon)
        return 1 - scale * mpmath.log(2 * _share_of_failure(delta, max_items))


def hockey_stick(epsilon: Number, squared_shift: Number) -> mpmath.mpf:
    """Divergence of two unit normals whose means differ by this much, squared, at e^epsilon."""
    with mpmath.workdps(_WORKING_DIGITS):
        eps, square = (
            mpmath.mpf(x.numerator) / x.denominator if isinstance(x, Fraction) else mpmath.mpf(x)
            for x in (epsilon, squared_shift)
        )
        shift = mpmath.sqrt(square)
        near = mpmath.ncdf(shift / 2 - eps / shift)
        return near - mpmath.exp(eps) * mpmath.ncdf(-shift / 2 - eps / shift)


def gaussian_sigma(epsilon: Number, delta_noise: Number) -> mpmath.mpf:
    """Smallest noise scale for l2 sensitivity 1 (Gopi et al., Proposition 2.2).

    ``delta_noise`` is the whole right-hand side: Theorems 5.1 and B.2 call for ``delta / 2``.
    """
    with mpmath.workdps(_WORKING_DIGITS):
        eps = mpmath.mpf(epsilon)
        target = mpmath.mpf(delta_noise)

        def is_enough(sigma: mpmath.mpf) -> bool:
            near = mpmath.ncdf(1 / (2 * sigma) - eps * sigma)
            far = mpmath.ncdf(-1 / (2 * sigma) - eps * sigma)
            return bool(near - mpmath.exp(eps) * far <= target)

        high = mpmath.mpf(1)
        while not is_enough(high):
            high *= 2
        low = high
        while is_enough(low):
            low /= 2
        while high - low > high * mpmath.mpf(10) ** -60:
            middle = (low + high) / 2
            if is_enough(middle):
                high = middle
            else:
                low = middle
        return high


def gaussian_threshold(epsilon: Number, delta: Number, max_items: int) -> mpmath.mpf:
    """Threshold of policy and weighted Gaussian (Gopi et al., Theorems 5.1 and B.2)."""
    with mpmath.workdps(_WORKING_DIGITS):
        half = mpmath.mpf(delta) / 2
        sigma = gaussian_sigma(epsilon, half)
        return max(
            1 / mpmath.sqrt(t) + sigma * _upper_quantile(_share_of_failure(half, t))
            for t in range(1, max_items + 1)
        )


def _share_of_failure(delta: Number, t: int) -> mpmath.mpf:
    """Probability per item, ``1 - (1 - delta)^(1/t)``, for ``t`` items to fail with ``delta``."""
    return -mpmath.expm1(mpmath.log1p(-mpmath.mpf(delta)) / t)


def _upper_quantile(probability: mpmath.mpf) -> mpmath.mpf:
    """Point that a standard Gaussian exceeds with the given probability, at most 1/2."""
    lost_digits = int(mpmath.ceil(-mpmath.log10(probability)))
    with mpmath.workdps(_WORKING_DIGITS + lost_digits):
        return mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * probability)
