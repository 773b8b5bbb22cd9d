"""What is fixed before the first period: the plan of each, how many there are, and the budget.

With `per_user`, who takes part in which period is fixed too, by a hash of the id with a salt.
Prices that are fixed beforehand are what the account of the whole rests on: docs/proofs/series.md.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError
from dpsu.inputs.columns import ONE_PER_ENTRY
from dpsu.inputs.values import Values
from dpsu.ledger.splitting import MOST_RELEASES, repeated, split
from dpsu.options import whole_number
from dpsu.plans.plan import Plan
from dpsu.plans.planning import with_public_data
from dpsu.plans.written import unique
from dpsu.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from dpsu.contributions.attendance import Attendance

FORMAT = 2
PARTS = {"format", "periods", "budget", "plan", "per_user", "salt"}
SALT = re.compile("[0-9a-f]{16}")


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
    per_user : int or None
        In how many periods each user takes part; None for all.
    salt : str or None
        16 hexadecimal digits, with which ids are hashed to find out in which.
    """

    plan: Plan
    periods: int
    budget: Privacy
    per_user: int | None = None
    salt: str | None = None

    def __post_init__(self) -> None:
        whole_number("periods", self.periods, 1, MOST_RELEASES)
        refuse_other_plans(self.plan)
        if self.per_user is None:
            if self.salt is not None:
                raise ParameterError("it has a salt, and everybody takes part in all periods")
        else:
            refuse_per_user(self.per_user, self.periods, self.plan)
            if not isinstance(self.salt, str) or not SALT.fullmatch(self.salt):
                raise ParameterError("its salt is none")
        if not repeated(self.plan, self.counted).within(self.budget):
            raise ParameterError(
                f"{self.counted:,} periods by this plan exceed the budget "
                f"({self.budget.epsilon:g}, {self.budget.delta:g})"
            )

    @classmethod
    def shared(cls, made: Plan, periods: int, per_user: int | None = None) -> Terms:
        """Terms of a plan that has the guarantee of all periods together."""
        whole_number("periods", periods, 1, MOST_RELEASES)
        refuse_other_plans(made)
        salt = None
        if per_user is not None:
            refuse_per_user(per_user, periods, made)
            salt = secrets.token_hex(8)
        budget = (made.privacy.epsilon, made.privacy.delta)
        name = "periods" if per_user is None else "per_user"
        each = split(
            budget, per_user or periods, made.mechanism, made.item, made.counts or False,
            made.user, name,
        ).each  # fmt: skip
        plan = made.with_mechanism(made.mechanism, privacy=each)
        terms = cls(plan, periods, made.privacy, per_user, salt)
        # Whatever a later process could not read again is refused now.
        with_public_data(terms.read(terms.to_json()).plan)
        return terms

    @property
    def counted(self) -> int:
        """In how many periods one user takes part at most: so many prices add up."""
        return self.periods if self.per_user is None else self.per_user

    @property
    def digest(self) -> str:
        """SHA-256 of all that is fixed, which every period notes when it begins."""
        fixed = [self.periods, self.budget.numbers, self.plan.hash, self.per_user, self.salt]
        return hashlib.sha256(json.dumps(fixed, sort_keys=True).encode()).hexdigest()

    def attendance(self, period: int) -> Attendance | None:
        """Who takes part in a period; None if everybody does."""
        from dpsu.contributions.attendance import Attendance

        if self.per_user is None or self.salt is None:
            return None
        return Attendance(period, self.periods, self.per_user, int(self.salt, 16))

    def to_json(self) -> str:
        """The terms as JSON text."""
        values = {
            "format": FORMAT,
            "periods": self.periods,
            "budget": self.budget.numbers,
            "plan": self.plan.to_dict(),
            "per_user": self.per_user,
            "salt": self.salt,
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
        return cls(plan, values["periods"], Privacy(**budget), values["per_user"], values["salt"])


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


def refuse_per_user(per_user: Any, periods: int, plan: Plan) -> None:
    """Refuse to let users take part in some periods where it is not known who they are."""
    whole_number("per_user", per_user, 1, periods)
    if plan.user.name == ONE_PER_ENTRY:
        raise ParameterError(
            "{per_user} needs ids that are the same in all periods, and entries of a list have "
            "none; name a column of users",
            per_user=per_user,
        )
    if plan.user.ids_per_person > 1:
        raise ParameterError(
            "{per_user} is for people of one id: several ids of one person take part in different "
            "periods, and in more of them together; drop one of the two",
            per_user=per_user,
        )
