"""Attention beside a plain transcription, and the same bits wherever an item stands."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from dpsu.kernels.steering import BLOCK, steer
from dpsu.rounds.evidence import Tables, steering_tables
from dpsu.rounds.sieve import SieveRounds, design_sieve
from tests.support.cases import every
from tests.unit.kernels.test_logarithms import falling_exponential, logarithm

Floats = NDArray[np.float64]


class Past(NamedTuple):
    """What is known of items."""

    signal: Floats
    precision: Floats
    total: Floats
    released: NDArray[np.bool_]

    def take(self, which: Any) -> Past:
        return Past(*(array[which] for array in self))


class Constants(NamedTuple):
    """What is the same for all items of a round, in the order of the kernel's arguments."""

    last_boundary: float
    remaining: float
    gain: float
    sigma: float
    extra: float
    open_above: float
    open_below: float
    doubt: float
    margin: float
    common: float


def sieve_of(rounds: int) -> SieveRounds:
    return design_sieve(1.0, 1e-5, rounds=rounds, max_items=300, scout_items=3000)[0]


def constants_of(sieve: SieveRounds, remaining: float, late: bool) -> Constants:
    steering, boundary = sieve.steering, sieve.last_boundary
    share = sieve.phases[-1].share
    return Constants(
        boundary, remaining * share, steering.gain, sieve.sigma, steering.extra * sieve.sigma,
        steering.open_above, steering.open_below, steering.doubt,
        margin=0.5 * sieve.sigma if late else 0.0,
        common=steering.ample * boundary / share if late else math.inf,
    )  # fmt: skip


def made_up(n: int, boundary: float) -> Past:
    """Items of all precisions: estimates within the tables and beyond, totals about the boundary."""
    rng = np.random.default_rng(n)
    precision = np.exp(rng.uniform(math.log(1e-12), math.log(1e6), n))
    precision[::2] = np.exp(rng.uniform(-7, -2, len(precision[::2])))
    estimate = rng.normal(0.0, 3.0 * boundary, n)
    estimate[::5] *= 1e6
    return Past(
        estimate * precision, precision, rng.normal(0.3, 0.6, n) * boundary, rng.random(n) < 0.1
    )


def steered(
    past: Past,
    constants: Constants,
    tables: Tables,
    first: int = 0,
    last: int | None = None,
) -> Floats:
    attention = np.full(len(past.signal), -1.0)
    steer(
        *past, *constants, *tables, first, len(attention) if last is None else last, attention
    )  # fmt: skip
    return attention


def between(row: Floats, place: float) -> float:
    place = min(max(place, 0.0), len(row) - 1.0)
    at = min(int(place), len(row) - 2)
    return (1.0 - (place - at)) * float(row[at]) + (place - at) * float(row[at + 1])


def transcribed(past: Past, c: Constants, tables: Tables, i: int) -> float:
    """The attention to one item, as it is defined."""
    levels, lowest, step, means, deviations = tables
    if past.released[i]:
        return 0.0
    estimate = float(past.signal[i]) / float(past.precision[i])
    error = math.log(1.0 / math.sqrt(past.precision[i]))
    place = (error - float(levels[0])) / float(levels[1] - levels[0])
    place = min(max(place, 0.0), len(levels) - 1.000001)
    q, part = int(place), place - int(place)
    mean, deviation = (
        (1.0 - part) * between(table[q], (estimate - lowest[q]) / step[q])
        + part * between(table[q + 1], (estimate - lowest[q + 1]) / step[q + 1])
        for table in (means, deviations)
    )
    expected = c.gain * c.remaining * mean
    d = c.last_boundary - float(past.total[i]) - expected
    v = c.sigma**2 * c.remaining + (c.gain * c.remaining * deviation) ** 2 + c.extra**2
    if d > 0.0:
        found = math.exp(-c.open_above * d**2 / (2.0 * v))
    else:
        found = math.exp(-c.open_below * d**2 / (2.0 * (v + (c.doubt * expected) ** 2)))
    if mean >= c.common:
        needed = c.last_boundary - float(past.total[i]) + c.margin
        found = max(found, min(1.0, needed / expected))
    return max(found, 1e-300)


@every("rounds", [4, 20])
@every(("remaining", "late"), [(1.0, False), (0.45, True), (0.1, True), (1e-4, True)])
def test_attention_is_what_it_is_defined_to_be(rounds: int, remaining: float, late: bool) -> None:
    sieve = sieve_of(rounds)
    constants, tables = constants_of(sieve, remaining, late), steering_tables(sieve)
    past = made_up(3000, sieve.last_boundary)
    found = steered(past, constants, tables)
    expected = np.array([transcribed(past, constants, tables, i) for i in range(len(found))])
    assert found == pytest.approx(expected, rel=1e-11, abs=0.0)
    assert ((found == 0.0) == past.released).all()
    # Items of both sides of the boundary, and those that need all there is, were among them.
    open_ones = found[~past.released]
    assert open_ones.min() < 1e-3
    assert open_ones.max() > 0.9
    if late:
        careless = steered(past, constants._replace(common=math.inf), tables)
        assert (found > careless).any()


