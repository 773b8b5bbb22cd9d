"""The normal distribution in double precision, with errors that are known.

`RELATIVE_ERROR` bounds the relative error of every tail computed here. The argument carries a
relative error of a few units in the last place, a tail at x multiplies it by about x^2, and beyond
|x| = 38 the tail is below the smallest normal double: 38^2 * 2^-50 < 2e-12.
"""

from __future__ import annotations

import math
from statistics import NormalDist

RELATIVE_ERROR = 1e-11
SMALLEST_TAIL = 1e-300
_STANDARD = NormalDist()


def upper_tail(x: float) -> float:
    """P[Z > x] for a standard normal Z."""
    return 0.5 * math.erfc(x / math.sqrt(2.0))


def upper_quantile(probability: float) -> float:
    """The x with P[Z > x] = probability; accurate for tiny probabilities too."""
    return -_STANDARD.inv_cdf(probability)


def hockey_stick_at_most(log_ratio: float, shift: float) -> float:
    """Upper bound of ``sup_O P(O) - e^log_ratio Q(O)`` for normals `shift` deviations apart.

    `log_ratio` may be negative. The value is rounded up by `RELATIVE_ERROR` of its terms.
    """
    if shift <= 0.0:
        return max(0.0, -math.expm1(log_ratio)) * (1.0 + RELATIVE_ERROR)
    first = upper_tail(log_ratio / shift - shift / 2.0)
    # Dropping the second term only raises the bound, and keeps exp from overflowing.
    second = 0.0
    if log_ratio < 600.0:
        second = math.exp(log_ratio) * upper_tail(log_ratio / shift + shift / 2.0)
    return first - second + RELATIVE_ERROR * (first + second) + SMALLEST_TAIL
