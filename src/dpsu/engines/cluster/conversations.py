"""What users and items send each other in every round: one conversation for each mechanism.

In a round, users give weights, which may depend on what items replied in the round before. Items
sum the weights over all users, update a state of their own and reply with one number each. Both
sides run the code of the local engine, on some of the users and on some of the items.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids
from dpsu.engines.local import above_min_users
from dpsu.engines.local_rounds import LocalRounds
from dpsu.plans.mechanisms import OneShot
from dpsu.plans.plan import Plan
from dpsu.policies import ReroutePolicy
from dpsu.privacy.bits import CoinTable
from dpsu.randomness.coins import flip_coins, flip_words
from dpsu.randomness.keys import Key
from dpsu.randomness.noise import Noise
from dpsu.rounds.account import Limits
from dpsu.rounds.bits import LIMITS, UNITS, BitsRounds, open_noise
from dpsu.rounds.evidence import Evidence, Tables, steering_tables
from dpsu.rounds.sieve import SieveRounds
from dpsu.rounds.sips import SipsRounds

Weights = NDArray[np.int64]
State = dict[str, NDArray[Any]]
Given = tuple[Weights, NDArray[np.bool_] | None]
Answered = tuple[State, NDArray[Any]]


class Conversation(Protocol):
    """A mechanism as an exchange of messages between users and items."""

    @property
    def rounds(self) -> int:
        """How often users are asked for weights."""

    @property
    def reply_type(self) -> Any:
        """The NumPy type of the number that an item replies with."""

    def hashes_after(self, round_number: int) -> bool:
        """Whether ids of users and items are hashed in a later round."""

    def done(self, replies: NDArray[Any]) -> NDArray[np.bool_]:
        """Of which items replies say that no user gives them anything any more."""

    def ask(self, round_number: int, engine: LocalRounds, replies: NDArray[Any] | None) -> Given:
        """What users give, and which items are in their sets if those were chosen in this round."""

    def answer(
        self, round_number: int, items: Ids, state: State, weights: Weights, key: Key
    ) -> Answered:
        """The state of items after a round, which includes `released`, and their replies.

        Where sets were chosen in this round, `state` says which items are `present` in them.
        """


@dataclass(frozen=True, repr=False)
class SieveConversation:
    """Rounds of a sieve; items reply with attention. The driver makes tables and limits once."""

    sieve: SieveRounds
    tables: Tables
    limits: tuple[Limits, ...]
    reply_type: ClassVar[Any] = np.float64

    @property
    def rounds(self) -> int:
        """One for each round of the sieve."""
        return len(list(self.sieve.rounds()))

    def hashes_after(self, round_number: int) -> bool:
        """Users choose their sets by hash where a phase begins."""
        return any(later.place == 0 for later in list(self.sieve.rounds())[round_number + 1 :])

    def done(self, replies: NDArray[Any]) -> NDArray[np.bool_]:
        """Items that are released have no attention, and no others."""
        found: NDArray[np.bool_] = replies == 0.0
        return found

    def ask(self, round_number: int, engine: LocalRounds, replies: NDArray[Any] | None) -> Given:
        """Weights in proportion to attention."""
        this_round = list(self.sieve.rounds())[round_number]
        attention = np.ones(engine.held.n_items) if replies is None else replies
        return self.sieve.ask(this_round, engine, attention, self.limits)

    def answer(
        self, round_number: int, items: Ids, state: State, weights: Weights, key: Key
    ) -> Answered:
        """Evidence after this round, and attention for the next."""
        rounds = list(self.sieve.rounds())
        evidence = Evidence(self.sieve, len(items), self.tables)
        attention = np.ones(len(items))
        if round_number > 0:
            evidence.resume(state)
            attention = state["attention"]
        this_round = rounds[round_number]
        present = state["present"] if this_round.place == 0 else None
        self.sieve.update_evidence(
            this_round, evidence, Noise(key, items), weights, present, attention
        )
        if round_number + 1 < len(rounds):
            attention = evidence.attention(rounds[round_number + 1])
        return evidence.state() | {"attention": attention}, attention


class CoinEachRound(Conversation, Protocol):
    """Rounds in which items that are not released have a coin each; they reply whether they are."""

    reply_type: ClassVar[Any] = np.bool_

    def hashes_after(self, round_number: int) -> bool:
        """What users give depends on hashes in every round."""
        return round_number + 1 < self.rounds

    def done(self, replies: NDArray[Any]) -> NDArray[np.bool_]:
        """Items that are released."""
        return replies

    def _released(self, engine: LocalRounds, replies: NDArray[Any] | None) -> NDArray[np.bool_]:
        return np.zeros(engine.held.n_items, bool) if replies is None else replies

    def _answered(self, round_number: int, released: NDArray[np.bool_], state: State) -> Answered:
        """What came out in this round, and before."""
        if round_number > 0:
            released |= state["released"]
        return {"released": released}, released


@dataclass(frozen=True, repr=False)
class SipsConversation(CoinEachRound):
    """Rounds of sips; users draw a new sample in every round."""

    sips: SipsRounds

    @property
    def rounds(self) -> int:
        """One for each curve."""
        return len(self.sips.curves)

    def ask(self, round_number: int, engine: LocalRounds, replies: NDArray[Any] | None) -> Given:
        """Equal shares to items that are not released."""
        released, sips = self._released(engine, replies), self.sips
        return engine.share(released, sips.max_items, sips.given(), round_number), None

    def answer(
        self, round_number: int, items: Ids, state: State, weights: Weights, key: Key
    ) -> Answered:
        """One coin for each item, in every round."""
        curve, bits = self.sips.curves[round_number], self.sips.fraction_bits
        released = flip_coins(curve, weights, bits, items, key, round_number)
        return self._answered(round_number, released, state)


@dataclass(frozen=True, repr=False)
class BitsConversation(CoinEachRound):
    """Rounds of bits; what is left over goes to other items in every round.

    The driver makes the curves, unless their caps are estimated: then `curves` is empty, users are
    surveyed before they give, and :meth:`knowing` has the curve of that round.
    """

    bits: BitsRounds
    curves: tuple[CoinTable, ...]

    @property
    def rounds(self) -> int:
        """One for each share."""
        return len(self.bits.shares)

    def survey(self, engine: LocalRounds, replies: NDArray[Any] | None) -> NDArray[np.int64]:
        """Sums over some users, of which all users together make an estimate."""
        return engine.add_open(self._released(engine, replies), LIMITS, UNITS)

    def estimate(self, round_number: int, sums: NDArray[np.int64], key: Key) -> float:
        """The cap of a round, from the sums over all users."""
        return self.bits.estimated_cap(sums, open_noise(key), round_number)

    def knowing(self, round_number: int, cap: float) -> BitsConversation:
        """The conversation in this round, for which this cap was found."""
        return replace(self, curves=(self.bits.curve(round_number, cap),) * self.rounds)

    def finding(self, round_number: int, cap: float) -> bytes:
        """A cap, and a digest of the chances that this machine makes for it."""
        chances = self.bits.curve(round_number, cap).chances
        return np.float64(cap).tobytes() + sha256(repr(chances).encode()).digest()

    def cap_found(self, finding: bytes) -> float:
        """The cap of a finding."""
        return float(np.frombuffer(finding, np.float64, 1)[0])

    def ask(self, round_number: int, engine: LocalRounds, replies: NDArray[Any] | None) -> Given:
        """Equal units to items that are not released."""
        curve, released = self.curves[round_number], self._released(engine, replies)
        return engine.give_units(released, curve.prices, curve.budget, round_number), None

    def answer(
        self, round_number: int, items: Ids, state: State, weights: Weights, key: Key
    ) -> Answered:
        """One coin for each item that is not released, in every round."""
        released = flip_words(self.curves[round_number].chances, weights, items, key, round_number)
        return self._answered(round_number, released, state)


@dataclass(frozen=True, repr=False)
class RerouteConversation:
    """Reroute in two rounds; items reply with the part of their weight that they give back."""

    plan: Plan
    policy: ReroutePolicy
    reply_type: ClassVar[Any] = np.float64

    @property
    def rounds(self) -> int:
        """In the first round users give; in the second they give again what came back."""
        return 2

    def hashes_after(self, round_number: int) -> bool:
        """Users are bounded before the first round, and nothing is hashed after it."""
        return False

    def done(self, replies: NDArray[Any]) -> NDArray[np.bool_]:
        """None: in the second round all items get what came back."""
        return np.zeros(len(replies), bool)

    def ask(self, round_number: int, engine: LocalRounds, replies: NDArray[Any] | None) -> Given:
        """Equal shares in the first round, a part of what came back in the second."""
        if replies is None:
            return self.policy.given(engine.held), None
        return self.policy.rerouted(engine.held, replies), None

    def answer(
        self, round_number: int, items: Ids, state: State, weights: Weights, key: Key
    ) -> Answered:
        """The weight that an item keeps; after the second round, the outcome of its coin."""
        if round_number == 0:
            kept, back = self.policy.cut(weights)
            return {"kept": kept, "released": np.zeros(len(items), bool)}, back
        total = above_min_users(self.plan, state["kept"] + weights)
        released = flip_coins(self.plan.curve, total, self.policy.fraction_bits, items, key)
        return {"released": released}, released


def conversation_of(plan: Plan) -> Conversation | None:
    """The conversation of a mechanism; None for one that needs a single round and no state."""
    if isinstance(plan.selection, SieveRounds):
        sieve = plan.selection
        return SieveConversation(sieve, steering_tables(sieve), sieve.limits())
    if isinstance(plan.selection, SipsRounds):
        return SipsConversation(plan.selection)
    if isinstance(plan.selection, BitsRounds):
        bits = plan.selection
        return BitsConversation(bits, tuple(map(bits.curve, range(len(bits.caps)), bits.caps)))
    assert isinstance(plan.selection, OneShot)
    if isinstance(plan.policy, ReroutePolicy):
        return RerouteConversation(plan, plan.policy)
    return None
