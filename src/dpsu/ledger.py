"""What was already spent on a dataset, kept in one SQLite file that survives crashes.

A release is charged by a row that is on disk before any private data is read; the row is marked
done once its output is in place. Whatever happens in between, the row stays and counts: a run that
was killed, or refused its data, may have shown something by that alone. So what is recorded is
never less than what was spent, and at most more.

Every operation opens the file, takes SQLite's write lock, commits and closes. Two processes
therefore charge one after the other, and nothing is held while a release runs.
"""

from __future__ import annotations

import difflib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from dpsu.accounting import Cost, Shift, Total, total
from dpsu.errors import BudgetError, LedgerError, ParameterError
from dpsu.privacy import Privacy

if TYPE_CHECKING:
    from dpsu.spending import Spending

SECONDS_TO_WAIT = 60.0
APPLICATION = 0x64707375  # "dpsu"
FORMAT = 1
LONGEST_NAME = 200
DONE, UNFINISHED = "done", "unfinished"
# What is written stays: rows are added, and the one change is that a release is done.
SCHEMA = f"""
CREATE TABLE budgets (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, since TEXT NOT NULL,
    epsilon REAL NOT NULL, delta REAL NOT NULL
);
CREATE TABLE releases (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, started TEXT NOT NULL,
    mechanism TEXT NOT NULL, epsilon REAL NOT NULL, delta REAL NOT NULL,
    shift_squared REAL, novel REAL, plan TEXT,
    state TEXT NOT NULL CHECK (state IN ('{DONE}', '{UNFINISHED}'))
);
CREATE TRIGGER budgets_stay BEFORE DELETE ON budgets
    BEGIN SELECT RAISE(ABORT, 'budgets are kept'); END;
CREATE TRIGGER budgets_are_fixed BEFORE UPDATE ON budgets
    BEGIN SELECT RAISE(ABORT, 'budgets are kept'); END;
CREATE TRIGGER releases_stay BEFORE DELETE ON releases
    BEGIN SELECT RAISE(ABORT, 'releases are kept'); END;
CREATE TRIGGER costs_are_fixed BEFORE UPDATE OF
    id, dataset, started, mechanism, epsilon, delta, shift_squared, novel, plan ON releases
    BEGIN SELECT RAISE(ABORT, 'releases are kept'); END;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""


@dataclass(frozen=True)
class Entry:
    """One release on record: public facts and its plan, nothing of what came out.

    `plan` is the plan as JSON, None where it was to be chosen from the data.
    """

    number: int
    dataset: str
    started: str
    mechanism: str
    cost: Cost
    state: str
    plan: str | None = field(repr=False)


@dataclass(frozen=True)
class Account:
    """A dataset's budget and everything that was charged to it."""

    dataset: str
    budget: Privacy
    entries: tuple[Entry, ...]

    @property
    def total(self) -> Total:
        """What all releases cost together, finished or not."""
        return total(entry.cost for entry in self.entries)


class Ledger:
    """What releases have cost their datasets, and what is left: a file that many may share.

    Parameters
    ----------
    path : str or Path
        An SQLite file; it is made by the first release that is charged.

    Privacy
    -------
    A dataset's releases together stay within its budget: docs/proofs/ledger.md. The file holds
    plans and public facts only. Whether a release finished may depend on the data: show totals,
    not states, to the public.

    Cost
    ----
    Two short transactions for each release.

    Examples
    --------
    >>> import dpsu, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = dpsu.Ledger(pathlib.Path(folder.name) / "ledger.db")
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> with ledger.spending("visits", budget=(3, 1e-5)) as spending:
    ...     result = dpsu.release(visits, epsilon=2, delta=1e-6, ledger=spending)
    ...     result.write(pathlib.Path(folder.name) / "items.txt")
    >>> ledger.account("visits").entries[0].state
    'done'
    >>> try:
    ...     dpsu.release(visits, epsilon=3, delta=1e-5, ledger=ledger, dataset="visits")
    ... except dpsu.BudgetError:
    ...     print("refused")
    refused
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def spending(self, dataset: str, *, budget: tuple[float, float] | None = None) -> Spending:
        """What the next releases on a dataset are charged to; a context that ends when all is out.

        Parameters
        ----------
        dataset : str
            The name under which releases of the same people add up.
        budget : (float, float), optional
            Epsilon and delta for all of them. Needed for a dataset that is new to the ledger, and
            refused if it differs from the one on record.
        """
        from dpsu.spending import Spending

        return Spending(self, _name(dataset), _budget(budget))

    def datasets(self) -> list[str]:
        """Names of all datasets, sorted."""
        with self._transaction() as connection:
            return [name for (name,) in connection.execute(_NAMES)]

    def account(self, dataset: str) -> Account:
        """A dataset's budget and releases."""
        with self._transaction() as connection:
            found = _account(connection, dataset)
            if found is None:
                raise ParameterError(_unknown(connection, dataset))
            return found

    def set_budget(self, dataset: str, budget: tuple[float, float]) -> None:
        """Change a dataset's budget; the old one stays on record."""
        chosen = _budget(budget)
        assert chosen is not None
        with self._transaction(write=True) as connection:
            if _account(connection, dataset) is None:
                raise ParameterError(_unknown(connection, dataset))
            _write_budget(connection, dataset, chosen)

    def charge(
        self, dataset: str, budget: Privacy | None, mechanism: str, cost: Cost, plan: str | None
    ) -> int:
        """Put a release on record before it reads anything, or refuse it; returns its number."""
        with self._transaction(write=True) as connection:
            known = _account(connection, dataset)
            if known is None:
                if budget is None:
                    raise ParameterError(_unknown(connection, dataset))
                _write_budget(connection, dataset, budget)
                known = Account(dataset, budget, ())
            elif budget not in (None, known.budget):
                raise ParameterError(
                    f"the budget of {dataset!r} is {_told(known.budget)}; to change it, say "
                    f"dpsu ledger {str(self.path)!r} --dataset {dataset!r} --set-budget E,D"
                )
            together = total([*(entry.cost for entry in known.entries), cost])
            if not together.within(known.budget):
                raise BudgetError(_refusal(known, cost))
            shift = (None, None) if cost.shift is None else (cost.shift.squared, cost.shift.novel)
            row = connection.execute(
                "INSERT INTO releases (dataset, started, mechanism, epsilon, delta, shift_squared,"
                " novel, plan, state) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (dataset, _now(), mechanism, cost.privacy.epsilon, cost.privacy.delta, *shift, plan,
                 UNFINISHED),
            )  # fmt: skip
            return int(row.lastrowid or 0)

    def finish(self, number: int) -> None:
        """Mark a release as done: its output is where it was asked for."""
        with self._transaction(write=True) as connection:
            connection.execute("UPDATE releases SET state = ? WHERE id = ?", (DONE, number))

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        if not write and not self.path.is_file():
            raise LedgerError(f"there is no ledger {str(self.path)!r}")
        try:
            connection = sqlite3.connect(
                self.path, timeout=SECONDS_TO_WAIT, isolation_level=None, check_same_thread=False
            )
            try:
                # The removal of the rollback journal is synced too: without that, a loss of power
                # right after a commit could take it back.
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                self._check(connection, write=write)
                yield connection
                connection.execute("COMMIT")
            finally:
                # Whatever is not committed is rolled back.
                connection.close()
        except sqlite3.Error as error:
            raise LedgerError(f"ledger {str(self.path)!r}: {_trouble(error)}") from None

    def _check(self, connection: sqlite3.Connection, *, write: bool) -> None:
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if write and not application and not tables:
            for statement in _statements(SCHEMA):
                connection.execute(statement)
        elif not application and not tables:
            raise LedgerError(f"ledger {str(self.path)!r} is empty: nothing was charged yet")
        elif application != APPLICATION:
            raise LedgerError(f"{str(self.path)!r} is not a ledger of dpsu")
        elif version != FORMAT:
            raise LedgerError(
                f"ledger {str(self.path)!r} has format {version}, and this dpsu knows {FORMAT}"
            )


