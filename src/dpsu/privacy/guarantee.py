"""The guarantee itself: epsilon, delta and who may be added or removed."""

from __future__ import annotations

from dataclasses import dataclass

from dpsu.options import number

LARGEST_EPSILON = 50.0
SMALLEST_EPSILON = 1e-4
SMALLEST_DELTA = 1e-100
LARGEST_DELTA = 0.5


@dataclass(frozen=True)
class Privacy:
    """An (epsilon, delta) guarantee for adding or removing one user with all of that user's rows.

    Parameters
    ----------
    epsilon : float
        Between 1e-4 and 50.
    delta : float
        Between 1e-100 and 0.5. It should be far below one over the number of users.

    Examples
    --------
    >>> Privacy(1.0, 1e-5)
    Privacy(epsilon=1.0, delta=1e-05)
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        number("epsilon", self.epsilon, SMALLEST_EPSILON, LARGEST_EPSILON)
        number("delta", self.delta, SMALLEST_DELTA, LARGEST_DELTA)
        object.__setattr__(self, "epsilon", float(self.epsilon))
        object.__setattr__(self, "delta", float(self.delta))
