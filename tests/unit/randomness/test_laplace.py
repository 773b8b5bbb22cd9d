"""Two-sided geometric noise: its law, exactly and by frequencies."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from dpsu.randomness.keys import Key
from dpsu.randomness.laplace import DIGEST_BITS, _bits, _chance_of_exp, two_sided_geometric
from tests.support.cases import every


@every("epsilon", [Fraction(1, 2), Fraction(3, 2), Fraction(1, 20)])
def test_it_has_its_law(epsilon: Fraction) -> None:
    """At p = 1e-9, and the laws for 0.9 and 1.1 times epsilon are rejected."""
    key = Key.from_insecure_seed(5)
    drawn = np.array([two_sided_geometric(key, "test", place, epsilon) for place in range(20_000)])
    edge = math.ceil(4 / float(epsilon))

    def p_value(rate: float) -> float:
        ratio = math.exp(-rate)
        values = np.arange(-edge, edge + 1)
        chances = (1 - ratio) / (1 + ratio) * ratio ** np.abs(values)
        tail = ratio ** (edge + 1) / (1 + ratio)
        found = [(drawn == value).sum() for value in values]
        found = [(drawn < -edge).sum(), *found, (drawn > edge).sum()]
        expected = np.array([tail, *chances, tail]) * len(drawn)
        return float(stats.chisquare(found, expected * (len(drawn) / expected.sum())).pvalue)

    assert p_value(float(epsilon)) > 1e-9
    assert p_value(0.9 * float(epsilon)) < 1e-9
    assert p_value(1.1 * float(epsilon)) < 1e-9


def test_numbers_of_two_places_or_purposes_are_independent() -> None:
    key, epsilon = Key.from_insecure_seed(6), Fraction(1, 100)
    first = [two_sided_geometric(key, "one", place, epsilon) for place in range(500)]
    assert first == [two_sided_geometric(key, "one", place, epsilon) for place in range(500)]
    second = [two_sided_geometric(key, "two", place, epsilon) for place in range(500)]
    assert abs(float(np.corrcoef(first, second)[0, 1])) < 0.3
    assert abs(float(np.corrcoef(first[1:], first[:-1])[0, 1])) < 0.3


def test_no_bit_is_used_twice() -> None:
    bits = _bits(Key.from_insecure_seed(7), "test", 0)
    blocks = [tuple(itertools.islice(bits, DIGEST_BITS)) for _ in range(5)]
    assert len(set(blocks)) == 5


@every("exponent", [Fraction(0), Fraction(1, 3), Fraction(1)])
def test_a_chance_is_the_series_of_the_exponential(exponent: Fraction) -> None:
    """By enumeration: the probability that the run of successes ends after an even number."""
    total, product, k = Fraction(0), Fraction(1), 1
    while product and k < 40:
        # The run ends at k: successes 1 .. k - 1, then a failure.
        ends = product * (1 - exponent / k)
        total += ends if k % 2 == 1 else 0
        product *= exponent / k
        k += 1
    assert float(total) == pytest.approx(math.exp(-float(exponent)), abs=1e-15)
    draws = iter(np.random.default_rng(1).integers(0, 2, 4_000_000).tolist())
    found = sum(_chance_of_exp(draws, exponent) for _ in range(20_000))
    assert stats.binomtest(found, 20_000, math.exp(-float(exponent))).pvalue > 1e-9
