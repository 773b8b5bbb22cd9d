"""Rounds of bits: what users pay, which coins fall, what estimates cost, and the exact law."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.ids import Ids, integers
from dpsu.engines import local
from dpsu.engines.cluster.conversations import BitsConversation, conversation_of
from dpsu.inputs.reading import Source
from dpsu.kernels.hashing import digests
from dpsu.kernels.weights import units_for
from dpsu.plans.prose import proofs
from dpsu.privacy.bits import BUDGET as WHOLE_BUDGET
from dpsu.privacy.bits import CAPS, BitsCurve, bits_account, prices_of, verify
from dpsu.privacy.last_bits import LastCurve
from dpsu.randomness import noise
from dpsu.randomness.coins import flip_words
from dpsu.randomness.keys import Key, prefix
from dpsu.rounds import BitsRounds
from dpsu.rounds.bits import (
    LIMITS,
    PAID,
    UNITS,
    design_bits,
    mean_open,
    nearest_cap,
    open_noise,
)
from tests.support import plain_bits, sieve_probes
from tests.support.cases import every

KEY = Key.from_insecure_seed(5)
GUARANTEES = [(0.1, 1e-9), (1.0, 1e-5), (3.0, math.exp(-10)), (8.0, 1e-3)]
MOST_ITEMS = 10**6
ROUNDS = (1, 4)


@every("cap", CAPS)
def test_prices_of_a_user_never_exceed_the_budget_and_waste_nothing(cap: float) -> None:
    prices = np.array(prices_of(cap), np.int64)
    rng = np.random.default_rng(1)
    for t in [*range(1, 3000), *rng.integers(1, MOST_ITEMS, 3000).tolist(), MOST_ITEMS]:
        n, more = units_for(t, prices, WHOLE_BUDGET)
        paid = (t - more) * int(prices[n]) + (more * int(prices[n + 1]) if more else 0)
        assert paid <= WHOLE_BUDGET
        assert n >= 0
        assert 0 <= more < t
        if n + 1 < len(prices):
            # One unit more would not fit.
            assert paid + int(prices[n + 1] - prices[n]) > WHOLE_BUDGET


def given_by(users: list[list[int]], n_items: int, released: list[int], cap: float) -> np.ndarray:
    flags = np.isin(np.arange(n_items), released)
    engine = sieve_probes.engine_of(users, n_items)
    return engine.give_units(flags, prices_of(cap), WHOLE_BUDGET, 1)


def test_released_items_get_nothing_and_users_without_open_items_give_nothing() -> None:
    weights = given_by([[0, 1, 2], [0, 1], []], 4, [0, 1], 1.0)
    assert weights.tolist() == [0, 0, 8, 0]
    assert not given_by([[0, 1]], 2, [0, 1], 0.2).any()


def test_what_is_left_over_depends_on_the_user_alone() -> None:
    """Of more items than can be paid for, some get one unit: which, is nobody else's business."""
    many = list(range(300))
    alone = given_by([many], 300, [], 1.0)
    assert sorted(set(alone.tolist())) == [0, 1]
    assert alone.sum() == 64
    others = [[k % 300, (7 * k) % 300 + (k % 300 == (7 * k) % 300)] for k in range(250)]
    together = given_by([many, *others], 301, [], 1.0)
    without = given_by([[], *others], 301, [], 1.0)
    assert (together - without)[:300].tolist() == alone.tolist()
    engine = sieve_probes.engine_of([many], 300)
    later = engine.give_units(np.zeros(300, bool), prices_of(1.0), WHOLE_BUDGET, 2)
    assert later.tolist() != alone.tolist()  # another round chooses anew


def words_of(names: list[str], round_: int) -> list[int]:
    data, offsets = Ids(pa.array(names, pa.large_string())).buffers()
    start = prefix("coin of a table", round_, 0)
    return digests(KEY.secret, start, data, offsets, 1)[:, 0].tolist()  # type: ignore[no-any-return]


def test_a_coin_falls_below_its_chance_and_not_at_it() -> None:
    names = ["a", "b"]
    items = Ids(pa.array(names, pa.large_string()))
    for round_ in (0, 3):
        for at, word in enumerate(words_of(names, round_)):
            for chance, out in ((word, False), (word + 1, True)):
                weights = np.eye(2, dtype=np.int64)[at]
                found = flip_words((0, chance, 2**64), weights, items, KEY, round_)
                assert found.tolist() == [out and k == at for k in range(2)]


