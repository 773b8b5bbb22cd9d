"""The choice of a mechanism, from public hints or from an estimate that is paid for.

What decides is how many items users typically hold. With one item each there is nothing to share
out, and the optimal selector of whole votes is optimal. With a few, budgets that go to one item
after the other win; with more, sieve; with hundreds, bits. The bounds between them were found on
made-up data by benchmarks/choosing.py, and on nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.errors import ParameterError
from dpsu.options import number, option, whole_number
from dpsu.plans.mechanisms.base import Design, Mechanism, by_name
from dpsu.privacy.guarantee import LARGEST_DELTA, LARGEST_EPSILON, Privacy

if TYPE_CHECKING:
    from dpsu.inputs.columns import Items
    from dpsu.inputs.tokens import Tokens

ONE_ITEM = 1.15
# With these, at most 1 in 1,000 of the items that everybody holds is missed.
SURE_CUTOFF = 10_000
SURE_ALPHA = 7.0
USUAL_USERS = 50_000
LARGE_EPSILON = 2.0
PAID = 0.01
ALL, PARALLEL = "all", "parallel"
ITEMS, SPEED = "items", "speed"
# What these options are called where they stand beside those of mechanisms.
FLAGS = {"budget": "auto_budget", "items_per_user": "expected_items_per_user"}


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

    What decides is how many items a user typically holds. Where `items_per_user` is not given, 1 %
    of epsilon pays for an estimate of it, and a plan names all mechanisms it may come to.

    Parameters
    ----------
    items_per_user : float, optional
        Public estimate of how many different items a typical user holds (the median).
    users : int, optional
        Public estimate of the number of users.
    budget : float
        Share of epsilon for which both are estimated from the data, where they are not given.
    among : {"all", "parallel"}
        Whether to choose among all candidates, or among those that run on Spark, too.
    prefer : {"items", "speed"}
        What matters most: the number of released items, or few passes over the data.

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
        "Public estimate of the number of different items that a typical user holds.",
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
    summary: ClassVar[str] = (
        "the best of these for users as expected, or as estimated privately; the default"
    )

    def check(self) -> None:
        """Refuse to pay for what is known."""
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
        return Hints(self.users, self.items_per_user)

    def chosen(self, epsilon: float, hints: Hints) -> Mechanism:
        """The mechanism for users like these."""
        return dict(self._named())[choose(epsilon, hints, self.among, self.prefer)]

    def candidates(self) -> list[Mechanism]:
        """All mechanisms that may be chosen."""
        return [mechanism for _, mechanism in self._named()]

    def _named(self) -> list[tuple[str, Mechanism]]:
        votes = by_name("greedy", order="hash", cutoff=SURE_CUTOFF)
        made = {
            "votes": votes,
            "policy-laplace": by_name("policy-laplace", alpha=SURE_ALPHA),
            "sieve": by_name("sieve"),
            "large sieve": by_name("sieve", max_items=LARGE_SETS),
            "bits": by_name("bits"),
        }
        return [(name, each) for name, each in made.items() if self.among == ALL or each.parallel]

    def design(self, privacy: Privacy, item: Items | Tokens) -> Design:
        """Every candidate, for what the estimate leaves of the guarantee."""
        paid = self.budget * privacy.epsilon
        left = Privacy(privacy.epsilon - paid, privacy.delta)
        made = tuple(Candidate(each, each.design(left, item)) for each in self.candidates())
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
        asked = "how many users there are, and how many items a typical one holds"
        facts = [("estimate", f"epsilon {choice.epsilon:.4g} pays for it: {asked}")]
        for at, each in enumerate(choice.candidates, 1):
            most = each.design.max_items
            size = "" if most is None else f", at most {most:,} items per user"
            told = f"{each.mechanism.name}{size} (`dpsu proofs {each.design.theorem}`)"
            facts.append((f"candidate {at}", told))
        return facts


LARGE_SETS = 1000
LARGE_SIZE = 250.0


def choose(epsilon: float, hints: Hints, among: str = ALL, prefer: str = ITEMS) -> str:
    """Which candidate is best for users like these."""
    size = hints.expected_items_per_user
    if prefer == SPEED and size is None:
        return "bits"
    if size is None:
        return "sieve"
    users = hints.expected_users or USUAL_USERS
    if among == ALL:
        if size <= ONE_ITEM:
            return "votes"
        large = epsilon >= LARGE_EPSILON
        few = 3.2 * (users / 5000) ** 0.22 if large else 2.6 * (users / 5000) ** 0.2
        if size < max(2.0, few):
            return "policy-laplace"
    return "sieve" if size < LARGE_SIZE else "bits"
