"""Attention and evidence of items, by a logarithm and an exponential with the same bits everywhere.

Loops over items map what is known of an item and public constants to numbers, which do not depend
on other items, on how many there are, or on the position of the item in an array.

The logarithm and the exponential of the system's library are called for one number at a time, and
differ in their last digits from one library to the next. These are made of IEEE sums, products and
one quotient, and give the same bits on every machine, in a vector or alone.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    ConstByte,
    ConstDouble,
    Double,
    Int32,
    Size,
    Word,
    bits_of,
    double_of,
)

FRACTION_BITS = cython.declare(cython.const[cython.int], 52)
# 2^52 - 1.
FRACTION = cython.declare(cython.const[Word], 0xFFFFFFFFFFFFF)
# The bits of the double next to the root of 1/2: a double is a power of 2 times what lies between
# the roots of 1/2 and of 2.
ROOT = cython.declare(cython.const[Word], 0x3FE6A09E667F3BCD)
# What is added to a power of 2 in a double, and here, so that what is shifted is positive: 1024
# times 2^52.
BIAS = cython.declare(cython.const[Word], 1023)
SHIFT = cython.declare(cython.const[Word], 0x4000000000000000)
# The bits of 2^52: a whole number below it, written into the last of them, is added to it.
WHOLE = cython.declare(cython.const[Word], 0x4330000000000000)
WHOLE_SHIFT = cython.declare(cython.const[cython.double], 2.0**52 + 1024.0)
# Doubles of this size have no fraction, so that adding it rounds to a whole number.
ROUND = cython.declare(cython.const[cython.double], 1.5 * 2.0**52)
# 0x1.62e42fefa39efp-1.
LOG_2 = cython.declare(cython.const[cython.double], 0.6931471805599453)
# The same in two parts; the first has so few bits that its product by an exponent is exact:
# 0x1.62e42feep-1 and 0x1.a39ef35793c76p-33.
LOG_2_HIGH = cython.declare(cython.const[cython.double], 0.6931471803691238)
LOG_2_LOW = cython.declare(cython.const[cython.double], 1.9082149292705877e-10)
PER_LOG_2 = cython.declare(cython.const[cython.double], 1.0 / 0.6931471805599453)
# Up to 708, exp(-y) is a double with all of its digits.
LARGEST_Y = cython.declare(cython.const[cython.double], 700.0)
# Attention is computed for this many items at a time: what is known of them between two steps stays
# near the processor.
BLOCK = cython.declare(cython.const[cython.int], 512)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def logarithm(x: Double) -> Double:
    """The natural logarithm of a positive normal double, within 2^-51 of itself.

    Other arguments give some finite number.
    """
    bits = bits_of(x) - ROOT
    power = double_of(((bits + SHIFT) >> FRACTION_BITS) | WHOLE) - WHOLE_SHIFT
    rest = double_of((bits & FRACTION) + ROOT)
    # log((1 + t) / (1 - t)) = 2 (t + t^3 / 3 + t^5 / 5 + ...), where t is at most 0.172.
    t = (rest - 1.0) / (rest + 1.0)
    s = t * t
    series = s * (1.0 / 19.0) + 1.0 / 17.0
    series = series * s + 1.0 / 15.0
    series = series * s + 1.0 / 13.0
    series = series * s + 1.0 / 11.0
    series = series * s + 1.0 / 9.0
    series = series * s + 1.0 / 7.0
    series = series * s + 1.0 / 5.0
    series = series * s + 1.0 / 3.0
    return power * LOG_2 + 2.0 * (t + t * (s * series))


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def falling_exponential(y: Double) -> Double:
    """``exp(-y)`` for y from 0 to 700, within 2^-51 of itself; for larger y that of 700."""
    y = min(LARGEST_Y, y)
    rounded = ROUND - y * PER_LOG_2
    power = rounded - ROUND
    r = (-y - power * LOG_2_HIGH) - power * LOG_2_LOW
    # What is left is at most half of log 2.
    series = r * (1.0 / 6227020800.0) + 1.0 / 479001600.0
    series = series * r + 1.0 / 39916800.0
    series = series * r + 1.0 / 3628800.0
    series = series * r + 1.0 / 362880.0
    series = series * r + 1.0 / 40320.0
    series = series * r + 1.0 / 5040.0
    series = series * r + 1.0 / 720.0
    series = series * r + 1.0 / 120.0
    series = series * r + 1.0 / 24.0
    series = series * r + 1.0 / 6.0
    series = series * r + 0.5
    series = series * r + 1.0
    series = series * r + 1.0
    # The last bits of what was rounded are the power of 2: here it gets its place in a double.
    return series * double_of((bits_of(rounded) + BIAS) << FRACTION_BITS)


def logarithms(values: ConstDouble[::1], found: Double[::1]) -> None:
    """The logarithm of every value."""
    if len(found) != len(values):
        raise ValueError("values and found differ in length")
    with cython.nogil:
        for k in range(len(values)):
            found[k] = logarithm(values[k])


def falling_exponentials(values: ConstDouble[::1], found: Double[::1]) -> None:
    """The falling exponential of every value."""
    if len(found) != len(values):
        raise ValueError("values and found differ in length")
    with cython.nogil:
        for k in range(len(values)):
            found[k] = falling_exponential(values[k])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _expect_rates(
    signal: ConstDouble[::1],
    precision: ConstDouble[::1],
    begin: Size,
    size: Size,
    levels: ConstDouble[::1],
    lowest: ConstDouble[::1],
    per_step: ConstDouble[::1],
    means: ConstDouble[:, ::1],
    deviations: ConstDouble[:, ::1],
    within: Double[:, ::1],
    cells: Int32[:, ::1],
    mean: Double[::1],
    deviation: Double[::1],
) -> cython.void:
    """Read posterior mean and deviation of the rates of a block of items from tables.

    One row of a table is for one level of log standard error, one column for one estimate; between
    two of them values are interpolated. `within` and `cells` are room for what one loop leaves to
    the next.
    """
    at: Size
    q: Int32
    row: Int32
    column: Int32
    width: Int32 = means.shape[1]
    last_cell: Int32 = width - 2
    per_level = 1.0 / (levels[1] - levels[0])
    first_level, last_level = levels[0], len(levels) - 1.000001
    last_column = width - 1.0
    flat_means, flat_deviations = cython.address(means[0, 0]), cython.address(deviations[0, 0])
    part, lower, upper = within[0], within[1], within[2]
    level, lower_cell, upper_cell = cells[0], cells[1], cells[2]
    # In several loops: those without addresses that depend on an item are vectorized. `max` returns
    # its first argument if the second is not a number, so that every address is in its table.
    for i in range(size):
        error = -0.5 * logarithm(precision[begin + i])
        place = min(last_level, max(0.0, (error - first_level) * per_level))
        row = cython.cast(Int32, place)
        level[i] = row
        part[i] = place - row
        # The estimate, until the last loop.
        mean[i] = signal[begin + i] / precision[begin + i]
    for i in range(size):
        q = level[i]
        lower[i] = (mean[i] - lowest[q]) * per_step[q]
        upper[i] = (mean[i] - lowest[q + 1]) * per_step[q + 1]
    for i in range(size):
        row = level[i] * width
        place = min(last_column, max(0.0, lower[i]))
        column = min(last_cell, cython.cast(Int32, place))
        lower[i] = place - column
        lower_cell[i] = row + column
        place = min(last_column, max(0.0, upper[i]))
        column = min(last_cell, cython.cast(Int32, place))
        upper[i] = place - column
        upper_cell[i] = row + width + column
    for i in range(size):
        at, p = lower_cell[i], lower[i]
        low_mean = flat_means[at] + p * (flat_means[at + 1] - flat_means[at])
        low_deviation = flat_deviations[at] + p * (flat_deviations[at + 1] - flat_deviations[at])
        at, p = upper_cell[i], upper[i]
        high_mean = flat_means[at] + p * (flat_means[at + 1] - flat_means[at])
        high_deviation = flat_deviations[at] + p * (flat_deviations[at + 1] - flat_deviations[at])
        mean[i] = low_mean + part[i] * (high_mean - low_mean)
        deviation[i] = low_deviation + part[i] * (high_deviation - low_deviation)


def steer(
    signal: ConstDouble[::1],
    precision: ConstDouble[::1],
    total: ConstDouble[::1],
    released: ConstByte[::1],
    last_boundary: Double,
    remaining: Double,
    gain: Double,
    sigma: Double,
    extra: Double,
    open_above: Double,
    open_below: Double,
    doubt: Double,
    margin: Double,
    common: Double,
    levels: ConstDouble[::1],
    lowest: ConstDouble[::1],
    step: ConstDouble[::1],
    means: ConstDouble[:, ::1],
    deviations: ConstDouble[:, ::1],
    first: Size,
    last: Size,
    attention: Double[::1],
) -> None:
    """Attention ``exp(-kappa d^2 / 2v)``: largest for items that may or may not be released.

    `d` is the distance from an item's expected total to the last boundary, `v` its variance. The
    expected rate of an item is a posterior mean, read from tables that are made from public
    constants: one row for each level of log standard error, columns by estimate. A rate that was
    measured while others waited is not the rate when all items hurry, so `doubt` is the part of
    it by which an item that seems sure may still fall short. Items of a rate of `common` or more
    get at least the part of their rate that they need for the boundary and `margin` besides.
    """
    begin: Size
    size: Size
    if not 0 <= first <= last <= min(len(signal), len(attention)):
        raise ValueError("there are no items in part of the range")
    if len(precision) != len(signal) or len(total) != len(signal) or len(released) != len(signal):
        raise ValueError("what is known of items differs in length")
    if len(levels) < 2 or len(lowest) != len(levels) or len(step) != len(levels):
        raise ValueError("levels, lowest and step are for at least two levels, the same ones")
    if means.shape[0] != len(levels) or deviations.shape[0] != len(levels):
        raise ValueError("tables have as many rows as there are levels")
    if means.shape[1] < 2 or deviations.shape[1] != means.shape[1]:
        raise ValueError("tables have at least two columns, the same ones")
    per_step: Double[::1] = np.divide(1.0, step)
    within: Double[:, ::1] = np.empty((3, BLOCK))
    cells: Int32[:, ::1] = np.empty((3, BLOCK), np.int32)
    mean: Double[::1] = np.empty(BLOCK)
    deviation: Double[::1] = np.empty(BLOCK)
    reach = gain * remaining
    variance = sigma * sigma * remaining + extra * extra
    with cython.nogil:
        begin = first
        while begin < last:
            size = min(BLOCK, last - begin)
            _expect_rates(
                signal, precision, begin, size, levels, lowest, per_step, means, deviations,
                within, cells, mean, deviation,
            )  # fmt: skip
            for i in range(size):
                missing = last_boundary - total[begin + i]
                expected = reach * mean[i]
                d = missing - expected
                spread = reach * deviation[i]
                short = doubt * expected
                seems_sure: cython.bint = d <= 0.0
                kappa = open_below if seems_sure else open_above
                v = variance + spread * spread + (short * short if seems_sure else 0.0)
                g = falling_exponential(kappa * d * d / (2.0 * v))
                # An item that waits for others is late if what is left is just what it needs.
                needed = min(1.0, (missing + margin) / expected)
                g = max(g, needed if mean[i] >= common else 0.0)
                # Never zero: that means that an item is released.
                attention[begin + i] = 0.0 if released[begin + i] else max(1e-300, g)
            begin += BLOCK


def add_evidence(
    noisy_sums: ConstDouble[::1],
    share: Double,
    sigma: Double,
    memory: Double,
    least: Double,
    boundary: Double,
    attention: ConstDouble[::1],
    present: ConstByte[::1],
    signal: Double[::1],
    precision: Double[::1],
    total: Double[::1],
    released: Byte[::1],
    first: Size,
    last: Size,
) -> None:
    """Add the noisy sums of one round to the evidence; release items that cross the boundary.

    `total` is the evidence, and decides. `signal`, where rounds count by their precision, steers.
    Only items that are in some user's set of this phase can be released.
    """
    n = len(noisy_sums)
    if not 0 <= first <= last <= n:
        raise ValueError("there are no items in part of the range")
    if len(attention) != n or len(present) != n or len(signal) != n:
        raise ValueError("what is known of items differs in length")
    if len(precision) != n or len(total) != n or len(released) != n:
        raise ValueError("what is known of items differs in length")
    with cython.nogil:
        for i in range(first, last):
            g = max(attention[i], least)
            total[i] += share * noisy_sums[i]
            signal[i] = memory * signal[i] + g * share * noisy_sums[i] / (sigma * sigma)
            precision[i] = memory * precision[i] + g * g * share / (sigma * sigma)
            if present[i] and total[i] > boundary:
                released[i] = True


# Constants of C are invisible to callers.
globals().update(BLOCK=BLOCK, LARGEST_Y=LARGEST_Y)