def test_weights_at_the_end_of_a_table_and_beyond_are_certain_and_none_is_impossible() -> None:
    items = Ids(integers(np.arange(1000)))
    nearly = (0, 1, 2, 2**64)
    for weight, out in ((0, 0), (1, 0), (2, 0), (3, 1000), (4, 1000), (2**40, 1000)):
        weights = np.full(1000, weight, np.int64)
        assert flip_words(nearly, weights, items, KEY, 0).sum() == out
    nothing = np.zeros(1000, np.int64)
    assert not flip_words((0, 2**64), nothing, items, KEY, 0).any()
    # Not even by a table that would let it.
    assert not flip_words((2**63, 2**64), nothing, items, KEY, 0).any()


def random_users(rng: random.Random, users: int, n_items: int, most: int) -> dict[str, list[str]]:
    popular = [1.0 / (1 + k) for k in range(n_items)]
    return {
        f"u{u}": sorted({f"i{k}" for k in rng.choices(range(n_items), popular, k=rng.randint(1, most))})
        for u in range(users)
    }  # fmt: skip


@every("rounds", ROUNDS)
@every("known", [True, False])
def test_the_transcription_releases_the_same_bit_for_bit(known: bool, rounds: int) -> None:
    rng, found, caps = random.Random(3), 0, set()
    for seed in range(12):
        most = rng.choice([1, 4, 60])
        data = random_users(rng, rng.choice([30, 400]), 80, most)
        hint = rng.choice([1, 3, 40]) if known else None
        mechanism = dpsu.Bits(items_per_user=hint, rounds=rounds)
        plan = dpsu.plan(epsilon=4.0, delta=0.01, mechanism=mechanism, insecure_seed=seed)
        bits = plan.selection
        assert isinstance(bits, BitsRounds)
        assert len(bits.shares) == rounds
        key = Key.from_insecure_seed(seed)
        if not known:
            # Less noise than is paid for, so that small data have an influence.
            bits = replace(bits, noise=bits.noise / 20)
            plan = replace(plan, design=replace(plan.design, selection=bits))
            caps.add(plain_bits.estimated(bits, [len(i) for i in data.values()], key, 0))
        released = _released(plan, data, key)
        assert released == plain_bits.run(bits, data, key)
        found += len(released)
    assert found > 60
    assert known or len(caps) > 1


def _released(plan: dpsu.Plan, data: dict[str, list[str]], key: Key) -> set[str]:
    """What the local engine releases; plans with less noise are for tests only."""
    pairs = Source(data, plan.user, plan.item).pairs(key, with_repeats=False)
    return set(local.select_items(plan, pairs, key)[1].to_pylist())


@every("rounds", ROUNDS)
@every(("epsilon", "delta"), GUARANTEES)
def test_rounds_and_estimates_take_one_account(epsilon: float, delta: float, rounds: int) -> None:
    account = bits_account(epsilon, delta)
    for items in (None, 1.0, 30.0):
        bits, split = design_bits(epsilon, delta, items_per_user=items, rounds=rounds)
        assert bits.account == account
        assert len(bits.shares) == rounds == len(bits.caps or bits.shares)
        shares = sum(map(Fraction, bits.shares))
        looks = Fraction(0)
        if items is None:
            # A shift s of noise sigma costs order s^2 / 2 sigma^2.
            shift = sum(Fraction(unit) ** 2 for unit in UNITS) / Fraction(bits.noise) ** 2
            looks = len(bits.shares) * Fraction(account.order) * shift / 2 / Fraction(account.rate)
            assert 0.999 * PAID < looks <= PAID
        assert 0.98 < shares + looks <= 1
        assert split["novel and certain items"] >= account.sure * float(shares)
        assert math.fsum(split.values()) <= delta * (1 + 1e-12)
        assert (bits.noise > 0) == (items is None) == (not bits.caps)


