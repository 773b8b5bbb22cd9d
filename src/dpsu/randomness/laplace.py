"""Exact two-sided geometric noise: whole numbers y with probability proportional to r^|y|.

With r = exp(-epsilon) it is what Laplace noise is to whole numbers: a number that one person
changes by at most 1 is epsilon-private with it, and no delta is needed (Ghosh et al. 2009). Nothing
is rounded: every step compares random bits with fractions, by the method of Canonne, Kamath and
Steinke (2020). It is slow, and meant for a handful of numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from dpsu.randomness.keys import Key

DIGEST_BITS = 256


def two_sided_geometric(key: Key, purpose: str, place: int, epsilon: Fraction) -> int:
    """One whole number of noise, for a public place such as the number of a sum."""
    bits = _bits(key, purpose, place)
    numerator, denominator = epsilon.numerator, epsilon.denominator
    while True:
        # A whole number x with probability proportional to exp(-x / denominator).
        rest = _below(bits, denominator)
        if not _chance_of_exp(bits, Fraction(rest, denominator)):
            continue
        wholes = 0
        while _chance_of_exp(bits, Fraction(1)):
            wholes += 1
        size = (rest + denominator * wholes) // numerator
        negative = next(bits)
        # There is one zero, not two.
        if not (negative and size == 0):
            return -size if negative else size


def _bits(key: Key, purpose: str, place: int) -> Iterator[int]:
    """Random bits without end, each used once."""
    block = 0
    while True:
        word = int.from_bytes(key.digest(purpose, place, block, b""), "big")
        for shift in range(DIGEST_BITS):
            yield (word >> shift) & 1
        block += 1


def _below(bits: Iterator[int], limit: int) -> int:
    """A uniform whole number below a limit."""
    size = (limit - 1).bit_length()
    while True:
        found = 0
        for _ in range(size):
            found = 2 * found + next(bits)
        if found < limit:
            return found


def _chance(bits: Iterator[int], probability: Fraction) -> bool:
    return _below(bits, probability.denominator) < probability.numerator


def _chance_of_exp(bits: Iterator[int], exponent: Fraction) -> bool:
    """True with probability exp(-exponent), for an exponent from 0 to 1.

    The number of successes in a row, the k-th with probability exponent / k, is even with exactly
    that probability, by the series of the exponential function.
    """
    k = 1
    while _chance(bits, exponent / k):
        k += 1
    return k % 2 == 1
