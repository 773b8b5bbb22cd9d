"""A forecast as an object: points with their ranges."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpsu.plans.feasibility import Finding
from dpsu.plans.plan import Plan
from dpsu.yields.profiles import Profile

GROUPS = ("by_mechanism", "by_epsilon", "by_max_items")


@dataclass(frozen=True)
class Point:
    """Expected yield of one mechanism at one epsilon and max_items.

    Attributes
    ----------
    mechanism, epsilon, max_items : str, float, int or None
        What was tried; for a mechanism that chooses another, `max_items` is that of the other.
    released : float
        Expected number of items.
    low, high : float or None
        What most real data would release lies between them; the guide on forecasts says how often.
        None at settings other than those of the plan, for other mechanisms.
    error : float or None
        Standard error of `released` over keys; None with one key, and where it is extrapolated.
    missing : float
        Part of all pairs whose items stay back.
    needs : int or None
        About how many users an item needs; None where hardly anything comes out.
    planned : bool
        Whether this is the mechanism that was asked for.
    chosen : str or None
        The mechanism that auto would choose; None for all others.
    """

    mechanism: str
    epsilon: float
    max_items: int | None
    released: float
    low: float | None
    high: float | None
    error: float | None
    missing: float
    needs: int | None
    planned: bool
    chosen: str | None = None


@dataclass(frozen=True)
class Forecast:
    """Expected yields of a plan and of other mechanisms. Public: it touched no confidential data.

    Attributes
    ----------
    plan : Plan
        The plan that was asked for.
    profile : Profile
        What was assumed of the users.
    runs : int
        Number of keys over which yields were averaged.
    by_mechanism, by_epsilon, by_max_items : tuple of Point
        Yields at the settings of the plan, at other epsilons, and at other sizes of sets.
    findings : tuple of Finding
        What is wrong with the settings, or could be better.
    """

    plan: Plan
    profile: Profile
    runs: int
    by_mechanism: tuple[Point, ...]
    by_epsilon: tuple[Point, ...]
    by_max_items: tuple[Point, ...]
    findings: tuple[Finding, ...]

    @property
    def planned(self) -> Point:
        """The yield of the plan itself."""
        return next(point for point in self.by_mechanism if point.planned)

    @property
    def hopeless(self) -> bool:
        """Whether these settings are not worth a release."""
        return any(finding.stops for finding in self.findings)

    @property
    def without_max_items(self) -> tuple[str, ...]:
        """Mechanisms that are missing from `by_max_items`, as they have no such option."""
        there = {point.mechanism for point in self.by_max_items}
        return tuple(p.mechanism for p in self.by_mechanism if p.mechanism not in there)

    def to_dict(self) -> dict[str, Any]:
        """The forecast in plain values, as in its JSON."""
        return {
            "plan": self.plan.to_dict(),
            "profile": asdict(self.profile),
            "runs": self.runs,
            "hopeless": self.hopeless,
            **{
                name: [asdict(part) for part in getattr(self, name)]
                for name in (*GROUPS, "findings")
            },
        }

    def to_json(self) -> str:
        """The forecast as JSON text."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True)

    def to_html(self) -> str:
        """The forecast as one page that needs nothing from elsewhere."""
        from dpsu.yields.pages import forecast_page

        return forecast_page(self)

    def write_html(self, path: str | Path) -> None:
        """Write the page, whole or not at all."""
        from dpsu.runtime.writing import check_writable, write_text

        check_writable(Path(path), suffixes=(".html", ".htm"))
        write_text(Path(path), self.to_html())

    def __repr__(self) -> str:
        from dpsu.yields.tables import about

        verdict = ", hopeless" if self.hopeless else ""
        return f"<Forecast: {about(self.planned)} by {self.plan.name}{verdict}>"

    def __str__(self) -> str:
        from dpsu.yields.tables import forecast_text

        return forecast_text(self)

    def _repr_html_(self) -> str:
        from dpsu.yields.tables import forecast_html

        return forecast_html(self)
