"""Users in turn: what they may spend in each pass, and who hears how far they are."""

from __future__ import annotations

from collections.abc import Callable

Done = Callable[[int], None]


def nobody_waits(users: int) -> None:
    """Tell nobody how many users have had their turn."""


def equal_part(budget: int, step: int, passes: int) -> int:
    """The budget of pass `step`: whole units that add up to `budget` over all passes."""
    return budget // passes + (1 if step < budget % passes else 0)
