"""Each policy against the plain transcription of the papers' pseudocode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from dpsu.policies import Count, GreedyPolicy, L1Descent, L2Descent, Weighted
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


@every("passes", [1, 2, 3])
@every("cutoff", [Fraction(1), Fraction(3, 2), Fraction(17, 8), Fraction(4)])
def test_l1_descent(cutoff: Fraction, passes: int) -> None:
    rng = np.random.default_rng([passes, cutoff.numerator])
    policy = L1Descent(int(cutoff * 2**BITS), BITS, passes)
    for _ in range(300):
        users = random_users(rng, max_users=12)
        ours = scaled(policy_weights(policy, users, ITEMS), BITS)
        assert close(ours, reference.l1_descent(users, cutoff, passes), 1e-9)


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


@every("passes", [1, 2, 3])
@every("cutoff", [1.0, 1.5, 2.125, 4.0])
def test_l2_descent(cutoff: float, passes: int) -> None:
    rng = np.random.default_rng([passes, int(8 * cutoff)])
    policy = L2Descent(int(cutoff * 2**BITS), BITS, passes)
    for _ in range(300):
        users = random_users(rng, max_users=12)
        ours = scaled(policy_weights(policy, users, ITEMS), BITS)
        assert close(ours, reference.l2_descent(users, cutoff, passes), 1e-9)


@every("passes", [1, 2, 4])
@every("cutoff", [Fraction(1), Fraction(19, 8), Fraction(4)])
def test_greedy_is_exact_on_dyadic_cutoffs(cutoff: Fraction, passes: int) -> None:
    rng = np.random.default_rng([passes, cutoff.numerator])
    policy = GreedyPolicy(int(cutoff * 2**BITS), BITS, passes)
    for _ in range(300):
        users = random_users(rng, max_users=12)
        ours = scaled(policy_weights(policy, users, ITEMS), BITS)
        assert ours == reference.greedy(users, cutoff, passes)


@every("votes", [1, 2, 3, 5])
def test_votes_are_greedy_with_a_whole_cutoff(votes: int) -> None:
    rng = np.random.default_rng(votes)
    for _ in range(500):
        users = random_users(rng, max_users=15)
        ours = scaled(policy_weights(GreedyPolicy(votes, 0, 1), users, ITEMS), 0)
        assert ours == reference.greedy(users, Fraction(votes))


@every("bits", [30, 52])
def test_weighted_shares_never_exceed_the_norm(bits: int) -> None:
    # 37, 73 and 148 are sizes at which the floor of a double does.
    for size in [*range(1, 2000), 10**5, 2**31]:
        assert Weighted(1, bits).share(size) * size <= 1 << bits
        assert Weighted(2, bits).share(size) ** 2 * size <= 1 << 2 * bits
        assert (Weighted(2, bits).share(size) + 1) ** 2 * size > 1 << 2 * bits


def test_the_float_shares_that_integers_avoid_do_exceed_the_norm() -> None:
    floats = {size: math.floor(2**52 / math.sqrt(size)) for size in (37, 73, 148)}
    assert any(share**2 * size > 1 << 104 for size, share in floats.items())
