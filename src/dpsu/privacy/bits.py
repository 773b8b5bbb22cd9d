"""Rounds of bits: one exact coin per item, without noise, and the account that lets rounds adapt.

A user gives whole units to items, at a price that grows with their number, and can pay for a budget
in each round. An item comes out by a coin whose chance depends on the sum of its units. Nothing but
the set is shown, so the account follows the coins themselves: a Renyi divergence of one order, and
beside it a chance that novel and certain items may take.

All numbers of a curve are whole, and `verify` checks every pair of chances that one user can
exchange for each other. Where doubles are used there, they are rounded against us. See
docs/proofs/bits.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

from dpsu.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Soft caps: what a user may give to one item before it pays far more for it.
CAPS = (0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.25, 0.35, 0.5, 0.7, 1.0)
# Units per soft cap. Four lose 1 to 3 %.
STEPS = 8
WORD = 64
CERTAIN = 1 << WORD
# Users' sums of prices must fit into 64 bits for 2^31 items, and a price is rounded up to a whole
# number: by at most 2^-16 of itself.
BUDGET = 1 << 32
# What novel and certain items may take of delta; a scan finds at most 2 % less weight.
SURE_SHARE = 0.25
# Large differences want a smaller order than small ones do. This one is within 2 % of the best for
# the usual caps, shares and guarantees.
ORDER_SHARE = 0.8
# Shares of rounds are doubles whose sum may exceed 1 by a rounding, and this pays for it.
ROUND_DOWN = 1.0 - 2.0**-40
# Longer tables would take many seconds to make. Only guarantees far from the usual ones need them.
LONGEST = 1 << 22
# A table spans 3 to 19 deviations of the Gaussian noise that would cost as much. Caps are refused
# as if it were 32, so that no round of a plan that was accepted fails for its length.
DEVIATIONS = 32.0
# With several ids per person tables are longer and differences more. So many pairs of both, counted
# as if tables were as long as accepted, take some seconds.
MOST_PAIRS = 1 << 26


@dataclass(frozen=True)
class BitsAccount:
    """What all rounds of a release may spend together.

    Attributes
    ----------
    order : float
        Order of the Renyi divergence.
    rate : float
        Divergence of this order that all rounds may have together, rounded down.
    sure : float
        Chance that novel and certain items may take in all rounds together, rounded down.
    ids : int
        How many users one person may be, who may all differ between neighbors.
    """

    order: float
    rate: float
    sure: float
    ids: int = 1


@dataclass(frozen=True)
class CoinTable:
    """Prices and chances of one round: a :class:`BitsCurve` or a curve that only a last round has.

    The two are no kinds of each other, so that type checks keep them apart.

    Attributes
    ----------
    cap : float
        Soft cap: eight units.
    share : float
        Share of the account that this round may spend.
    prices : tuple of int
        Price of 0, 1, 2, ... units for one item, in whole numbers.
    budget : int
        What the prices of all items of one user may add up to.
    chances : tuple of int
        Probability of release of an item of 0, 1, 2, ... units, in 2^-64; the last is 2^64, as are
        all beyond it.
    """

    cap: float
    share: float
    prices: tuple[int, ...]
    budget: int
    chances: tuple[int, ...]

    @property
    def unit(self) -> float:
        """What one unit weighs."""
        return self.cap / STEPS


@dataclass(frozen=True)
class BitsCurve(CoinTable):
    """Prices and chances that any round may have."""


@lru_cache(maxsize=256, typed=True)
def bits_account(epsilon: float, delta: float, ids: int = 1) -> BitsAccount:
    """The account of a guarantee, with an order that suits differences of all sizes.

    A small difference of chances has a divergence in proportion to the order, so the best order for
    it has the largest rate in proportion to itself; large differences want less. Any order is
    private: the rate is what the theorem allows for the one that is returned.

    Examples
    --------
    >>> account = bits_account(3.0, 4.54e-5)
    >>> 5.0 < account.order < 6.0
    True
    """
    low, high = math.log(1e-4), math.log(1e12)
    for _ in range(100):
        left, right = low + 0.382 * (high - low), low + 0.618 * (high - low)
        if _gain(epsilon, delta, left) < _gain(epsilon, delta, right):
            low = left
        else:
            high = right
    order = 1.0 + ORDER_SHARE * math.exp(0.5 * (low + high))
    rate = rate_at_least(epsilon, (1.0 - SURE_SHARE) * delta, order) * ROUND_DOWN
    return BitsAccount(order, rate, SURE_SHARE * delta * ROUND_DOWN, ids)


def rate_at_least(epsilon: float, delta: float, order: float) -> float:
    """Lower bound of the Renyi divergence of this order that implies (epsilon, delta)."""
    terms = (
        epsilon,
        -math.log1p(-1.0 / order),
        math.log(delta) / (order - 1.0),
        math.log(order) / (order - 1.0),
    )
    # Each term has a relative error of a few units in the last place; 1 - 1/order multiplies the
    # rounding of 1/order by at most 1/(order - 1), as does the quotient of small logarithms.
    error = math.fsum(map(abs, terms)) + (1.0 + abs(math.log(delta))) / (order - 1.0)
    return math.fsum(terms) - 2.0**-48 * error


def _gain(epsilon: float, delta: float, log_power: float) -> float:
    order = 1.0 + math.exp(log_power)
    return rate_at_least(epsilon, (1.0 - SURE_SHARE) * delta, order) / order


@lru_cache(maxsize=64, typed=True)
def prices_of(cap: float) -> tuple[int, ...]:
    """What users of bits pay for 0, 1, ... units: ``v^2 max(1, v/cap)^3`` of the budget.

    Prices are rounded up to integers, and end where one item would cost more than the whole budget.

    Examples
    --------
    >>> len(prices_of(1.0)), prices_of(1.0)[8] == BUDGET
    (9, True)
    """
    exact = Fraction(str(cap))
    prices = [0]
    while True:
        steps = Fraction(len(prices), STEPS)
        price = math.ceil((exact * steps) ** 2 * max(Fraction(1), steps) ** 3 * BUDGET)
        if price > BUDGET:
            return tuple(prices)
        prices.append(price)


def usable_caps(account: BitsAccount, shares: tuple[float, ...]) -> tuple[float, ...]:
    """The soft caps for which every round has a curve, decided before any data is read.

    All of `CAPS` unless epsilon or delta is tiny, or a person has many ids: a chance must not fall
    below 2^-64, and a table must not become too long.
    """
    share, ids = min(shares), account.ids
    deviation = math.sqrt(account.order / (2.0 * share * account.rate))
    found = []
    for cap in CAPS:
        prices, length = prices_of(cap), DEVIATIONS * deviation * STEPS * ids / cap
        short = length <= LONGEST and (ids == 1 or length * ids * len(prices) <= MOST_PAIRS)
        if short and set_aside(prices[1], ids * BUDGET, share, account) > 0:
            found.append(cap)
    return tuple(found)


@lru_cache(maxsize=64, typed=True)
def round_curve(account: BitsAccount, share: float, cap: float) -> BitsCurve:
    """The largest curve of a round that may spend this share of the account.

    Parameters
    ----------
    account : BitsAccount
        Of all rounds together. The shares of all rounds must add up to at most 1.
    share : float
        Share of this round, fixed in advance.
    cap : float
        Soft cap, one of `usable_caps`. It may depend on earlier rounds.

    Returns
    -------
    BitsCurve
        It has passed :func:`verify`.

    References
    ----------
    docs/proofs/bits.md
    """
    import numpy as np

    from dpsu.kernels.bit_curves import draw_curve

    prices = prices_of(cap)
    sure, limits = limits_of(prices, BUDGET, share, account)
    if sure[1] == 0:
        raise ParameterError("bits needs a larger delta: 64 bits cannot tell the chances apart")
    none = np.zeros(0)
    table = draw_curve(sure, limits, account.order - 1.0, LONGEST, np.zeros(len(sure)), none)
    if len(table) == LONGEST:
        raise ParameterError("bits needs a larger epsilon or delta: its tables become too long")
    curve = BitsCurve(cap, share, prices, BUDGET, (*table.tolist(), CERTAIN))
    if not verify(curve, account) <= 1.0:
        raise RuntimeError("a curve of bits did not pass its check; please report this")
    return curve


def verify(curve: BitsCurve, account: BitsAccount) -> float:
    """The worst use of what the account allows, over every pair of chances, rounded up.

    A pair is two weights that differ by a number of units for which there is a price. Its chances
    must differ by no more than the chance that is set aside for this price, or both directions of
    their divergence must keep to the rate for it.

    Returns
    -------
    float
        At most 1 if the curve is private; infinity if a pair has no finite use, or if the curve has
        not the form that the theorem speaks of.
    """
    import numpy as np

    from dpsu.kernels.bit_curves import worst_use

    if not (is_well_formed(curve) and is_sane(account)):
        return math.inf
    sure, limits = limits_of(curve.prices, curve.budget, curve.share, account)
    table = np.array(curve.chances[:-1], np.uint64)
    unused = np.zeros(len(sure)), np.zeros(0)
    return float(worst_use(table, sure, limits, account.order - 1.0, *unused))


def set_aside(price: int, budget: int, share: float, account: BitsAccount) -> int:
    """The mass to take off for a price, in units of the smallest chance, rounded down."""
    return math.floor(Fraction(share) * Fraction(account.sure) * Fraction(price, budget) * CERTAIN)


def limits_of(
    prices: tuple[int, ...], budget: int, share: float, account: BitsAccount
) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """For every difference, rounded down: the mass to take off, and the limit of moments."""
    import numpy as np

    prices, budget = differences(prices, account.ids), account.ids * budget
    sure = [set_aside(price, budget, share, account) for price in prices]
    # Three roundings: the quotient of whole numbers and both products. The order less 1 is exact.
    limits = [
        (account.order - 1.0)
        * float(Fraction(share) * Fraction(account.rate) * Fraction(price, budget))
        * (1.0 - 2.0**-50)
        for price in prices
    ]
    return np.array(sure, np.uint64), np.array(limits, np.float64)


def differences(prices: tuple[int, ...], ids: int) -> tuple[int, ...]:
    """The least that so many ids pay together for 0, 1, ... units of one item.

    Prices grow ever faster, so that they pay least if they share units as evenly as they can.

    Examples
    --------
    >>> differences((0, 1, 4, 9), 2)
    (0, 1, 2, 5, 8, 13, 18)
    """
    most = ids * (len(prices) - 1)
    shared = (divmod(units, ids) for units in range(most))
    paid = ((ids - more) * prices[each] + more * prices[each + 1] for each, more in shared)
    return (*paid, ids * prices[-1])


def is_well_formed(curve: CoinTable) -> bool:
    """Whether prices rise ever faster, and chances never fall, as the theorem demands."""
    prices, chances = curve.prices, curve.chances
    return (
        0.0 < curve.share <= 1.0
        and len(prices) > 1
        and prices[0] == 0
        and all(a < b for a, b in pairwise(prices))
        and all(2 * b <= a + c for a, b, c in zip(prices, prices[1:], prices[2:], strict=False))
        and prices[-1] <= curve.budget
        and len(chances) > 1
        and chances[0] == 0
        and chances[-1] == CERTAIN
        and all(a <= b for a, b in pairwise(chances))
        and chances[-2] < CERTAIN
    )


def is_sane(account: BitsAccount) -> bool:
    """Whether the numbers of an account are in the ranges for which roundings are proved."""
    return (
        1.0 < account.order < 2.0**53
        and 0.0 < account.rate < math.inf
        and 0.0 < account.sure < 0.5
        and account.ids >= 1
    )
