"""The table of polynomials by which normal variables are proposed.

    python -m tools.quantile_table          write src/dpsu/kernels/quantiles.npy
    python -m tools.quantile_table --check  fail if it is not what it would be

Doubles from 1 to 2^63 are cut into eighths of powers of two; the last row is for 2^63 itself, to
which the words just below it are rounded. In each row, a polynomial of degree 7 agrees with the
quantile of the normal distribution in the Chebyshev nodes of its interval, up to the rounding of
its coefficients to doubles. docs/proofs/noise.md says how far off it is.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.gaussians import LOCAL_BITS

TABLE = Path(__file__).resolve().parent.parent / "src" / "dpsu" / "kernels" / "quantiles.npy"
DEGREE = 7
PARTS = 1 << (52 - LOCAL_BITS)
ROWS = 63 * PARTS + 1
# The local variable of a row lies between 0 and this.
LENGTH = 1 << LOCAL_BITS
# Far more than doubles have, because values that are nearly equal are subtracted.
PRECISION = 140


def probability(row: int, local: Any) -> Any:
    """The argument of the quantile function that a row and its local variable stand for."""
    binade, part = divmod(row, PARTS)
    start = Fraction(2**binade) * (1 + Fraction(part, PARTS)) / 2**64
    step = Fraction(2**binade, 2**116)
    return _real(start) + _real(step) * local


def quantile(chance: Any) -> Any:
    """The z with P[Z < z] = chance, with nearly as many digits as mpmath is set to."""
    z = mpmath.mpf(NormalDist().inv_cdf(float(chance)))
    # Each step of Halley's method trebles the digits, and doubles have 16 of them.
    for _ in range(2):
        step = (mpmath.ncdf(z) - chance) / mpmath.npdf(z)
        z -= step / (1 + z * step / 2)
    return z


def nodes() -> list[Any]:
    """The Chebyshev nodes of [0, LENGTH]."""
    count = DEGREE + 1
    return [
        LENGTH * (1 + mpmath.cos(mpmath.pi * (2 * k + 1) / (2 * count))) / 2 for k in range(count)
    ]


def table() -> NDArray[np.float64]:
    """The coefficients of all rows."""
    with mpmath.workprec(PRECISION):
        points = nodes()
        powers = [[(x / LENGTH) ** k for k in range(DEGREE + 1)] for x in points]
        from_values = mpmath.inverse(mpmath.matrix(powers))
        rows = []
        for row in range(ROWS):
            values = mpmath.matrix([quantile(probability(row, x)) for x in points])
            unscaled = from_values * values
            rows.append([float(c) / float(LENGTH) ** k for k, c in enumerate(unscaled)])
    return np.array(rows, np.float64)


def _real(fraction: Fraction) -> Any:
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def main() -> None:
    """Write or check the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = table().astype("<f8")
    if not check:
        np.save(TABLE, made, allow_pickle=False)
        print("TABLE_SHA256 in gaussians.py is to be", hashlib.sha256(made.tobytes()).hexdigest())
    elif np.load(TABLE, allow_pickle=False).tobytes() != made.tobytes():
        print("run python -m tools.quantile_table")
        sys.exit(1)


if __name__ == "__main__":
    main()
