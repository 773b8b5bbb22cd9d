"""Logarithm and exponential, made of IEEE sums, products and one quotient: these are vectorized.

Those of the system's library are called for one number at a time, and differ in their last digits
from one library to the next. These give the same bits on every machine, in a vector or alone: no
fastmath, which would let a compiler round a product and a sum together where the processor can.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsu.runtime.jit import njit

FRACTION_BITS = np.uint64(52)
FRACTION = np.uint64((1 << 52) - 1)
# The bits of the double next to the root of 1/2: a double is a power of 2 times what lies between
# the roots of 1/2 and of 2.
ROOT = np.uint64(0x3FE6A09E667F3BCD)
# What is added to a power of 2 in a double, and here, so that what is shifted is positive.
BIAS = np.uint64(1023)
SHIFT = np.uint64(1024 << 52)
# The bits of 2^52: a whole number below it, written into the last of them, is added to it.
WHOLE = np.uint64(0x4330000000000000)
WHOLE_SHIFT = 2.0**52 + 1024.0
# Doubles of this size have no fraction, so that adding it rounds to a whole number.
ROUND = 1.5 * 2.0**52
LOG_2 = float.fromhex("0x1.62e42fefa39efp-1")
# The same in two parts; the first has so few bits that its product by an exponent is exact.
LOG_2_HIGH = float.fromhex("0x1.62e42feep-1")
LOG_2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
PER_LOG_2 = 1.0 / LOG_2
# Up to 708, exp(-y) is a double with all of its digits.
LARGEST_Y = 700.0


@njit(cache=True, inline="always", error_model="numpy")
def logarithm(x: Any) -> Any:
    """The natural logarithm of a positive normal double, within 2^-51 of itself.

    Other arguments give some finite number.
    """
    bits = np.float64(x).view(np.uint64) - ROOT
    power = np.uint64(((bits + SHIFT) >> FRACTION_BITS) | WHOLE).view(np.float64) - WHOLE_SHIFT
    rest = np.uint64((bits & FRACTION) + ROOT).view(np.float64)
    # log((1 + t) / (1 - t)) = 2 (t + t^3 / 3 + t^5 / 5 + ...), where t is at most 0.172.
    t = (rest - 1.0) / (rest + 1.0)
    s = t * t
    series = s * (1.0 / 19.0) + 1.0 / 17.0
    series = series * s + 1.0 / 15.0
    series = series * s + 1.0 / 13.0
    series = series * s + 1.0 / 11.0
    series = series * s + 1.0 / 9.0
    series = series * s + 1.0 / 7.0
    series = series * s + 1.0 / 5.0
    series = series * s + 1.0 / 3.0
    return power * LOG_2 + 2.0 * (t + t * (s * series))


@njit(cache=True, inline="always", error_model="numpy")
def falling_exponential(y: Any) -> Any:
    """``exp(-y)`` for y from 0 to 700, within 2^-51 of itself; for larger y that of 700."""
    y = min(LARGEST_Y, y)
    rounded = ROUND - y * PER_LOG_2
    power = rounded - ROUND
    r = (-y - power * LOG_2_HIGH) - power * LOG_2_LOW
    # What is left is at most half of log 2.
    series = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    # The last bits of what was rounded are the power of 2: here it gets its place in a double.
    shifted = np.float64(rounded).view(np.uint64) + BIAS
    return series * np.uint64(shifted << FRACTION_BITS).view(np.float64)
