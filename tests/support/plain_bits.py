"""Rounds of bits once more, as slow and as obvious as possible; and their exact law.

`run` is a transcription of the pseudocode in docs/proofs/bits.md: Python's integers and sets, one
user and one item after the other, with the coins and the noise of a key. `law` takes the place of
the coins by their probabilities, with every wrong turn that is known to leak as a switch.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from fractions import Fraction

import pyarrow as pa

from dpsu.contributions.ids import Ids
from dpsu.kernels.hashing import hash_word
from dpsu.privacy.bits import CoinTable, round_curve
from dpsu.privacy.last_bits import last_curve
from dpsu.randomness.keys import Key
from dpsu.randomness.noise import Noise
from dpsu.rounds.bits import BitsRounds

TRAPS = (
    "weights accumulate over rounds",
    "one curve of share 1 for every round",
    "a refund for released items",
    "a user is split in two",
    "the price of one item for all",
)
WHOLE = 2**64
Users = Mapping[str, Iterable[str]]
# What is released after every round.
Path = tuple[frozenset[str], ...]


def _hashes(ids: list[str], salt: int) -> dict[str, int]:
    found = Ids(pa.array(ids, pa.large_string())).hashes(salt)
    return dict(zip(ids, found, strict=True))


def order_of(user: str, items: Iterable[str], key: Key, round_: int) -> list[str]:
    """The order in which items of a user get what is left over, by a hash of its own."""
    items = sorted(items)
    mine = _hashes([user], key.salt(f"units by user, round {round_}"))[user]
    theirs = _hashes(items, key.salt(f"units by item, round {round_}"))
    return sorted(items, key=lambda item: int(hash_word(theirs[item], mine)))


def units(items: list[str], prices: tuple[int, ...], budget: int) -> dict[str, int]:
    """One more unit for every item in turn, as long as the prices of all stay within the budget."""
    given = dict.fromkeys(items, 0)
    for level in range(1, len(prices)):
        for item in items:
            raised = given | {item: level}
            if sum(prices[n] for n in raised.values()) > budget:
                return given
            given = raised
    return given


def chance(curve: CoinTable, weight: int) -> int:
    """Probability of release in parts of 2^64."""
    return curve.chances[min(weight, len(curve.chances) - 1)]


def curve_of(bits: BitsRounds, round_: int, share: float, cap: float) -> CoinTable:
    """That of a last round where no other follows."""
    last = round_ == len(bits.shares) - 1
    return (last_curve if last else round_curve)(bits.account, share, cap)


def nearest(mean: float, caps: Iterable[float]) -> float:
    """The cap nearest to 1/sqrt(mean), by ratio."""
    wanted = min(1.0, 1.0 / math.sqrt(mean))
    return min(caps, key=lambda cap: max(cap / wanted, wanted / cap))


def estimated(bits: BitsRounds, sizes: list[int], key: Key, round_: int) -> float:
    """The cap that a noisy mean of numbers of open items leads to."""
    limits, units_of = (1, 20, 400), (400, 400, 850)
    names = Ids(pa.array([str(limit) for limit in limits], pa.large_string()))
    noise = Noise(key, names, "open items").rounded(round_, bits.noise).tolist()
    sums = [
        sum(min(size, limit) * unit // limit for size in sizes) + drawn
        for limit, unit, drawn in zip(limits, units_of, noise, strict=True)
    ]
    users = sums[0] / 400
    if users < 5 * bits.noise / 400:
        return nearest(10.0, bits.choices)
    short, long = max(1.0, sums[1] / 20 / users), max(1.0, sums[2] * 400 / 850 / users)
    error = 400 * bits.noise / 850 / users
    if error <= 0.2 * long or short >= 15 or long > short + 2 * error:
        return nearest(long, bits.choices)
    return nearest(short, bits.choices)


def run(bits: BitsRounds, users: Users, key: Key) -> set[str]:
    """What is released under a key."""
    released: set[str] = set()
    for round_, share in enumerate(bits.shares):
        sizes = [len(set(items) - released) for items in users.values()]
        cap = bits.caps[round_] if bits.caps else estimated(bits, sizes, key, round_)
        curve = curve_of(bits, round_, share, cap)
        for item, weight in _weights(curve, users, key, frozenset(released), round_, None).items():
            digest = key.digest("coin of a table", round_, 0, item.encode())
            if int.from_bytes(digest[:8], "big") < chance(curve, weight):
                released.add(item)
    return released


def law(bits: BitsRounds, users: Users, key: Key, trap: str | None = None) -> dict[Path, Fraction]:
    """Exact probabilities of what is released after every round."""
    paths: dict[Path, Fraction] = {(): Fraction(1)}
    for round_ in range(len(bits.shares)):
        after: dict[Path, Fraction] = {}
        for path, likely in paths.items():
            for now, p in _round_law(bits, users, key, path, round_, trap).items():
                after[(*path, now)] = likely * p
        paths = after
    return paths


def _round_law(
    bits: BitsRounds, users: Users, key: Key, path: Path, round_: int, trap: str | None
) -> dict[frozenset[str], Fraction]:
    """What may be released after a round, given what was before."""
    before = path[-1] if path else frozenset()
    curve = _curve(bits, round_, trap)
    weights = _weights(curve, users, key, before, round_, trap)
    if trap == "weights accumulate over rounds":
        for earlier in range(round_):
            known = path[earlier - 1] if earlier else frozenset()
            old = _curve(bits, earlier, trap)
            weights.update(_weights(old, users, key, known, earlier, trap))
    open_items = sorted(item for item in weights if item not in before)
    found = {}
    for shown in itertools.product((False, True), repeat=len(open_items)):
        p = Fraction(1)
        for item, out in zip(open_items, shown, strict=True):
            part = Fraction(chance(curve, weights[item]), WHOLE)
            p *= part if out else 1 - part
        found[before | set(itertools.compress(open_items, shown))] = p
    return found


def _curve(bits: BitsRounds, round_: int, trap: str | None) -> CoinTable:
    everything = trap == "one curve of share 1 for every round"
    share = 1.0 if everything else bits.shares[round_]
    return curve_of(bits, round_, share, bits.caps[round_])


def _weights(
    curve: CoinTable,
    users: Users,
    key: Key,
    before: frozenset[str],
    round_: int,
    trap: str | None,
) -> Counter[str]:
    weights: Counter[str] = Counter()
    for user, items in users.items():
        still = set(items) - before
        if not still:
            continue
        ordered = order_of(user, still, key, round_)
        budget = curve.budget
        if trap == "a refund for released items" and before & set(items):
            budget *= 1 + len(before & set(items))
        if trap == "the price of one item for all":
            budget *= len(ordered)
        weights.update(units(ordered, curve.prices, budget))
        if trap == "a user is split in two":
            weights.update(units(ordered, curve.prices, budget))
    return weights


def divergence(p: dict[Path, Fraction], q: dict[Path, Fraction], epsilon: float) -> float:
    """The larger of both hockey-stick divergences."""
    bound = Fraction(math.exp(epsilon))
    none = Fraction(0)
    both = set(p) | set(q)
    return max(
        float(sum(max(none, one.get(at, none) - bound * other.get(at, none)) for at in both))
        for one, other in ((p, q), (q, p))
    )
