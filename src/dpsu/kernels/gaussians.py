"""Normal variables rounded to integers, from uniform words, and whether each is proved.

`quantiles.npy` is made by tools/quantile_table.py.
"""

from __future__ import annotations

import hashlib
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.errors import DpsuError
from dpsu.runtime.jit import njit

# How many words of 64 bits a digest has; each serves one round.
WORDS = 4
# Proved in docs/proofs/noise.md: relative error of a tail of the normal distribution at the edge of
# a cell, as it is computed below.
EDGE_ERROR = 2.0**-42
# Proved there, too: a proposed normal variable is off by less than half of this, if its word is at
# least so large.
PROPOSAL_ERROR = 2.0**-40
LEAST_WORD = 2**44
# A word as a double is 2^e (1 + j/8 + t/2^52), and has row 8 e + j of the table: a polynomial in t,
# which are so many bits.
LOCAL_BITS = 49
# What the bits above them are for the least double that has a row, which is 1.
FIRST_ROW = 1023 << (52 - LOCAL_BITS)
# The SHA-256 of the table.
TABLE_SHA256 = "05cbff577602ae2202cca4b20291977dcf2ae0cad4b8e50ba764b4619d6f790d"


@cache
def quantiles() -> NDArray[np.float64]:
    """Polynomials of the normal quantile, one in each row, the constant first; read once.

    What is read is what was proved, or nothing: another table would be another noise.
    """
    try:
        stored = np.load(Path(__file__).with_name("quantiles.npy"), allow_pickle=False)
        table = np.ascontiguousarray(stored, np.float64)
    except (OSError, EOFError, ValueError):
        table = np.empty((0, 0))
    if hashlib.sha256(table.tobytes()).hexdigest() != TABLE_SHA256:
        raise DpsuError("a file of dpsu, quantiles.npy, is missing or damaged; install dpsu again")
    return table


# A product and a sum may be rounded together: the proof holds with all roundings, or with fewer.
@njit(cache=True, error_model="numpy", fastmath={"contract"})
def proposal(word: Any, polynomials: NDArray[np.float64]) -> float:
    """About the z with ``P[Z < z] = word / 2^64``, for words below 2^63.

    The last bit is set first, so that 0 is taken for 1.
    """
    bits = np.float64(np.int64(word | np.uint64(1))).view(np.uint64)
    c = polynomials[(bits >> np.uint64(LOCAL_BITS)) - np.uint64(FIRST_ROW)]
    t = float(np.int64(bits & np.uint64((1 << LOCAL_BITS) - 1)))
    z = ((((((c[7] * t + c[6]) * t + c[5]) * t + c[4]) * t + c[3]) * t + c[2]) * t + c[1]) * t
    return float(z + c[0])


@njit(cache=True, error_model="numpy")
def lies_between_edges(word: Any, cell: float, scale: float) -> bool:
    """Whether all reals that begin with a word below 2^63 surely lie in a cell.

    Those that begin with 0 have no quantile that they all exceed, so that no cell holds them all.
    """
    low = 0.5 * math.erfc(-((cell - 0.5) / scale) / math.sqrt(2.0))
    high = 0.5 * math.erfc(-((cell + 0.5) / scale) / math.sqrt(2.0))
    unit = 2.0**-64
    return (
        word > 0
        and low * (1.0 + EDGE_ERROR) <= float(word) * unit
        and (float(word) + 1.0) * unit <= high * (1.0 - EDGE_ERROR)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def _round_gaussians(
    words: NDArray[np.uint64],
    scale: float,
    polynomials: NDArray[np.float64],
    noise: NDArray[np.int64],
    sure: NDArray[np.bool_],
) -> None:
    half = np.uint64(1) << np.uint64(63)
    near = PROPOSAL_ERROR * scale
    for k in range(len(words)):
        word = words[k]
        below = word < half
        mirrored = word if below else ~word
        at = proposal(mirrored, polynomials) * scale
        cell = np.floor(at + 0.5)
        inside = 0.5 - abs(at - cell)
        if mirrored >= np.uint64(LEAST_WORD) and inside > near:
            sure[k] = True
        else:
            sure[k] = lies_between_edges(mirrored, cell, scale)
        whole = np.int64(cell)
        noise[k] = whole if below else -whole


def round_gaussians(
    words: NDArray[np.uint64],
    scale: float,
    noise: NDArray[np.int64],
    sure: NDArray[np.bool_],
) -> None:
    """The integer whose cell holds each uniform, and whether the first 64 bits prove it.

    The normal distribution is symmetric, and so is rounding: words of the upper half are reflected,
    because lower tails are computed with a small relative error. A proposal well inside its cell
    proves it; near an edge of a cell, and far out, the edges themselves are compared.
    """
    _round_gaussians(words, scale, quantiles(), noise, sure)