def test_attention_that_vanishes_is_not_that_of_released_items() -> None:
    sieve = sieve_of(20)
    constants, tables = constants_of(sieve, 1e-4, False), steering_tables(sieve)
    past = made_up(1000, sieve.last_boundary)._replace(total=np.full(1000, -1e6))
    found = steered(past, constants, tables)
    assert set(found[~past.released].tolist()) == {1e-300}
    assert set(found[past.released].tolist()) == {0.0}


def test_attention_has_the_same_bits_in_every_range_and_order() -> None:
    sieve = sieve_of(20)
    constants, tables = constants_of(sieve, 0.3, True), steering_tables(sieve)
    n = 2 * BLOCK + 77
    past = made_up(n, sieve.last_boundary)
    whole = steered(past, constants, tables)
    rng = np.random.default_rng(5)
    order = rng.permutation(n)
    assert steered(past.take(order), constants, tables).tolist() == whole[order].tolist()
    for first in (*range(20), BLOCK - 1, BLOCK, n - 3, n):
        for last in {first, min(first + 1, n), min(first + BLOCK + 5, n), n}:
            found = steered(past, constants, tables, first, last)
            assert found[first:last].tolist() == whole[first:last].tolist()
            # Another range writes the others, at the same time.
            assert (found[:first] == -1.0).all()
            assert (found[last:] == -1.0).all()
    for i in range(0, n, 50):
        alone = steered(past.take(slice(i, i + 1)), constants, tables)
        assert alone.tolist() == whole[i : i + 1].tolist()


def read_table(table: Floats, row: int, column: int, part: float) -> float:
    here, there = float(table[row, column]), float(table[row, column + 1])
    return here + part * (there - here)


def operation_by_operation(past: Past, c: Constants, tables: Tables, i: int) -> float:
    """The kernel once more, in Python, which rounds every operation on its own."""
    levels, lowest, step, means, deviations = tables
    width = means.shape[1]
    per_level = 1.0 / (float(levels[1]) - float(levels[0]))
    error = -0.5 * logarithm(float(past.precision[i]))
    place = min(len(levels) - 1.000001, max(0.0, (error - float(levels[0])) * per_level))
    row, estimate = int(place), float(past.signal[i]) / float(past.precision[i])
    means_read, deviations_read = [], []
    for q in (row, row + 1):
        at = (estimate - float(lowest[q])) * (1.0 / float(step[q]))
        at = min(width - 1.0, max(0.0, at))
        column = min(width - 2, int(at))
        means_read.append(read_table(means, q, column, at - column))
        deviations_read.append(read_table(deviations, q, column, at - column))
    mean, deviation = (
        low + (place - row) * (high - low) for low, high in (means_read, deviations_read)
    )
    reach = c.gain * c.remaining
    missing, expected = c.last_boundary - float(past.total[i]), reach * mean
    d, spread, short = missing - expected, reach * deviation, c.doubt * expected
    kappa = c.open_below if d <= 0.0 else c.open_above
    v = c.sigma * c.sigma * c.remaining + c.extra * c.extra
    v = v + spread * spread + (short * short if d <= 0.0 else 0.0)
    found = falling_exponential(kappa * d * d / (2.0 * v))
    needed = min(1.0, (missing + c.margin) / expected) if mean >= c.common else 0.0
    return 0.0 if past.released[i] else max(1e-300, found, needed)


@every("late", [False, True])
def test_attention_is_rounded_operation_by_operation(late: bool) -> None:
    """A compiler that rounds a product and a sum together, or reorders a sum, is noticed."""
    sieve = sieve_of(20)
    constants, tables = constants_of(sieve, 0.3, late), steering_tables(sieve)
    past = made_up(2000, sieve.last_boundary)
    plain = [operation_by_operation(past, constants, tables, i) for i in range(2000)]
    assert steered(past, constants, tables).tolist() == plain


def test_no_past_leads_out_of_the_tables() -> None:
    """Nothing of the kind occurs, but a table is read without a check of the address."""
    sieve = sieve_of(20)
    constants, tables = constants_of(sieve, 0.3, True), steering_tables(sieve)
    strange = [0.0, -0.0, 1.0, -1.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]
    pairs = np.array([(a, b) for a in strange for b in strange])
    nothing = np.zeros(len(pairs))
    past = Past(pairs[:, 0].copy(), pairs[:, 1].copy(), nothing, nothing > 0.0)
    # Tables whose values are followed by others that would show.
    guarded = [np.full((len(table) + 2, *table.shape[1:]), math.nan) for table in tables]
    for wide, table in zip(guarded, tables, strict=True):
        wide[1:-1] = table
    inside: Any = tuple(wide[1:-1] for wide in guarded)
    found = steered(past, constants, inside)
    assert ((found > 0.0) & (found <= 1.0)).all()
    assert found.tolist() == steered(past, constants, tables).tolist()
