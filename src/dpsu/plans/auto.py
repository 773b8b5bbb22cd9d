"""Choosing a mechanism from hints that are public, or from estimates that are paid for.

What decides is how many items users hold. With one item each there is nothing to share out, and the
optimal selector of whole votes is optimal. With a few, budgets that go to one item after the other
win; with more, sieve. The bounds between them were found on made-up data (popularity by Zipf's law,
log-normal set sizes, 5,000 to 400,000 users) by benchmarks/few_items.py, and on nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from dpsu.errors import ParameterError
from dpsu.options import Typed, number, option, whole_number
from dpsu.plans.mechanisms import Mechanism, by_name
from dpsu.plans.mechanisms.base import LARGEST_MAX_ITEMS
from dpsu.privacy.guarantee import LARGEST_DELTA, LARGEST_EPSILON

ONE_ITEM = 1.15
SURE_CUTOFF = 10_000
USUAL_USERS = 50_000
LARGE_EPSILON = 2.0
# What these options are called where they stand beside those of mechanisms.
FLAGS = {"budget": "auto_budget", "items_per_user": "expected_items_per_user"}


@dataclass(frozen=True, kw_only=True)
class Auto(Typed):
    """Choose the mechanism by what is known about users, or is estimated for a share of the budget.

    What decides is how many items a user holds. Where neither `items_per_user` nor `budget` is
    given, nothing is known about it, and the mechanism is sieve.

    Parameters
    ----------
    items_per_user : float, optional
        Public estimate of how many different items a user holds on average.
    users : int, optional
        Public estimate of the number of users.
    budget : float, optional
        Share of epsilon and delta (such as 0.02) for which both are estimated from the data.
    max_items : int, optional
        At most this many items of a user count, whichever mechanism is chosen.

    Examples
    --------
    >>> import dpsu
    >>> few = dpsu.Auto(items_per_user=1)
    >>> dpsu.plan(epsilon=1, delta=1e-6, mechanism=few).mechanism.name
    'greedy'
    """

    items_per_user: float | None = option(
        None,
        float,
        "Public estimate of the mean number of different items of a user.",
        low=1.0,
        high=1e9,
        name="expected_items_per_user",
    )
    users: int | None = option(
        None,
        int,
        "Public estimate of the number of users.",
        low=1,
        high=2**32,
        name="expected_users",
    )
    budget: float | None = option(
        None,
        float,
        "Share of epsilon and delta, such as 0.02, for which users and items per user are "
        "estimated from the data.",
        low=1e-4,
        high=0.5,
        name="auto_budget",
    )
    max_items: int | None = option(
        None, int, "Count at most this many items of a user.", low=1, high=LARGEST_MAX_ITEMS
    )
    name: ClassVar[str] = "auto"
    summary: ClassVar[str] = "the best of these for users as expected, or as estimated privately"

    def check(self) -> None:
        """Refuse to pay for what is known."""
        if self.budget is not None and self.items_per_user is not None:
            raise ParameterError(
                "{budget} pays for the estimate of what is not known; drop it, or {items_per_user}",
                FLAGS,
                budget=...,
                items_per_user=...,
            )

    def chosen(self, epsilon: float, hints: Hints) -> Mechanism:
        """The mechanism for users like these."""
        name, options = choose(epsilon, hints)
        if self.max_items is not None:
            options = options | {"max_items": self.max_items}
        return by_name(name, **options)

    @property
    def hints(self) -> Hints:
        """What is known without looking."""
        return Hints(self.users, self.items_per_user)


@dataclass(frozen=True)
class Hints:
    """What is known about users without looking, or was estimated for a share of the budget."""

    expected_users: int | None = None
    expected_items_per_user: float | None = None
    epsilon: float = 0.0
    delta: float = 0.0

    def __post_init__(self) -> None:
        if self.expected_users is not None:
            whole_number("expected_users", self.expected_users, 0, 2**62)
        if self.expected_items_per_user is not None:
            number("expected_items_per_user", self.expected_items_per_user, 0.0, 1e18)
        number("epsilon", self.epsilon, 0.0, LARGEST_EPSILON)
        number("delta", self.delta, 0.0, LARGEST_DELTA)


def choose(epsilon: float, hints: Hints) -> tuple[str, dict[str, Any]]:
    """Mechanism and options for users like these."""
    size = hints.expected_items_per_user
    if size is None:
        return "sieve", {}
    if size <= ONE_ITEM:
        return "greedy", {"order": "hash", "cutoff": SURE_CUTOFF}
    users = hints.expected_users or USUAL_USERS
    large = epsilon >= LARGE_EPSILON
    few = 3.2 * (users / 5000) ** 0.22 if large else 2.6 * (users / 5000) ** 0.2
    if size < max(2.0, few):
        return ("greedy", {}) if large else ("policy-laplace", {})
    return "sieve", {"max_items": min(1000, max(300, round(30.0 * math.sqrt(size))))}
