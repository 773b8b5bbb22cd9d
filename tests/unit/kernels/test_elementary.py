"""Logarithm and exponential beside mpmath, and the same bits in a vector, alone and in Python."""

from __future__ import annotations

import math
import sys
from typing import Any, cast

import mpmath
import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.elementary import LARGEST_Y, falling_exponential, logarithm
from dpsu.runtime.jit import njit
from tests.support.cases import every

Floats = NDArray[np.float64]
WITHIN = 2.0**-51


@njit
def logarithms(x: Floats, found: Floats) -> None:
    for i in range(len(x)):
        found[i] = logarithm(x[i])


@njit
def exponentials(x: Floats, found: Floats) -> None:
    for i in range(len(x)):
        found[i] = falling_exponential(x[i])


def mapped(function: Any, values: Floats) -> Floats:
    found = np.empty_like(values)
    function(values, found)
    return found


def neighbors(values: list[float]) -> Floats:
    centers = np.array(values)
    return np.unique(
        [centers, np.nextafter(centers, 0.0), np.nextafter(centers, 2.0 * centers + 1.0)]
    )


def positive_doubles() -> Floats:
    """All magnitudes, what is close to 1, and both sides of where the power of 2 changes."""
    rng = np.random.default_rng(1)
    smallest, largest = sys.float_info.min, sys.float_info.max
    return np.concatenate(
        [
            [smallest, largest, 1e-12, 1e6, 1e-300, 1e300, math.e],
            np.nextafter([smallest, largest], 1.0),
            2.0 ** np.arange(-1022.0, 1024.0),
            neighbors([1.0, 0.5, 2.0, math.sqrt(0.5), math.sqrt(2.0), 0.25, 4.0]),
            neighbors([math.sqrt(0.5) * 2.0**k for k in range(-1000, 1000, 50)]),
            1.0 + rng.uniform(-1, 1, 500) * 2.0 ** -rng.uniform(0, 52, 500),
            np.exp(rng.uniform(-708, 709, 2000)),
            np.exp(rng.uniform(-28, 14, 2000)),
        ]
    )


def powers() -> Floats:
    """From 0 to the largest, and both sides of where the power of 2 changes."""
    rng = np.random.default_rng(2)
    return np.concatenate(
        [
            [0.0, 5e-324, 1e-300, 1e-17, 2.0**-53, 1.0, 690.0, LARGEST_Y],
            neighbors([(k + 0.5) * math.log(2.0) for k in range(0, 1009, 16)]),
            neighbors([k * math.log(2.0) for k in range(0, 1009, 16)]),
            2.0 ** -rng.uniform(0, 60, 500),
            rng.uniform(0, LARGEST_Y, 3000),
        ]
    )


def test_logarithms_of_all_magnitudes() -> None:
    values = positive_doubles()
    with mpmath.workprec(120):
        for x, found in zip(values.tolist(), mapped(logarithms, values).tolist(), strict=True):
            exact = mpmath.log(x)
            assert abs(found - exact) <= WITHIN * abs(exact), x


def test_exponentials_down_to_the_smallest() -> None:
    values = powers()
    with mpmath.workprec(120):
        for y, found in zip(values.tolist(), mapped(exponentials, values).tolist(), strict=True):
            exact = mpmath.exp(-mpmath.mpf(y))
            assert abs(found - exact) <= WITHIN * exact, y


def test_some_values_to_the_last_bit() -> None:
    assert logarithm(1.0) == 0.0
    assert falling_exponential(0.0) == 1.0
    # Every machine gives these bits.
    assert logarithm(3.0).hex() == "0x1.193ea7aad030ap+0"
    assert falling_exponential(1.0).hex() == "0x1.78b56362cef38p-2"


@every("y", [701.0, 745.2, 1e5, 1e300, math.inf, math.nan])
def test_what_would_be_too_small_is_as_small_as_can_be(y: float) -> None:
    assert falling_exponential(y) == falling_exponential(LARGEST_Y)
    assert sys.float_info.min < falling_exponential(y) < 1e-300


@every("x", [0.0, -0.0, 5e-324, -1.0, math.inf, -math.inf, math.nan])
def test_what_has_no_logarithm_has_a_finite_one(x: float) -> None:
    assert math.isfinite(logarithm(x))


def test_vectors_single_numbers_and_python_give_the_same_bits() -> None:
    """So no product and sum are rounded together, on any machine on which this test runs."""
    for looped, function, values in (
        (logarithms, logarithm, positive_doubles()),
        (exponentials, falling_exponential, powers()),
    ):
        found = mapped(looped, values)
        # Words wrap around, in Python with a warning.
        with np.errstate(over="ignore"):
            assert found.tolist() == [cast(Any, function).py_func(x) for x in values]
        assert found.tolist() == [function(x) for x in values]
        for start in (1, 2, 3, 5, 7):
            assert mapped(looped, values[start:]).tolist() == found[start:].tolist()
