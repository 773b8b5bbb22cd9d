"""One budget for several equal releases: which epsilon and delta each of them may have.

Everything here is a function of public numbers. Whatever is found is checked by the accounts that
a ledger decides by, so that a ledger with that budget lets all of the releases happen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction

from dpsu.errors import ParameterError, option_error
from dpsu.inputs.columns import DEFAULT_ITEM, DEFAULT_USER, Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.ledger.accounting import Total, cost_of, total
from dpsu.options import whole_number
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.plan import Plan
from dpsu.plans.planning import items_of, make_plan, mechanism_of, users_of
from dpsu.privacy.guarantee import SMALLEST_DELTA, SMALLEST_EPSILON, Privacy

MOST_RELEASES = 10_000
# Parts of an equal share of delta that are tried. The Gaussian account adds up less than all of
# it, and what it leaves lets epsilon be larger; which part is best depends on the mechanism.
PARTS_OF_DELTA = (1.0, 0.7, 0.5, 0.35, 0.25)
# Numbers to be typed again: rounded down to so many digits.
DIGITS = 4
FINENESS = 1e-4


@dataclass(frozen=True)
class Split:
    """What each of several equal releases may cost, and what all of them cost together."""

    each: Privacy
    releases: int
    budget: Privacy
    together: Total

    @property
    def by_sums(self) -> bool:
        """Whether sums of epsilon and delta stay within the budget, too."""
        sums, nothing = (self.together.epsilon, self.together.delta), (Fraction(0), Fraction(0))
        return Total(*sums, *sums, *nothing).within(self.budget)


def split_budget(
    budget: tuple[float, float],
    *,
    releases: int,
    mechanism: str | Mechanism = "sieve",
    item: str | Sequence[str] | Items | Tokens = DEFAULT_ITEM,
    counts: bool | Counts = False,
    user: str | Sequence[str] | Users = DEFAULT_USER,
) -> Privacy:
    """The largest epsilon, and a delta, of each of several equal releases within one budget.

    Parameters
    ----------
    budget : (float, float)
        Epsilon and delta of all releases together.
    releases : int
        How many there will be; it is fixed before the first of them.
    mechanism : str or Mechanism
        By which all of them are made. Those whose noise is Gaussian, such as sieve, get much more
        than an equal share; others, such as auto, get just that.
    item, user : str, Items, Tokens or Users
        As in :func:`dpsu.plan`; of users it matters how many ids a person may have.
    counts : bool or Counts
        As in :func:`dpsu.plan`.

    Returns
    -------
    Privacy
        A ledger with this budget lets all of the releases happen. Delta is the one, of a few that
        are tried, with which an item needs the fewest users.

    Privacy
    -------
    Touches no data. Theorem 1 of ``dpsu proofs ledger`` is about the releases together.

    Cost
    ----
    Seconds.

    Examples
    --------
    >>> import dpsu
    >>> each = dpsu.split_budget((3, 1e-5), releases=4)
    >>> each.epsilon > 3 / 4
    True
    >>> dpsu.split_budget((3, 1e-5), releases=4, mechanism="policy-laplace")
    Privacy(epsilon=0.75, delta=2.5e-06)
    """
    return split(budget, releases, mechanism, item, counts, users_of(user)).each


def split(
    budget: tuple[float, float],
    releases: int,
    mechanism: str | Mechanism,
    item: str | Sequence[str] | Items | Tokens = DEFAULT_ITEM,
    counts: bool | Counts = False,
    user: Users | None = None,
    name: str = "releases",
) -> Split:
    """The same with what all of them cost; `name` is what errors call their number."""
    releases = whole_number(name, releases, 1, MOST_RELEASES)
    if not isinstance(budget, (tuple, list)) or len(budget) != 2:
        raise option_error("budget", "must be two numbers, epsilon and delta")
    allowed = Privacy(*budget)
    chosen = mechanism_of(mechanism)
    columns, users = items_of(item), Users() if user is None else user

    def plan_at(privacy: Privacy) -> Plan:
        return make_plan(privacy, chosen, users, columns, counts=counts)

    def made(each: Privacy) -> Split:
        return Split(each, releases, allowed, repeated(plan_at(each), releases))

    if releases == 1:
        return made(allowed)
    shares = _equal_shares(allowed, releases, name)
    if cost_of(plan_at(shares)).shift is None:
        return made(shares)
    best, fewest = made(shares), _users_needed(plan_at(shares))
    for part in PARTS_OF_DELTA:
        delta = _rounded_down(shares.delta * part)
        if delta < SMALLEST_DELTA:
            continue
        found = made(Privacy(_largest_epsilon(made, allowed, shares.epsilon, delta), delta))
        needed = _users_needed(plan_at(found.each))
        if found.together.within(allowed) and needed < fewest:
            best, fewest = found, needed
    return best


def repeated(plan: Plan, releases: int) -> Total:
    """What so many releases by one plan cost together: exact, as the sum of so many costs is."""
    return Total(*(releases * each for each in astuple(total([cost_of(plan)]))))


def _equal_shares(budget: Privacy, releases: int, name: str) -> Privacy:
    epsilon = _rounded_down(budget.epsilon / releases)
    delta = _rounded_down(budget.delta / releases)
    if epsilon < SMALLEST_EPSILON or delta < SMALLEST_DELTA:
        raise ParameterError(
            f"{{{name}}}: this leaves less than epsilon {SMALLEST_EPSILON:g} or delta "
            f"{SMALLEST_DELTA:g} to each; give fewer of them, or a larger budget",
            **{name: releases},
        )
    return Privacy(epsilon, delta)


def _largest_epsilon(
    made: Callable[[Privacy], Split], budget: Privacy, low: float, delta: float
) -> float:
    """An epsilon that fits, within 1e-4 of the largest; `low` fits by sums."""

    def fits(epsilon: float) -> bool:
        return made(Privacy(epsilon, delta)).together.within(budget)

    high = budget.epsilon
    while high - low > FINENESS * low:
        middle = (low + high) / 2.0
        if fits(middle):
            low = middle
        else:
            high = middle
    short = _rounded_down(low)
    return short if fits(short) else low


def _users_needed(plan: Plan) -> float:
    needed = plan.needed[0.5]
    return math.inf if needed is None else needed


def _rounded_down(value: float) -> float:
    """The largest number of few digits that is not above a value."""
    digits = DIGITS - 1 - math.floor(math.log10(value))
    scaled = Fraction(value) * Fraction(10) ** digits
    # A double that stands for a short number may lie just below it.
    count = math.floor(scaled * (1 + Fraction(1, 10**13)))
    return float(Fraction(count) / Fraction(10) ** digits)
