"""Normal variables rounded to integers, from uniform words, and whether each is proved.

`quantiles.npy` is made by tools/quantile_table.py.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

import cython
import numpy as np
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    ConstDouble,
    ConstWord,
    Double,
    Int64,
    Size,
    Word,
    bits_of,
    multiply_add,
)
from cython.cimports.libc import math

import dpsu.kernels
from dpsu.errors import DpsuError

# How many words of 64 bits a digest has; each serves one round.
WORDS = cython.declare(cython.const[cython.int], 4)
# Proved in docs/proofs/noise.md: relative error of a tail of the normal distribution at the edge of
# a cell, as it is computed below; 2^-42.
EDGE_ERROR = cython.declare(cython.const[cython.double], 2.0**-42)
# Proved there, too: a proposed normal variable is off by less than half of this, if its word is at
# least so large.
PROPOSAL_ERROR = cython.declare(cython.const[cython.double], 2.0**-40)
LEAST_WORD = cython.declare(cython.const[Word], 0x100000000000)
# A word as a double is 2^e (1 + j/8 + t/2^52), and has row 8 e + j of the table: a polynomial in t,
# which has this many bits.
LOCAL_BITS = cython.declare(cython.const[cython.int], 49)
# What the bits above them are for the least double that has a row, which is 1.
FIRST_ROW = cython.declare(cython.const[Word], 8184)
# Words from here on are the upper half.
HALF = cython.declare(cython.const[Word], 0x8000000000000000)
# The SHA-256 of the table.
TABLE_SHA256 = "05cbff577602ae2202cca4b20291977dcf2ae0cad4b8e50ba764b4619d6f790d"


@cache
def quantiles() -> object:
    """Polynomials of the normal quantile, one in each row, the constant first; read once.

    What is read is what was proved, or nothing: another table would be another noise.
    """
    folder = Path(dpsu.kernels.__file__).parent
    try:
        stored = np.load(folder / "quantiles.npy", allow_pickle=False)
        table = np.ascontiguousarray(stored, np.float64)
    except (OSError, EOFError, ValueError):
        table = np.empty((0, 0))
    if hashlib.sha256(table.tobytes()).hexdigest() != TABLE_SHA256:
        raise DpsuError("a file of dpsu, quantiles.npy, is missing or damaged; install dpsu again")
    return table


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def proposal(word: Word, c: ConstDouble[:, ::1]) -> Double:
    """About the z with ``P[Z < z] = word / 2^64``, for words below 2^63.

    The last bit is set first, so that 0 is taken for 1. A product and a sum may be rounded
    together: the proof holds with all roundings, or with fewer.
    """
    bits: Word = bits_of(cython.cast(Double, cython.cast(Int64, word | 1)))
    row = cython.cast(Size, (bits >> LOCAL_BITS) - FIRST_ROW)
    one: Word = 1
    local = cython.cast(Int64, bits & ((one << LOCAL_BITS) - 1))
    t = cython.cast(Double, local)
    z = multiply_add(c[row, 7], t, c[row, 6])
    z = multiply_add(z, t, c[row, 5])
    z = multiply_add(z, t, c[row, 4])
    z = multiply_add(z, t, c[row, 3])
    z = multiply_add(z, t, c[row, 2])
    z = multiply_add(z, t, c[row, 1])
    return multiply_add(z, t, c[row, 0])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def lies_between_edges(word: Word, cell: Double, scale: Double) -> cython.bint:
    """Whether all reals that begin with a word below 2^63 surely lie in a cell.

    Those that begin with 0 have no quantile that they all exceed, so that no cell holds them all.
    """
    low = 0.5 * math.erfc(-((cell - 0.5) / scale) / math.sqrt(2.0))
    high = 0.5 * math.erfc(-((cell + 0.5) / scale) / math.sqrt(2.0))
    unit: Double = 2.0**-64
    at = cython.cast(Double, word)
    return (
        word > 0
        and low * (1.0 + EDGE_ERROR) <= at * unit
        and (at + 1.0) * unit <= high * (1.0 - EDGE_ERROR)
    )


def proposals(words: ConstWord[::1]) -> object:
    """`proposal` of each word, for tests."""
    found = np.empty(len(words))
    proposed: Double[::1] = found
    polynomials: ConstDouble[:, ::1] = quantiles()
    for k in range(len(words)):
        if words[k] >= HALF:
            raise ValueError("words must be below 2^63")
        proposed[k] = proposal(words[k], polynomials)
    return found


def round_gaussians(words: ConstWord[:], scale: Double, noise: Int64[::1], sure: Byte[::1]) -> None:
    """The integer whose cell holds each uniform, and whether the first 64 bits prove it.

    The normal distribution is symmetric, and so is rounding: words of the upper half are reflected,
    because lower tails are computed with a small relative error. A proposal well inside its cell
    proves it; near an edge of a cell, and far out, the edges themselves are compared.
    """
    if len(noise) != len(words) or len(sure) != len(words):
        raise ValueError("words, noise and sure differ in length")
    polynomials: ConstDouble[:, ::1] = quantiles()
    near = PROPOSAL_ERROR * scale
    with cython.nogil:
        for k in range(len(words)):
            word = words[k]
            below: cython.bint = word < HALF
            mirrored = word if below else ~word
            at = proposal(mirrored, polynomials) * scale
            cell = math.floor(at + 0.5)
            inside = 0.5 - math.fabs(at - cell)
            if mirrored >= LEAST_WORD and inside > near:
                sure[k] = True
            else:
                sure[k] = lies_between_edges(mirrored, cell, scale)
            whole = cython.cast(Int64, cell)
            noise[k] = whole if below else -whole


# Constants of C are invisible to callers.
globals().update(
    WORDS=WORDS,
    PROPOSAL_ERROR=PROPOSAL_ERROR,
    LEAST_WORD=LEAST_WORD,
    LOCAL_BITS=LOCAL_BITS,
)