def test_a_user_adds_at_most_its_units_to_every_sum() -> None:
    rng = np.random.default_rng(4)
    for size in (0, 1, 5, 19, 20, 21, 399, 400, 401, 900):
        others = [rng.choice(900, 30, replace=False).tolist() for _ in range(3)]
        held = rng.choice(900, size, replace=False).tolist()
        released = np.isin(np.arange(900), rng.choice(900, 200, replace=False))
        engines = [sieve_probes.engine_of(users, 900) for users in ([held, *others], [[], *others])]
        with_user, without = (engine.add_open(released, LIMITS, UNITS) for engine in engines)
        size_left = int((~released[held]).sum()) if held else 0
        found = (with_user - without).tolist()
        pairs = list(zip(LIMITS, UNITS, strict=True))
        assert found == [min(size_left, limit) * unit // limit for limit, unit in pairs]
        assert all(0 <= added <= unit for added, unit in zip(found, UNITS, strict=True))


def test_estimates_have_noise_of_their_own_in_every_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bits, _ = design_bits(1.0, 1e-5, items_per_user=None)
    drawn: list[tuple[int, float, list[int]]] = []
    rounded = noise.Noise.rounded

    def spied(self: noise.Noise, round_: int, scale: float) -> np.ndarray:
        found = rounded(self, round_, scale)
        drawn.append((round_, scale, found.tolist()))
        return found

    monkeypatch.setattr(noise.Noise, "rounded", spied)
    sums = np.array([10_000, 4_000, 600]) * 400
    assert {bits.estimated_cap(sums, open_noise(KEY), round_) for round_ in range(4)} <= set(CAPS)
    assert [round_ for round_, _, _ in drawn] == [0, 1, 2, 3]
    assert {scale for _, scale, _ in drawn} == {bits.noise}
    assert len({number for _, _, numbers in drawn for number in numbers}) == 4 * len(LIMITS)


@every(
    ("users", "short", "long", "noise", "mean"),
    [
        (1000, 6.0, 8.0, 1e-6, 8.0),  # without noise the larger limit is right
        (1000, 6.0, 8.0, 20.0, 6.0),  # it is too noisy to tell, and cuts off less by accident
        (1000, 6.0, 80.0, 20.0, 80.0),  # what it tells is no accident
        (1000, 16.0, 18.0, 20.0, 18.0),  # the smaller limit cut the mean off
        (90, 6.0, 80.0, 20.0, 10.0),  # too few users to tell
        (-50, 6.0, 80.0, 1.0, 10.0),
        (1000, -2.0, -7.0, 1e-6, 1.0),
    ],
)
def test_means_are_read_from_noisy_sums(
    users: int, short: float, long: float, noise: float, mean: float
) -> None:
    """`noise` is in users, for the first of the sums."""
    sums = [400 * users, round(400 * users * short / 20), round(850 * users * long / 400)]
    assert mean_open(sums, 400 * noise) == pytest.approx(mean, rel=1e-3)


def test_the_nearest_cap() -> None:
    assert [nearest_cap(mean) for mean in (1.0, 10.0, 100.0, 1e9)] == [1.0, 0.35, 0.1, 0.03]
    assert nearest_cap(100.0, (0.5, 1.0)) == 0.5


def test_only_the_last_round_has_the_curve_of_a_last_round() -> None:
    for items in (None, 40.0):
        bits, _ = design_bits(1.0, 1e-5, items_per_user=items)
        curves = [bits.curve(round_, 0.15) for round_ in range(len(bits.shares))]
        assert [isinstance(curve, LastCurve) for curve in curves] == [False, False, False, True]
        assert [isinstance(curve, BitsCurve) for curve in curves] == [True, True, True, False]
        plain = [BitsCurve(c.cap, c.share, c.prices, c.budget, c.chances) for c in curves]
        assert all(verify(curve, bits.account) <= 1.0 for curve in plain[:-1])
        assert verify(plain[-1], bits.account) > 1.0


def test_one_round_is_a_last_round_with_the_whole_account() -> None:
    for items, share in ((None, 1.0 - PAID), (40.0, 1.0)):
        bits, _ = design_bits(1.0, 1e-5, items_per_user=items, rounds=1)
        assert bits.shares == pytest.approx((share,), rel=1e-12)
        assert isinstance(bits.curve(0, 0.15), LastCurve)
        assert bits.deciding_curve == bits.curve(0, 0.15 if items else 1.0)


@every("rounds", [0, 2, 3, 5, 1.0, True, "1", None])
def test_other_numbers_of_rounds_than_one_and_four_are_refused(rounds: Any) -> None:
    with pytest.raises(dpsu.ParameterError, match="rounds"):
        dpsu.Bits(rounds=rounds)


def test_guarantees_without_fine_enough_coins_are_refused_before_anything_is_read() -> None:
    with pytest.raises(dpsu.ParameterError, match="raise epsilon or delta, or choose sieve"):
        dpsu.plan(epsilon=1.0, delta=1e-60, mechanism=dpsu.Bits())


def test_comparisons_of_all_mechanisms_do_without_bits_where_it_is_refused() -> None:
    rows = [(user, item) for user in range(50) for item in range(3)]
    promise: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-60, "runs": 1}
    found = dpsu.compare(rows, **promise)
    assert {"sieve", "sips"} <= {row.mechanism for row in found.rows}
    assert "bits" not in {row.mechanism for row in found.rows}
    with pytest.raises(dpsu.ParameterError, match="bits has no coins"):
        dpsu.compare(rows, mechanisms=["bits"], **promise)


