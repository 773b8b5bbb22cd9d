"""Releases of a ledger that have a name, and are made once.

A job that runs twice gets what it released the first time. Beside the ledger there is a folder::

    ledger.db.once/monday-2f1c...-begun.json      it is spent; made before any row is read
    ledger.db.once/monday-2f1c...-items.parquet   what it released, and by which plan
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import BinaryIO

from dpsu.engines.found import Found
from dpsu.errors import (
    REFUSED,
    TRY_AGAIN,
    BudgetError,
    OutputError,
    ParameterError,
    exit_code_of,
)
from dpsu.ledger.spending import Spending
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key
from dpsu.results import Release, Run
from dpsu.runtime.writing import claim, claimed_by_somebody
from dpsu.series.state import BEGUN, ITEMS, keep, kept, released_before

NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


def keeper_of(spending: Spending, plan: Plan) -> NotKept:
    """What keeps a release, if it has a name."""
    return NotKept() if spending.once is None else Once(spending.once, spending, plan)


class NotKept:
    """A release without a name: made whenever it is asked for, and kept by nobody here."""

    def stored(self) -> Release | None:
        """What was released before."""
        return None

    def begin(self, run: Run) -> None:
        """Called before anything is read."""

    def keeping(self, run: Callable[[Key], Found]) -> Callable[[Key], Found]:
        """The same run, which keeps what it finds."""
        return run


class Once(NotKept):
    """One name of one dataset of a ledger."""

    def __init__(self, name: str, spending: Spending, plan: Plan) -> None:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ParameterError(
                "{once} must be a name of 1 to 80 letters, digits, dots, hyphens and underscores, "
                "such as 2025-03-03",
                once=name,
            )
        if spending.path is None or spending.dataset is None:
            raise ParameterError(
                "{once} needs a {ledger}, which is charged the first time", once=name, ledger=...
            )
        self._name, self._plan = name, plan
        self._claim: BinaryIO | None = None
        dataset = hashlib.sha256(spending.dataset.encode()).hexdigest()[:32]
        self._folder = spending.path.with_name(f"{spending.path.name}.once")
        self._begun = self._folder / f"{name}-{dataset}-{BEGUN}"
        self._items = self._folder / f"{name}-{dataset}-{ITEMS}"

    def stored(self) -> Release | None:
        """What was released under this name; None if nothing was begun, refused if it is spent."""
        if not self._begun.exists():
            return None
        try:
            noted = json.loads(self._begun.read_text(encoding="utf-8"))
            planned, version, run = noted["plan_hash"], str(noted["version"]), Run(**noted["run"])
        except (OSError, ValueError, TypeError, KeyError):
            # Changed by hand: the file alone says that the name is spent.
            planned, version, run = None, self._plan.version, None
        # A plan that another dpsu made is the same if nothing but that version differs.
        asked = replace(self._plan, version=version)
        done = self._items.exists()
        if planned != asked.hash and (done or planned is not None):
            raise ParameterError(
                f"{{once}} was released by another plan, {str(planned)[:16]}, and this one is "
                f"{asked.hash[:16]}; nothing was read or charged. Give the options of that "
                "time, or another name to spend again",
                exit_code=REFUSED,
                once=self._name,
            )
        if done:
            return released_before(kept(self._items), asked, run)
        if claimed_by_somebody(self._begun):
            raise ParameterError(
                "{once} is running in another process; wait until it has ended",
                exit_code=TRY_AGAIN,
                once=self._name,
            )
        raise BudgetError(
            f"the release {self._name!r} was charged and failed or was killed before its result "
            "was kept. Nothing was read or charged now; another name spends again"
        )

    def begin(self, run: Run) -> None:
        """Spend the name, on disk, before anything is read."""
        plan = self._plan
        noted = {"plan_hash": plan.hash, "version": plan.version, "run": vars(run)}
        try:
            self._folder.mkdir(exist_ok=True)
            self._claim = claim(self._begun, f"{json.dumps(noted)}\n")
        except FileExistsError:
            raise ParameterError(
                "another process began {once} meanwhile; nothing was read",
                exit_code=TRY_AGAIN,
                once=self._name,
            ) from None
        except OSError as error:
            raise OutputError(
                f"cannot write {str(self._begun)!r}: {error.strerror}; nothing was read",
                exit_code=exit_code_of(error),
            ) from None

    def keeping(self, run: Callable[[Key], Found]) -> Callable[[Key], Found]:
        """The same run, which keeps what it finds before anybody gets it."""

        def run_and_keep(key: Key) -> Found:
            try:
                found = run(key)
                keep(self._items, found)
                return found
            finally:
                if self._claim is not None:
                    self._claim.close()

        return run_and_keep
