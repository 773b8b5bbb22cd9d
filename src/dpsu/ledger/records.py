"""Entries of a ledger: what each may say, and the chain of hashes that ties it to all before it.

An entry is a JSON text, and nothing is ever changed: that a release is done, or void, is a further
entry. Its hash is the SHA-256 of the hash before it, its number and its text, a line each. So an
entry that is changed, removed, added or moved leaves a hash that does not fit. What the chain
cannot show is that the newest entries are missing: for that somebody keeps a hash elsewhere.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from dpsu.errors import LedgerError, ParameterError
from dpsu.inputs.columns import Users
from dpsu.ledger.accounting import Balance, Cost, Total, spent_of, total
from dpsu.plans.plan import Plan
from dpsu.plans.written import unique
from dpsu.privacy.guarantee import (
    LARGEST_DELTA,
    LARGEST_EPSILON,
    SMALLEST_DELTA,
    SMALLEST_EPSILON,
    Privacy,
)
from dpsu.privacy.shifts import Shift

BUDGET, CHARGE, RESUMED, PUBLISHING, DONE, VOID = (
    "budget",
    "charge",
    "resumed",
    "publishing",
    "done",
    "void",
)
PENDING = "pending"
# The states of a release in which it may get such an entry.
BEFORE = {
    RESUMED: {PENDING},
    PUBLISHING: {PENDING},
    DONE: {PENDING, PUBLISHING},
    VOID: {PENDING},
}
# What other software spent is named so.
ELSEWHERE = "elsewhere: "
_COMMON = {"kind", "dataset", "time"}
FIELDS = {
    BUDGET: _COMMON | {"epsilon", "delta"},
    CHARGE: _COMMON
    | {
        "epsilon",
        "delta",
        "mechanism",
        "shift_squared",
        "novel",
        "run",
        "plan",
        "plan_hash",
        "unit",
        "name",
    },
    RESUMED: _COMMON | {"charge", "run"},
    PUBLISHING: _COMMON | {"charge", "run"},
    DONE: _COMMON | {"charge"},
    VOID: _COMMON | {"charge", "reason"},
}
LONGEST_NAME = 200
# Far beyond any plan, and far below what a double cannot hold.
LARGEST_SQUARED = 1e12


@dataclass(frozen=True)
class RecordedRelease:
    """One release on record: public facts and its plan, nothing of what came out.

    Attributes
    ----------
    number : int
        Number of its charge among all entries of the ledger.
    state : {"pending", "publishing", "done", "void"}
        A pending one has shown nothing yet, or has no name; a publishing one may have been seen.
        Void ones read nothing, and cost nothing.
    run : str
        The random id of the newest run, which its report and its files carry too.
    plan, plan_hash : str or None
        The plan as JSON, and its hash; None where it was to be chosen from the data, and where
        other software spent it.
    unit : Users or None
        The unit it protects: the user columns, and the number of ids per person; None if other
        software spent it.
    name : str or None
        The name under which it is made once.
    reason : str or None
        What kind of error made it void.
    runs : int
        How often it was run under this charge. At most one of these runs was published.
    """

    number: int
    dataset: str
    started: str
    mechanism: str
    cost: Cost
    state: str
    run: str
    plan_hash: str | None
    plan: str | None = field(repr=False)
    unit: Users | None
    name: str | None = None
    reason: str | None = None
    runs: int = 1

    @property
    def elsewhere(self) -> bool:
        """Whether other software spent it."""
        return self.mechanism.startswith(ELSEWHERE)


@dataclass(frozen=True)
class RecordedBudget:
    """A budget on record.

    Attributes
    ----------
    number : int
        Number of its entry in the ledger.
    since : str
        When it was set.
    privacy : Privacy
        Its epsilon and delta.
    """

    number: int
    since: str
    privacy: Privacy


@dataclass(frozen=True)
class Account:
    """A dataset's budget and everything that was charged to it; ``print`` says it in words.

    Attributes
    ----------
    dataset : str
        The name under which releases of the same people add up.
    budget : Privacy
        Epsilon and delta for all of them, as it is now.
    releases : tuple of RecordedRelease
        All that were charged, oldest first; void ones too.
    earlier_budgets : tuple of RecordedBudget
        The budgets before this one, oldest first.
    """

    dataset: str
    budget: Privacy
    releases: tuple[RecordedRelease, ...]
    earlier_budgets: tuple[RecordedBudget, ...] = ()

    @property
    def costs(self) -> list[Cost]:
        """What counts: every release, finished or not, unless it is void."""
        return [each.cost for each in self.releases if each.state != VOID]

    @property
    def units(self) -> tuple[Users, ...]:
        """The units that the charged releases protect; void ones do not count."""
        units = (each.unit for each in self.releases if each.state != VOID)
        return tuple(dict.fromkeys(unit for unit in units if unit is not None))

    @property
    def total(self) -> Total:
        """What all releases cost together, finished or not."""
        return total(self.costs)

    @property
    def spent(self) -> Balance:
        """What all releases cost together: ``spent.sums.epsilon``, ``spent.gaussian.epsilon``."""
        return spent_of(self.budget, self.total)

    @property
    def left(self) -> Balance:
        """What is left of the budget by each account, at least 0: ``left.sums.epsilon``."""
        return self.spent.left_of(self.budget)

    def __repr__(self) -> str:
        spent, budget = self.spent.sums, self.budget
        return (
            f"<Account {self.dataset!r}: epsilon {spent.epsilon:.4g} of {budget.epsilon:g}, "
            f"delta {spent.delta:.4g} of {budget.delta:g} spent by sums>"
        )

    def __str__(self) -> str:
        from dpsu.ledger.prose import account_text

        return account_text(self)

    def _repr_html_(self) -> str:
        from dpsu.ledger.prose import account_html

        return account_html(self)


def content_of(kind: str, dataset: str, **facts: Any) -> str:
    """The text of a new entry."""
    time = datetime.now(UTC).isoformat(timespec="seconds")
    entry = {"kind": kind, "dataset": dataset, "time": time, **facts}
    return json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)


def facts_of(
    cost: Cost, run: str, plan: Plan | None, choice: str | None, name: str | None = None
) -> dict[str, Any]:
    """What the entry of a charge says besides its dataset and time.

    With a `choice`, another plan will run, and only the users of this one are recorded.
    """
    final = plan if choice is None else None
    return {
        **cost.privacy.numbers,
        "mechanism": choice if final is None else final.name,
        "run": run,
        "plan_hash": None if final is None else final.hash,
        "shift_squared": None if cost.shift is None else cost.shift.squared,
        "novel": None if cost.shift is None else cost.shift.novel,
        "plan": None if final is None else final.to_dict(),
        "unit": None if plan is None else unit_of(plan.user),
        "name": name,
    }


def unit_of(user: Users) -> dict[str, Any]:
    """A unit as entries have it; names are sorted, because their order changes no person."""
    return {"columns": sorted(user.names), "ids_per_person": user.ids_per_person}


def _unit(facts: dict[str, Any], mechanism: str) -> Users | None:
    """The unit that a release protects; None for other software, where only the caller knows it."""
    values = facts["unit"]
    if values is None and mechanism.startswith(ELSEWHERE):
        return None
    try:
        columns = values["columns"]
        users = Users(columns[0] if len(columns) == 1 else columns, None, values["ids_per_person"])
        if unit_of(users) == values:
            return users
    except (ParameterError, TypeError, KeyError, IndexError):
        pass
    raise _ContentError("does not say whom it protects")


def link(previous: str, number: int, content: str) -> str:
    """Hash of an entry, and with it of all entries before it."""
    return hashlib.sha256(f"{previous}\n{number}\n{content}".encode()).hexdigest()


class Book:
    """All entries of a ledger, each of them checked: its place, its hash and what it says."""

    def __init__(self, path: Path, rows: Iterable[tuple[Any, Any, Any]] = ()) -> None:
        self._path = path
        self.hashes: list[str] = []
        self._budgets: dict[str, list[RecordedBudget]] = {}
        self._releases: dict[int, RecordedRelease] = {}
        self._named: dict[tuple[str, str], int] = {}
        for number, content, found in rows:
            if number != len(self.hashes) + 1:
                self._refuse(len(self.hashes) + 1, "is missing")
            if not isinstance(content, str) or self.append(content) != found:
                self._refuse(
                    number,
                    "does not fit its hash: it was changed after it was written, or entries before "
                    "it were changed, removed, added or moved",
                )

    def __repr__(self) -> str:
        told = f"{len(self.hashes):,} entries, {len(self._budgets):,} datasets"
        return f"<Book of {str(self._path)!r}: {told}, head {self.head[:12]}>"

    @property
    def head(self) -> str:
        """Hash of the newest entry, which stands for all of them; empty if there is none."""
        return self.hashes[-1] if self.hashes else ""

    def datasets(self) -> list[str]:
        """Names of all datasets, sorted."""
        return sorted(self._budgets)

    def account(self, dataset: str) -> Account:
        """A dataset's budget and releases."""
        if dataset not in self._budgets:
            near = difflib.get_close_matches(dataset, self.datasets(), n=1)
            meant = f"did you mean {near[0]!r}? A" if near else "a"
            raise ParameterError(
                f"the ledger has no dataset {dataset!r}; {meant} new one needs {{budget}}, its "
                "epsilon and delta",
                budget=...,
            )
        releases = tuple(each for each in self._releases.values() if each.dataset == dataset)
        *earlier, now = self._budgets[dataset]
        return Account(dataset, now.privacy, releases, tuple(earlier))

    def release(self, number: int) -> RecordedRelease:
        """A release by the number of its charge."""
        if number not in self._releases:
            raise LedgerError(f"ledger {str(self._path)!r} has no release {number}")
        return self._releases[number]

    def named(self, dataset: str, name: str) -> RecordedRelease | None:
        """The release of this name that was charged, unless it is void."""
        number = self._named.get((dataset, name))
        return None if number is None else self._releases[number]

    def append(self, content: str) -> str:
        """Check what an entry says, take it up, and return its hash."""
        number = len(self.hashes) + 1
        try:
            self._take_up(number, content)
        except _ContentError as nonsense:
            self._refuse(number, str(nonsense))
        self.hashes.append(link(self.head, number, content))
        return self.head

    def _take_up(self, number: int, content: str) -> None:
        facts = _facts(content)
        kind, dataset, time = facts["kind"], _text(facts, "dataset"), _text(facts, "time")
        if kind == BUDGET:
            set_now = RecordedBudget(number, time, _privacy(facts))
            self._budgets.setdefault(dataset, []).append(set_now)
        elif dataset not in self._budgets:
            raise _ContentError(f"is about dataset {dataset!r}, which has no budget before it")
        elif kind == CHARGE:
            mechanism = _text(facts, "mechanism")
            cost = Cost(_privacy(facts), _shift(facts))
            plan = _plan(facts, mechanism, cost.privacy)
            name = None if facts["name"] is None else _text(facts, "name")
            if name is not None and self._named.setdefault((dataset, name), number) != number:
                raise _ContentError("charges a name that was charged before it")
            self._releases[number] = RecordedRelease(
                number, dataset, time, mechanism, cost, PENDING, _text(facts, "run"),
                facts["plan_hash"], plan, _unit(facts, mechanism), name,
            )  # fmt: skip
        else:
            self._go_on(facts, kind, dataset)

    def _go_on(self, facts: dict[str, Any], kind: str, dataset: str) -> None:
        """Take up what became of a release that was charged before."""
        before = self._releases.get(facts["charge"])
        if before is None or before.dataset != dataset or before.state not in BEFORE[kind]:
            raise _ContentError(f"says {kind} of a release that is not open")
        if kind == RESUMED:
            if before.name is None:
                raise _ContentError("resumes a release that has no name")
            after = replace(before, run=_text(facts, "run"), runs=before.runs + 1)
        elif kind == PUBLISHING and (before.name is None or before.run != facts["run"]):
            raise _ContentError("publishes another run than the newest of a name")
        elif kind == VOID and before.runs > 1:
            raise _ContentError("says void of a release that ran more than once")
        else:
            after = replace(before, state=kind)
        if kind == VOID:
            after = replace(after, reason=_text(facts, "reason"))
            self._named.pop((dataset, before.name or ""), None)
        self._releases[before.number] = after

    def _refuse(self, number: int, what: str) -> NoReturn:
        raise LedgerError(
            f"ledger {str(self._path)!r} is damaged: entry {number} {what}. What was spent is not "
            "known any more. Restore a copy only if it has the newest entry (dpsu ledger "
            "--expect-head shows it); otherwise treat the budget as spent"
        ) from None