def test_a_plan_names_the_proofs_of_what_it_draws() -> None:
    known = dpsu.plan(epsilon=1.0, delta=1e-6, mechanism=dpsu.Bits(items_per_user=3))
    paid = dpsu.plan(epsilon=1.0, delta=1e-6, mechanism=dpsu.Bits())
    assert set(proofs(known)) == {"bits", "orders", "coins"}
    assert set(proofs(paid)) == {"bits", "orders", "coins", "noise"}


def test_the_driver_makes_the_curves_where_caps_are_known() -> None:
    plan = dpsu.plan(epsilon=1.0, delta=1e-6, mechanism=dpsu.Bits(items_per_user=100))
    conversation = conversation_of(plan)
    assert isinstance(conversation, BitsConversation)
    assert [curve.cap for curve in conversation.curves] == list(conversation.bits.caps)
    assert [curve.share for curve in conversation.curves] == list(conversation.bits.shares)


# ---- the exact law ------------------------------------------------------------------------------


def two_rounds(epsilon: float, delta: float, items: float, shares: tuple[float, float]) -> Any:
    bits, _ = design_bits(epsilon, delta, items_per_user=items)
    return replace(bits, shares=shares, caps=bits.caps[:2])


def cost(bits: BitsRounds, users: Any, mine: Any, epsilon: float, trap: str | None) -> float:
    p, q = (plain_bits.law(bits, held, KEY, trap) for held in ({"x": mine} | users, users))
    return plain_bits.divergence(p, q, epsilon)


def small_databases(rng: random.Random) -> tuple[dict[str, list[str]], list[str]]:
    names = ["a", "b", "c"][: rng.randint(1, 3)]
    users = {
        f"u{k}": rng.sample(names, rng.randint(1, len(names))) for k in range(rng.randint(0, 10))
    }
    return users, rng.sample(names, rng.randint(1, len(names)))


def with_released_items(holders: int) -> tuple[dict[str, list[str]], list[str]]:
    """Two items that come out for certain, and three that may."""
    certain = {f"v{item}{k}": [item] for k in range(60) for item in "ae"}
    return certain | {f"u{i}{k}": [i] for k in range(holders) for i in "bcd"}, list("abcde")


@every("trap", [None, *plain_bits.TRAPS])
def test_neighbors_stay_within_delta_and_every_trap_does_not(trap: str | None) -> None:
    rng, worst = random.Random(2), 0.0
    if trap == "a refund for released items":
        bits = two_rounds(3.0, 1e-3, 1.0, (0.1, 0.9))
        worst = cost(bits, *with_released_items(5), 3.0, trap) / 1e-3
        assert cost(bits, *with_released_items(5), 3.0, None) <= 1e-3
    else:
        for epsilon, delta in ((1.0, 0.02), (1.0, 0.2), (3.0, 0.02)):
            for items in (1.0, 3.0):
                bits = two_rounds(epsilon, delta, items, (0.5, 0.5))
                for _ in range(12):
                    found = cost(bits, *small_databases(rng), epsilon, trap)
                    worst = max(worst, found / delta)
    assert (worst <= 1.0) == (trap is None)
    assert worst > 0.2  # the check can fail


@every("trap", [None, "a user is split in two", "the price of one item for all"])
def test_neighbors_stay_within_delta_in_one_round(trap: str | None) -> None:
    """The design as it is shipped; the other traps need a second round."""
    rng, worst = random.Random(4), 0.0
    for epsilon, delta in ((0.5, 0.02), (1.0, 0.02), (1.0, 0.2), (3.0, 0.02), (3.0, 1e-4)):
        for items in (1.0, 3.0):
            bits, _ = design_bits(epsilon, delta, items_per_user=items, rounds=1)
            for _ in range(20):
                found = cost(bits, *small_databases(rng), epsilon, trap)
                worst = max(worst, found / delta)
    assert (worst <= 1.0) == (trap is None)
    assert worst > 0.5  # the check can fail


@every("rounds", ROUNDS)
@every("size", [1, 10, 64, 65, 640, 5000])
def test_novel_items_of_one_user_stay_hidden(size: int, rounds: int) -> None:
    """With more items than can be paid for, giving each of them a unit would show some."""
    bits, split = design_bits(3.0, math.exp(-10), items_per_user=1.0, rounds=rounds)
    engine = sieve_probes.engine_of([list(range(size))], size)
    shown, careless = 0.0, 0.0
    for round_ in range(rounds):
        curve = bits.curve(round_, 1.0)
        given = engine.give_units(np.zeros(size, bool), curve.prices, curve.budget, round_)
        shown += sum(curve.chances[n] for n in given.tolist()) / 2**64
        careless += sum(curve.chances[max(n, 1)] for n in given.tolist()) / 2**64
    assert 0.5 * split["novel and certain items"] < shown <= split["novel and certain items"]
    assert (careless > split["novel and certain items"]) == (size > 64)
