"""What a user may spend in each pass over the users, and the type of progress callbacks."""

from __future__ import annotations

from collections.abc import Callable

# Called with the number of users who are done.
Progress = Callable[[int], None]


def no_progress(users: int) -> None:
    """Report nothing."""


def equal_part(budget: int, step: int, passes: int) -> int:
    """The budget of pass `step`: whole units that add up to `budget` over all passes."""
    return budget // passes + (1 if step < budget % passes else 0)
