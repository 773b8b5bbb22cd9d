"""Normal variables rounded to integers, from uniform words, and whether each is proved."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.kernels import njit

# How many words of 64 bits a digest has; each serves one round.
WORDS = 4
# Proved in docs/proofs/noise.md: relative error of a tail of the normal distribution at the edge of
# a cell, as it is computed below.
EDGE_ERROR = 2.0**-42
# Proved there, too: a proposed normal variable is off by less than this, if its word is at least so
# large and the last step that led to it at most so long.
PROPOSAL_ERROR = 2.0**-40
LEAST_WORD = 2**44
LONGEST_STEP = 2.0**-20


@njit(cache=True, error_model="numpy")
def lower_quantile(p: float) -> float:
    """The z with P[Z < z] = p, for 0 < p <= 1/2, good to about nine digits (Acklam).

    It only proposes a cell; the proof that accepts a cell does not rely on it.
    """
    if p < 0.02425:
        q = math.sqrt(-2.0 * math.log(p))
        top = (
            (((-7.784894002430293e-03 * q - 3.223964580411365e-01) * q - 2.400758277161838) * q
             - 2.549732539343734) * q + 4.374664141464968
        ) * q + 2.938163982698783  # fmt: skip
        low = (
            ((7.784695709041462e-03 * q + 3.224671290700398e-01) * q + 2.445134137142996) * q
            + 3.754408661907416
        ) * q + 1.0
        return top / low
    q = p - 0.5
    r = q * q
    top = (
        ((((-3.969683028665376e01 * r + 2.209460984245205e02) * r - 2.759285104469687e02) * r
          + 1.383577518672690e02) * r - 3.066479806614716e01) * r + 2.506628277459239
    ) * q  # fmt: skip
    low = (
        (((-5.447609879822406e01 * r + 1.615858368580409e02) * r - 1.556989798598866e02) * r
         + 6.680131188771972e01) * r - 1.328068155288572e01
    ) * r + 1.0  # fmt: skip
    return top / low


@njit(cache=True, nogil=True, error_model="numpy")
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
    half = np.uint64(1) << np.uint64(63)
    unit = 2.0**-64
    for k in range(len(words)):
        word = words[k]
        below = word < half
        mirrored = word if below else ~word
        p = (float(mirrored) + 0.5) * unit
        z = lower_quantile(p)
        # One step of Halley's method brings the proposal to the accuracy of erfc.
        error = 0.5 * math.erfc(-z / math.sqrt(2.0)) - p
        step = error * math.sqrt(2.0 * math.pi) * math.exp(0.5 * z * z)
        z -= step / (1.0 + 0.5 * z * step)
        at = z * scale
        cell: Any = math.floor(at + 0.5)
        inside = 0.5 - abs(at - cell)
        if (
            mirrored >= np.uint64(LEAST_WORD)
            and abs(step) <= LONGEST_STEP
            and inside > PROPOSAL_ERROR * scale
        ):
            sure[k] = True
        else:
            low = 0.5 * math.erfc(-((cell - 0.5) / scale) / math.sqrt(2.0))
            high = 0.5 * math.erfc(-((cell + 0.5) / scale) / math.sqrt(2.0))
            sure[k] = low * (1.0 + EDGE_ERROR) <= float(mirrored) * unit and (
                float(mirrored) + 1.0
            ) * unit <= high * (1.0 - EDGE_ERROR)
        whole = np.int64(cell)
        noise[k] = whole if below else -whole
