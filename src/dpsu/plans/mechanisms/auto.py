"""The choice of a mechanism, from public hints or from an estimate that is paid for.

What decides is how many items users hold. With one item each there is nothing to share out, and the
optimal selector of whole votes is optimal. With two or so, budgets that go to one item after the
other win; with more, sieve; with hundreds, bits. Where users cannot act one after the other, one
item of each is counted instead of the first two. The bounds between them were found on made-up data
by benchmarks/choosing.py, and on nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dpsu.errors import ParameterError
from dpsu.options import flag, number, option, whole_number
from dpsu.plans.mechanisms.base import Design, Mechanism, items_per_user, users_expected
from dpsu.plans.mechanisms.bits import Bits
from dpsu.plans.mechanisms.count import CountLaplace
from dpsu.plans.mechanisms.greedy import Greedy
from dpsu.plans.mechanisms.policy import PolicyLaplace
from dpsu.plans.mechanisms.sieve import Sieve
from dpsu.privacy.guarantee import LARGEST_DELTA, LARGEST_EPSILON, Privacy, rest_of

ONE_ITEM = 1.1
FEW_ITEMS, FEW_OF_USERS, MORE_OF_MORE = 2.7, 20_000, 0.05
FEW_AT_ONCE = 2.0
MANY_ITEMS, MANY_AT_SMALL_EPSILON = 200.0, 400.0
# With these, at most 1 in 1,000 of the items that everybody holds is missed.
SURE_CUTOFF = 10_000
SURE_ALPHA = 7.0
LARGE_EPSILON = 2.0
SMALL_CAP = 0.1
PAID = 0.01
ALL, PARALLEL = "all", "parallel"
ITEMS, SPEED = "items", "speed"
# What these options are called where they stand beside those of mechanisms.
FLAGS = {"budget": "auto_budget", "items_per_user": "expected_items_per_user"}


@dataclass(frozen=True)
class Hints:
    """What is known about users without looking, or was estimated for a share of the budget.

    `users_known` says that the number of users is known though the other is estimated, and
    `for_speed` that speed was preferred, whatever is known.
    """

    expected_users: int | None = None
    expected_items_per_user: float | None = None
    epsilon: float = 0.0
    delta: float = 0.0
    users_known: bool = False
    for_speed: bool = False

    def __post_init__(self) -> None:
        if self.expected_users is not None:
            whole_number("expected_users", self.expected_users, 0, 2**62)
        if self.expected_items_per_user is not None:
            number("expected_items_per_user", self.expected_items_per_user, 0.0, 1e18)
        number("epsilon", self.epsilon, 0.0, LARGEST_EPSILON)
        number("delta", self.delta, 0.0, LARGEST_DELTA)
        flag("users_known", self.users_known)
        flag("for_speed", self.for_speed)


@dataclass(frozen=True)
class Candidate:
    """A mechanism that may be chosen, and what it decides for what the estimate leaves."""

    mechanism: Mechanism
    design: Design


@dataclass(frozen=True)
class Choice:
    """What the estimate takes of epsilon, and the candidates it chooses from."""

    epsilon: float
    candidates: tuple[Candidate, ...]
    kind: ClassVar[str] = "choice"


@dataclass(frozen=True, kw_only=True)
class Auto(Mechanism):
    """Choose the mechanism by what is known about users, or by an estimate that is paid for.

    What decides is how many items a user holds on average. Where `items_per_user` is not given, 1 %
    of epsilon pays for an estimate of it, and a plan names all mechanisms it may come to.

    Examples
    --------
    >>> import dpsu
    >>> few = dpsu.Auto(items_per_user=1)
    >>> dpsu.plan(epsilon=1, delta=1e-6, mechanism=few).mechanism.name
    'greedy'
    """

    items_per_user: float | None = items_per_user()
    users: int | None = users_expected("expected_users")
    budget: float = option(
        PAID,
        float,
        "Share of epsilon for which items per user are estimated from the data.",
        low=1e-4,
        high=0.5,
        name="auto_budget",
    )
    among: str = option(
        ALL,
        str,
        "Choose among all mechanisms, or among those that run on Spark, too.",
        choices=(ALL, PARALLEL),
    )
    prefer: str = option(
        ITEMS,
        str,
        "What matters most: released items, or few passes over the data.",
        choices=(ITEMS, SPEED),
    )
    name: ClassVar[str] = "auto"
    several_ids: ClassVar[bool] = True
    summary: ClassVar[str] = (
        "the best of these for users as expected, or as estimated privately; the default"
    )

    def check(self) -> None:
        """Refuse to pay for what is known, or is not asked for."""
        if self.budget != PAID and self.prefer == SPEED:
            raise ParameterError(
                "{budget} pays for an estimate by auto, and with {prefer} there is none (bits pays "
                "for its own); drop one of them",
                FLAGS,
                budget=...,
                prefer=SPEED,
            )
        if self.budget != PAID and self.items_per_user is not None:
            raise ParameterError(
                "{budget} pays for the estimate of what is not known; drop it, or {items_per_user}",
                FLAGS,
                budget=...,
                items_per_user=...,
            )

    @property
    def hints(self) -> Hints | None:
        """What is known without looking; None if the data must be asked."""
        if self.items_per_user is None and self.prefer == ITEMS:
            return None
        return Hints(self.users, self.items_per_user, for_speed=self.prefer == SPEED)

    def informed(self, estimated: Hints) -> Hints:
        """What was estimated, and what is known besides: that takes the place of an estimate."""
        if self.users is None:
            return estimated
        return replace(estimated, expected_users=self.users, users_known=True)

    def chosen(
        self, epsilon: float, hints: Hints, possible: Sequence[Mechanism] | None = None
    ) -> Mechanism:
        """The mechanism for users like these, of those that the guarantee makes possible."""
        made = choose(epsilon, hints, parallel=self.among == PARALLEL, fast=self.prefer == SPEED)
        return made if possible is None or made in possible else SIEVES[-1][1]

    def designed(self, privacy: Privacy) -> tuple[Candidate, ...]:
        """The mechanisms that may be chosen, but for those that the guarantee makes impossible."""
        found = []
        for each in PARALLEL_CANDIDATES if self.among == PARALLEL else CANDIDATES:
            try:
                made = each.designed_for(privacy)
                # With many ids per person only large caps are left, which suit short sets alone.
                if not isinstance(each, Bits) or made.selection.choices[0] <= SMALL_CAP:
                    found.append(Candidate(each, made))
            except ParameterError:
                # Tiny guarantees leave no coins for bits; sieve has a design for all of them.
                if isinstance(each, Sieve):
                    raise
        return tuple(found)

    def design(self, privacy: Privacy) -> Design:
        """Every candidate, for what the estimate leaves of the guarantee."""
        paid = self.budget * privacy.epsilon
        made = self.designed(replace(privacy, epsilon=rest_of(privacy.epsilon, paid)))
        return Design(
            Choice(paid, made),
            None,
            "hash",
            None,
            (("the mechanism that is chosen", privacy.delta),),
            "auto",
            max_users=min(each.design.max_users for each in made),
        )

    def facts(self, design: Design) -> list[tuple[str, str]]:
        """What the estimate takes, and the candidates."""
        choice = design.selection
        asked = "how many users there are, and how many items they hold on average"
        facts = [("estimate", f"epsilon {choice.epsilon:.4g} pays for it: {asked}")]
        for at, each in enumerate(choice.candidates, 1):
            most = each.design.max_items
            items = "item" if most == 1 else "items"
            size = "" if most is None else f", at most {most:,} {items} per user"
            told = f"{each.mechanism.name}{size} (`dpsu proofs {each.design.theorem}`)"
            facts.append((f"candidate {at}", told))
        return facts


VOTES = Greedy(order="hash", cutoff=SURE_CUTOFF)
IN_TURN = PolicyLaplace(alpha=SURE_ALPHA)
# Sieve with more items per user where users hold more on average.
SIEVES = (
    (6.0, Sieve(max_items=300)),
    (40.0, Sieve(max_items=600)),
    (math.inf, Sieve(max_items=1000)),
)
BITS = Bits()
CANDIDATES: tuple[Mechanism, ...] = (VOTES, IN_TURN, *(sieve for _, sieve in SIEVES), BITS)
ONE_EACH = CountLaplace(max_items=1)
PARALLEL_CANDIDATES: tuple[Mechanism, ...] = (ONE_EACH, *CANDIDATES[2:])


def choose(
    epsilon: float, hints: Hints, *, parallel: bool = False, fast: bool = False
) -> Mechanism:
    """Choose the mechanism for users like these."""
    size = hints.expected_items_per_user
    if size is None:
        return BITS if fast else SIEVES[1][1]
    users = hints.expected_users or FEW_OF_USERS
    if parallel and size < FEW_AT_ONCE:
        return ONE_EACH
    if not parallel and size < FEW_ITEMS * (users / FEW_OF_USERS) ** MORE_OF_MORE:
        return VOTES if size <= ONE_ITEM else IN_TURN
    if fast or size >= (MANY_ITEMS if epsilon >= LARGE_EPSILON else MANY_AT_SMALL_EPSILON):
        return BITS
    return next(sieve for most, sieve in SIEVES if size < most)