_NAMES = "SELECT DISTINCT dataset FROM budgets ORDER BY dataset"


def _account(connection: sqlite3.Connection, dataset: str) -> Account | None:
    budget = connection.execute(
        "SELECT epsilon, delta FROM budgets WHERE dataset = ? ORDER BY id DESC LIMIT 1", (dataset,)
    ).fetchone()
    if budget is None:
        return None
    rows = connection.execute(
        "SELECT id, started, mechanism, epsilon, delta, shift_squared, novel, state, plan"
        " FROM releases WHERE dataset = ? ORDER BY id",
        (dataset,),
    )
    entries = []
    for number, started, mechanism, epsilon, delta, squared, novel, state, plan in rows:
        shift = None if squared is None else Shift(squared, novel)
        cost = Cost(Privacy(epsilon, delta), shift)
        entries.append(Entry(number, dataset, started, mechanism, cost, state, plan))
    return Account(dataset, Privacy(*budget), tuple(entries))


def _write_budget(connection: sqlite3.Connection, dataset: str, budget: Privacy) -> None:
    connection.execute(
        "INSERT INTO budgets (dataset, since, epsilon, delta) VALUES (?, ?, ?, ?)",
        (dataset, _now(), budget.epsilon, budget.delta),
    )


def _unknown(connection: sqlite3.Connection, dataset: str) -> str:
    known = [name for (name,) in connection.execute(_NAMES)]
    near = difflib.get_close_matches(dataset, known, n=1)
    meant = f"did you mean {near[0]!r}? A" if near else "a"
    return f"the ledger has no dataset {dataset!r}; {meant} new one needs a budget: epsilon,delta"


def _refusal(account: Account, cost: Cost) -> str:
    spent, budget = account.total, account.budget
    together = total([*(entry.cost for entry in account.entries), cost])
    return (
        f"this release costs {_told(cost.privacy)}, and of the budget {_told(budget)} of "
        f"{account.dataset!r} ({float(spent.epsilon):.6g}, {float(spent.delta):.4g}) is spent; "
        f"at epsilon {budget.epsilon:g} delta would be "
        f"{float(together.gaussian_delta(budget.epsilon)):.3g} by Gaussian composition. Nothing "
        "was read or charged"
    )


def _told(privacy: Privacy) -> str:
    return f"({privacy.epsilon:g}, {privacy.delta:g})"


def _trouble(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return f"somebody else has kept it locked for {SECONDS_TO_WAIT:g} seconds"
    if "not a database" in str(error):
        return "this is not a ledger of dpsu"
    return str(error)


def _name(dataset: str) -> str:
    if not isinstance(dataset, str) or not 0 < len(dataset) <= LONGEST_NAME:
        raise ParameterError(f"dataset must be a name of 1 to {LONGEST_NAME} characters")
    if not dataset.isprintable() or dataset != dataset.strip():
        raise ParameterError(
            "dataset must be printable and neither begin nor end with a space, so that nobody "
            "takes two names for one"
        )
    return dataset


def _budget(budget: tuple[float, float] | None) -> Privacy | None:
    if budget is None:
        return None
    if not isinstance(budget, (tuple, list)) or len(budget) != 2:
        raise ParameterError("budget must be two numbers: (epsilon, delta)")
    return Privacy(*budget)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
