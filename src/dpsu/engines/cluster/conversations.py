"""What users and items say to each other, turn after turn: one course for each mechanism in rounds.

In a turn users give weights, knowing what items told them in the turn before; items hear the sum
over all users, keep a state of their own and tell users one number each. Both sides call the code
that the local engine calls, on some of the users and on some of the items.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids
from dpsu.engines.local import above
from dpsu.engines.local_rounds import LocalLooks
from dpsu.plans.mechanisms import OneShot
from dpsu.plans.plan import Plan
from dpsu.policies import ReroutePolicy
from dpsu.randomness.coins import toss
from dpsu.randomness.keys import Key
from dpsu.randomness.noise import Noise
from dpsu.rounds.evidence import Evidence, Tables, steering_tables
from dpsu.rounds.sieve import SieveRounds
from dpsu.rounds.sips import SipsRounds

State = dict[str, NDArray[Any]]
Given = tuple[NDArray[np.int64], NDArray[np.bool_] | None]


class Course(Protocol):
    """A mechanism as a conversation."""

    @property
    def turns(self) -> int:
        """How often users are asked."""

    @property
    def told(self) -> Any:
        """The type of the number that an item tells its users."""

    def hashes_after(self, turn: int) -> bool:
        """Whether ids of users and items are hashed in a later turn."""

    def ask(self, turn: int, looks: LocalLooks, heard: NDArray[Any] | None) -> Given:
        """What users give, and which items are in their sets where those were chosen anew."""

    def listen(
        self,
        turn: int,
        items: Ids,
        state: State,
        weights: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
        key: Key,
    ) -> tuple[State, NDArray[Any]]:
        """The state of items after a turn, `released` among it, and what they tell users."""


@dataclass(frozen=True, repr=False)
class SieveCourse:
    """Looks of a sieve; users are told attention. Tables and caps are made once, by the driver."""

    sieve: SieveRounds
    tables: Tables
    caps: tuple[list[float], ...]
    told: Any = field(default=np.float64, init=False)

    @property
    def turns(self) -> int:
        """One for each look."""
        return len(list(self.sieve.looks()))

    def hashes_after(self, turn: int) -> bool:
        """Sets are chosen by hash where a phase begins."""
        return any(look.place == 0 for look in list(self.sieve.looks())[turn + 1 :])

    def ask(self, turn: int, looks: LocalLooks, heard: NDArray[Any] | None) -> Given:
        """Weights in proportion to attention."""
        look = list(self.sieve.looks())[turn]
        attention = np.ones(looks.held.n_items) if heard is None else heard
        caps = self.caps[self.sieve.phases.index(look.phase)]
        return self.sieve.ask(look, looks, attention, caps)

    def listen(
        self,
        turn: int,
        items: Ids,
        state: State,
        weights: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
        key: Key,
    ) -> tuple[State, NDArray[Any]]:
        """Evidence after a look, and attention for the next."""
        looks = list(self.sieve.looks())
        heard = Evidence(self.sieve, len(items), self.tables)
        attention = np.ones(len(items))
        if turn > 0:
            heard.resume(state)
            attention = state["attention"]
        self.sieve.listen(looks[turn], heard, Noise(key, items), weights, present, attention)
        if turn + 1 < len(looks):
            attention = heard.attention(looks[turn + 1])
        return heard.state() | {"attention": attention}, attention


@dataclass(frozen=True, repr=False)
class SipsCourse:
    """Rounds of sips; users are told which items are released."""

    sips: SipsRounds
    told: Any = field(default=np.bool_, init=False)

    @property
    def turns(self) -> int:
        """One for each round."""
        return len(self.sips.curves)

    def hashes_after(self, turn: int) -> bool:
        """Every round has a sample of its own."""
        return turn + 1 < self.turns

    def ask(self, turn: int, looks: LocalLooks, heard: NDArray[Any] | None) -> Given:
        """Equal shares to items that are not released."""
        released = np.zeros(looks.held.n_items, bool) if heard is None else heard
        return looks.share(released, self.sips.max_items, self.sips.given(), turn), None

    def listen(
        self,
        turn: int,
        items: Ids,
        state: State,
        weights: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
        key: Key,
    ) -> tuple[State, NDArray[Any]]:
        """One coin for each item, in every round."""
        curve, bits = self.sips.curves[turn], self.sips.fraction_bits
        released = toss(curve, weights, bits, items, key, turn)
        if turn > 0:
            released |= state["released"]
        return {"released": released}, released


@dataclass(frozen=True, repr=False)
class RerouteCourse:
    """Reroute in two turns; users are told what part of their weight comes back."""

    plan: Plan
    policy: ReroutePolicy
    told: Any = field(default=np.float64, init=False)

    @property
    def turns(self) -> int:
        """Giving, and giving again what came back."""
        return 2

    def hashes_after(self, turn: int) -> bool:
        """Users are bounded before the first turn."""
        return False

    def ask(self, turn: int, looks: LocalLooks, heard: NDArray[Any] | None) -> Given:
        """Equal shares, and then a part of what came back."""
        if heard is None:
            return self.policy.given(looks.held), None
        return self.policy.rerouted(looks.held, heard), None

    def listen(
        self,
        turn: int,
        items: Ids,
        state: State,
        weights: NDArray[np.int64],
        present: NDArray[np.bool_] | None,
        key: Key,
    ) -> tuple[State, NDArray[Any]]:
        """What an item keeps, and in the end its coin."""
        if turn == 0:
            kept, back = self.policy.cut(weights)
            return {"kept": kept, "released": np.zeros(len(items), bool)}, back
        total = above(self.plan, state["kept"] + weights)
        released = toss(self.plan.curve, total, self.policy.fraction_bits, items, key)
        return {"released": released}, released


def course_of(plan: Plan) -> Course | None:
    """The course of a mechanism; None for one that needs a single turn and no state."""
    if isinstance(plan.selection, SieveRounds):
        sieve = plan.selection
        caps = tuple(phase.caps(sieve.sigma, sieve.unit) for phase in sieve.phases)
        return SieveCourse(sieve, steering_tables(sieve), caps)
    if isinstance(plan.selection, SipsRounds):
        return SipsCourse(plan.selection)
    assert isinstance(plan.selection, OneShot)
    if isinstance(plan.policy, ReroutePolicy):
        return RerouteCourse(plan, plan.policy)
    return None
