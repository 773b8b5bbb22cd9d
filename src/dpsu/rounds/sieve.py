"""Sieve: many small noisy rounds; each steers where users put their weight in the next.

An item is released as soon as its evidence, summed over the rounds of a phase, crosses a boundary
that items of a single user hardly ever cross. A short first phase scouts the many items of every
user; the second decides among those that are worth it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from dpsu.privacy.calibration import ROUND_UP
from dpsu.privacy.normal import upper_quantile
from dpsu.rounds.account import Limits, SizeAccount, split_by_size
from dpsu.rounds.boundary import Phase, crossing_at_most, make_phase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.ids import Ids
    from dpsu.randomness.keys import Key
    from dpsu.randomness.noise import Noise
    from dpsu.rounds.evidence import Evidence
    from dpsu.rounds.protocols import RoundEngine

FRACTION_BITS = 20


@dataclass(frozen=True)
class Steering:
    """Public constants of attention; they change how much is released, never the guarantee.

    Attributes
    ----------
    gain : float
        How much more than measured an item may get when others are done.
    extra : float
        Deviation that is added to that of an item's expected total, in units of sigma.
    open_above, open_below : float
        How fast attention falls with the distance from the boundary: for items that will hardly
        reach it, and for those that will hardly miss it.
    memory, least : float
        What is kept of evidence from round to round, and the least attention it is scaled by.
    smallest_rate : float
        The smallest weight per round that an item is expected to have.
    doubt : float
        The part of an item's rate that may be missing when everybody hurries.
    late, ample, margin : float
        In the last part of the budget, `late`, items that could reach the boundary `ample` times
        get at least what they need, and `margin` standard deviations of noise besides.
    """

    gain: float = 1.1
    extra: float = 0.15
    open_above: float = 0.55
    open_below: float = 0.9
    memory: float = 0.95
    least: float = 1e-3
    smallest_rate: float = 0.8
    doubt: float = 0.3
    late: float = 0.5
    ample: float = 2.5
    margin: float = 2.0


class Round(NamedTuple):
    """One round: its number over all phases, its phase, and its place in that phase."""

    number: int
    phase: Phase
    place: int


@dataclass(frozen=True)
class SieveRounds:
    """Phases, each with its rounds, and the noise and steering that all of them share.

    Where a person has several `ids`, each id gives one so-manieth of what a user gives elsewhere:
    all else is in terms of what a person gives.
    """

    sigma: float
    fraction_bits: int
    phases: tuple[Phase, ...]
    account: SizeAccount
    steering: Steering = Steering()
    ids: int = 1
    kind: ClassVar[str] = "sieve"

    @property
    def unit(self) -> float:
        """How many units of weight make 1."""
        return float(1 << self.fraction_bits)

    @property
    def last_boundary(self) -> float:
        """The last boundary, which evidence has to cross in the end."""
        return self.phases[-1].boundary[-1]

    def weight_needed(self, probability: float) -> float:
        """Weight of ids in every round that suffices so often, by the last boundary alone."""
        share = self.phases[-1].share
        noise = self.sigma * math.sqrt(share)
        return self.ids * (self.last_boundary - noise * upper_quantile(probability)) / share

    def rounds(self) -> Iterator[Round]:
        """All rounds in order; their numbers go on from phase to phase."""
        number = 0
        for phase in self.phases:
            for place in range(len(phase.shares)):
                yield Round(number, phase, place)
                number += 1

    def scale(self, this_round: Round) -> float:
        """Standard deviation of the noise of a round, in units."""
        share = this_round.phase.shares[this_round.place]
        return ROUND_UP * self.sigma / math.sqrt(share) * self.unit

    def limits(self) -> tuple[Limits, ...]:
        """What users may give, phase by phase: norms are the same in all, and caps are not.

        Refused if there are users for whom no cap of a phase is safe: items can be released
        because they are in a set, whatever their weight.
        """
        return _limits_of(self)

    def run(self, engine: RoundEngine, items: Ids, key: Key) -> NDArray[np.bool_]:
        """Which items are released, from an engine that knows the users."""
        from dpsu.randomness.noise import Noise
        from dpsu.rounds.evidence import Evidence

        noise, evidence = Noise(key, items), Evidence(self, len(items))
        limits = self.limits()
        for this_round in self.rounds():
            attention = evidence.attention(this_round)
            weights, present = self.ask(this_round, engine, attention, limits)
            self.update_evidence(this_round, evidence, noise, weights, present, attention)
        return evidence.released

    def ask(
        self,
        this_round: Round,
        engine: RoundEngine,
        attention: NDArray[np.float64],
        limits: tuple[Limits, ...],
    ) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
        """What users give in a round and, where a phase begins, which items are in their sets."""
        present = None
        if this_round.place == 0:
            # Sets are chosen once per phase, and stay.
            chosen_by = None if this_round.number == 0 else attention
            present = engine.choose(this_round.phase.max_items, chosen_by)
        if this_round.number == 0:
            # There is no noise yet: nobody's class may depend on it.
            engine.classify(self.account.sizes())
        limit = limits[self.phases.index(this_round.phase)]
        shape = this_round.phase.shapes[this_round.place]
        unit = self.unit / self.ids
        return engine.attend(attention, limit, shape, unit), present

    def update_evidence(
        self,
        this_round: Round,
        evidence: Evidence,
        noise: Noise,
        weights: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
        attention: NDArray[np.float64],
    ) -> None:
        """Add noise to the weights of all users, and update evidence; `present` begins a phase."""
        if present is not None:
            evidence.begin(present)
        evidence.update(
            this_round,
            weights + noise.rounded(this_round.number, self.scale(this_round)),
            attention,
        )


@lru_cache(maxsize=64)
def _limits_of(sieve: SieveRounds) -> tuple[Limits, ...]:
    """The limits of every phase, checked for every class."""
    sizes, deciding = sieve.account.sizes(), sieve.phases[-1]
    norms = tuple(sieve.account.norm(size, sieve.sigma) for size in sizes)
    found = []
    for phase in sieve.phases:
        allowed = tuple(
            sieve.account.allowed(size) / sieve.ids if phase is deciding else phase.delta
            for size in sizes
        )
        caps = phase.caps()
        crossing = tuple(crossing_at_most(phase, sieve.sigma, sieve.unit, cap) for cap in caps)
        limits = Limits(norms, allowed, caps, crossing)
        for user_class, size in enumerate(sizes):
            limits.cap(user_class, size if phase is deciding else phase.max_items)
        found.append(limits)
    return tuple(found)


# Chosen on made-up data by benchmarks/steering.py; what common items get late was chosen with sizes
# on four real sets in view as well. With few rounds, an early one must not decide too much.
MANY_ROUNDS = 10
FEW_ROUNDS = Steering(gain=1.05, extra=0.25, open_above=0.4, open_below=0.3, memory=0.9)
GROWTH = 0.9
CAP_SCOUTING = 0.3


@lru_cache(maxsize=64, typed=True)
def design_sieve(
    epsilon: float,
    delta: float,
    *,
    rounds: int,
    max_items: int,
    scout_items: int,
    growth: float = GROWTH,
    cap: float | None = None,
    ids: int = 1,
) -> tuple[SieveRounds, dict[str, float]]:
    """Calibrate the noise, and the boundaries while scouting and while deciding.

    Returns the rounds, and what delta pays for where users have `max_items` items or more; those
    who have fewer pay less for novel items and more for noise.

    Parameters
    ----------
    rounds : int
        Number of rounds; shares of the budget grow like their number to the power `growth`.
    max_items, scout_items : int
        Size of a user's set while deciding and while scouting. There is no scouting if the second
        is 0, or with fewer than 4 rounds.
    cap : float
        Largest weight for an item while deciding that is safe for `max_items` novel ones; by
        default sqrt 3 times what a user of so many items can give to all of them.
    ids : int
        How many users one person may be. Novel items of each of them may cross with one
        so-manieth of the chance, and norms are the same for sets of all sizes.
    """
    cap = full_share(max_items) if cap is None else cap
    grow = [k**growth for k in range(1, rounds + 1)]
    # Rounded down: together they take at most the whole budget.
    shares = [g / math.fsum(grow) * (1.0 - 1e-14) for g in grow]
    scouting = 0
    if scout_items and rounds >= 4:
        scouting = 1 if rounds < MANY_ROUNDS else 2
    account = split_by_size(epsilon, delta, max_items, scouting > 0, ids)
    sigma = account.scale()
    unit = float(1 << FRACTION_BITS)
    split = {"noise": account.for_noise(max_items)}
    phases = []
    if scouting:
        split["novel items while scouting"] = account.scouting
        phases.append(
            make_phase(
                tuple(shares[:scouting]), shapes(scouting), sigma, unit, max_items=scout_items,
                delta=account.scouting / ids, cap=max(CAP_SCOUTING, full_share(scout_items)),
                exponent=0.3,
            )
        )  # fmt: skip
    split["novel items"] = account.crossing
    phases.append(
        make_phase(
            tuple(shares[scouting:]), shapes(rounds - scouting), sigma, unit, max_items=max_items,
            delta=account.crossing / ids, cap=cap, exponent=0.0,
        )
    )  # fmt: skip
    steering = Steering() if rounds >= MANY_ROUNDS else FEW_ROUNDS
    sieve = SieveRounds(sigma, FRACTION_BITS, tuple(phases), account, steering, ids)
    # Nobody is left without a norm or a cap.
    sieve.limits()
    return sieve, split


def full_share(size: int) -> float:
    """A cap that leaves users of a full set free to spend all of their norm."""
    return min(1.0, math.sqrt(3.0 / size))


def shapes(rounds: int) -> tuple[float, ...]:
    """Caps rise over a phase: early rounds spread weight, late ones favor open items."""
    if rounds == 1:
        return (1.0,)
    return tuple(0.8 + 0.4 * k / (rounds - 1) for k in range(rounds))
