"""What attacks have in common: a case has a seed, and a verdict says what was wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Verdict:
    """What came of one case: how much was tried, and what was wrong."""

    seed: int
    tried: int = 1
    troubles: Sequence[str] = ()


@dataclass
class Room:
    """Where one worker may put its files, and what it has learned so far."""

    folder: Path
    memory: dict[object, object] = field(default_factory=dict)
    made: int = 0

    def fresh(self) -> Path:
        """A new empty folder for one case."""
        self.made += 1
        path = self.folder / f"case-{self.made}"
        path.mkdir()
        return path


@dataclass(frozen=True)
class Attack:
    """A way to attack: `run` makes a verdict of each seed.

    `share` is the part of the time that it gets, `batch` how many cases run in a row.
    """

    name: str
    share: float
    batch: int
    unit: str
    varied: str
    run: Callable[[Sequence[int], Room], list[Verdict]]
