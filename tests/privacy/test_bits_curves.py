"""Exact divergences of rounds of bits, and the readings of the theorem that leak."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from itertools import product

from dpsu.privacy.bits import BitsCurve, CoinTable, bits_account, round_curve
from dpsu.privacy.last_bits import last_curve
from dpsu.rounds.bits import UNITS, design_bits
from tests.support.bit_products import (
    ONE,
    Coins,
    adaptive_divergence,
    as_many,
    divergence,
    divergence_after,
    rounded_gaussian,
)
from tests.support.cases import every

SHARES = (0.04, 0.08, 0.18, 0.70)
GUARANTEES = [(0.5, 1e-6), (1.0, 1e-5), (3.0, math.exp(-10)), (8.0, 1e-3)]
CAPS = (0.07, 0.2, 0.5, 1.0)
USUAL = (3.0, math.exp(-10))
# The sums of exact divergences are computed in doubles.
SUM_ERROR = 1e-9


def curve_of(guarantee: tuple[float, float], share: float, cap: float) -> BitsCurve:
    return round_curve(bits_account(*guarantee), share, cap)


def weight_of(curve: CoinTable, probability: float) -> int:
    """The first weight that has at least this chance."""
    return next(n for n, chance in enumerate(curve.chances) if chance >= probability * ONE)


def places(curve: CoinTable, units: int, number: int) -> list[int]:
    """Weights over the whole curve, and both of its ends."""
    end = len(curve.chances) - 1
    ends = {0, 1, units - 1, units, end - 1, end - units, end - units - 1, end - units + 1}
    return sorted(w for w in ends | set(range(0, end, max(1, end // number))) if w >= 0)


@every("cap", CAPS)
@every("guarantee", GUARANTEES)
def test_equal_items_stay_within_delta_wherever_they_are(
    guarantee: tuple[float, float], cap: float
) -> None:
    epsilon, delta = guarantee
    curve = curve_of(guarantee, 1.0, cap)
    for units in range(1, len(curve.prices)):
        for weight, more in product(places(curve, units, 25), (True, False)):
            cost = divergence([as_many(curve, weight, units, 1.0, more)], epsilon)
            assert cost <= delta * (1 + SUM_ERROR)


def test_the_account_is_not_far_from_the_truth() -> None:
    # A bound that no attack comes near to would let mistakes through.
    epsilon, delta = USUAL
    curve = curve_of(USUAL, 1.0, 1.0)
    worst = max(divergence([as_many(curve, w, 8)], epsilon) for w in range(len(curve.chances)))
    assert 0.8 * delta < worst <= delta


def some_items(curve: CoinTable, rng: random.Random, types: int) -> list[Coins]:
    """Up to three types of items that one user can pay for, few enough to enumerate all."""
    left, found = curve.budget, []
    for _ in range(types):
        units = rng.randrange(1, len(curve.prices))
        number = min(left // curve.prices[units], rng.choice((1, 3, 10, 40)))
        if number:
            weight = rng.choice(places(curve, units, 12))
            found.append(Coins(curve, weight, units, number, rng.random() < 0.5))
            left -= number * curve.prices[units]
    return found


@every("cap", CAPS)
@every("guarantee", GUARANTEES)
def test_unequal_items_of_mixed_signs_stay_within_delta(
    guarantee: tuple[float, float], cap: float
) -> None:
    epsilon, delta = guarantee
    curve = curve_of(guarantee, 1.0, cap)
    rng = random.Random(f"{guarantee} {cap}")
    for _ in range(150):
        items = some_items(curve, rng, 3)
        assert sum(coins.price for coins in items) <= 1
        assert divergence(items, epsilon) <= delta * (1 + SUM_ERROR)


def certain_and_novel(curve: BitsCurve) -> Iterator[list[Coins]]:
    end = len(curve.chances) - 1
    units = len(curve.prices) - 1
    for one, two in product((0, units), (end - 1, end - units)):
        yield [as_many(curve, one, units)]
        yield [as_many(curve, two, units, more=False)]
        for part in (0.3, 0.6):
            small = units // 2
            yield [
                as_many(curve, one, small, part),
                as_many(curve, two, small, 0.9 - part, more=False),
                as_many(curve, weight_of(curve, 0.4), small, 0.1),
            ]


@every("guarantee", GUARANTEES)
def test_novel_and_certain_items_share_their_part_of_delta(
    guarantee: tuple[float, float],
) -> None:
    epsilon, delta = guarantee
    for cap in CAPS:
        for items in certain_and_novel(curve_of(guarantee, 1.0, cap)):
            assert divergence(items, epsilon) <= delta


@every("probability", [1e-3, 0.05, 0.3, 0.7, 0.99])
@every("guarantee", GUARANTEES)
def test_rounds_stay_together_within_delta(
    guarantee: tuple[float, float], probability: float
) -> None:
    epsilon, delta = guarantee
    for cap in (0.35, 1.0):
        curves = [curve_of(guarantee, share, cap) for share in SHARES]
        for units in {8, len(curves[0].prices) - 1}:
            items = [as_many(c, weight_of(c, probability), units) for c in curves]
            assert divergence(items, epsilon) <= delta


@every("caps", [(1.0, 1.0), (0.35, 1.0), (1.0, 0.35), (0.2, 0.5)])
@every("guarantee", [(1.0, 1e-5), USUAL])
def test_an_adversary_that_adapts_stays_within_delta(
    guarantee: tuple[float, float], caps: tuple[float, float]
) -> None:
    epsilon, delta = guarantee
    assert worst_game(guarantee, (0.3, 0.7), caps, epsilon) <= delta


def test_a_curve_for_one_round_is_not_one_for_every_round() -> None:
    epsilon, delta = USUAL
    assert worst_game(USUAL, (1.0, 1.0), (1.0, 1.0), epsilon) > 2 * delta


def worst_game(
    guarantee: tuple[float, float],
    shares: tuple[float, float],
    caps: tuple[float, float],
    epsilon: float,
) -> float:
    """The best of many first moves, each followed by the best reply to its outcome."""
    first, second = (
        curve_of(guarantee, share, cap) for share, cap in zip(shares, caps, strict=True)
    )
    return worst_of(first, second, epsilon)


def worst_of(first: CoinTable, second: CoinTable, epsilon: float) -> float:
    """The same for two curves."""
    replies = [
        [as_many(second, weight, units, 1.0, more)]
        for units in {len(second.prices) - 1, 8, 4}
        for weight in places(second, units, 14)
        for more in (True, False)
    ]
    return max(
        adaptive_divergence([as_many(first, weight, units, 1.0, more)], replies, epsilon)
        for units in {len(first.prices) - 1, 8, 4}
        for weight in places(first, units, 10)
        for more in (True, False)
    )


@every("caps", [(1.0, 0.35), (0.35, 0.35), (0.2, 0.2), (0.5, 1.0)])
@every("share", [0.3, 0.7])
def test_an_adversary_stays_within_delta_in_the_last_round(
    share: float, caps: tuple[float, float]
) -> None:
    epsilon, delta = USUAL
    account = bits_account(*USUAL)
    first, last = round_curve(account, 1 - share, caps[0]), last_curve(account, share, caps[1])
    assert worst_of(first, last, epsilon) <= delta


def test_a_curve_for_the_last_round_is_not_one_for_an_earlier_round() -> None:
    epsilon, delta = USUAL
    account = bits_account(*USUAL)
    first, last = (last_curve(account, share, 0.2) for share in (0.3, 0.7))
    assert worst_of(first, last, epsilon) > 1.3 * delta


@every("cap", CAPS)
@every("guarantee", GUARANTEES)
def test_items_of_a_last_round_alone_stay_within_delta(
    guarantee: tuple[float, float], cap: float
) -> None:
    epsilon, delta = guarantee
    curve = last_curve(bits_account(*guarantee), 1.0, cap)
    for units in range(1, len(curve.prices)):
        for weight, more in product(places(curve, units, 25), (True, False)):
            cost = divergence([as_many(curve, weight, units, 1.0, more)], epsilon)
            assert cost <= delta * (1 + SUM_ERROR)
    rng = random.Random(f"last {guarantee} {cap}")
    for _ in range(80):
        assert divergence(some_items(curve, rng, 3), epsilon) <= delta * (1 + SUM_ERROR)


def after_an_estimate(guarantee: tuple[float, float], noise_share: float) -> float:
    """The worst of one round whose cap and items an adversary chooses after the estimate."""
    epsilon, delta = guarantee
    bits, _ = design_bits(epsilon, delta, items_per_user=None, rounds=1)
    shift = math.sqrt(sum(unit**2 for unit in UNITS)) / (noise_share * bits.noise)
    replies = []
    for cap in CAPS:
        curve = bits.curve(0, cap)
        replies += [
            [as_many(curve, weight, units, 1.0, more)]
            for units in {len(curve.prices) - 1, 8, 4}
            for weight in places(curve, units, 14)
            for more in (True, False)
        ]
    return max(
        divergence_after(laws, replies, epsilon)
        for laws in (rounded_gaussian(shift), rounded_gaussian(shift)[::-1])
    )


@every("guarantee", GUARANTEES)
def test_one_round_and_its_estimate_stay_within_delta(guarantee: tuple[float, float]) -> None:
    delta = guarantee[1]
    assert 0.6 * delta < after_an_estimate(guarantee, 1.0) <= delta * (1 + SUM_ERROR)
    # The check can fail: noise that takes a quarter of the rate is not what 1 % pays for.
    assert after_an_estimate(guarantee, 0.2) > delta


def test_weights_that_accumulate_cannot_be_charged_by_the_round() -> None:
    # If the sums of all rounds so far are compared with the curve, the last coin sees what a user
    # gave in four rounds, and each of them was charged for its own part only.
    epsilon, delta = USUAL
    worst = 0.0
    for cap in (0.35, 1.0):
        curves = [curve_of(USUAL, share, cap) for share in SHARES]
        for units in (2, 4, 8):
            number = curves[-1].budget // curves[-1].prices[units]
            for probability in (1e-4, 0.05, 0.3):
                items = [
                    _accumulated(curve, probability, units, k + 1, number)
                    for k, curve in enumerate(curves[-2:], 2)
                ]
                # What they were charged for is within the budget of every round.
                worst = max(worst, _free_divergence(items, epsilon))
    assert worst > 45 * delta


def _accumulated(
    curve: BitsCurve, probability: float, units: int, rounds: int, number: int
) -> tuple[int, int, int]:
    weight = weight_of(curve, probability)
    last = len(curve.chances) - 1
    p, q = (curve.chances[min(w, last)] for w in (weight + rounds * units, weight))
    return p, q, number


def _free_divergence(items: list[tuple[int, int, int]], epsilon: float) -> float:
    """Divergence of coins with any chances, whatever they would cost."""
    types = []
    for p, q, number in items:
        pair = BitsCurve(1.0, 1.0, (0, 1), number, (q, p))
        types.append(Coins(pair, 0, 1, number))
    return divergence(types, epsilon)


def test_shares_of_rounds_add_up() -> None:
    # Four rounds that each take the whole account leak far more than delta.
    epsilon, delta = USUAL
    curve = curve_of(USUAL, 1.0, 0.5)
    items = [as_many(curve, weight_of(curve, 0.3), 8)] * len(SHARES)
    assert divergence(items, epsilon) > 50 * delta


def test_a_price_is_paid_by_each_item_of_a_user() -> None:
    # Twice the items for the same price, and the account no longer holds.
    epsilon, delta = USUAL
    curve = curve_of(USUAL, 1.0, 1.0)
    costs = [divergence([as_many(curve, w, 8)] * 2, epsilon) for w in range(len(curve.chances))]
    assert max(costs) > 2 * delta


def test_weights_between_units_are_not_covered() -> None:
    # Rounding weights up where they are compared lets a tiny weight act as a whole unit.
    epsilon, delta = USUAL
    curve = curve_of(USUAL, 1.0, 0.2)
    whole = as_many(curve, weight_of(curve, 0.3), 1)
    # A quarter of a unit costs a sixteenth.
    quarters = Coins(curve, whole.weight, 1, 16 * whole.number)
    assert divergence([whole], epsilon) <= delta < divergence([quarters], epsilon)