class _ContentError(Exception):
    """An entry says what no release wrote."""


def _facts(content: str) -> dict[str, Any]:
    try:
        facts = json.loads(content, parse_constant=_no_number, object_pairs_hook=unique)
    except (ValueError, RecursionError):
        raise _ContentError("is not JSON") from None
    if not isinstance(facts, dict) or not isinstance(facts.get("kind"), str):
        raise _ContentError("does not say of which kind it is")
    fields = FIELDS.get(facts["kind"])
    if fields is None:
        raise _ContentError(f"is of kind {facts['kind'][:LONGEST_NAME]!r}, which there is not")
    for name in sorted(fields ^ set(facts)):
        raise _ContentError(f"has {'no' if name in fields else 'a'} field {name[:LONGEST_NAME]!r}")
    if fields >= {"charge"} and type(facts["charge"]) is not int:
        raise _ContentError("does not say which release it closes")
    return facts


def _no_number(name: str) -> NoReturn:
    raise ValueError(name)


def _text(facts: dict[str, Any], name: str) -> str:
    text = facts[name]
    if not isinstance(text, str) or not 0 < len(text) <= LONGEST_NAME or not text.isprintable():
        raise _ContentError(f"gives no name for its {name}")
    if name == "time":
        try:
            datetime.fromisoformat(text)
        except ValueError:
            raise _ContentError("gives no time") from None
    return text


