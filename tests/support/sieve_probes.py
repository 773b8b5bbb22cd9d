"""The sieve once more, round by round, with wrong turns that leak; and its law.

`run` is a second reading of the mechanism. Without a trap it must agree with the shipped one; with
a trap it is what the shipped one must not become: these are in the parts that both share, and others
are in tools/mutations.toml. `distribution` integrates over the noise: all rounds but the last by
enumeration of rounded noise, the last in closed form.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dpsu.contributions.grouped import Contributions
from dpsu.contributions.ids import Ids, integers
from dpsu.engines.local_rounds import LocalRounds
from dpsu.privacy.normal import upper_tail
from dpsu.randomness.keys import Key
from dpsu.rounds.account import Limits
from dpsu.rounds.evidence import Evidence, Tables, steering_tables
from dpsu.rounds.sieve import SieveRounds

Noise = Callable[[int], np.ndarray]

TRAPS = (
    "shares of each phase add up to 1",
    "sets of the first phase count in the second",
    "positive weight instead of membership",
    "evidence of the first phase counts in the second",
)
KEY = Key.from_insecure_seed(11)


@dataclass(frozen=True)
class Lowered(SieveRounds):
    """Boundaries that noise often crosses: not private, but quick to differ. Limits stay."""

    honest: SieveRounds | None = None

    def limits(self) -> tuple[Limits, ...]:
        """Those of the sieve before its boundaries were lowered, for which they are safe."""
        return _limits(honest_one(self))


@lru_cache(maxsize=8)
def _tables(sieve: SieveRounds) -> Tables:
    return steering_tables(sieve)


@lru_cache(maxsize=8)
def _limits(sieve: SieveRounds) -> tuple[Limits, ...]:
    return sieve.limits()


def lowered(sieve: SieveRounds, fraction_bits: int | None = None, part: float = 0.3) -> SieveRounds:
    """The same sieve with a part of its boundaries, and with other units if these are given."""
    phases = tuple(
        replace(phase, boundary=tuple(part * bound for bound in phase.boundary))
        for phase in sieve.phases
    )
    bits = sieve.fraction_bits if fraction_bits is None else fraction_bits
    return Lowered(
        sieve.sigma, bits, phases, sieve.account, sieve.steering, sieve.ids, honest=sieve
    )


def honest_one(sieve: SieveRounds) -> SieveRounds:
    """The sieve whose limits hold."""
    honest = sieve.honest if isinstance(sieve, Lowered) else sieve
    assert honest is not None
    return honest


def given(attention: np.ndarray, norm: float, cap: float, unit: float) -> list[int]:
    """What one user gives to its items, once more: the level is found by halving an interval."""
    open_ = attention > 0
    if norm >= cap * math.sqrt(open_.sum()):
        return [math.floor(cap * unit) if o else 0 for o in open_]
    ratio = attention / attention.max()
    low, high = 0.0, 1e300
    for _ in range(1500):
        level = math.sqrt(low * high) if low > 1e-3 else (low + min(high, 1e3)) / 2.0
        if level in (low, high):
            break
        inside = math.fsum(np.minimum(cap, level * ratio) ** 2) <= norm * norm
        low, high = (level, high) if inside else (low, level)
    return [math.floor(min(cap, low * r) * unit) for r in ratio]


def engine_of(users: list[list[int]], n_items: int) -> LocalRounds:
    """An engine for users with small sets; user u keeps its id whoever else is there."""
    return _copied(users, n_items, 1)()


def run(
    sieve: SieveRounds,
    make_engine: Callable[[], LocalRounds],
    noise: Noise,
    n_items: int,
    trap: str | None = None,
    *,
    before_last: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Released items; and, `before_last`, evidence, weights and presence at the last round."""
    evidence, engine = Evidence(sieve, n_items, _tables(sieve)), make_engine()
    limits = sieve.limits()
    asked = list(sieve.rounds())
    weights, present = np.zeros(n_items, np.int64), np.zeros(n_items, bool)
    for this_round in asked:
        phase = this_round.phase
        attention = evidence.attention(this_round)
        if this_round.place == 0:
            total, earlier = evidence._total.copy(), present
            present = engine.choose(phase.max_items, None if this_round.number == 0 else attention)
            if trap == "sets of the first phase count in the second":
                present = present | earlier
            evidence.begin(present)
            if trap == "evidence of the first phase counts in the second":
                evidence._total[:] = total
        if this_round.number == 0:
            engine.classify(sieve.account.sizes())
        weights = engine.attend(
            attention,
            limits[sieve.phases.index(phase)],
            phase.shapes[this_round.place],
            sieve.unit,
        )
        if trap == "positive weight instead of membership":
            evidence._present = weights > 0
        if before_last and this_round is asked[-1]:
            break
        evidence.update(this_round, weights + noise(this_round.number), attention)
    return evidence.released, evidence._total, weights, evidence._present


