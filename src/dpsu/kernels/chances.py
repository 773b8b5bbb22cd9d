"""The chance that an item of some weight is released, in double precision: one formula per curve.

What they compute is proved to be near enough to the curves of `dpsu.privacy.curves`, which define
the mechanisms.
"""

from __future__ import annotations

import cython
from cython.cimports.dpsu.kernels.primitives import ConstDouble, Double, Int32
from cython.cimports.libc import math


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def laplace_formula(weight: Double, scale: Double, threshold: Double) -> Double:
    """P[weight + Lap(scale) > threshold]."""
    if weight <= 0.0:
        return 0.0
    if weight <= threshold:
        return 0.5 * math.exp((weight - threshold) / scale)
    return 1.0 - 0.5 * math.exp((threshold - weight) / scale)


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def gaussian_formula(weight: Double, scale: Double, threshold: Double) -> Double:
    """P[weight + N(0, scale^2) > threshold]."""
    if weight <= 0.0:
        return 0.0
    return 0.5 * math.erfc((threshold - weight) / (scale * math.sqrt(2.0)))


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def truncated_laplace_formula(
    weight: Double, epsilon: Double, delta: Double, sensitivity: Double
) -> Double:
    """P[w + Z > A] for Laplace noise cut off at +-A, with w = weight / sensitivity."""
    if weight <= 0.0:
        return 0.0
    w = weight / sensitivity
    a = math.log1p(math.expm1(epsilon) / (2.0 * delta)) / epsilon
    if w <= a:
        return delta * math.expm1(epsilon * w) / math.expm1(epsilon)
    if w >= 2.0 * a:
        return 1.0
    edge = math.exp(-epsilon * a)
    return 1.0 - (math.exp(-epsilon * (w - a)) - edge) / (2.0 * (1.0 - edge))


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def optimal_formula(weight: Double, epsilon: Double, delta: Double, switch: Double) -> Double:
    """Optimal probability for `weight` users; the recursion's first branch ends at `switch`."""
    if weight <= 0.0:
        return 0.0
    growth = math.expm1(epsilon)
    if weight <= switch:
        return min(1.0, delta * math.expm1(epsilon * weight) / growth)
    hidden = 1.0 - delta * math.expm1(epsilon * switch) / growth
    beyond = delta / growth
    return min(1.0, 1.0 + beyond - (hidden + beyond) * math.exp(-epsilon * (weight - switch)))


FORMULAS = (laplace_formula, gaussian_formula, truncated_laplace_formula, optimal_formula)


def evaluate(
    place: Int32,
    weights: ConstDouble[::1],
    first: Double,
    second: Double,
    third: Double,
    found: Double[::1],
) -> None:
    """Write ``FORMULAS[place]`` of every weight to `found`; two of them have no `third`."""
    if len(found) != len(weights) or not 0 <= place < 4:
        raise ValueError("weights and chances differ in length, or there is no such formula")
    with cython.nogil:
        for k in range(len(weights)):
            if place == 0:
                found[k] = laplace_formula(weights[k], first, second)
            elif place == 1:
                found[k] = gaussian_formula(weights[k], first, second)
            elif place == 2:
                found[k] = truncated_laplace_formula(weights[k], first, second, third)
            else:
                found[k] = optimal_formula(weights[k], first, second, third)
