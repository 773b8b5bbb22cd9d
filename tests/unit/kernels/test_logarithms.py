"""Logarithm and exponential beside mpmath, and the same bits in a vector, alone and in Python."""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.steering import LARGEST_Y, falling_exponentials, logarithms
from tests.support.cases import every

Floats = NDArray[np.float64]
WITHIN = 2.0**-51


def bits_of(x: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", x))[0])


def double_of(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits % 2**64))[0])


def logarithm(x: float) -> float:
    """The kernel once more, in Python, which rounds every operation on its own."""
    bits = (bits_of(x) - 0x3FE6A09E667F3BCD) % 2**64
    whole = ((bits + (1024 << 52)) % 2**64 >> 52) | 0x4330000000000000
    power = double_of(whole) - (2.0**52 + 1024.0)
    rest = double_of((bits & (2**52 - 1)) + 0x3FE6A09E667F3BCD)
    t = (rest - 1.0) / (rest + 1.0)
    s = t * t
    series = s * (1.0 / 19.0) + 1.0 / 17.0
    for odd in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        series = series * s + 1.0 / odd
    return power * float.fromhex("0x1.62e42fefa39efp-1") + 2.0 * (t + t * (s * series))


def falling_exponential(y: float) -> float:
    """The same for the exponential."""
    # As the kernel: what is no number is as large as can be.
    y = y if y < LARGEST_Y else LARGEST_Y
    rounded = 1.5 * 2.0**52 - y * (1.0 / float.fromhex("0x1.62e42fefa39efp-1"))
    power = rounded - 1.5 * 2.0**52
    r = (-y - power * float.fromhex("0x1.62e42feep-1")) - power * float.fromhex(
        "0x1.a39ef35793c76p-33"
    )
    series = r * (1.0 / math.factorial(13)) + 1.0 / math.factorial(12)
    for k in range(11, -1, -1):
        series = series * r + 1.0 / math.factorial(k)
    return series * double_of((bits_of(rounded) + 1023) << 52)


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
        for y, found in zip(
            values.tolist(), mapped(falling_exponentials, values).tolist(), strict=True
        ):
            exact = mpmath.exp(-mpmath.mpf(y))
            assert abs(found - exact) <= WITHIN * exact, y


def test_some_values_to_the_last_bit() -> None:
    assert mapped(logarithms, np.array([1.0, 3.0])).tolist() == [
        0.0,
        float.fromhex("0x1.193ea7aad030ap+0"),
    ]
    assert mapped(falling_exponentials, np.array([0.0, 1.0])).tolist() == [
        1.0,
        float.fromhex("0x1.78b56362cef38p-2"),
    ]


@every("y", [701.0, 745.2, 1e5, 1e300, math.inf, math.nan])
def test_what_would_be_too_small_is_as_small_as_can_be(y: float) -> None:
    found, least = mapped(falling_exponentials, np.array([y, LARGEST_Y])).tolist()
    assert found == least
    assert sys.float_info.min < found < 1e-300


@every("x", [0.0, -0.0, 5e-324, -1.0, math.inf, -math.inf, math.nan])
def test_what_has_no_logarithm_has_a_finite_one(x: float) -> None:
    assert np.isfinite(mapped(logarithms, np.array([x]))).all()


def test_every_operation_is_rounded_on_its_own() -> None:
    """So no product and sum are rounded together, in a vector or alone, by whatever compiler."""
    for looped, function, values in (
        (logarithms, logarithm, positive_doubles()),
        (falling_exponentials, falling_exponential, powers()),
    ):
        found = mapped(looped, values)
        assert found.tolist() == [function(x) for x in values.tolist()]
        for start in (1, 2, 3, 5, 7):
            assert mapped(looped, values[start:]).tolist() == found[start:].tolist()
        for k in range(0, len(values), 50):
            assert mapped(looped, values[k : k + 1])[0] == found[k]
