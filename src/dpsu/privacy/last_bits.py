"""The last round of bits: nothing adapts to it, so a sharper account lets it release more.

Earlier rounds must bound a moment of their likelihood ratio, whatever comes after. The last round
may be followed along a whole line of complex orders, on which the moments of its coins turn and
partly cancel. See docs/proofs/bits.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

from dpsu.privacy.bits import (
    BUDGET,
    CERTAIN,
    LONGEST,
    BitsAccount,
    BitsCurve,
    CoinTable,
    differences,
    is_sane,
    is_well_formed,
    limits_of,
    prices_of,
    round_curve,
    verify,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Cells of the line: the bound is a sum over their left ends. More would gain less than 0.3 %.
CELLS = 48
# Tables that are longer would take seconds, and have coarser cells instead.
LONG = 16_000
FEW_CELLS = 16
ROUND_DOWN = 1.0 - 2.0**-50


@dataclass(frozen=True)
class LastCurve(CoinTable):
    """Prices and chances of the last round. It is not private if a round follows."""


@lru_cache(maxsize=64, typed=True)
def last_curve(account: BitsAccount, share: float, cap: float) -> LastCurve:
    """The better of two curves for a last round with this share of the account.

    Parameters
    ----------
    account : BitsAccount
        Of all rounds together. Earlier rounds and estimates have spent at most 1 - `share` of it.
    share : float
        Share of the last round, fixed in advance.
    cap : float
        Soft cap, one of `usable_caps`. It may depend on earlier rounds.

    Returns
    -------
    LastCurve
        It has passed :func:`verify_last`.

    References
    ----------
    docs/proofs/bits.md
    """
    import numpy as np

    from dpsu.kernels.bit_curves import draw_curve

    plain = round_curve(account, share, cap)
    prices = prices_of(cap)
    curve = LastCurve(cap, share, prices, BUDGET, plain.chances)
    sure, limits, parts = last_limits_of(prices, BUDGET, share, account)
    if limits[1] > 0.0:
        nodes = tangents_of(CELLS if len(plain.chances) <= LONG else FEW_CELLS)
        table = draw_curve(sure, limits, account.order - 1.0, LONGEST, parts, nodes)
        half = np.uint64(CERTAIN // 2)
        if len(table) < LONGEST and int((table < half).sum()) < _below_even(plain):
            curve = LastCurve(cap, share, prices, BUDGET, (*table.tolist(), CERTAIN))
    if not verify_last(curve, account) <= 1.0:
        raise RuntimeError("a last curve of bits did not pass its check; please report this")
    return curve


def _below_even(curve: BitsCurve) -> int:
    return sum(chance < CERTAIN // 2 for chance in curve.chances)


def verify_last(curve: LastCurve, account: BitsAccount) -> float:
    """The worst use of what the account allows the last round, over every pair, rounded up.

    The curve may keep to the account of any round, or to the one that only a last round has: one of
    them for all pairs, not one for each.

    Returns
    -------
    float
        At most 1 if the curve is private; infinity if a pair has no finite use, or if the curve has
        not the form that the theorem speaks of.
    """
    import numpy as np

    from dpsu.kernels.bit_curves import worst_use

    plain = BitsCurve(curve.cap, curve.share, curve.prices, curve.budget, curve.chances)
    as_any = verify(plain, account)
    if as_any <= 1.0 or not (is_well_formed(curve) and is_sane(account)):
        return as_any
    sure, limits, parts = last_limits_of(curve.prices, curve.budget, curve.share, account)
    if not limits[1] > 0.0:
        return as_any
    table = np.array(curve.chances[:-1], np.uint64)
    worst = math.inf
    for cells in (FEW_CELLS, CELLS):
        nodes = tangents_of(cells)
        worst = min(worst, worst_use(table, sure, limits, account.order - 1.0, parts, nodes))
        if worst <= 1.0:
            break
    return float(min(worst, as_any))


def tangents_of(cells: int) -> NDArray[np.float64]:
    """Squares of tan(t/2) at the left ends of equal cells of [0, pi], rounded down."""
    import numpy as np

    angles = np.arange(cells) * (math.pi / 2.0 / cells)
    squares: NDArray[np.float64] = np.tan(angles) ** 2 * (1.0 - 2.0**-40)
    return squares


def last_limits_of(
    prices: tuple[int, ...], budget: int, share: float, account: BitsAccount
) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
    """For every number of units, rounded down: mass to take off, limit of norms, price."""
    import numpy as np

    sure, _ = limits_of(prices, budget, share, account)
    paid, whole = differences(prices, account.ids), account.ids * budget
    parts = np.array([float(Fraction(price, whole)) * ROUND_DOWN for price in paid])
    power = account.order - 1.0
    limit = share * power * account.rate * ROUND_DOWN + difference_at_least(account.order)
    return sure, parts * limit * ROUND_DOWN, parts


def difference_at_least(order: float) -> float:
    """Lower bound of ``ln 2 + (order - 1/2) ln(1 - 1/order)``, which is negative.

    It is the logarithm of what the line charges for delta, beside what one moment charges.
    """
    value = math.log(2.0) + (order - 0.5) * math.log1p(-1.0 / order)
    return value - 2.0**-48 * (abs(value) + 2.0 + order / (order - 1.0))
