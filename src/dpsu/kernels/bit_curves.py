"""The largest private curve of a round of bits, and the check of every pair of its chances.

Chances are whole multiples of 2^-64. For a pair p >= q and a mass d that is taken off both coins,
everything is a quotient of whole numbers: ``p' = (p-d)/(1-d)``, ``1-p' = (1-p)/(1-d)``,
``q' = q/(1-d)``, ``1-q' = (1-q-d)/(1-d)``, and with ``t = p-q-d`` the two likelihood ratios are
``p'/q' = 1 + t/q`` and ``(1-q')/(1-p') = 1 + t/(1-p)``. The differences are taken in integers, so
nothing cancels before the first rounding.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.primitives import ConstDouble, ConstWord, Double, Size, Word
from cython.cimports.libc import math

# Proved in docs/proofs/bits.md: with u = 2^-53, each of the two terms of a moment less 1 carries a
# relative error of at most 17u (1 + z), where z is its exponent if that is positive and 0 if not.
TERM_ERROR = cython.declare(cython.const[cython.double], 2.0**-48)
# What the logarithm at the end and the quotient after it may add.
LAST_ERROR = cython.declare(cython.const[cython.double], 2.0**-49)
# BALANCE_ERROR bounds the relative error of the balance of the two terms; below SMALLEST the
# balance counts as 0. MEAN_ERROR bounds the rounding of the mean over the nodes, of which the first
# alone contributes more than 2^-10. The proof asks for all of these, but no search found a pair
# that falls below the exact number without LAST_ERROR, or with the other sign of BALANCE_ERROR:
# TERM_ERROR and MEAN_ERROR are larger and cover for them.
BALANCE_ERROR = cython.declare(cython.const[cython.double], 2.0**-46)
SMALLEST = cython.declare(cython.const[cython.double], 1e-290)
MEAN_ERROR = cython.declare(cython.const[cython.double], 2.0**-40)
# The sum over nodes stops at the first smaller value.
NEGLIGIBLE = cython.declare(cython.const[cython.double], 1e-9)
WHOLE = cython.declare(cython.const[cython.double], 2.0**64)
# The search for a chance stops when its use is this close to the limit.
CLOSE = cython.declare(cython.const[cython.double], 1e-7)
TRIES = cython.declare(cython.const[cython.int], 100)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def moment_excess_at_most(
    part: Double, rise: Double, rest: Double, fall: Double, power: Double
) -> Double:
    """Upper bound of ``part e^(power rise) + rest e^(-power fall) - 1``, for part + rest = 1."""
    exponent = power * rise
    more = part * math.expm1(exponent)
    less = -rest * math.expm1(-power * fall)
    return more - less + TERM_ERROR * ((1.0 + exponent) * more + less)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def spread_at_most(
    part: Double,
    rise: Double,
    rest: Double,
    fall: Double,
    power: Double,
    price: Double,
    tangents: ConstDouble[::1],
) -> Double:
    """Upper bound of the mean of ``|M(s)/M(order)|^(1/price)`` over the line through the order.

    ``M(s)`` is the moment of a pair and the line has the Cauchy law of docs/proofs/bits.md. The
    integrand falls along the nodes whose squared half tangents these are, so the sum over the left
    ends of cells is an upper bound; it falls with everything that is rounded down here.
    """
    more, less = part * math.exp(power * rise), rest * math.exp(-power * fall)
    whole = more + less
    balance = 4.0 * (more / whole) * (less / whole)
    balance *= max(0.0, 1.0 - BALANCE_ERROR * (1.0 + power * (rise + fall)))
    if balance < SMALLEST:
        return 1.0
    slope = math.tanh(0.5 * math.sqrt(power * (power + 1.0)) * (rise + fall)) * (1.0 - TERM_ERROR)
    half = 0.5 / price * (1.0 - TERM_ERROR)
    total = 0.0
    for k in range(len(tangents)):
        odds = slope * slope * tangents[k]
        value = math.exp(half * math.log1p(-balance * (odds / (1.0 + odds))))
        if value < NEGLIGIBLE:
            total += value * (len(tangents) - k)  # the rest is no larger
            break
        total += value
    return total / len(tangents) + MEAN_ERROR


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _log_moment_at_most(
    part: Double,
    rise: Double,
    rest: Double,
    fall: Double,
    power: Double,
    price: Double,
    tangents: ConstDouble[::1],
) -> Double:
    """Upper bound of the logarithm of a moment, or of its norm if there are nodes to average at."""
    excess = moment_excess_at_most(part, rise, rest, fall, power)
    moment = math.log1p(max(excess, 0.0))
    if len(tangents) == 0 or excess == math.INFINITY:
        return moment
    spread = spread_at_most(part, rise, rest, fall, power, price, tangents)
    gain = price * -math.log(min(1.0, spread))
    return moment - gain + LAST_ERROR * (moment + gain)


@cython.ccall
@cython.nogil
@cython.exceptval(check=False)
def use_at_most(
    p: Word,
    q: Word,
    d: Word,
    power: Double,
    limit: Double,
    price: Double,
    tangents: ConstDouble[::1],
) -> Double:
    """What a pair uses of its limit: the worse direction, rounded up; above 1 it is too much.

    `p`, `q` and `d` are multiples of 2^-64 with q <= p < 1, `power` is the order less 1 and
    `limit` bounds the logarithm of the moment, or of its norm if there are tangents.
    """
    gap = p - q
    if gap <= d:
        return 0.0
    if q == 0 or not limit > 0.0:
        return math.INFINITY  # a limit below 0 would turn every use into one that passes
    zero: Word = 0
    t = cython.cast(Double, gap - d)
    hidden = cython.cast(Double, zero - p)  # 2^64 - p: whole numbers of 64 bits wrap around
    rise = math.log1p(t / cython.cast(Double, q))
    fall = math.log1p(t / hidden)
    whole = WHOLE - cython.cast(Double, d)
    above, kept = cython.cast(Double, p - d), cython.cast(Double, (zero - q) - d)
    forward = _log_moment_at_most(above / whole, rise, hidden / whole, fall, power, price, tangents)
    backward = _log_moment_at_most(
        kept / whole, fall, cython.cast(Double, q) / whole, rise, power, price, tangents
    )
    return max(forward, backward, 0.0) / limit * (1.0 + LAST_ERROR)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _largest(
    q: Word,
    d: Word,
    power: Double,
    limit: Double,
    price: Double,
    tangents: ConstDouble[::1],
    high: Word,
    guess: Double,
) -> Word:
    """Nearly the largest p below `high`, which is too large, that keeps to the limit beside q."""
    base = q + d
    low, top = 0.0, cython.cast(Double, high - base)
    t = guess if 0.0 < guess < top else 0.5 * top
    old_t, old_use = 0.0, 0.0
    for _ in range(TRIES):
        use = use_at_most(base + cython.cast(Word, t), q, d, power, limit, price, tangents)
        if use <= 1.0:
            low = t
            if use > 1.0 - CLOSE:
                break
        else:
            top = t
        if top - low <= 1.0:
            break
        # Near the solution, the use is a power of t: about the second for small steps.
        slope = 2.0
        if 0.0 < use < math.INFINITY:
            if 0.0 < old_use < math.INFINITY and old_t != t and old_use != use:
                slope = math.log(use / old_use) / math.log(t / old_t)
            old_t, old_use = t, use
            t *= math.pow((1.0 - 0.5 * CLOSE) / use, 1.0 / max(slope, 0.1))
        else:
            t = 0.0
        if not low < t < top:
            t = math.sqrt(low * top) if low > 0.0 else 0.125 * top
            if not low < t < top:
                t = 0.5 * (low + top)
    return base + cython.cast(Word, low)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _certain(table: ConstWord[::1], weight: Size, sure: ConstWord[::1]) -> cython.bint:
    """Whether an item of this weight may be released for sure, beside all lighter ones."""
    zero: Word = 0
    for n in range(1, min(weight, len(sure) - 1) + 1):
        q = table[weight - n]
        if q == 0 or zero - q > sure[n]:
            return False
    return True


def draw_curve(
    sure: ConstWord[::1],
    limits: ConstDouble[::1],
    power: Double,
    longest: Size,
    prices: ConstDouble[::1],
    tangents: ConstDouble[::1],
) -> object:
    """Chances of weights 0, 1, ... as large as the limits allow, as long as they are not 1.

    Parameters
    ----------
    sure, limits, prices : arrays
        For a difference of n units: the mass that may be taken off, in 2^-64; the logarithm that is
        allowed, which is `power` times the divergence; and the price as a part of the budget.
    power : float
        The order less 1.
    longest : int
        Where to give up. A table of this length has no end.
    tangents : array
        Squared half tangents of the nodes for the last round; none for other rounds.
    """
    _check(sure, limits, prices)
    if longest < 1:
        raise ValueError("a curve has at least one chance")
    chances = np.zeros(longest, np.uint64)
    table: Word[::1] = chances
    guesses: Double[::1] = np.zeros(len(sure))
    one: Word = 1
    # From here the next chance may be 1. Chances even nearer to 1 would gain nothing, and could
    # leave no room for the next ones.
    ceiling: Word = 0 - max(one, sure[1] >> 1)
    binding: Size = 1
    end: Size = longest
    most: Size
    n: Size
    with cython.nogil:
        for weight in range(1, longest):
            if _certain(table, weight, sure):
                end = weight
                break
            best = ceiling
            most = min(weight, len(sure) - 1)
            for k in range(most + 1):
                # The difference that bound the last chance comes first: it mostly binds this one,
                # too.
                n = min(binding, most) if k == 0 else k
                q = table[weight - n]
                if q == 0:
                    if sure[n] < best:
                        best = sure[n]
                        binding = n
                elif best > q and (
                    use_at_most(best, q, sure[n], power, limits[n], prices[n], tangents) > 1.0
                ):
                    best = _largest(
                        q, sure[n], power, limits[n], prices[n], tangents, best, guesses[n]
                    )
                    guesses[n] = cython.cast(Double, best - q - sure[n])
                    binding = n
            table[weight] = max(best, table[weight - 1])
    return chances[:end]


@cython.cfunc
@cython.exceptval(check=True)
def _check(sure: ConstWord[::1], limits: ConstDouble[::1], prices: ConstDouble[::1]) -> cython.void:
    if len(sure) < 2 or len(limits) != len(sure) or len(prices) != len(sure):
        raise ValueError("there must be one limit and one price for each mass, and two at least")


def worst_use(
    table: ConstWord[::1],
    sure: ConstWord[::1],
    limits: ConstDouble[::1],
    power: Double,
    prices: ConstDouble[::1],
    tangents: ConstDouble[::1],
) -> Double:
    """The largest use of any pair of a curve that has these chances, and then 1 for ever."""
    _check(sure, limits, prices)
    length: Size = len(table)
    worst = 0.0
    zero: Word = 0
    with cython.nogil:
        for n in range(1, len(sure)):
            for weight in range(length):
                q = table[weight]
                if weight + n < length:
                    p = table[weight + n]
                    use = math.INFINITY
                    if p >= q:
                        use = use_at_most(p, q, sure[n], power, limits[n], prices[n], tangents)
                else:
                    certain: cython.bint = q > 0 and zero - q <= sure[n]
                    use = 0.0 if certain else math.INFINITY
                worst = max(worst, use)
    return worst