def classes_of(sizes: tuple[int, ...], held: ArrayLike) -> np.ndarray:
    """The classes of users who hold sets of these sizes."""
    found = np.searchsorted(np.array(sizes), np.minimum(held, sizes[-1]))
    return np.asarray(found, np.uint16)


def scaled(sieve: SieveRounds, trap: str | None) -> SieveRounds:
    """The sieve that a trap in the shares would make of this one."""
    if trap != "shares of each phase add up to 1":
        return sieve
    phases = tuple(replace(p, shares=tuple(f / p.share for f in p.shares)) for p in sieve.phases)
    return replace(lowered(honest_one(sieve), sieve.fraction_bits), phases=phases)


def distribution(
    sieve: SieveRounds, users: list[list[int]], n_items: int, trap: str | None = None
) -> dict[frozenset[int], float]:
    """Probability of every released set, by copies of the database, one for each path of noise."""
    sieve = scaled(sieve, trap)
    rounds = list(sieve.rounds())
    cells = []
    for this_round in rounds[:-1]:
        scale = sieve.scale(this_round)
        most = math.ceil(6.0 * scale)
        values = np.arange(-most, most + 1)
        chances = [upper_tail((v - 0.5) / scale) - upper_tail((v + 0.5) / scale) for v in values]
        cells += [(values, np.array(chances))] * n_items
    grids = np.meshgrid(*(np.arange(len(v)) for v, _ in cells), indexing="ij")
    paths = [g.ravel() for g in grids]
    copies = len(paths[0]) if paths else 1
    weight = np.ones(copies)
    for path, (_, chance) in zip(paths, cells, strict=True):
        weight *= chance[path]

    def noise(round_: int) -> np.ndarray:
        drawn = np.empty((copies, n_items), np.int64)
        for item in range(n_items):
            values, _ = cells[round_ * n_items + item]
            drawn[:, item] = values[paths[round_ * n_items + item]]
        return drawn.ravel()

    rows = _copied(users, n_items, copies)
    released, total, weights, present = run(
        sieve, rows, noise, copies * n_items, trap, before_last=True
    )
    last = rounds[-1]
    share, bound = last.phase.shares[last.place], last.phase.boundary[last.place]
    needed = (bound - total) / share * float(1 << sieve.fraction_bits) - weights
    scale = sieve.scale(last)
    shown = np.array([upper_tail((math.floor(n) + 0.5) / scale) for n in needed])
    shown = np.where(released, 1.0, np.where(present, shown, 0.0)).reshape(copies, n_items)
    law: dict[frozenset[int], float] = {}
    for pattern in itertools.product((False, True), repeat=n_items):
        likely = np.prod(np.where(pattern, shown, 1.0 - shown), axis=1)
        law[frozenset(np.flatnonzero(pattern).tolist())] = float(weight @ likely)
    return law


def _copied(users: list[list[int]], n_items: int, copies: int) -> Callable[[], LocalRounds]:
    sizes = np.tile([len(held) for held in users], copies)
    stop = np.cumsum(sizes).astype(np.int64)
    one = np.array([i for held in users for i in sorted(held)], np.int64)
    offset = np.repeat(np.arange(copies) * n_items, len(one))
    items = (np.tile(one, copies) + offset).astype(np.int32)
    user_ids = Ids(integers(np.tile(np.arange(len(users), dtype=np.int64), copies)))
    item_ids = Ids(integers(np.tile(np.arange(n_items, dtype=np.int64), copies)))

    def make() -> LocalRounds:
        held = Contributions(stop - sizes, stop.copy(), items.copy(), None, copies * n_items)
        return LocalRounds(held, user_ids, item_ids, KEY)

    return make


def divergence(p: Mapping[Any, float], q: Mapping[Any, float], epsilon: float) -> float:
    """Smallest delta for which the two laws are (epsilon, delta)-close, in both directions."""
    ratio, seen = math.exp(epsilon), p.keys() | q.keys()
    return max(
        sum(max(0.0, one.get(o, 0.0) - ratio * other.get(o, 0.0)) for o in seen)
        for one, other in ((p, q), (q, p))
    )
