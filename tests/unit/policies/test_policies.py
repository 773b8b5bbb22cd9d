"""Each policy against the plain transcription of the papers' pseudocode."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpsu.policies import Count, GreedyPolicy, L1Descent, L2Descent, Policy, Weighted
from tests.support import reference
from tests.support.cases import every
from tests.support.databases import policy_weights, random_users

ITEMS = 6
BITS = 40


def scaled(weights: np.ndarray, bits: int) -> dict[int, Fraction]:
    return {i: Fraction(int(w), 1 << bits) for i, w in enumerate(weights) if w > 0}


def close(
    ours: dict[int, Fraction], theirs: Mapping[int, float | Fraction], tolerance: float
) -> bool:
    items = set(ours) | set(theirs)
    return all(abs(float(ours.get(i, 0)) - float(theirs.get(i, 0))) <= tolerance for i in items)


@every("seed", range(20))
def test_count_and_weighted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        users = random_users(rng)
        assert scaled(policy_weights(Count(), users, ITEMS), 0) == reference.count(users)
        ours = scaled(policy_weights(Weighted(1, BITS), users, ITEMS), BITS)
        assert close(ours, reference.weighted_l1(users), 1e-10)
        ours = scaled(policy_weights(Weighted(2, BITS), users, ITEMS), BITS)
        assert close(ours, reference.weighted_l2(users), 1e-10)


CUTOFFS = (Fraction(1), Fraction(3, 2), Fraction(17, 8), Fraction(4))
# The policy, the paper, bits of a weight, cutoffs, passes, and how near the weights must be.
DESCENTS: list[tuple[Callable[..., Policy], Callable[..., Any], int, Any, Any, float]] = [
    (L1Descent, reference.l1_descent, BITS, CUTOFFS, (1, 2, 3), 1e-9),
    (L2Descent, reference.l2_descent, BITS, CUTOFFS, (1, 2, 3), 1e-9),
    # Dyadic cutoffs are exact, and votes are greedy with a whole one.
    (GreedyPolicy, reference.greedy, BITS, CUTOFFS, (1, 2, 4), 0.0),
    (GreedyPolicy, reference.greedy, 0, map(Fraction, (1, 2, 3, 5)), (1,), 0.0),
]


@every(("kind", "plain", "bits", "cutoffs", "passes", "tolerance"), DESCENTS)
def test_descents_and_greedy(
    kind: Any, plain: Any, bits: int, cutoffs: Any, passes: tuple[int, ...], tolerance: float
) -> None:
    for cutoff, times in itertools.product(cutoffs, passes):
        rng = np.random.default_rng([times, cutoff.numerator])
        policy = kind(int(cutoff * 2**bits), bits, times)
        for _ in range(100):
            users = random_users(rng, max_users=12)
            ours = scaled(policy_weights(policy, users, ITEMS), bits)
            expected = plain(users, cutoff, times)
            assert close(ours, expected, tolerance) if tolerance else ours == expected


def unit_by_unit(users: list[list[int]], cutoff: int, budget: int) -> list[int]:
    """l1 descent as its proof walks: round after round, one unit to each item that takes one."""
    weights = [0] * ITEMS
    for held in users:
        left = budget
        while left and any(weights[item] < cutoff for item in held):
            for item in held:
                if left and weights[item] < cutoff:
                    weights[item] += 1
                    left -= 1
    return weights


@every("cutoff", [8, 13, 30])
def test_units_of_l1_descent_that_remain_go_to_the_first_items_in_order(cutoff: int) -> None:
    """In units of an eighth, every step of the walk shows; none is lost and none goes elsewhere."""
    rng = np.random.default_rng(cutoff)
    for _ in range(500):
        users = random_users(rng, max_users=12)
        ours = policy_weights(L1Descent(cutoff, 3, 1), users, ITEMS)
        assert ours.tolist() == unit_by_unit(users, cutoff, 8)


@every("bits", [30, 52])
def test_weighted_shares_never_exceed_the_norm(bits: int) -> None:
    # 37, 73 and 148 are sizes at which the floor of a double does.
    for size in [*range(1, 2000), 10**5, 2**31]:
        assert Weighted(1, bits).share(size) * size <= 1 << bits
        assert Weighted(2, bits).share(size) ** 2 * size <= 1 << 2 * bits
        assert (Weighted(2, bits).share(size) + 1) ** 2 * size > 1 << 2 * bits
