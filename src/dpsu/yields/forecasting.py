"""What a release would yield, from public knowledge: made-up users, or a public corpus."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError
from dpsu.inputs.columns import Items
from dpsu.keywords import kind_keywords
from dpsu.options import one_of, options_of
from dpsu.plans.feasibility import Finding, findings
from dpsu.plans.mechanisms import MECHANISMS, Mechanism, by_name
from dpsu.plans.plan import Plan
from dpsu.privacy.guarantee import LARGEST_EPSILON, SMALLEST_EPSILON, Privacy
from dpsu.showing.progress import Steps, steps
from dpsu.yields.profiles import Profile, find_users

if TYPE_CHECKING:
    from dpsu.contributions.pairs import Pairs
    from dpsu.yields.expected import Expected

FORMAT = 1
GROUPS = ("by_mechanism", "by_epsilon", "by_max_items")
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
SIZES = (3, 10, 30, 100, 300)
WORTH_TELLING = 1.05
NOTHING = 0.5


@dataclass(frozen=True)
class Point:
    """Expected yield of one mechanism at one epsilon and max_items.

    `released` is the number of items, `error` its standard error over keys (None with one key),
    `missing` the part of all pairs whose items stay back, and `needs` about how many users an item
    needs; None where hardly anything comes out. `planned` marks the plan that was asked for.
    """

    mechanism: str
    epsilon: float
    max_items: int | None
    released: float
    error: float | None
    missing: float
    needs: int | None
    planned: bool


Points = tuple[Point, ...]


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

    def to_dict(self) -> dict[str, Any]:
        """The forecast in plain values, as in its JSON."""
        return {
            "format": FORMAT,
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
        """The forecast as JSON text; :meth:`from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Forecast:
        """Read a forecast that :meth:`to_json` wrote."""
        values = json.loads(text)
        if not isinstance(values, dict) or values.get("format") != FORMAT or "runs" not in values:
            raise ParameterError(f"this is not a forecast of format {FORMAT}")
        points = {name: tuple(Point(**point) for point in values[name]) for name in GROUPS}
        return cls(
            plan=Plan.from_dict(values["plan"]),
            profile=Profile(**values["profile"]),
            runs=values["runs"],
            findings=tuple(Finding(**finding) for finding in values["findings"]),
            **points,
        )

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
        verdict = ", hopeless" if self.hopeless else ""
        return f"<Forecast: about {self.planned.released:,.0f} items by {self.plan.name}{verdict}>"

    def __str__(self) -> str:
        from dpsu.yields.tables import forecast_text

        return forecast_text(self)

    def _repr_html_(self) -> str:
        from dpsu.yields.tables import forecast_html

        return forecast_html(self)


@kind_keywords
def forecast(
    plan: Plan,
    *,
    users: int | None = None,
    items_per_user: float | None = None,
    zipf: float | None = None,
    vocabulary: int | None = None,
    profile: Any = None,
    mechanisms: Sequence[str | Mechanism] | None = None,
    progress: bool | Steps | None = None,
) -> Forecast:
    """Forecast how many items a release would yield, before any confidential data is touched.

    Users are made up by Zipf's law, or taken from a public corpus; the plan and all other
    mechanisms are then tried on them, at this and other epsilons and sizes of sets.

    Parameters
    ----------
    plan : Plan
        What is planned, made by :func:`dpsu.plan`. A prior and public items are not taken into
        account.
    users : int, optional
        Expected number of users. With `profile`, at most this many users of the corpus are used.
    items_per_user : float, optional
        Expected number of different items of a user, on average; set sizes are log-normal.
    zipf : float, optional
        Exponent of Zipf's law of popularity; 1 by default, as for words. Larger means fewer
        common items and a longer tail.
    vocabulary : int, optional
        Number of different items that exist; 200,000 by default.
    profile : path, frame or mapping, optional
        Instead of made-up users: a PUBLIC corpus that resembles the data, in any form that
        :func:`dpsu.release` takes. Never the confidential data itself.
    mechanisms : list of str or Mechanism, optional
        Mechanisms to compare with; by default all, with the `max_items` of the plan where it was
        given.
    progress : bool or callable, optional
        True shows a progress bar, in a terminal or a notebook. A function is called with the number
        of steps done and of all steps, which is 0 as long as kernels are being compiled.

    Returns
    -------
    Forecast

    Privacy
    -------
    A function of public parameters: it touches no confidential data and spends nothing.

    Cost
    ----
    About a hundred releases of the made-up data: seconds for a million pairs of a user and an item,
    half a minute for ten million.
    Profiles are capped at ten million pairs; beyond, yields are those of fewer users, and a finding
    says so.

    Examples
    --------
    >>> import dpsu
    >>> plan = dpsu.plan(epsilon=1, delta=1e-6)
    >>> seen = dpsu.forecast(plan, users=2000, items_per_user=5, mechanisms=["greedy"])
    >>> seen.hopeless
    False
    >>> seen.planned.mechanism, seen.planned.released > 10
    ('auto', True)
    >>> poor = dpsu.plan(epsilon=0.1, delta=1e-9)
    >>> poor = dpsu.forecast(poor, users=50, items_per_user=5, mechanisms=[])
    >>> print(poor.findings[0].text)  # doctest: +ELLIPSIS
    at epsilon=0.1, delta=1e-09 an item needs about ... users; you expect users=50: nothing ...
    """
    from dpsu.runtime.compiling import when_compiling

    if not isinstance(plan, Plan) or plan.selected is not None:
        raise ParameterError("a forecast needs a plan that dpsu.plan returned")
    asked = _without_public_data(plan)
    if asked.by_length:
        raise ParameterError("there is no forecast for ngrams: made-up users have no texts")
    typed_size = getattr(plan.mechanism, "max_items", None) not in (None, _usual_size(plan))
    others = _others(asked, mechanisms, typed_size)
    with steps(progress, "forecasting") as tell, when_compiling(lambda: tell(0, 0)):
        shape, pairs = find_users(users, items_per_user, zipf, vocabulary, profile, plan)
        results, runs = _Trial(asked, others).run(pairs, shape, tell)
    found = findings(
        plan, asked.at, users=shape.users, items_per_user=shape.items_per_user,
        typed_size=typed_size,
    )  # fmt: skip
    made = Forecast(plan, shape, runs, *results, tuple(found))
    return replace(made, findings=(*found, *_findings_of(made, typed_size)))


def _without_public_data(plan: Plan) -> Plan:
    """The plan that made-up users can try: they know no prior and no public items."""
    kept = plan.mechanism
    if plan.prior is not None:
        dropped = {"prior": None, "order": None, "expected_users": None}
        kept = replace(
            kept, **{name: value for name, value in dropped.items() if hasattr(kept, name)}
        )
    item = replace(plan.item, repeats=None) if isinstance(plan.item, Items) else plan.item
    return Plan.derived(plan.privacy, kept, plan.user, item, counts=plan.counts, hints=plan.hints)


def _usual_size(plan: Plan) -> int | None:
    known = options_of(type(plan.mechanism)).get("max_items")
    return None if known is None else known.default


def _others(
    asked: Plan, mechanisms: Sequence[str | Mechanism] | None, typed_size: bool
) -> list[Mechanism]:
    """The mechanism of the plan first, and those to compare it with."""
    size = asked.max_items if typed_size else None
    listed = tried_mechanisms() if mechanisms is None else list(mechanisms)
    made = [as_mechanism(each, size) for each in listed]
    return [asked.mechanism, *(each for each in made if each.name != asked.name)]


def tried_mechanisms() -> list[str]:
    """Names of the mechanisms that can be tried side by side: all that weigh pairs."""
    return [name for name, kind in MECHANISMS.items() if not kind.by_length]


def as_mechanism(given: Any, size: int | None) -> Mechanism:
    """What was listed among `mechanisms`: a name, or an object."""
    if isinstance(given, str):
        return sized(given, size)
    if isinstance(given, type) and issubclass(given, Mechanism):
        raise ParameterError(
            f"{{mechanisms}} has the class {given.__name__}; make one: dpsu.{given.__name__}()",
            mechanisms=...,
        )
    if not isinstance(given, Mechanism) or given.by_length:
        raise ParameterError(
            "{mechanisms} must be names or objects such as dpsu.Sieve(), other than ngrams",
            mechanisms=...,
        )
    return given


def sized(name: str, size: int | None) -> Mechanism:
    """A mechanism by its name, for sets of this size if it matters."""
    kind = MECHANISMS[one_of("mechanisms", name, tried_mechanisms())]
    if "max_items" in options_of(kind):
        size = kind.usual_items if size is None else size
        return by_name(name) if size is None else by_name(name, max_items=size)
    return by_name(name)


class _Trial:
    """The plans of a forecast: what was asked for, and beside it all else."""

    def __init__(self, asked: Plan, mechanisms: list[Mechanism]) -> None:
        self._asked, self._mechanisms = asked, mechanisms

    def run(
        self, pairs: Pairs, shape: Profile, tell: Steps
    ) -> tuple[tuple[Points, Points, Points], int]:
        """Points by mechanism, by epsilon and by max_items, and the number of keys."""
        from dpsu.yields.expected import expect, usual_runs

        epsilon = self._asked.privacy.epsilon
        epsilons = sorted(
            {min(LARGEST_EPSILON, max(SMALLEST_EPSILON, f * epsilon)) for f in FACTORS}
        )
        groups: list[dict[tuple[str, float, int | None], Plan]] = [{}, {}, {}]
        for each in self._mechanisms:
            self._add(groups[0], each, epsilon, None)
            for other in epsilons:
                self._add(groups[1], each, other, None)
            for size in SIZES if "max_items" in options_of(type(each)) else ():
                self._add(groups[2], each, epsilon, size)
        # The same plan may stand in several places; it is tried once.
        plans = list(dict.fromkeys(plan for group in groups for plan in group.values()))
        runs = usual_runs(shape.used_pairs, 1)
        step = 0

        def tick() -> None:
            nonlocal step
            step += 1
            tell(step, runs * len(plans))

        found = dict(zip(plans, expect(pairs, plans, runs, progress=tick), strict=True))
        first, second, third = (
            tuple(self._point(name, plan, found[plan]) for (name, _, _), plan in group.items())
            for group in groups
        )
        return (first, second, third), runs

    def _add(
        self,
        group: dict[tuple[str, float, int | None], Plan],
        tried: Mechanism,
        epsilon: float,
        size: int | None,
    ) -> None:
        try:
            chosen = tried if size is None else replace(tried, max_items=size)  # type: ignore[call-arg]
            privacy = Privacy(epsilon, self._asked.privacy.delta)
            plan = self._asked.with_mechanism(chosen, privacy=privacy)
        except ParameterError:
            # Options that are fine as typed may not fit another epsilon or size.
            return
        group[tried.name, epsilon, size] = plan

    def _point(self, name: str, plan: Plan, found: Expected) -> Point:
        return Point(
            name,
            plan.privacy.epsilon,
            plan.max_items,
            found.released,
            found.error,
            found.missing,
            found.needs,
            name == self._asked.name,
        )


def _findings_of(made: Forecast, typed_size: bool) -> list[Finding]:
    """What the yields say about the settings."""
    found, shape, planned = [], made.profile, made.planned
    if shape.used_users < shape.users:
        found.append(
            Finding(
                False,
                f"yields are those of {shape.used_users:,} users, the most that "
                f"{'are made up' if shape.zipf is not None else 'the corpus has'}; expect more of "
                f"users={shape.users:,}",
            )
        )
    mean = shape.used_pairs / shape.used_users
    if mean < 0.9 * shape.items_per_user:
        found.append(
            Finding(
                False,
                f"made-up users hold {mean:.3g} items on average, not "
                f"{shape.items_per_user:g} as asked: zipf={shape.zipf:g} leaves too few that "
                "differ; lower it, or raise vocabulary",
            )
        )
    if made.plan.prior is not None or made.plan.public_items is not None:
        found.append(Finding(False, "prior and public items are not part of the forecast"))
    if planned.released < NOTHING and not made.hopeless:
        found.append(_nothing_comes_out(made))
    return found + _better(made, typed_size)


def _nothing_comes_out(made: Forecast) -> Finding:
    """Enough users for one item, but their weight is spread over too many."""
    planned = made.planned
    message = (
        f"at epsilon={planned.epsilon:g}, delta={made.plan.privacy.delta:g} {planned.mechanism} is "
        f"expected to release {planned.released:.2g} items of users={made.profile.users:,}"
    )
    enough = [p for p in made.by_epsilon if p.planned and p.released >= NOTHING]
    if enough:
        first = min(enough, key=lambda point: point.epsilon)
        return Finding(
            True, f"{message}. Try epsilon={first.epsilon:g} ({first.released:,.0f} items)"
        )
    return Finding(True, f"{message}. It takes more users, or a much larger epsilon")


def _better(made: Forecast, typed_size: bool) -> list[Finding]:
    """Other settings that would release clearly more."""
    planned, found = made.planned, []
    sizes = [p for p in made.by_max_items if p.planned]
    best = max(sizes, key=lambda point: point.released, default=planned)
    least = max(1.0, WORTH_TELLING * planned.released)
    if best.released > least and (
        planned.max_items is None or typed_size or (best.max_items or 0) < planned.max_items
    ):
        more = f"{best.released:,.0f} items instead of {planned.released:,.0f}"
        found.append(
            Finding(
                False, f"a limit of {best.max_items} items per user is expected to release {more}"
            )
        )
    rival = max(made.by_mechanism, key=lambda point: point.released)
    if rival.released > least:
        more = f"{rival.released:,.0f} items instead of {planned.released:,.0f}"
        found.append(Finding(False, f"{rival.mechanism} is expected to release {more}"))
    return found
