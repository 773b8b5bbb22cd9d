"""All mechanisms on the curator's own data, on average: for the curator's eyes, and NOT private."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError, option_error
from dpsu.inputs.columns import DEFAULT_ITEM, DEFAULT_USER, Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.options import suggests_keywords, whole_number
from dpsu.plans.mechanisms import Mechanism, OneShot
from dpsu.plans.plan import Plan
from dpsu.plans.planning import items_of, users_of
from dpsu.privacy.guarantee import Privacy
from dpsu.showing.progress import Steps, steps, ticking
from dpsu.yields.forecasting import as_mechanism, tried_mechanisms
from dpsu.yields.tables import NOT_PRIVATE

if TYPE_CHECKING:
    from dpsu.inputs.reading import Source
    from dpsu.yields.expected import Expected, HeldBy

LEVELS = (5, 10, 20, 50, 100, 200, 500, 1000)
BANDS = (1, 2, 5, 10, 20, 50, 100, 1000)
FEWEST_RUNS = 3
MOST_RUNS = 1000


@dataclass(frozen=True)
class Level:
    """How many items are held by at least `holders` users."""

    holders: int
    items: int


@dataclass(frozen=True)
class Band:
    """How many items are held by `first` to `last` users; `last` is None for the highest band."""

    first: int
    last: int | None
    items: int

    def __str__(self) -> str:
        if self.last is None:
            return f"{self.first:,}+"
        return f"{self.first:,}" if self.last == self.first else f"{self.first:,}-{self.last:,}"


@dataclass(frozen=True)
class Compared:
    """One mechanism on the curator's data, on average.

    Attributes
    ----------
    mechanism, max_items : str, int or None
        What was tried.
    released, error : float
        Expected number of items, and its standard error over keys (None with a single one).
    missing : float
        Holders of items that stay back, as a part of all pairs of a user and an item.
    of_bound : float
        Part of what any private mechanism could release on average.
    needs : int or None
        About how many users an item needs; None where hardly anything comes out.
    covered, by_band : tuple of float
        Expected number of released items of each level and each band of the comparison.
    relative : tuple of float or None
        All released items over the number of items of each level, as in Table 3 of Gopi et al.;
        above 1 where more come out than this many users hold. None for levels without items.
    averaged : {"coins", "runs"}
        Whether coins were averaged exactly, or whole runs were.
    """

    mechanism: str
    max_items: int | None
    released: float
    error: float | None
    missing: float
    of_bound: float
    needs: int | None
    covered: tuple[float, ...]
    by_band: tuple[float, ...]
    relative: tuple[float | None, ...]
    averaged: str

    @property
    def label(self) -> str:
        """Mechanism and size of sets."""
        size = "all" if self.max_items is None else f"{self.max_items:,}"
        return f"{self.mechanism}, {size}"


@dataclass(frozen=True)
class Comparison:
    """Mechanisms side by side. NOT PRIVATE, but without the name of any item.

    Attributes
    ----------
    privacy : Privacy
        The guarantee that each of them would give in a release.
    users, pairs, items : int
        True size of the data.
    bound : float
        Most items that any private mechanism could release on average.
    runs : int
        Number of keys that were averaged over.
    levels, bands : tuple
        Numbers of holders of the coverage table, and bands of numbers of holders.
    rows : tuple of Compared
        Mechanisms, best first.
    """

    privacy: Privacy
    users: int
    pairs: int
    items: int
    bound: float
    runs: int
    levels: tuple[Level, ...]
    bands: tuple[Band, ...]
    rows: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """The comparison in plain values, as in its JSON; the warning comes first."""
        return {"NOT PRIVATE": NOT_PRIVATE, **asdict(self)}

    def to_json(self) -> str:
        """The comparison as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def to_html(self) -> str:
        """The comparison as one page that needs nothing from elsewhere. NOT PRIVATE."""
        from dpsu.yields.pages import comparison_page

        return comparison_page(self)

    def write_html(self, path: str | Path) -> None:
        """Write the page, whole or not at all, for its owner alone to read. NOT PRIVATE."""
        from dpsu.runtime.writing import check_writable, write_text

        check_writable(Path(path), suffixes=(".html", ".htm"))
        write_text(Path(path), self.to_html(), private=True)

    def __repr__(self) -> str:
        # It ends up in logs, so it says nothing of the data: neither numbers nor which is best.
        number = f"{len(self.rows)} mechanism{'s' * (len(self.rows) != 1)}"
        return f"<Comparison of {number}: NOT PRIVATE, do not publish>"

    def __str__(self) -> str:
        from dpsu.yields.tables import comparison_text

        return comparison_text(self)

    def _repr_html_(self) -> str:
        from dpsu.yields.tables import comparison_html

        return comparison_html(self)