def _number(facts: dict[str, Any], name: str, lowest: float, highest: float) -> float:
    number = facts[name]
    if type(number) not in (int, float):
        raise _ContentError(f"gives no number for {name}")
    if not lowest <= number <= highest:
        raise _ContentError(
            f"gives for {name} a number that is not between {lowest:g} and {highest:g}"
        )
    return float(number)


def _privacy(facts: dict[str, Any]) -> Privacy:
    return Privacy(
        _number(facts, "epsilon", SMALLEST_EPSILON, LARGEST_EPSILON),
        _number(facts, "delta", SMALLEST_DELTA, LARGEST_DELTA),
    )


def _shift(facts: dict[str, Any]) -> Shift | None:
    if facts["shift_squared"] is None and facts["novel"] is None:
        return None
    squared = _number(facts, "shift_squared", 0.0, LARGEST_SQUARED)
    if not squared:
        raise _ContentError("gives 0 for shift_squared, and there is no noise that large")
    return Shift(squared, _number(facts, "novel", 0.0, 1.0))


def _plan(facts: dict[str, Any], mechanism: str, privacy: Privacy) -> str | None:
    """The plan as JSON, if it is one and of this release.

    It is not read further than that: a ledger outlives the plans of one version.
    """
    plan = facts["plan"]
    if plan is None and facts["plan_hash"] is None:
        return None
    if not isinstance(plan, dict) or "format" not in plan:
        raise _ContentError("has a plan that is none")
    chosen = plan.get("mechanism")
    name = chosen.get("name") if isinstance(chosen, dict) else None
    found = name, plan.get("privacy"), plan.get("hash")
    if found != (mechanism, privacy.numbers, _text(facts, "plan_hash")):
        raise _ContentError("has the plan of another release")
    return json.dumps(plan, sort_keys=True)
