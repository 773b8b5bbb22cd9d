"""What was already spent on a dataset, kept in one SQLite file that survives crashes.

A release is charged by an entry that is on disk before any row is read; that it is done is a second
one, once its output is in place. Whatever happens in between, the charge stays and counts. Only a
run that ended before it read anything is void, on record as such, and costs nothing. A release that
has a name may be run again under its charge as long as no run of it was marked as publishing, which
happens before its result can be seen. So what is recorded is never less than what was spent.

Every operation opens the file, takes SQLite's write lock, checks all entries (`records`),
commits and closes. Two processes therefore charge one after the other, and nothing is held while a
release runs.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import (
    INPUT,
    REFUSED,
    TRY_AGAIN,
    BudgetError,
    LedgerError,
    ParameterError,
    exit_code_of,
    option_error,
    warn,
)
from dpsu.ledger.accounting import Cost, total
from dpsu.ledger.elsewhere import charge_elsewhere
from dpsu.ledger.prices import price
from dpsu.ledger.prose import units_text
from dpsu.ledger.records import (
    BEFORE,
    BUDGET,
    CHARGE,
    DONE,
    LONGEST_NAME,
    PENDING,
    PUBLISHING,
    RESUMED,
    Account,
    Book,
    RecordedRelease,
    content_of,
)
from dpsu.ledger.ways_out import change_budget, refusal, told
from dpsu.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from dpsu.ledger.spending import Spending

SECONDS_TO_WAIT = 60.0
# What the budget is called where it is changed.
SETTING = {"budget": "set_budget"}
APPLICATION = 0x64707375  # "dpsu"
FORMAT = 5
# What is written stays. Whoever edits the file by hand meets these triggers first, and the hashes
# after that. A row that replaces another fires no trigger for what it deletes, so it is stopped
# before it is inserted: entries are numbered one after the other. To change a word of this is to
# change the format: files are compared with it.
SCHEMA = f"""
CREATE TABLE entries (number INTEGER PRIMARY KEY, content TEXT NOT NULL, hash TEXT NOT NULL);
CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are kept'); END;
CREATE TRIGGER entries_are_fixed BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'entries are kept'); END;
CREATE TRIGGER entries_are_added BEFORE INSERT ON entries
    WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM entries)
    BEGIN SELECT RAISE(ABORT, 'entries are kept'); END;
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = {FORMAT};
"""


class Ledger:
    """What releases have cost their datasets, and what is left: a file that many may share.

    Parameters
    ----------
    path : str or Path
        An SQLite file on a local disk; it is made by the first release that is charged. A relative
        name is taken from the folder that is current now.

    Privacy
    -------
    A dataset's releases together stay within its budget, by ``dpsu proofs ledger``, which says what
    it takes for granted. The file holds plans and public facts only. Whether a release finished may
    depend on the data: show totals, not states, to the public.

    Cost
    ----
    Two short transactions for each release, linear in the number of entries.

    Examples
    --------
    >>> import dpsu, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = dpsu.Ledger(pathlib.Path(folder.name) / "ledger.db")
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> with ledger.dataset("visits", budget=(3, 1e-5)) as visits_ledger:
    ...     result = dpsu.release(visits, epsilon=2, delta=1e-6, ledger=visits_ledger)
    ...     result.write(pathlib.Path(folder.name) / "items.txt")
    >>> ledger.account("visits").releases[0].state
    'done'
    >>> try:
    ...     dpsu.release(visits, epsilon=3, delta=1e-5, ledger=ledger.dataset("visits"))
    ... except dpsu.BudgetError:
    ...     print("refused")
    refused
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _file(path)

    def __repr__(self) -> str:
        return f"Ledger({str(self.path)!r})"

    def _repr_html_(self) -> str:
        from dpsu.ledger.prose import ledger_html

        return ledger_html(self)

    @property
    def head(self) -> str:
        """Hash of the newest entry, and with it of all: keep it where the file is not."""
        return self.read().head

    def dataset(
        self,
        name: str,
        *,
        budget: tuple[float, float] | None = None,
        once: str | None = None,
    ) -> Spending:
        """What releases of the same people are charged to: ``dpsu.release(..., ledger=this)``.

        As a context it marks them as done when it is left, and otherwise when they return.

        Parameters
        ----------
        name : str
            The name under which releases of the same people add up.
        budget : (float, float), optional
            Epsilon and delta for all of them. Needed for a dataset that is new to the ledger, and
            refused if it differs from the one on record.
        once : str, optional
            A name under which one release of the dataset is made, for jobs that may run twice: if
            it was, :func:`dpsu.release` returns what was released then, and nothing is read or
            charged. If the run was killed, or failed for a reason that does not depend on what it
            drew, it runs again under the same charge; if it failed for another reason, the name is
            spent. Refused if the plan is another one.
        """
        from dpsu.ledger.spending import Spending

        return Spending(self, _name(name), _budget(budget), once)

    def datasets(self) -> list[str]:
        """Names of all datasets, sorted."""
        return self.read().datasets()

    def account(self, dataset: str) -> Account:
        """A dataset's budget and releases."""
        return self.read().account(_name(dataset))

    def named(self, dataset: str, name: str) -> RecordedRelease | None:
        """The release of this name; None if it was not charged, or that charge is void."""
        charged = self.path.exists() and self.path.stat().st_size > 0
        return self.read().named(dataset, name) if charged else None

    def read(self, *, expected_head: str | None = None) -> Book:
        """All entries, checked.

        Parameters
        ----------
        expected_head : str, optional
            A `head` that was kept elsewhere. Refused if it is neither the head nor was it ever:
            then entries were removed, or others put in their place, since it was kept.
        """
        if expected_head is not None:
            expected_head = str(expected_head).strip().lower()
            if not re.fullmatch("[0-9a-f]{64}", expected_head):
                raise ParameterError("the expected head must be a hash of 64 hexadecimal digits")
        with self._transaction() as (_, book):
            if expected_head is not None and expected_head not in book.hashes:
                raise LedgerError(
                    f"ledger {str(self.path)!r} never had the expected head: entries were removed "
                    "or replaced since it was kept, or it is the head of another ledger"
                )
            return book

    def set_budget(self, dataset: str, budget: tuple[float, float]) -> None:
        """Change a dataset's budget; the old one stays on record.

        A budget below what is spent lets nothing further happen, and takes nothing back.
        """
        name, chosen = _name(dataset), price("budget", budget, SETTING)
        with self._transaction(write=True) as (connection, book):
            book.account(name)
            _append(connection, book, content_of(BUDGET, name, **chosen.numbers))

    def add(
        self,
        dataset: str,
        what: str,
        cost: tuple[float, float],
        *,
        budget: tuple[float, float] | None = None,
    ) -> int:
        """Charge what other software is about to spend on the same people, or refuse it.

        Call it before the other software reads anything, as a release does. Returns the number of
        the entry.

        Parameters
        ----------
        dataset : str
            The name under which everything about the same people adds up.
        what : str
            What is paid for, such as "OpenDP: sums per key".
        cost : (float, float)
            Its epsilon and delta, for adding or removing one user; delta may be 0. It counts by
            sums, in both accounts.
        budget : (float, float), optional
            As in :meth:`dataset`.

        Examples
        --------
        >>> import dpsu, pathlib, tempfile
        >>> folder = tempfile.TemporaryDirectory()
        >>> ledger = dpsu.Ledger(pathlib.Path(folder.name) / "ledger.db")
        >>> number = ledger.add("visits", "OpenDP: sums per key", (1, 0), budget=(3, 1e-5))
        >>> ledger.account("visits").left.sums.epsilon
        2.0
        >>> folder.cleanup()
        """
        charged, facts = charge_elsewhere(what, cost)
        entry = self.charge(_name(dataset), _budget(budget), charged, facts)
        self._close(entry.number, DONE)
        return entry.number

    def charge(
        self, dataset: str, budget: Privacy | None, cost: Cost, facts: dict[str, Any]
    ) -> RecordedRelease:
        """Put a release on record before it reads anything, or refuse it.

        A name that is pending is run again under its charge. The caller is to know that the
        earlier run has ended; if it has not, it can no longer publish.
        """
        with self._transaction(write=True, create=True) as (connection, book):
            if budget is not None and dataset not in book.datasets():
                _append(connection, book, content_of(BUDGET, dataset, **budget.numbers))
            known = book.account(dataset)
            if budget not in (None, known.budget):
                raise ParameterError(
                    f"{{budget}} is not the one on record for {dataset!r}, which is "
                    f"{told(known.budget)}; drop it, or {change_budget(self.path, dataset)}",
                    budget=...,
                )
            earlier = None if facts["name"] is None else book.named(dataset, facts["name"])
            if earlier is not None:
                _refuse_to_resume(earlier, facts)
                resumed = content_of(RESUMED, dataset, charge=earlier.number, run=facts["run"])
                _append(connection, book, resumed)
                return book.release(earlier.number)
            if not total([*known.costs, cost]).within(known.budget):
                raise BudgetError(refusal(known, cost, facts["mechanism"], self.path))
            number = _append(connection, book, content_of(CHARGE, dataset, **facts))
            units = book.account(dataset).units
            if len(units) > 1 and facts["unit"] is not None:
                # Before the commit: if warnings are errors, nothing is charged.
                warn(f"{dataset!r} has {units_text(units)}")
            return book.release(number)

    def publishing(self, number: int, run: str) -> None:
        """Put on record, before it can be seen, that this run of a release is the one to publish.

        Refused if another run took the release up meanwhile: then this one must show nothing.
        """
        with self._transaction(write=True) as (connection, book):
            entry = book.release(number)
            if entry.state != PENDING or entry.run != run:
                raise ParameterError(
                    f"another run took up {entry.name!r} meanwhile, so that this one shows nothing "
                    "and costs nothing more; ask again for the result",
                    exit_code=TRY_AGAIN,
                )
            _append(connection, book, content_of(PUBLISHING, entry.dataset, charge=number, run=run))

    def _close(self, number: int, kind: str, **facts: str) -> None:
        """Put on record how a release ended; only :class:`Spending` knows whether it is void."""
        with self._transaction(write=True) as (connection, book):
            entry = book.release(number)
            if entry.name is not None and entry.state == kind == DONE:
                # Several processes may return one result.
                return
            if entry.state not in BEFORE[kind]:
                raise LedgerError(f"ledger {str(self.path)!r} has no open release {number}")
            _append(connection, book, content_of(kind, entry.dataset, charge=number, **facts))

    @contextmanager
    def _transaction(
        self, *, write: bool = False, create: bool = False
    ) -> Iterator[tuple[sqlite3.Connection, Book]]:
        self._refuse_no_file(create=create)
        try:
            connection = sqlite3.connect(
                self.path,
                timeout=SECONDS_TO_WAIT,
                isolation_level=None,
                check_same_thread=False,
                uri=False,
            )
            try:
                # The removal of the rollback journal is synced too: without that, a loss of power
                # right after a commit could take it back.
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection, self._book(connection, create=create)
                connection.execute("COMMIT")
            finally:
                # Whatever is not committed is rolled back.
                connection.close()
        except sqlite3.Error as error:
            raise LedgerError(
                f"ledger {str(self.path)!r}: {_trouble(error)}", exit_code=exit_code_of(error)
            ) from None

    def _refuse_no_file(self, *, create: bool) -> None:
        try:
            mode = self.path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            if create:
                return
            raise LedgerError(f"there is no ledger {str(self.path)!r}", exit_code=INPUT) from None
        except OSError as error:
            raise LedgerError(
                f"ledger {str(self.path)!r}: {error.strerror}", exit_code=exit_code_of(error)
            ) from None
        if not stat.S_ISREG(mode):
            # A pipe would be waited for, and what is written to a device is gone.
            raise LedgerError(
                f"{str(self.path)!r} cannot be a ledger: it is not a regular file", exit_code=INPUT
            )

    def _book(self, connection: sqlite3.Connection, *, create: bool) -> Book:
        """All entries of a file that is a ledger, or is made one now."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        found = _parts(connection)
        if not application and not found:
            if not create:
                raise LedgerError(
                    f"ledger {str(self.path)!r} is empty: nothing was charged yet", exit_code=INPUT
                )
            for statement in _statements(SCHEMA):
                connection.execute(statement)
            return Book(self.path)
        if application != APPLICATION:
            raise LedgerError(f"{str(self.path)!r} is not a ledger of dpsu", exit_code=INPUT)
        if version != FORMAT:
            raise LedgerError(
                f"ledger {str(self.path)!r} has format {version}, and this dpsu knows {FORMAT}; "
                "look up what is left with the version of dpsu that wrote it, then begin a new "
                "ledger with these amounts as budgets",
                exit_code=INPUT,
            )
        changed = sorted(name for name, _ in found.items() ^ _expected_parts().items())
        if changed:
            places = ", ".join(f"{name!r}" for name in dict.fromkeys(changed))
            raise LedgerError(
                f"ledger {str(self.path)!r} is damaged: {places} were changed, removed or "
                f"added by hand, and perhaps entries too; restore a copy only if it has the "
                "newest entry (dpsu ledger --expect-head shows it)"
            )
        book = Book(self.path, connection.execute(_ENTRIES))
        if not book.head:
            raise LedgerError(f"ledger {str(self.path)!r} is damaged: its entries were removed")
        return book


def _refuse_to_resume(earlier: RecordedRelease, facts: dict[str, Any]) -> None:
    """Refuse to run a release again that may have been seen, or whose plan was another one."""
    if earlier.state != PENDING:
        raise ParameterError(
            f"another process released {earlier.name!r} meanwhile; nothing was read. Ask again for "
            "its result",
            exit_code=TRY_AGAIN,
        )
    if earlier.plan_hash != facts["plan_hash"]:
        raise ParameterError(
            f"{earlier.name!r} was begun by plan {str(earlier.plan_hash)[:16]}, and this is "
            f"{str(facts['plan_hash'])[:16]}; nothing was read or charged. Give the options of "
            "the first run, with the same version of dpsu, or another name, which is charged again",
            exit_code=REFUSED,
        )


_ENTRIES = "SELECT number, content, hash FROM entries ORDER BY number"


def _append(connection: sqlite3.Connection, book: Book, content: str) -> int:
    """Add an entry to the book and to the file; returns its number."""
    row = (len(book.hashes) + 1, content, book.append(content))
    connection.execute("INSERT INTO entries (number, content, hash) VALUES (?, ?, ?)", row)
    return row[0]


def _parts(connection: sqlite3.Connection) -> dict[str, Any]:
    """Tables and triggers of a database, and how they were made; SQLite's own statistics aside."""
    made = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'sqlite@_%' ESCAPE '@'"
    return dict(connection.execute(made).fetchall())


