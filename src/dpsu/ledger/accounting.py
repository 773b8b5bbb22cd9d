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
from dpsu.plans.mechanisms import REROUTE_ALLOWANCE, ROUNDING_ALLOWANCE, OneShot
from dpsu.plans.plan import Plan
from dpsu.policies import Count, L2Descent, ReroutePolicy, Weighted
from dpsu.privacy.calibration import ROUND_UP, novel_at_most
from dpsu.privacy.curves import Gaussian
from dpsu.privacy.guarantee import Privacy
from dpsu.privacy.normal import hockey_stick_at_most
from dpsu.rounds import NGramRounds, Rounds, SieveRounds

# The double 0.1 is a little more than a tenth; ten releases of 0.1 are to fit into a budget of 1.
ALLOWANCE = 1 + Fraction(1, 10**12)
# Beyond it nothing of a privacy loss of at most 50 is left, and the normal tails keep their digits.
LARGEST_SHIFT = 20.0


@dataclass(frozen=True)
class Shift:
    """A release as Gaussian noise that one user shifts, and a chance of being told apart anyway.

    Attributes
    ----------
    squared : float
        Square of the shift in standard deviations, summed over all looks at the data.
    novel : float
        Probability that an item comes out that only one user brings.
    """

    squared: float
    novel: float


@dataclass(frozen=True)
class Cost:
    """What one release costs: (epsilon, delta), and where its plan allows it a Gaussian shift."""

    privacy: Privacy
    shift: Shift | None = None


def cost_of(plan: Plan) -> Cost:
    """What a release by this plan costs; refused where the plan carries no guarantee."""
    if not plan.private:
        raise ParameterError(
            "a ledger records what guarantees cost, and this release has none: drop insecure_seed "
            "or allow_unproven=True, or make it without a ledger"
        )
    return Cost(plan.privacy, shift_of(plan))


def shift_of(plan: Plan) -> Shift | None:
    """The Gaussian account of a plan; None where its noise is not Gaussian throughout.

    A plan that was chosen from the data, and paid for that, has none either.
    """
    if plan.selected is not None or (plan.hints is not None and plan.hints.epsilon):
        return None
    if isinstance(plan.selection, OneShot):
        shift = _one_shot(plan, plan.selection)
    else:
        novel = math.fsum(delta for what, delta in plan.delta_split if what.startswith("novel"))
        shift = Shift(_squared(plan.selection), novel * ROUND_UP)
    if shift is not None and plan.counts is not None:
        counted = ROUND_UP * plan.counts.max_items / plan.counts.scale**2
        shift = Shift((shift.squared + counted) * ROUND_UP, shift.novel)
    return shift


def _squared(rounds: Rounds) -> float:
    """Square of the shift of all rounds together."""
    if isinstance(rounds, SieveRounds):
        return ROUND_UP / rounds.sigma**2
    scales = rounds.scales if isinstance(rounds, NGramRounds) else [c.scale for c in rounds.curves]
    return ROUND_UP * math.fsum(1.0 / scale**2 for scale in scales)


def _one_shot(plan: Plan, selection: OneShot) -> Shift | None:
    """Noise and novel items apart, however the plan accounted for them.

    With t novel items each weighs at most `norm` / sqrt(t), and exactly 1 if users count.
    """
    curve, policy, most = selection.curve, selection.policy, plan.max_items
    if not isinstance(curve, Gaussian) or most is None:
        return None
    if isinstance(policy, Count):
        norm, numbers = math.sqrt(most) * ROUND_UP, range(most, most + 1)
    elif isinstance(policy, Weighted) and policy.norm == 2:
        norm, numbers = 1.0, range(1, most + 1)
    elif isinstance(policy, L2Descent | ReroutePolicy):
        allowed = ROUNDING_ALLOWANCE if isinstance(policy, L2Descent) else REROUTE_ALLOWANCE
        norm, numbers = 1.0 + allowed, range(1, most + 1)
    else:
        return None
    novel = max(
        novel_at_most(curve.scale, curve.threshold, t, ROUND_UP * norm / math.sqrt(t))
        for t in numbers
    )
    return Shift(ROUND_UP * (norm / curve.scale) ** 2, novel)


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
