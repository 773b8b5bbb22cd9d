"""Bounds of pairs of chances beside exact numbers: doubles must never fall below them."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import mpmath
import numpy as np

from dpsu.kernels.bit_curves import use_at_most
from dpsu.privacy.last_bits import CELLS, tangents_of
from tests.support.cases import every

ONE = 1 << 64
NO_NODES = np.zeros(0)


class Pair(NamedTuple):
    """Two chances and the mass that is taken off both, in 2^-64; the order less 1; a price."""

    p: int
    q: int
    d: int
    power: float
    price: float

    def use(self, nodes: Any, limit: float = 1.0) -> float:
        words = np.uint64(self.p), np.uint64(self.q), np.uint64(self.d)
        return float(use_at_most(*words, self.power, limit, self.price, nodes))


# Found among a hundred thousand random pairs: its margin must grow with the exponent.
SHARP = Pair(18446744073709551609, 18446744073709551589, 6, 34.305628177979216, 1.0)


def random_pairs(seed: int, number: int) -> Iterator[Pair]:
    """Pairs near 0, near 1 and between, near to each other and far, of small and large orders."""
    rng = random.Random(seed)
    while number:
        small = int(2 ** rng.uniform(0, 64))
        q = min(max(small if rng.random() < 0.5 else ONE - small, 1), ONE - 2)
        near = int(min(q, ONE - q) * 2 ** rng.uniform(-40, 3))
        gap = near if rng.random() < 0.6 else int((ONE - 1 - q) * rng.random())
        p = min(q + max(gap, 1), ONE - 1)
        d = int((p - q) * rng.choice([0, 1e-9, 0.3, 0.9, rng.random()]))
        power = math.exp(rng.uniform(math.log(1e-3), math.log(1e5)))
        pair = Pair(p, q, d, rng.choice([power, power, 4.609]), rng.choice([1.0, 0.25, 1 / 64]))
        if p - q > d and pair.use(NO_NODES) < math.inf:
            number -= 1
            yield pair


def terms_of(pair: Pair) -> list[tuple[Any, Any]]:
    """Both terms of the moment, in both directions."""
    p, q, d, power, _ = pair
    whole = mpmath.mpf(ONE - d)
    shown, hidden = ((p - d) / whole, q / whole), ((ONE - p) / whole, (ONE - q - d) / whole)
    return [
        (shown[k] * (shown[k] / shown[1 - k]) ** power,
         hidden[k] * (hidden[k] / hidden[1 - k]) ** power)
        for k in (0, 1)
    ]  # fmt: skip


def exact_moment(pair: Pair) -> Any:
    """Logarithm of the larger moment."""
    return max(mpmath.log(a + b) for a, b in terms_of(pair))


def exact_norm(pair: Pair) -> Any:
    """The same with the sum over the left ends of cells, as a code without errors would have it."""
    p, q, d, power, price = pair
    slope = mpmath.log(mpmath.mpf(p - d) / q) + mpmath.log(mpmath.mpf(ONE - q - d) / (ONE - p))
    middle = mpmath.sqrt(mpmath.mpf(power) * (mpmath.mpf(power) + 1))
    squared = mpmath.tanh(middle * slope / 2) ** 2
    odds = [squared * mpmath.tan(mpmath.pi / 2 * k / CELLS) ** 2 for k in range(CELLS)]
    found = []
    for a, b in terms_of(pair):
        balance = 4 * a * b / (a + b) ** 2
        half = 1 / (2 * mpmath.mpf(price))
        mean = mpmath.fsum((1 - balance * x / (1 + x)) ** half for x in odds) / CELLS
        found.append(mpmath.log(a + b) + price * mpmath.log(mean))
    return max(0, *found)


def test_uses_of_any_round_are_never_below_the_exact_moment() -> None:
    with mpmath.workprec(240):
        for pair in (SHARP, *random_pairs(1, 1000)):
            exact = exact_moment(pair)
            assert exact <= pair.use(NO_NODES), pair
    # Not by so much that anything would pass.
    with mpmath.workprec(240):
        assert SHARP.use(NO_NODES) <= exact_moment(SHARP) * (1 + 1e-12)


def test_uses_of_a_last_round_are_never_below_the_exact_sum_over_cells() -> None:
    nodes = tangents_of(CELLS)
    with mpmath.workprec(160):
        for pair in random_pairs(2, 150):
            assert exact_norm(pair) <= pair.use(nodes), pair


@every("limit", [0.0, -0.0, -1e-300, -1.0, -math.inf, math.nan])
def test_a_limit_that_is_not_positive_lets_no_difference_pass(limit: float) -> None:
    pair = Pair(ONE // 2, ONE // 4, 1 << 50, 4.6, 0.25)
    for nodes in (NO_NODES, tangents_of(CELLS)):
        assert pair.use(nodes, limit) == math.inf
    # What is taken off needs no limit.
    assert pair._replace(d=ONE // 4).use(NO_NODES, limit) == 0.0