@cache
def _expected_parts() -> dict[str, Any]:
    connection = sqlite3.connect(":memory:")
    try:
        for statement in _statements(SCHEMA):
            connection.execute(statement)
        return _parts(connection)
    finally:
        connection.close()


def _file(path: str | os.PathLike[str]) -> Path:
    """The one file that a name means, whatever the current folder will be later."""
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise ParameterError(f"ledger must be the name of a file, not a {type(path).__name__}")
    name = os.fspath(path)
    if not name or name.startswith(":") or name.lower().startswith("file:"):
        raise ParameterError(
            f"ledger {name!r} does not name a file that stays; give its path, such as ledger.db"
        )
    try:
        return Path(name).resolve()
    except (OSError, RuntimeError, ValueError):
        raise ParameterError(f"ledger {name!r} is not a valid file name") from None


def _trouble(error: sqlite3.Error) -> str:
    if "locked" in str(error):
        return f"another process has kept it locked for {SECONDS_TO_WAIT:g} seconds"
    if "not a database" in str(error):
        return "this is not a ledger of dpsu"
    if "unable to open" in str(error):
        return "it cannot be opened, or its folder does not exist or may not be written to"
    return str(error)


def _name(dataset: str) -> str:
    if not isinstance(dataset, str) or not 0 < len(dataset) <= LONGEST_NAME:
        raise option_error("dataset", f"must be a name of 1 to {LONGEST_NAME} characters")
    if not dataset.isprintable() or dataset != dataset.strip():
        raise option_error(
            "dataset",
            "must be printable and neither begin nor end with a space, so that two "
            "names never look alike",
        )
    return unicodedata.normalize("NFC", dataset)


def _budget(budget: tuple[float, float] | None) -> Privacy | None:
    return None if budget is None else price("budget", budget)


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
