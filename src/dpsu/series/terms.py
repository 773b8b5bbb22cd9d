"""What is fixed before the first period: the plan of each, how many there are, and the budget.

Prices that are fixed beforehand are what the account of the whole rests on: docs/proofs/series.md.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from dpsu.errors import ParameterError
from dpsu.inputs.values import Values
from dpsu.ledger.splitting import MOST_RELEASES, repeated, split
from dpsu.options import set_fields, whole_number
from dpsu.plans.plan import Plan
from dpsu.plans.planning import with_public_data
from dpsu.plans.written import unique
from dpsu.privacy.guarantee import Privacy

FORMAT = 4
PARTS = {"format", "periods", "budget", "plan"}


@dataclass(frozen=True)
class Terms:
    """The plan of every period, the number of periods, and what all of them may cost together.

    Attributes
    ----------
    plan : Plan
        With the guarantee of one period.
    periods : int
        How many there are at most.
    budget : Privacy
        The guarantee of all of them together.
    """

    plan: Plan
    periods: int
    budget: Privacy

    def __post_init__(self) -> None:
        set_fields(self, periods=whole_number("periods", self.periods, 1, MOST_RELEASES))
        refuse_other_plans(self.plan)
        if not repeated(self.plan, self.periods).within(self.budget):
            raise ParameterError(
                f"{self.periods:,} periods by this plan exceed the budget "
                f"({self.budget.epsilon:g}, {self.budget.delta:g})"
            )

    @classmethod
    def shared(cls, made: Plan, periods: int) -> Terms:
        """Terms of a plan that has the guarantee of all periods together."""
        periods = whole_number("periods", periods, 1, MOST_RELEASES)
        refuse_other_plans(made)
        budget = (made.privacy.epsilon, made.privacy.delta)
        each = split(
            budget, periods, made.mechanism, made.item, made.counts or False, made.user, "periods"
        ).each
        plan = made.with_mechanism(made.mechanism, privacy=each)
        terms = cls(plan, periods, made.privacy)
        # Whatever a later process could not read again is refused now.
        with_public_data(terms.read(terms.to_json()).plan)
        return terms

    @property
    def digest(self) -> str:
        """SHA-256 of all that is fixed, which every period notes when it begins."""
        fixed = [self.periods, self.budget.numbers, self.plan.hash]
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()

    def to_json(self) -> str:
        """The terms as JSON text."""
        values = {
            "format": FORMAT,
            "periods": self.periods,
            "budget": self.budget.numbers,
            "plan": self.plan.to_dict(),
        }
        return json.dumps(values, indent=2, sort_keys=True)

    @classmethod
    def read(cls, text: str) -> Terms:
        """Terms that were written, checked: the plan is designed again, and the account added up.

        Raises ParameterError if they are anything else.
        """
        try:
            values: Any = json.loads(text, object_pairs_hook=unique)
        except (ValueError, TypeError, RecursionError):
            raise ParameterError("it is not JSON") from None
        if not isinstance(values, dict) or set(values) != PARTS or values["format"] != FORMAT:
            raise ParameterError(f"it is not a series of format {FORMAT}")
        budget = values["budget"]
        if not isinstance(budget, dict) or set(budget) != {"epsilon", "delta"}:
            raise ParameterError("it has no budget")
        if not isinstance(values["plan"], dict):
            raise ParameterError("it has no plan")
        plan = Plan.from_json(json.dumps(values["plan"]))
        return cls(plan, values["periods"], Privacy(**budget))


def refuse_other_plans(plan: Plan) -> None:
    """Refuse plans that cannot leave out what is known, or that need more than the state holds."""
    if isinstance(plan.item, Values):
        raise ParameterError(
            "a series has items of one kind, and not the values of many columns; give an {item}",
            item=...,
        )
    if not plan.mechanism.counts:
        raise ParameterError(
            f"{{mechanism}}: {plan.name} cannot leave out items that are known, as later "
            "periods must; choose another one, such as sieve",
            mechanism=plan.name,
        )
    if plan.public_items is not None or plan.prior is not None:
        raise ParameterError(
            "a series has neither {public_items} nor a {prior}; drop them",
            public_items=...,
            prior=...,
        )
