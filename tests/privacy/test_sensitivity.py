"""Removing one user moves the weights by at most the budget: random neighbors, every policy."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np

import dpsu
from dpsu.contributions.grouped import Contributions
from dpsu.contributions.interning import intern
from dpsu.engines import local
from dpsu.engines.local_rounds import LocalRounds
from dpsu.inputs.reading import Source
from dpsu.plans.counts import FRACTION_BITS, design_counts
from dpsu.policies import Count, GreedyPolicy, L1Descent, L2Descent, Policy, ReroutePolicy, Weighted
from dpsu.randomness.keys import Key
from tests.support import flat, sieve_probes
from tests.support.cases import every
from tests.support.databases import Users, contributions, policy_weights, random_users, weights_of

ITEMS = 7
COARSE = 4  # few bits make every rounding matter


class Neighbors(NamedTuple):
    """A database, the same without one of its users, and how many users it has."""

    more: Contributions
    less: Contributions
    users: int


@cache
def neighbors(cases: int, max_users: int) -> list[Neighbors]:
    """Random neighbors, drawn and laid out once for all policies: that costs more than weighing."""
    rng = np.random.default_rng(max_users)
    drawn = []
    for _ in range(cases):
        users = random_users(rng, n_items=ITEMS, max_users=max_users, max_size=ITEMS)
        gone = int(rng.integers(len(users)))
        fewer = users[:gone] + users[gone + 1 :]
        drawn.append(
            Neighbors(contributions(users, ITEMS), contributions(fewer, ITEMS), len(users))
        )
    return drawn


def l1_policies() -> list[tuple[Policy, int]]:
    listed: list[tuple[Policy, int]] = [(Weighted(1, COARSE), 2**COARSE)]
    for passes in (1, 2, 3):
        for cutoff in (17, 23, 40):
            listed.append((L1Descent(cutoff, COARSE, passes), 2**COARSE))
            listed.append((GreedyPolicy(cutoff, COARSE, passes), 2**COARSE))
    return listed


@every("policy_and_budget", l1_policies())
def test_l1_policies_exactly(policy_and_budget: tuple[Policy, int]) -> None:
    policy, budget = policy_and_budget
    for pair in neighbors(4000, 12):
        more, less = policy.weights(pair.more), policy.weights(pair.less)
        assert (more >= less).all()
        assert (more - less).sum() <= budget


@every("votes", [1, 2, 3, 4])
def test_votes_differ_by_one_unit_on_one_item(votes: int) -> None:
    policy = GreedyPolicy(votes, 0, 1)
    for pair in neighbors(8000, 16):
        moved = policy.weights(pair.more) - policy.weights(pair.less)
        assert sorted(moved[moved != 0].tolist()) in ([], [1])


def test_count_and_weighted_l2() -> None:
    for pair in neighbors(8000, 16):
        moved = Count().weights(pair.more) - Count().weights(pair.less)
        assert moved.min() >= 0
        assert moved.max() <= 1
        policy = Weighted(2, 20)
        moved = policy.weights(pair.more) - policy.weights(pair.less)
        assert moved.min() >= 0
        assert sum(int(m) ** 2 for m in moved) <= 1 << 40


@every("passes", [1, 2, 3])
@every("bits", [8, 48])
def test_l2_descent_up_to_its_stated_rounding(passes: int, bits: int) -> None:
    for cutoff in (1.0, 1.9, 3.3):
        policy = L2Descent(int(cutoff * 2**bits), bits, passes)
        for pair in neighbors(4000, 12):
            more, less = policy.weights(pair.more), policy.weights(pair.less)
            limit = 1.0 + pair.users * policy.roundings(ITEMS) + 1e-12
            assert length(more - less, bits) <= limit
            # Never below by more than rounding: adding a user does not take weight away.
            assert (more - less).min() >= -pair.users * passes * ITEMS


def rerouting(bits: int) -> list[ReroutePolicy]:
    return [
        ReroutePolicy(int(cutoff * 2**bits), bits, degree)
        for degree in (2, 4, ITEMS)
        for cutoff in (1.0, 1.5, 2.6)
    ]


@every("bits", [8, 39])
def test_reroute_up_to_its_stated_rounding(bits: int) -> None:
    for policy in rerouting(bits):
        for pair in neighbors(4000, 12):
            moved = length(policy.weights(pair.more) - policy.weights(pair.less), bits)
            assert moved <= 1.0 + pair.users * policy.roundings() + 1e-12, policy


def test_rerouting_all_that_comes_back_would_be_too_much() -> None:
    """With 1/d instead of 1/(2d) of what comes back, the bound does not hold."""
    rng, bits, exceeded = np.random.default_rng(8), 8, 0.0
    for policy in rerouting(bits):
        for _ in range(300):
            users = random_users(rng, n_items=ITEMS, max_users=14, max_size=7)
            gone = int(rng.integers(len(users)))
            twice = [
                2 * policy_weights(policy, held, ITEMS)
                - np.minimum(_shared(held, bits, policy.degree), policy.cutoff)
                - _large(held, bits, policy.degree)
                for held in (users, users[:gone] + users[gone + 1 :])
            ]
            exceeded = max(exceeded, length(twice[0] - twice[1], bits))
    assert exceeded > 1.02


def length(moved: np.ndarray, bits: int) -> float:
    """Of a vector of weights, in units of weight."""
    return float(np.sqrt(np.sum((moved.astype(float) / 2.0**bits) ** 2)))


def _shared(users: Users, bits: int, degree: int) -> np.ndarray:
    """What users of at most `degree` items give before anything is cut off."""
    return policy_weights(Weighted(2, bits), [u for u in users if len(u) <= degree], ITEMS)


def _large(users: Users, bits: int, degree: int) -> np.ndarray:
    return policy_weights(Weighted(2, bits), [u for u in users if len(u) > degree], ITEMS)


OPTIONS = [
    {"mechanism": "count-laplace", "max_items": 3},
    {"mechanism": "weighted-laplace", "max_items": 3},
    {"mechanism": "weighted-laplace"},
    {"mechanism": "policy-laplace"},
    {"mechanism": "weighted-laplace", "max_items": 3, "prior": {"i1": 9, "i3": 4}},
    {"mechanism": "policy-laplace", "max_items": 2, "prior": {"i1": 9, "i3": 4}},
    {"mechanism": "policy-laplace", "max_items": 2, "passes": 2, "cutoff": 1.3},
    {"mechanism": "greedy", "cutoff": 1.9},
    {"mechanism": "greedy", "cutoff": 2},
    {"mechanism": "greedy", "max_items": 2},
    {"mechanism": "greedy", "cutoff": 2.5, "order": "hash", "passes": 3},
    {"mechanism": "greedy", "cutoff": 2.5, "prior": {"i1": 9, "i3": 4}},
    {
        "mechanism": "greedy",
        "cutoff": 2,
        "order": "scarce",
        "expected_users": 20,
        "prior": {"i1": 9, "i3": 4, "i4": 8},
    },
]


@every("options", OPTIONS)
def test_whole_engine_under_one_key(options: dict[str, object]) -> None:
    """Orders, sampling and interning included: this is where a stray dependence would show."""
    plan = flat.plan(epsilon=1, delta=1e-5, **options)
    rng = np.random.default_rng(5)
    budget = 3 if plan.name == "count-laplace" else 1
    for case in range(60):
        held = random_users(rng, n_items=ITEMS, max_size=7)
        data = {
            f"u{u}": {f"i{i}": int(rng.integers(1, 4)) for i in items}
            for u, items in enumerate(held)
            if items
        }
        if len(data) < 2:
            continue
        key = Key.from_insecure_seed(case)
        gone = rng.choice(sorted(data))
        # Leaving must not matter through the order of rows either.
        fewer = {u: data[u] for u in rng.permutation(sorted(set(data) - {gone})).tolist()}
        more, less = (weights_of(plan, d, key, prior=options.get("prior")) for d in (data, fewer))
        assert all(more.get(i, 0) >= w for i, w in less.items())
        assert sum(more.values()) - sum(less.values()) <= budget


@every("mechanism", ["count-gaussian", "weighted-gaussian", "policy-gaussian"])
def test_whole_engine_in_l2(mechanism: str) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.mechanism(mechanism, max_items=3))
    rng = np.random.default_rng(6)
    budget = 3.0 if mechanism == "count-gaussian" else 1.0
    for case in range(150):
        held = random_users(rng, n_items=ITEMS, max_size=7)
        data = {f"u{u}": [f"i{i}" for i in items] for u, items in enumerate(held) if items}
        if len(data) < 2:
            continue
        key = Key.from_insecure_seed(case)
        gone = rng.choice(sorted(data))
        fewer = {u: items for u, items in data.items() if u != gone}
        more, less = weights_of(plan, data, key), weights_of(plan, fewer, key)
        moved = [float(more.get(i, 0) - less.get(i, 0)) for i in more.keys() | less.keys()]
        assert sum(m * m for m in moved) <= budget + 1e-9


TWELVE = {f"i{k}": 1 for k in range(12)}
BOUNDED: list[dict[str, Any]] = [
    {"mechanism": name, "max_items": 3}
    for name in (
        "count-laplace", "count-gaussian", "weighted-laplace", "weighted-gaussian",
        "policy-laplace", "policy-gaussian", "reroute",
    )
] + [{"mechanism": "greedy", "cutoff": 1, "max_items": 3}]  # fmt: skip


@every("prior", [None, {"i1": 9, "i3": 4, "i5": 2, "i7": 1}])
@every("options", BOUNDED)
def test_no_user_keeps_more_items_than_it_may(
    options: dict[str, Any], prior: dict[str, int] | None
) -> None:
    """By hash or by a prior: of twelve items, exactly three have weight, at whatever key."""
    plan = flat.plan(epsilon=1, delta=1e-5, prior=prior, **options)
    # Greedy users vote for one item each; together they go through all that one of them keeps.
    users = 6 if plan.name == "greedy" else 1
    for seed in range(20):
        data = {f"u{u}": TWELVE for u in range(users)}
        weights = weights_of(plan, data, Key.from_insecure_seed(seed), prior=prior)
        assert len(weights) == 3
        if prior is not None:
            assert set(weights) == {"i1", "i3", "i5"}


def test_no_user_keeps_more_items_than_it_may_in_rounds() -> None:
    """First and later sets of sieve, rounds of sips and noisy counts."""
    shares = np.array([0, *range(9, 0, -1)], np.int64)
    for n_items in range(4, 13):
        engine = sieve_probes.engine_of([list(range(n_items))], n_items)
        for round_ in range(3):
            weights = engine.share(np.zeros(n_items, bool), 3, shares, round_)
            assert sorted(weights[weights > 0].tolist()) == [shares[3]] * 3
        assert engine.choose(4, None).sum() == 4
        attention = np.linspace(0.1, 1.0, n_items)
        assert engine.choose(3, attention).sum() == 3
        assert engine.choose(2, np.ones(n_items)).sum() == 2
        held = contributions([list(range(n_items))], n_items)
        sums = design_counts(1.0, 1e-5, 3).sums(held).tolist()
        assert len(set(sums)) == 1
        assert sum(value**2 for value in sums) <= 3 << 2 * FRACTION_BITS


def kept_by_one(data: dict[str, dict[str, int]], key: Key) -> list[set[str]]:
    """Items of "x" that its samples keep: for weights, in two rounds of sips, in sieve."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pairs = intern(Source(data, dpsu.Users(), dpsu.Items()).rows(key, with_repeats=False))
    plan = dpsu.plan(
        epsilon=1,
        delta=1e-5,
        mechanism=dpsu.CountGaussian(max_items=3),
    )
    found = [set(weights_of(plan, data, key))]
    users, items, held = local.group_as_planned(plan, pairs, key)
    engine = LocalRounds(held, users, items, key)
    shares = np.array([0, *range(9, 0, -1)], np.int64)
    for round_ in range(2):
        shared = engine.share(np.zeros(len(items), bool), 3, shares, round_)
        found.append(set(items.take(np.flatnonzero(shared)).values.to_pylist()))
    present = engine.choose(3, None)
    found.append(set(items.take(np.flatnonzero(present)).values.to_pylist()))
    return [{item for item in kept if item.startswith("i")} for kept in found]


def test_what_a_user_keeps_depends_on_nobody_else() -> None:
    """Samples go by ids: others with other items, before and after it, change nothing."""
    rng = np.random.default_rng(9)
    for seed in range(15):
        key = Key.from_insecure_seed(seed)
        others = {f"u{u}": {f"j{i}": 1 for i in [0, *rng.choice(40, 4)]} for u in range(9)}
        names = ["x", *others]
        rng.shuffle(names)
        many = {name: TWELVE if name == "x" else others[name] for name in names}
        alone = kept_by_one({"x": TWELVE}, key)
        assert [len(kept) for kept in alone] == [3] * 4
        assert kept_by_one(many, key) == alone
