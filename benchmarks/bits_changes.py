"""Bits with changes that are only tried: see `benchmarks.bits_experiments`.

Users give units by gains, which a public prior may say; a budget is spread over any number of
rounds; and one round follows sieve. Some of it is not private, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.grouped import Contributions
from dpsu.contributions.ids import Ids
from dpsu.contributions.pairs import Pairs
from dpsu.engines.local_rounds import LocalRounds
from dpsu.kernels.hashing import hash_word
from dpsu.privacy.bits import BitsAccount, CoinTable, bits_account, usable_caps
from dpsu.privacy.last_bits import last_curve
from dpsu.privacy.normal import upper_tail
from dpsu.randomness.coins import flip_words
from dpsu.randomness.keys import Key
from dpsu.randomness.noise import Noise
from dpsu.rounds import BitsRounds
from dpsu.rounds.account import split_by_size
from dpsu.rounds.bits import LIMITS, PAID, SHARES, UNITS, USUAL_ROUNDS, nearest_cap, open_noise
from dpsu.rounds.evidence import Evidence
from dpsu.rounds.sieve import SieveRounds, design_sieve
from dpsu.runtime.jit import njit

SIEVE = {"rounds": 20, "max_items": 300, "scout_items": 3000}
# What a round after sieve has of the budget.
PART = 0.1
# Evidence that novel items have less often than LIKELY counts, by its chance, down to RARE.
LIKELY, RARE = 3e-3, 1e-8

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Whole = NDArray[np.int64]


@dataclass(frozen=True)
class Data:
    """Users of one set, and for every item its rank in a public prior, 0 if it is not known."""

    pairs: Pairs
    users: Ids
    items: Ids
    held: Contributions
    ranks: Whole | None

    @property
    def size(self) -> float:
        """Items of a user, as somebody would know it, to one digit."""
        return float(f"{len(self.held.items) / len(self.users):.0e}")

    def engine(self, key: Key) -> LocalRounds:
        held = replace(self.held, items=self.held.items.copy(), stop=self.held.stop.copy())
        return LocalRounds(held, self.users, self.items, key)


def bits_of(account: BitsAccount, shares: tuple[float, ...] = SHARES[USUAL_ROUNDS]) -> BitsRounds:
    """Rounds with these shares of the budget, whose caps are estimated for 1 % of it."""
    shares = tuple(share / math.fsum(shares) * (1.0 - PAID) * (1.0 - 1e-14) for share in shares)
    squared = 2.0 * PAID * account.rate / (len(shares) * account.order)
    noise = math.sqrt(sum(unit**2 for unit in UNITS) / squared)
    return BitsRounds(account, shares, (), usable_caps(account, shares), noise)


@njit(cache=True)
def give_by_gain(
    start: Whole, stop: Whole, items: NDArray[np.int32], gains: Floats, prices: Whole, budget: int,
    user_hash: NDArray[np.uint64], item_hash: NDArray[np.uint64], weights: Whole,
) -> None:  # fmt: skip
    """Units in proportion to gains, rounded up or down by a hash, as many as the budget buys."""
    most = len(prices) - 1
    longest = 0
    for u in range(len(start)):
        longest = max(longest, stop[u] - start[u])
    held, part = np.empty(longest, np.int32), np.empty(longest)
    for u in range(len(start)):
        t, largest = 0, 0.0
        for j in range(start[u], stop[u]):
            if gains[items[j]] > 0.0:
                held[t] = items[j]
                part[t] = (hash_word(item_hash[items[j]], user_hash[u]) >> np.uint64(11)) * 2.0**-53
                largest = max(largest, gains[items[j]])
                t += 1
        if t == 0:
            continue
        low, high = 0.0, (most + 1.0) / largest
        for _ in range(20):
            scale, cost = 0.5 * (low + high), 0
            for j in range(t):
                cost += prices[min(most, int(scale * gains[held[j]] + part[j]))]
                if cost > budget:
                    break
            if cost <= budget:
                low = scale
            else:
                high = scale
        for j in range(t):
            # At scale 0 no unit was bought: a part is below 1.
            weights[held[j]] += min(most, int(low * gains[held[j]] + part[j]))


def give(data: Data, gains: Floats, curve: CoinTable, key: Key, round_: int) -> Whole:
    """Sum of what users give; items of equal gains get equal units, give or take one."""
    weights = np.zeros(len(data.items), np.int64)
    user_hash = data.users.hashes(key.salt(f"units by user, round {round_}"))
    item_hash = data.items.hashes(key.salt(f"units by item, round {round_}"))
    give_by_gain(
        data.held.start, data.held.stop, data.held.items, gains, np.array(curve.prices, np.int64),
        curve.budget, user_hash, item_hash, weights,
    )  # fmt: skip
    return weights


def open_sums(data: Data, gains: Floats) -> Whole:
    """What `add_open` sums up; an item of less gain counts as a part of one."""
    squares = np.concatenate(([0.0], np.cumsum((gains**2)[data.held.items])))
    parts = np.ceil(squares[data.held.stop] - squares[data.held.start] - 1e-6)
    pairs = zip(LIMITS, UNITS, strict=True)
    return np.array([(np.minimum(parts, most) * unit // most).sum() for most, unit in pairs], int)


def run(bits: BitsRounds, data: Data, key: Key, gains: list[Floats] | None = None) -> Flags:
    """As `BitsRounds.run`, with gains of every item in each round; all are equal without."""
    engine, released, noise = data.engine(key), np.zeros(len(data.items), bool), open_noise(key)
    for round_ in range(len(bits.shares)):
        left = np.where(released, 0.0, 1.0 if gains is None else gains[round_])
        curve = bits.curve(round_, bits.estimated_cap(open_sums(data, left), noise, round_))
        if ((left == 0.0) | (left == 1.0)).all():
            weights = engine.give_units(left == 0.0, curve.prices, curve.budget, round_)
        else:
            weights = give(data, left, curve, key, round_)
        released |= flip_words(curve.chances, weights, data.items, key, round_)
    return released


def sieved(sieve: SieveRounds, data: Data, key: Key) -> tuple[Flags, Floats]:
    """What sieve releases, and its evidence at the end, in standard deviations."""
    evidence, noise = Evidence(sieve, len(data.items)), Noise(key, data.items)
    engine, limits, last = data.engine(key), sieve.limits(), sieve.phases[-1]
    for each in sieve.rounds():
        attention = evidence.attention(each)
        weights, present = sieve.ask(each, engine, attention, limits)
        sieve.update_evidence(each, evidence, noise, weights, present, attention)
    return evidence.released, evidence.state()["total"] / (sieve.sigma * math.sqrt(last.share))


def after_sieve(data: Data, privacy: tuple[float, float], key: Key) -> dict[str, int]:
    """Sieve, and sieve with a part of the budget for one round of bits on what it left open."""
    epsilon, delta = privacy
    out, _ = sieved(design_sieve(epsilon, delta, **SIEVE)[0], data, key)
    found = {"sieve": int(out.sum())}
    left = (1.0 - PART) * (1.0 - 1e-14)
    out, _ = sieved(design_sieve(left * epsilon, left * delta, **SIEVE)[0], data, key)
    bits = bits_of(bits_account(PART * epsilon, PART * delta), (1.0,))
    more = run(bits, data, key, [(~out).astype(np.float64)])
    found[f"sieve, then bits for {PART:.0%}"] = int((out | more).sum())
    # As if both shared one budget of squares, and each had its part of delta beside the other.
    out, score = sieved(design_sieve(_weaker(epsilon, delta), delta, **SIEVE)[0], data, key)
    account = bits_account(epsilon, delta)
    for what, by_evidence in (("", False), (", by evidence", True)):
        chance = np.maximum([upper_tail(each) for each in score], RARE) if by_evidence else None
        novel = last_bits(data, account, out, chance, key)
        found[f"the same in one account{what} (not private)"] = int((out | novel).sum())
    return found


def last_bits(
    data: Data, account: BitsAccount, out: Flags, chance: Floats | None, key: Key
) -> Flags:
    """One round of bits on what is open; with evidence of this chance, coins begin higher.

    A novel item has such evidence rarely, so that its first chance may be larger by as much, if
    the mean over what a novel item may show stays the same. Nobody has proved that.
    """
    gains = (~out).astype(np.float64)
    if chance is not None:
        gains *= chance <= LIKELY
        account = replace(account, sure=account.sure / math.log(LIKELY / RARE))
    sums = open_sums(data, gains)
    mean = sums[2] * LIMITS[2] / UNITS[2] / max(1.0, sums[0] / UNITS[0])
    curve = last_curve(account, PART, nearest_cap(max(1.0, mean)))
    weights = give(data, gains, curve, key, 0)
    if chance is not None:
        chances = np.array([float(each) for each in curve.chances])
        head_start = np.searchsorted(chances, chances[1] / chance, side="right") - 2
        weights = np.where(weights > 0, weights + np.maximum(head_start, 0), 0)
    return flip_words(curve.chances, weights, data.items, key, 0)


def _weaker(epsilon: float, delta: float) -> float:
    """The epsilon at which sieve has the noise of all but a part of its budget of squares."""

    def scale(at: float) -> float:
        return split_by_size(at, delta, SIEVE["max_items"], True).scale()

    low, high, goal = 0.0, epsilon, scale(epsilon) / math.sqrt(1.0 - PART)
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if scale(middle) > goal else (low, middle)
    return high