@suggests_keywords
def compare(
    data: Any,
    *,
    epsilon: float,
    delta: float,
    user: str | Users = DEFAULT_USER,
    item: str | Items | Tokens = DEFAULT_ITEM,
    mechanisms: str | Mechanism | Sequence[str | Mechanism] | None = None,
    runs: int | None = None,
    format: str | None = None,
    progress: bool | Steps | None = None,
) -> Comparison:
    """Try all mechanisms on your own data. NOT PRIVATE: for the curator only.

    Shows expected yields, what is missed, and how well items of many and of few users are covered,
    beside what any private mechanism could do. Items are never named.

    Parameters
    ----------
    data, user, item, format
        As in :func:`dpsu.release`.
    epsilon, delta : float
        The guarantee that a release by each mechanism would give. This comparison gives none.
    mechanisms : list of str or Mechanism, optional
        Which to compare, by name or with options: ``[dpsu.Sieve(max_items=30), "greedy"]``; by
        default all (count-laplace with 10 items per user).
    runs : int, optional
        How many keys to average over; by default 3 to 8, more for small data.
    progress : bool or callable, optional
        True shows a progress bar, in a terminal or a notebook. A function is called with the number
        of steps done and of all steps.

    Returns
    -------
    Comparison

    Privacy
    -------
    None. Every number is a function of the confidential data without noise. Do not publish any of
    it, and remember that options chosen by looking at it are chosen by looking at the data.

    Cost
    ----
    `runs` releases for each mechanism and size. Rows are read once and kept in memory.

    Examples
    --------
    >>> import dpsu
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> found = dpsu.compare(visits, epsilon=1, delta=1e-6, mechanisms=["weighted-gaussian"])
    >>> round(found.rows[0].released, 3), found.levels[0].items
    (2.0, 2)
    >>> print(found)  # doctest: +ELLIPSIS
    NOT PRIVATE: for the curator only; do not publish. ...
    """
    from dpsu.inputs.reading import Source
    from dpsu.yields.expected import (
        expect,
        held_by,
        holders_of,
        pairs_to_try,
        universal_bound,
        usual_runs,
    )

    privacy = Privacy(epsilon, delta)
    source = Source(data, users_of(user), items_of(item), format)
    plans = _plans(privacy, mechanisms, source)
    if runs is not None:
        runs = whole_number("runs", runs, 1, MOST_RUNS)
    with steps(progress, "comparing") as tell:
        pairs = pairs_to_try(source)
        holders = holders_of(pairs)
        keys = runs or usual_runs(len(pairs), FEWEST_RUNS)
        tick = ticking(tell, keys * len(plans))
        found = expect(pairs, plans, keys, levels=LEVELS, bands=BANDS, progress=tick)
    held = held_by(holders[holders > 0])
    bound = universal_bound(held, privacy.epsilon, privacy.delta)
    levels = tuple(Level(level, int(held.items[held.numbers >= level].sum())) for level in LEVELS)
    rows = [_compared(plan, one, bound, levels) for plan, one in zip(plans, found, strict=True)]
    return Comparison(
        privacy=privacy,
        users=len(pairs.users),
        pairs=int(holders.sum()),
        items=int((holders > 0).sum()),
        bound=bound,
        runs=keys,
        levels=levels,
        bands=_bands(held),
        rows=tuple(sorted(rows, key=lambda row: -row.released)),
    )


def _plans(
    privacy: Privacy,
    mechanisms: str | Mechanism | Sequence[str | Mechanism] | None,
    source: Source,
) -> list[Plan]:
    """The plans to compare; everything that can be refused is refused here, before any data."""
    named: Any = tried_mechanisms() if mechanisms is None else mechanisms
    alone = isinstance(named, (str, type)) or not isinstance(named, Iterable)
    listed = [named] if alone else list(named)
    if not listed:
        raise option_error("mechanisms", "is empty; name at least one, or leave it out for all")
    made = [as_mechanism(each, None) for each in listed]
    if any(getattr(each, "prior", None) for each in made):
        raise option_error("mechanisms", "must be without a prior here")
    # Repeats are there for the mechanisms that make use of them; the others need none.
    item = replace(source.item, repeats=None) if isinstance(source.item, Items) else source.item
    plans = []
    for each in dict.fromkeys(made):
        try:
            plans.append(Plan.derived(privacy, each, source.user, item))
        except ParameterError:
            # Whoever names none compares all that can keep this guarantee.
            if mechanisms is not None:
                raise
    return plans


def _compared(plan: Plan, found: Expected, bound: float, levels: tuple[Level, ...]) -> Compared:
    return Compared(
        plan.name,
        plan.max_items,
        found.released,
        found.error,
        found.missing,
        found.released / bound if bound else 0.0,
        found.needs,
        found.covered,
        found.by_band,
        tuple(found.released / level.items if level.items else None for level in levels),
        "coins" if isinstance(plan.selection, OneShot) else "runs",
    )


def _bands(held: HeldBy) -> tuple[Band, ...]:
    ends: list[int | None] = [first - 1 for first in BANDS[1:]]
    bands = []
    for first, last in zip(BANDS, [*ends, None], strict=True):
        inside = held.numbers >= first
        if last is not None:
            inside &= held.numbers <= last
        bands.append(Band(first, last, int(held.items[inside].sum())))
    return tuple(bands)
