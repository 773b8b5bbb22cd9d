"""What releases cost together: basic composition, and one Gaussian for all that are Gaussian.

Everything here is a function of plans, which are public. Sums are exact fractions, and what is not
exact is rounded against us: docs/proofs/ledger.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from dpsu.errors import ParameterError
from dpsu.plans.plan import Plan
from dpsu.privacy.calibration import ROUND_UP
from dpsu.privacy.guarantee import SMALLEST_DELTA, Privacy
from dpsu.privacy.normal import hockey_stick_at_most
from dpsu.privacy.shifts import Shift

# The double 0.1 is a little more than a tenth; ten releases of 0.1 are to fit into a budget of 1.
ALLOWANCE = 1 + Fraction(1, 10**12)
# Beyond it nothing of a privacy loss of at most 50 is left, and the normal tails keep their digits.
LARGEST_SHIFT = 20.0


@dataclass(frozen=True)
class Cost:
    """What one release costs: (epsilon, delta), and where its plan allows it a Gaussian shift."""

    privacy: Privacy
    shift: Shift | None = None


def cost_of(plan: Plan) -> Cost:
    """What a release by this plan costs; refused where the plan carries no guarantee."""
    if not plan.private:
        raise ParameterError(
            "a ledger records what guarantees cost, and this release has none: drop "
            "{insecure_seed} or {allow_unproven}, or make it without a ledger",
            insecure_seed=...,
            allow_unproven=...,
        )
    return Cost(plan.privacy, shift_of(plan))


def shift_of(plan: Plan) -> Shift | None:
    """The Gaussian account of a plan; None where its noise is not Gaussian throughout.

    A plan that was chosen from the data, and paid for that, has none either.
    """
    if plan.selected is not None or (plan.hints is not None and plan.hints.epsilon):
        return None
    ids = plan.privacy.ids_per_person
    if ids > 1 and not plan.mechanism.several_ids:
        # Its design is for one id, and so would be the shift.
        return None
    shift = plan.mechanism.as_gaussian(plan.design, ids)
    counts = plan.noisy_counts
    if shift is not None and counts is not None:
        counted = ROUND_UP * counts.max_items * (ids / counts.scale) ** 2
        shift = Shift((shift.squared + counted) * ROUND_UP, shift.novel)
    return shift


@dataclass(frozen=True)
class Total:
    """What releases cost together, in exact sums.

    Attributes
    ----------
    epsilon, delta : Fraction
        Sums over all releases.
    other_epsilon, other_delta : Fraction
        Sums over those that have no Gaussian account.
    squared, novel : Fraction
        Sums over those that have one.
    """

    epsilon: Fraction
    delta: Fraction
    other_epsilon: Fraction
    other_delta: Fraction
    squared: Fraction
    novel: Fraction

    def within(self, budget: Privacy) -> bool:
        """Whether one of the two accounts stays within the budget."""
        most = Fraction(budget.delta) * ALLOWANCE
        basic = self.epsilon <= Fraction(budget.epsilon) * ALLOWANCE and self.delta <= most
        return basic or self.gaussian_delta(budget.epsilon) <= most

    def gaussian_delta(self, epsilon: float) -> Fraction:
        """Delta at this epsilon with all Gaussian releases as one; 1 if there is none."""
        rest = Fraction(epsilon) * ALLOWANCE - self.other_epsilon
        if rest < 0:
            return Fraction(1)
        low = math.nextafter(float(rest), 0.0)
        shift = math.sqrt(float(self.squared)) * ROUND_UP
        if shift > LARGEST_SHIFT:
            return Fraction(1)
        noise = Fraction(hockey_stick_at_most(low, shift)) if self.squared else Fraction(0)
        return min(Fraction(1), self.other_delta + self.novel + noise)

    def gaussian_epsilon(self, delta: float) -> float | None:
        """Smallest epsilon that goes with this delta, rounded up; None if there is none."""
        low, high = 0.0, float(self.epsilon) + 1.0
        while self.gaussian_delta(high) > Fraction(delta) * ALLOWANCE:
            low, high = high, 2.0 * high
            if high > 1e4:
                return None
        while high - low > 1e-5 * high:
            middle = (low + high) / 2.0
            if self.gaussian_delta(middle) > Fraction(delta) * ALLOWANCE:
                low = middle
            else:
                high = middle
        return high


def total(costs: Iterable[Cost]) -> Total:
    """Add up what releases cost."""
    sums = [Fraction(0)] * 6
    for cost in costs:
        epsilon, delta = Fraction(cost.privacy.epsilon), Fraction(cost.privacy.delta)
        added = [epsilon, delta, epsilon, delta, Fraction(0), Fraction(0)]
        if cost.shift is not None:
            added[2:] = [Fraction(0)] * 2
            added[4:] = [Fraction(cost.shift.squared), Fraction(cost.shift.novel)]
        sums = [have + more for have, more in zip(sums, added, strict=True)]
    return Total(*sums)


@dataclass(frozen=True)
class Amount:
    """Epsilon and delta, neither below 0; infinite where no epsilon would do."""

    epsilon: float
    delta: float

    def left_of(self, budget: Privacy) -> Amount:
        """What this leaves of a budget."""
        return Amount(max(0.0, budget.epsilon - self.epsilon), max(0.0, budget.delta - self.delta))


def delta_text(delta: float) -> str:
    """A delta for people; that of pure mechanisms is charged as the smallest, and shown as 0."""
    return "0" if delta < 1e3 * SMALLEST_DELTA else f"{delta:.4g}"


@dataclass(frozen=True)
class Balance:
    """What is spent of a budget, or left of it, by both accounts.

    Attributes
    ----------
    sums : Amount
        By sums of epsilon and delta.
    gaussian : Amount
        With all Gaussian releases as one. Its epsilon goes with the delta of the budget, and its
        delta with the epsilon of the budget: each is for the case that the other is used up.
    """

    sums: Amount
    gaussian: Amount

    def left_of(self, budget: Privacy) -> Balance:
        """What this leaves of a budget."""
        return Balance(self.sums.left_of(budget), self.gaussian.left_of(budget))


def spent_of(budget: Privacy, spent: Total) -> Balance:
    """What releases cost together, for people to read: rounded, and not to be decided by."""
    if not spent.epsilon:
        return Balance(Amount(0.0, 0.0), Amount(0.0, 0.0))
    epsilon = spent.gaussian_epsilon(budget.delta)
    return Balance(
        Amount(float(spent.epsilon), float(spent.delta)),
        Amount(
            math.inf if epsilon is None else epsilon, float(spent.gaussian_delta(budget.epsilon))
        ),
    )
