"""Rounded normal variables beside mpmath: the table, the proposals it makes, and what is sure."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from tools import quantile_table
from tools.quantile_table import DEGREE, LENGTH, PARTS, ROWS, probability

import dpsu
from dpsu import kernels
from dpsu.kernels.gaussians import (
    LEAST_WORD,
    PROPOSAL_ERROR,
    proposals,
    quantiles,
    round_gaussians,
)
from dpsu.randomness import noise
from dpsu.randomness.keys import Key
from tests.support.cases import every

HALF = 2**63
LAST = 2**64 - 1
# Roundings of a double are relatively at most this.
ROUNDING = mpmath.mpf(2) ** -53


def test_the_table_is_the_one_that_its_tool_makes() -> None:
    stored = np.load(quantile_table.TABLE, allow_pickle=False)
    assert stored.dtype == np.dtype("<f8")
    assert stored.shape == (ROWS, DEGREE + 1)
    assert stored.tobytes() == quantile_table.table().astype("<f8").tobytes()
    assert (quantiles() == stored).all()
    # So small that it stays near the processor.
    assert stored.nbytes < 40_000


def derivative(order: int, z: Any) -> Any:
    """At most what a derivative of the quantile function is between -z and z."""
    polynomial = [1]
    for k in range(1, order):
        grown = [0, *(k * c for c in polynomial)]
        for power, c in enumerate(polynomial[1:]):
            grown[power] += (power + 1) * c
        polynomial = grown
    return sum(c * z**power for power, c in enumerate(polynomial)) / mpmath.npdf(z) ** order


def test_derivatives_of_the_quantile_are_what_the_proof_says() -> None:
    with mpmath.workprec(200):
        for order in range(1, DEGREE + 2):
            for z in (0.0, 0.5, 2.0):
                parts = mpmath.taylor(quantile_table.quantile, mpmath.ncdf(z), order)
                found = parts[order] * mpmath.factorial(order)
                assert mpmath.almosteq(abs(found), derivative(order, z), 1e-6, 1e-6)


def quantile_at(chance: Any) -> Any:
    """The quantile in many digits, of which it is seen that it is one."""
    z = quantile_table.quantile(chance)
    assert abs(mpmath.ncdf(z) - chance) < mpmath.mpf(2) ** -150 * chance
    return z


def polynomial_error(row: int, coefficients: list[float]) -> Any:
    """At most the distance of a row from the quantile, and of what is computed from the row.

    The polynomial that agrees with the quantile in Chebyshev nodes is off by the bound of the
    interpolation. Another polynomial of its degree differs from it by at most 1 + 2 DEGREE times
    the greatest difference in these nodes.
    """
    low, high = probability(row, 0), probability(row, LENGTH)
    far = max(abs(quantile_at(low)), abs(quantile_at(high)))
    order = DEGREE + 1
    between = 2 * ((high - low) / 4) ** order * derivative(order, far) / mpmath.factorial(order)
    off = max(
        abs(sum(c * x**k for k, c in enumerate(coefficients)) - quantile_at(probability(row, x)))
        for x in quantile_table.nodes()
    )
    # Horner's rule rounds 2 DEGREE times.
    share = 2 * DEGREE * ROUNDING / (1 - 2 * DEGREE * ROUNDING)
    size = sum(abs(c) * mpmath.mpf(LENGTH) ** k for k, c in enumerate(coefficients))
    return between + (1 + 2 * DEGREE) * off + share * size


def word_error(row: int) -> Any:
    """At most the distance of quantiles of reals that begin with a word of a row from its own."""
    low, high = probability(row, 0), probability(row, LENGTH)
    # Words are rounded to doubles, and the last bit is set.
    moved = high * ROUNDING + mpmath.mpf(2) ** -64
    least = abs(quantile_at(low - moved))
    return moved / mpmath.npdf(max(least, abs(quantile_at(high))))


def test_every_polynomial_is_near_enough_to_the_quantile() -> None:
    """Not in samples, but on all of its interval, with all roundings."""
    table = quantiles().tolist()
    first = PARTS * (LEAST_WORD.bit_length() - 1)
    assert probability(first, 0) == Fraction(LEAST_WORD, 2**64)
    worst = mpmath.mpf(0)
    with mpmath.workprec(200):
        for row in range(ROWS):
            # What is so large is not lost below the least double, whatever it is multiplied by.
            assert min(map(abs, table[row][1:])) > 2.0**-500
            off = polynomial_error(row, table[row])
            if row >= first:
                # The product with the scale is rounded, too.
                off += word_error(row) + 5 * ROUNDING
            worst = max(worst, off)
    assert worst < 2.0**-41.9 < PROPOSAL_ERROR / 2


def corners() -> list[int]:
    """Words below 2^63 at all ends of rows, and where doubles are rounded."""
    found = {0, 1, 2, HALF - 1, HALF - 2, LEAST_WORD - 1, LEAST_WORD}
    for row in range(ROWS):
        binade, part = divmod(row, PARTS)
        at = 2**binade + part * 2**binade // PARTS
        # Doubles next to 2^63 are 2^10 apart.
        for away in (0, 1, 2, 255, 256, 257, 511, 512, 513, 1024):
            found |= {at - away, at + away}
    return sorted(word for word in found if 0 <= word < HALF)


def test_proposals_are_near_the_quantiles_of_their_words() -> None:
    rng = np.random.default_rng(4)
    random = [int(word) >> int(rng.integers(0, 20)) for word in rng.integers(0, HALF, 1000)]
    with mpmath.workprec(200):
        words = [*corners(), *random]
        proposed = proposals(np.array(words, np.uint64)).tolist()
        for word, found in zip(words, proposed, strict=True):
            if word >= LEAST_WORD:
                for real in (word, word + 1):
                    exact = quantile_table.quantile(mpmath.mpf(real) / 2**64)
                    assert abs(found - exact) < PROPOSAL_ERROR / 2
            else:
                # They are proposals all the same.
                exact = quantile_table.quantile((mpmath.mpf(word) + 0.5) / 2**64)
                assert abs(found - exact) < max(PROPOSAL_ERROR, 0.15 / (word + 1))


def edge(cell: int, scale: float) -> Any:
    """The lower edge of a cell, in words."""
    gap = (mpmath.mpf(cell) - mpmath.mpf(1) / 2) / mpmath.mpf(scale)
    return mpmath.ncdf(gap) * 2**64


def check(words: list[int], scale: float) -> int:
    """See that all reals that begin with a sure word lie in its cell; how many words are sure."""
    noise, sure = np.empty(len(words), np.int64), np.empty(len(words), bool)
    round_gaussians(np.array(words, np.uint64), scale, noise, sure)
    with mpmath.workprec(300):
        for word, whole, certain in zip(words, noise.tolist(), sure.tolist(), strict=True):
            if certain:
                assert edge(whole, scale) <= word
                assert word + 1 <= edge(whole + 1, scale)
    return int(sure.sum())


SCALES = some.floats(-10.0, 46.0).map(lambda power: 2.0**power)


@settings(max_examples=300, deadline=None)
@given(some.integers(0, LAST), some.integers(0, 60), SCALES)
def test_what_is_sure_is_what_mpmath_says(word: int, shift: int, scale: float) -> None:
    """Anywhere, and far out, on both sides."""
    few = word >> shift
    check([word, few, LAST - few], scale)


@settings(max_examples=300, deadline=None)
@given(some.floats(-9.0, 9.0), SCALES)
def test_words_next_to_any_edge_are_right_where_they_are_sure(normal: float, scale: float) -> None:
    with mpmath.workprec(300):
        at = int(edge(round(normal * scale), scale))
    check([word for word in (at - 1, at, at + 1) if 0 <= word <= LAST], scale)


@every("scale", [2.0**-10, 0.3, 3.0, 5.3e6, 2.0**31, 2.0**38.5])
def test_words_at_the_ends_of_rows_and_of_the_range_are_right(scale: float) -> None:
    words = [*corners()[::5], 0, 1, LEAST_WORD - 1, LEAST_WORD, HALF - 1]
    words += [LAST - word for word in words]
    proved = check(words, scale)
    if scale < 2.0**20:
        assert proved > 0.6 * len(words)


def test_the_farthest_words_are_never_sure() -> None:
    """Whatever the scale: reals that begin with 64 zeros may be as small as they like."""
    for power in range(-40, 53):
        noise, sure = np.empty(2, np.int64), np.empty(2, bool)
        round_gaussians(np.array([0, LAST], np.uint64), 2.0**power, noise, sure)
        assert not sure.any()
        assert noise[0] == -noise[1]


@every("change", ["halved", "a bit", "fewer rows", "cut off", "missing"])
def test_another_table_is_refused(
    change: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unread: Any = quantiles.__wrapped__  # type: ignore[attr-defined]
    table = unread().copy()
    if change == "halved":
        table *= 0.5
    elif change == "a bit":
        table.view(np.uint64)[500, 7] ^= np.uint64(1)
    elif change == "fewer rows":
        table = table[:400]
    path = tmp_path / "quantiles.npy"
    if change != "missing":
        np.save(path, table)
    if change == "cut off":
        path.write_bytes(path.read_bytes()[:1000])
    monkeypatch.setattr(kernels, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(dpsu.DpsuError, match="install dpsu again"):
        unread()


@every("off", [0, 1, -1, 215, -4000, 10**6, -(10**9)])
def test_a_guess_may_be_far_off(off: int) -> None:
    """The cell is found in few steps wherever they begin: each is an evaluation in many digits."""
    scale, word = 2.0**40, 0x9D3F_0123_4567_89AB
    key = Key.from_insecure_seed(3)
    right = noise.decide(word, scale, 0, key, 1, b"item")
    edges, edge_of = [], noise._edge

    def counted(cell: int, bits: int, scale: float) -> tuple[int, int]:
        edges.append(cell)
        return edge_of(cell, bits, scale)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(noise, "_edge", counted)
        assert noise.decide(word, scale, right + off, key, 1, b"item") == right
    assert len(edges) <= 8 * (3 + abs(off).bit_length())
