"""Settings that cannot work, found by public numbers alone: before any data, before any budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from dpsu.errors import ParameterError
from dpsu.plans.mechanisms import Choice
from dpsu.plans.plan import Plan
from dpsu.privacy.curves import Optimal
from dpsu.privacy.guarantee import LARGEST_EPSILON, Privacy

HALF, LIKELY = 0.5, 0.9
FAR_ABOVE = 10.0
Replan = Callable[[float], Plan]


@dataclass(frozen=True)
class Finding:
    """Something to know about settings; `stops` says that they are not worth a release.

    What `warns` stands first: it is about the guarantee, and not about what comes out.
    """

    stops: bool
    text: str
    warns: bool = False

    @property
    def label(self) -> str:
        """How it is introduced."""
        return "STOP" if self.stops else "WARNING" if self.warns else "Note"

    @property
    def order(self) -> int:
        """Where it stands: the worst must not be overlooked."""
        return ["WARNING", "STOP", "Note"].index(self.label)


def fewest_holders(privacy: Privacy, probability: float = HALF) -> int:
    """Holders below which no private mechanism releases an item with this probability."""
    best = Optimal(privacy.epsilon, privacy.delta)
    low, high = 0, 1
    while best.probability(high) < probability:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if best.probability(middle) >= probability else (middle, high)
    # From nobody to so many ids it takes as many people as if each had as many as may be.
    return privacy.ids_per_person * (high - 1) + 1


def check_expected_users(privacy: Privacy, users: int) -> None:
    """Refuse a number of expected users with which nothing can come out, whatever the mechanism."""
    needed = fewest_holders(privacy)
    if users >= needed:
        return

    def enough(epsilon: float) -> bool:
        return fewest_holders(replace(privacy, epsilon=epsilon), LIKELY) <= users

    raise ParameterError(
        _nothing(privacy, needed, "{expected_users}", enough), expected_users=users
    )


def findings(
    plan: Plan, replan: Replan, *, users: int, items_per_user: float, typed_size: bool
) -> list[Finding]:
    """What public numbers say about a plan.

    `replan` makes the same plan at another epsilon; `typed_size` says that `max_items` was typed
    and is not a default.
    """
    found, most = _too_few(plan, replan, users), plan.max_items
    weak = plan.privacy.weakness(users)
    if weak:
        found.append(Finding(False, weak, warns=True))
    if typed_size and most is not None and most > FAR_ABOVE * items_per_user:
        message = (
            f"a limit of {most:,} items per user is far above the {items_per_user:g} items that "
            "users hold on average, and thresholds rise with it; try a limit of "
            f"{math.ceil(3 * items_per_user):,}"
        )
        found.append(Finding(False, message))
    return found


def _too_few(plan: Plan, replan: Replan, users: int) -> list[Finding]:
    needed = _holders_needed(plan)
    if needed <= users:
        return []

    def enough(epsilon: float) -> bool:
        try:
            return _holders_needed(replan(epsilon), LIKELY, max) <= users
        except ParameterError:
            return False

    return [Finding(True, _nothing(plan.privacy, needed, f"users={users:,}", enough))]


def _holders_needed(
    plan: Plan, probability: float = HALF, of: Callable[[Iterable[float]], float] = min
) -> float:
    """Holders without whom no item is released with this probability: nobody gives more than 1.

    Where a mechanism is still to be chosen, they are those of the candidate that needs fewest, or
    most.
    """
    if isinstance(plan.selection, Choice):
        return of(_holders_needed(each, probability) for each in plan.for_few_items)
    weight = plan.needed[probability]
    if weight is None:
        # A cutoff below it: what is full is released as often as the cutoff allows.
        weight = plan.cutoff if plan.largest_probability > HALF else math.inf
    assert weight is not None
    best = fewest_holders(plan.privacy)
    return max(math.ceil(weight), best) if weight < math.inf else weight


def _nothing(
    privacy: Privacy, needed: float, expected: str, enough: Callable[[float], bool]
) -> str:
    count = f"about {needed:,} users" if needed < math.inf else "a larger cutoff"
    message = (
        f"at epsilon={privacy.epsilon:g}, delta={privacy.delta:g} an item needs {count}; you "
        f"expect {expected}: nothing can come out"
    )
    best = smallest_epsilon(privacy.epsilon, enough)
    if best is None:
        return f"{message}. No epsilon up to {LARGEST_EPSILON:g} is enough"
    return f"{message}. Raise epsilon to about {best:g}"


def smallest_epsilon(low: float, enough: Callable[[float], bool]) -> float | None:
    """About the smallest epsilon above `low` that is enough, rounded up to two digits."""
    high = LARGEST_EPSILON
    if not enough(high):
        return None
    while high > 1.02 * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if enough(middle) else (middle, high)
    digit = 10.0 ** (math.floor(math.log10(high)) - 1)
    return min(LARGEST_EPSILON, round(math.ceil(high / digit) * digit, 8))
