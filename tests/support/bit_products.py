"""Products of coins of rounds of bits: exact divergences, and the condition of the theorem in plain.

Nothing here is shared with the code under test but the numbers of a curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr, xlogy

from dpsu.privacy.bits import BitsAccount, CoinTable

ONE = 1 << 64
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coins:
    """Several items whose weight is `weight` in one world and `weight` + `units` in the other.

    `more` says whether the first world is the one in which they have more.
    """

    curve: CoinTable
    weight: int
    units: int
    number: int
    more: bool = True

    @property
    def price(self) -> Fraction:
        return Fraction(self.number * self.curve.prices[self.units], self.curve.budget)

    @property
    def chances(self) -> tuple[int, int]:
        pair = chance(self.curve, self.weight + self.units), chance(self.curve, self.weight)
        return pair if self.more else (pair[1], pair[0])


def chance(curve: CoinTable, weight: int) -> int:
    return curve.chances[min(weight, len(curve.chances) - 1)]


def as_many(
    curve: CoinTable, weight: int, units: int, share: float = 1.0, more: bool = True
) -> Coins:
    """As many such items as a user can pay for with this share of its budget."""
    number = int(share * curve.budget) // curve.prices[units]
    return Coins(curve, weight, units, number, more)


@lru_cache(maxsize=4096)
def laws(coins: Coins) -> tuple[Array, Array]:
    """Logarithms of the probabilities of 0, 1, ... released items in both worlds."""
    p, q = coins.chances
    k = coins.number
    shown = np.arange(k + 1, dtype=np.float64)
    ways = gammaln(k + 1) - gammaln(shown + 1) - gammaln(k - shown + 1)
    first, second = (
        ways + xlogy(shown, c / ONE) + xlogy(k - shown, (ONE - c) / ONE) for c in (p, q)
    )
    return first, second


def joint_laws(types: Sequence[Coins]) -> tuple[Array, Array]:
    """The same for all numbers of released items of every type, in one long array."""
    first, second = np.zeros(1), np.zeros(1)
    for coins in types:
        one, other = laws(coins)
        first = np.add.outer(first, one).ravel()
        second = np.add.outer(second, other).ravel()
    return first, second


def divergence(types: Sequence[Coins], epsilon: float) -> float:
    """The hockey-stick divergence of the two worlds: what delta must be at least."""
    first, second = joint_laws(types)
    with np.errstate(over="ignore"):
        return float(np.maximum(np.exp(first) - np.exp(second + epsilon), 0.0).sum())


def adaptive_divergence(
    first_round: Sequence[Coins], then: Iterable[Sequence[Coins]], epsilon: float
) -> float:
    """The largest divergence if the items of the second round are chosen after the first.

    By dynamic programming: after every outcome of the first round, the adversary takes what is best
    for the likelihood ratio so far.
    """
    return divergence_after(joint_laws(first_round), then, epsilon)


def rounded_gaussian(shift: float, cells: int = 300) -> tuple[Array, Array]:
    """Logarithms of the probabilities of cells of a normal variable, with a shift and without."""
    edges = np.concatenate(([-np.inf], np.linspace(-9.0, 9.0 + shift, cells), [np.inf]))
    found = []
    for by in (shift, 0.0):
        low, high = edges[:-1] - by, edges[1:] - by
        # Upper tails are taken from their own side, where their digits are.
        found.append(np.where(low < 0, ndtr(high) - ndtr(low), ndtr(-low) - ndtr(-high)))
    with np.errstate(divide="ignore"):
        return np.log(found[0]), np.log(found[1])


def divergence_after(
    laws_before: tuple[Array, Array], then: Iterable[Sequence[Coins]], epsilon: float
) -> float:
    """The same after anything that has these laws in both worlds."""
    first, second = laws_before
    best = np.zeros(len(first))
    for types in then:
        one, other = joint_laws(types)
        with np.errstate(over="ignore", under="ignore"):
            gains = np.exp(np.add.outer(first, one)) - np.exp(np.add.outer(second, other) + epsilon)
        best = np.maximum(best, np.maximum(gains, 0.0).sum(1))
    return float(best.sum())


def plain_use(curve: CoinTable, account: BitsAccount, weight: int, units: int) -> Any:
    """What one pair uses of its limit, by the formulas of the theorem, with 300 bits."""
    with mpmath.workprec(300):
        p, q = Fraction(chance(curve, weight + units), ONE), Fraction(chance(curve, weight), ONE)
        price = Fraction(curve.prices[units], curve.budget)
        allowed = Fraction(curve.share) * Fraction(account.sure) * price
        d = Fraction(math.floor(allowed * ONE), ONE)
        if p - q <= d:
            return mpmath.mpf(0)
        if q == 0 or p == 1:
            return mpmath.inf
        p, q = (p - d) / (1 - d), q / (1 - d)
        rate = _real(Fraction(curve.share) * Fraction(account.rate) * price)
        return max(_renyi(p, q, account.order), _renyi(q, p, account.order)) / rate


def plain_norm(curve: CoinTable, account: BitsAccount, weight: int, units: int) -> float:
    """What a pair uses in the last round, by a sum over the line of complex orders, to about 1e-4.

    The moments are complex powers, and the sum is over frequencies as they come.
    """
    p, q = chance(curve, weight + units), chance(curve, weight)
    price = Fraction(curve.prices[units], curve.budget)
    d = math.floor(Fraction(curve.share) * Fraction(account.sure) * price * ONE)
    if p - q <= d:
        return 0.0
    a, b, a1, b1 = (x / (ONE - d) for x in (p - d, q, ONE - p, ONE - q - d))
    order = account.order
    middle = math.sqrt(order * (order - 1))
    # Cells of equal mass of the Cauchy law.
    cells = 100_000
    omega = middle * np.tan((np.arange(cells) + 0.5) / cells * math.pi / 2)
    s = order + 1j * omega
    worst = -math.inf
    for x, y, x1, y1 in ((a, b, a1, b1), (b, a, b1, a1)):
        moments = x * np.exp((s - 1) * math.log(x / y)) + x1 * np.exp((s - 1) * math.log(x1 / y1))
        worst = max(worst, math.log(np.mean(np.abs(moments) ** float(1 / price))))
    line = math.log(2 * middle)
    moment = math.log(order) - (order - 1) * math.log1p(-1 / order)
    return worst / (curve.share * (order - 1) * account.rate + line - moment)


def _renyi(a: Fraction, b: Fraction, order: float) -> Any:
    alpha = mpmath.mpf(order)
    moment = sum(_real(x) ** alpha * _real(y) ** (1 - alpha) for x, y in ((a, b), (1 - a, 1 - b)))
    return mpmath.log(moment) / (alpha - 1)


def _real(x: Fraction) -> Any:
    return mpmath.mpf(x.numerator) / mpmath.mpf(x.denominator)
