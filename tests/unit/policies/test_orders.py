"""Orders and samples depend on the ids being ordered, on salts and on public data, on nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsu
from dpsu.contributions import bounding, order
from dpsu.contributions.grouped import Contributions, arrange
from dpsu.contributions.ids import Ids
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Rows
from dpsu.inputs.iterables import from_iterable
from dpsu.inputs.keyed import Keyed
from dpsu.inputs.public import read_prior
from dpsu.kernels.grouping import order_by_hash
from dpsu.randomness.keys import Key
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import LISTED, listed_users


def text(values: list[str]) -> Ids:
    return Ids(pa.array(values, pa.large_string()))


def ordered(ids: Ids, codes: np.ndarray) -> list[str]:
    return [str(v) for v in ids.take(codes).values.to_pylist()]


WORDS = [f"word {k}" for k in range(300)]
PRIOR = read_prior({f"word {k}": float(300 - k) for k in range(150)} | {"never seen": 1000.0})
ORDERS = {
    "hash": lambda ids: order.hash_order(ids, 7),
    "popular": lambda ids: order.popular_order(ids, 7, PRIOR),
    "scarce": lambda ids: order.scarce_order(ids, 7, PRIOR, 500, 3),
}


@every("name", ORDERS)
def test_leaving_and_shuffling_keep_the_relative_order(name: str) -> None:
    rng = np.random.default_rng(0)
    whole = ordered(text(WORDS), ORDERS[name](text(WORDS)))
    for _ in range(20):
        some = rng.permutation(WORDS)[: rng.integers(1, len(WORDS))].tolist()
        ids = text(some)
        assert ordered(ids, ORDERS[name](ids)) == [w for w in whole if w in set(some)]


def test_equal_hashes_fall_back_on_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ids, "hashes", lambda self, salt: np.zeros(len(self), np.uint64))
    for shuffled in (["b", "é", "a", "z"], ["z", "a", "é", "b"]):
        ids = text(shuffled)
        assert ordered(ids, order.hash_order(ids, 1)) == sorted(shuffled, key=lambda s: s.encode())
    prior = read_prior({"z": 5, "b": 5, "a": 1})
    ids = text(["b", "a", "z"])
    assert ordered(ids, order.popular_order(ids, 1, prior)) == ["b", "z", "a"]


def test_popular_is_descending_and_unknown_items_count_one() -> None:
    prior = read_prior({"much": 50, "some": 2, "once": 1})
    ids = text(["unknown", "once", "much", "some"])
    got = ordered(ids, order.popular_order(ids, 3, prior))
    assert got[:2] == ["much", "some"]
    assert set(got[2:]) == {"once", "unknown"}
    # A prior of frequencies must not let unknown items come first.
    prior = read_prior({"much": 0.5, "some": 0.001})
    ids = text(["unknown", "much", "some"])
    assert ordered(ids, order.popular_order(ids, 3, prior))[0] == "much"


def test_scarce_puts_candidates_first_scarcest_first() -> None:
    # 1000 expected users, cutoff 5: candidates need 10 expected holders and the first 200 ranks.
    prior = read_prior({"all": 1000, "many": 100, "ten": 10, "nine": 9, "two": 2})
    ids = text(["unknown", "two", "all", "nine", "many", "ten"])
    got = ordered(ids, order.scarce_order(ids, 3, prior, 1000, 5))
    assert got == ["ten", "many", "all", "nine", "two", "unknown"]
    # With 10 expected users only the first two of the prior are reachable.
    got = ordered(ids, order.scarce_order(ids, 3, prior, 10, 5))
    assert got[:1] == ["all"]
    assert got[-1] == "unknown"


def rows(users: list[str], items: list[str]) -> Rows:
    columns = pa.chunked_array([users]), pa.chunked_array([items]), None
    return Rows([lambda: columns], ("user", "item", None))


def samples(users: list[str], items: list[str], max_items: int) -> dict[str, set[str]]:
    pairs = intern(rows(users, items))
    by_user, by_item = order.hash_order(pairs.users, 1), order.hash_order(pairs.items, 2)
    held_users, held_items = pairs.users.take(by_user), pairs.items.take(by_item)
    kept = bounding.sample(
        arrange(pairs, by_user, by_item, with_repeats=False),
        max_items,
        held_users.hashes(3),
        held_items.hashes(4),
    )
    names = held_items.values.to_pylist()
    return {
        user: {names[i] for i in kept.items[kept.start[u] : kept.stop[u]]}
        for u, user in enumerate(held_users.values.to_pylist())
    }


@every("n_items", [60, 900])
def test_a_sample_ignores_everybody_else(n_items: int) -> None:
    """Nor does it matter which items, and so which codes, are gone with somebody who leaves."""
    rng = np.random.default_rng(1)
    users = [f"u{rng.integers(20)}" for _ in range(600)]
    items = [f"i{rng.integers(n_items)}" for _ in range(600)]
    whole = samples(users, items, 5)
    assert all(len(sample) == 5 for sample in whole.values())
    for gone in sorted(set(users)):
        keep = rng.permutation([k for k, u in enumerate(users) if u != gone])
        fewer = samples([users[k] for k in keep], [items[k] for k in keep], 5)
        assert fewer == {u: s for u, s in whole.items() if u != gone}


def test_samples_are_uniform_and_independent_between_users() -> None:
    """Each item is kept with probability 5/50; two users' choices are unrelated (p = 1e-20)."""
    n = 4000
    users = [f"u{u}" for u in range(n) for _ in range(50)]
    items = [f"i{i}" for _ in range(n) for i in range(50)]
    kept = samples(users, items, 5)
    counts = np.array([sum(f"i{i}" in s for s in kept.values()) for i in range(50)])
    assert stats.chisquare(counts).pvalue > 1e-20
    first = np.array(["i0" in kept[f"u{u}"] for u in range(n)])
    both = int((first[0::2] & first[1::2]).sum())
    assert stats.binomtest(both, n // 2, 0.01).pvalue > 1e-20
    hits = int(first.sum())
    assert stats.binomtest(hits, n, 0.1).pvalue > 1e-20
    # Power: the same data reject other probabilities at a level that leaves no doubt.
    assert stats.binomtest(int(counts.sum()), 50 * n, 0.13).pvalue < 1e-20
    assert stats.binomtest(int(counts.sum()), 50 * n, 0.07).pvalue < 1e-20


def test_users_are_ordered_uniformly() -> None:
    ids = text([f"u{k}" for k in range(50)])
    places = np.array([int(np.flatnonzero(order.hash_order(ids, s) == 0)[0]) for s in range(4000)])
    assert stats.chisquare(np.bincount(places, minlength=50)).pvalue > 1e-20


def test_repeats_order_a_user_and_ties_keep_the_item_order() -> None:
    given = Contributions(
        np.array([0, 4, 4]),
        np.array([4, 4, 6]),
        np.array([0, 1, 2, 3, 1, 2], np.int32),
        np.array([1, 3, 1, 3, 2, 2], np.int32),
        4,
    )
    assert order.by_repeats(given).items.tolist() == [1, 3, 0, 2, 1, 2]


@pytest.mark.parametrize("given", [False, True])
def test_grouping_merges_duplicates_and_counts_them(given: bool) -> None:
    pairs = intern(rows(["a", "b", "a", "a", "b"], ["x", "y", "x", "z", "y"]))
    if given:
        counts = np.array([3, 1, 4, 1, 2**31 - 1], np.int32)
        pairs = replace(pairs, blocks=[replace(pairs.blocks[0], repeats=counts)])
    # Codes are in no order; here users and items are in that of their names.
    users, items = (
        np.argsort(np.array(ids.values.to_pylist())) for ids in (pairs.users, pairs.items)
    )
    grouped = arrange(pairs, users, items, with_repeats=True)
    assert grouped.repeats is not None
    held = [
        dict(zip(grouped.items[low:high].tolist(), grouped.repeats[low:high].tolist(), strict=True))
        for low, high in zip(grouped.start, grouped.stop, strict=False)
    ]
    assert held == ([{0: 7, 2: 1}, {1: 2**31 - 1}] if given else [{0: 2, 2: 1}, {1: 2}])
    plain = arrange(pairs, users, items, with_repeats=False)
    assert plain.repeats is None
    assert plain.sizes.tolist() == [2, 1]


def test_a_list_of_sets_gets_ids_that_are_no_positions() -> None:
    """Positions shift when somebody leaves; ids drawn from the key are unrelated to positions."""
    data = [["a"], ["b"], ["c"]]
    one = listed_users(from_iterable(data, Keyed(LISTED), Key.from_insecure_seed(1)))
    two = listed_users(from_iterable(data, Keyed(LISTED), Key.from_insecure_seed(2)))
    assert len(set(one)) == 3
    assert not set(one) & set(two)


@every("n", [0, 1, 2, 3, 7, 1000, 70_000])
def test_order_by_hash_is_argsort(n: int) -> None:
    rng = np.random.default_rng(n)
    uniform = rng.integers(0, 2**64, n, np.uint64)
    for hashes in (uniform, uniform & np.uint64(3), np.sort(uniform)[::-1].copy()):
        if n <= 1000 or hashes is uniform:
            order_ = order_by_hash(hashes)
            assert sorted(order_.tolist()) == list(range(n))
            assert (hashes[order_] == np.sort(hashes)).all()


@every("mechanism", ["weighted-gaussian", "policy-gaussian", "count-gaussian"])
def test_a_prior_decides_which_items_a_user_keeps(mechanism: str) -> None:
    """Everybody holds ten items; the two that the prior ranks first are kept, and only they."""
    data = {u: [f"i{k}" for k in range(10)] for u in range(3000)}
    prior = {f"i{k}": 10.0 - abs(k - 6) for k in (5, 6, 7, 8)}
    chosen = dpsu.mechanism(mechanism, max_items=2, prior=prior)
    made = dpsu.release(data, epsilon=2, delta=1e-6, mechanism=chosen)
    assert set(made.items) <= {"i5", "i6", "i7"}
    assert "i6" in made.items or mechanism == "policy-gaussian"
    assert made.prior_share == 1.0
    assert "by the public prior" in str(made.plan)


def test_the_share_that_the_prior_knew_is_of_released_items() -> None:
    data = {u: ["the", "of", "zzqqxx"] for u in range(3000)}
    options = {"mechanism": "weighted-gaussian", "epsilon": 4, "delta": 1e-4}
    made = flat.release(data, prior="wordfreq:en", **options)
    assert made.items == ("of", "the", "zzqqxx")
    assert made.prior_share == pytest.approx(2 / 3)
    assert "The prior knew 66.7% of them." in made.report()
    assert made.plan.prior is not None
    assert made.plan.prior.entries > 300_000
    assert flat.release(data, **options).prior_share is None
