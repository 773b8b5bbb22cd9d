"""The guarantee itself: epsilon, delta and who may be added or removed."""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpsu.options import number, set_fields, whole_number

LARGEST_EPSILON = 50.0
SMALLEST_EPSILON = 1e-4
SMALLEST_DELTA = 1e-100
LARGEST_DELTA = 0.5
LARGEST_IDS = 1000
# A guarantee with more is weak, and so is one with a delta above 1 / (10 x users).
LARGEST_USUAL_EPSILON = 10.0
LARGEST_USUAL_DELTA = 1e-4


@dataclass(frozen=True)
class Privacy:
    """An (epsilon, delta) guarantee for adding or removing one user with all of that user's rows.

    Parameters
    ----------
    epsilon : float
        Between 1e-4 and 50.
    delta : float
        Between 1e-100 and 0.5. It should be below one over ten times the number of users.
    ids_per_person : int
        How many ids one person may have, whose rows are added or removed together.

    Examples
    --------
    >>> Privacy(1.0, 1e-5)
    Privacy(epsilon=1.0, delta=1e-05)
    """

    epsilon: float
    delta: float
    ids_per_person: int = 1

    def __post_init__(self) -> None:
        set_fields(
            self,
            epsilon=number("epsilon", self.epsilon, SMALLEST_EPSILON, LARGEST_EPSILON),
            delta=number("delta", self.delta, SMALLEST_DELTA, LARGEST_DELTA),
            ids_per_person=whole_number("ids_per_person", self.ids_per_person, 1, LARGEST_IDS),
        )

    @property
    def numbers(self) -> dict[str, float]:
        """Epsilon and delta alone, as files have them."""
        return {"epsilon": self.epsilon, "delta": self.delta}

    def weakness(self, users: int | None = None) -> str:
        """Say why this guarantee is weak; empty if it is not.

        `users` must be public, or an estimate that was paid for, because the text reveals it.
        """
        most = min(LARGEST_USUAL_DELTA, math.inf if not users else 1.0 / (10.0 * users))
        reasons = []
        if self.delta > most * (1.0 + 1e-9):
            reasons.append(
                f"delta is {self.delta:g}, the probability with which it may fail for each user: "
                f"choose one below 1 / (10 x users), such as {min(1e-6, most / 10.0):.0e}"
            )
        if self.epsilon > LARGEST_USUAL_EPSILON:
            reasons.append(
                f"epsilon is {self.epsilon:g}, so one person can make a result e^{self.epsilon:g} "
                f"times as likely: choose about 1, and at most {LARGEST_USUAL_EPSILON:g}"
            )
        return f"weak guarantee: {'; '.join(reasons)}" if reasons else ""

    def __repr__(self) -> str:
        ids = "" if self.ids_per_person == 1 else f", ids_per_person={self.ids_per_person}"
        return f"Privacy(epsilon={self.epsilon!r}, delta={self.delta!r}{ids})"


def rest_of(whole: float, *parts: float) -> float:
    """The whole minus its parts, rounded down: rest and parts add up to at most the whole."""
    terms = [whole, *(-part for part in parts)]
    rest = math.fsum(terms)
    # fsum rounds the exact sum once, so its sign is right.
    return math.nextafter(rest, -math.inf) if math.fsum([*terms, -rest]) < 0.0 else rest
