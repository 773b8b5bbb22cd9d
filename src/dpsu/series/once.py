"""Releases of a ledger that have a name, and are made once.

A job that runs twice gets what it released the first time. If the first run was killed before its
result was marked, or failed for a reason that does not depend on what it drew, the second one runs
under the same charge. The ledger says how far a name has come.
Beside it there is a folder::

    ledger.db.once/monday-2f1c...-running.json    locked by the process that runs it
    ledger.db.once/monday-2f1c...-items.parquet   what it released, and by which plan
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
from dataclasses import replace
from typing import BinaryIO

from dpsu.engines.found import Found
from dpsu.errors import (
    INPUT,
    REFUSED,
    TRY_AGAIN,
    BudgetError,
    LedgerError,
    OutputError,
    ParameterError,
    exit_code_of,
)
from dpsu.ledger.records import PENDING, RecordedRelease
from dpsu.ledger.spending import Spending
from dpsu.pipeline import UnnamedRelease
from dpsu.plans.plan import Plan
from dpsu.results import Release, Run
from dpsu.runtime.writing import (
    claim,
    claim_again,
    claimed_by_somebody,
    empty_claim,
    let_go,
    unclaim,
)
from dpsu.series import kept

NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")


def keeper_of(spending: Spending, plan: Plan) -> UnnamedRelease:
    """What keeps a release, if it has a name."""
    return UnnamedRelease() if spending.once is None else Once(spending.once, spending, plan)


class Once(UnnamedRelease):
    """One name of one dataset of a ledger."""

    again = "Run it again under the same name at no further cost"

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
        self._name, self._spending, self._plan = name, spending, plan
        self._claim: BinaryIO | None = None
        self._is_emptied = False
        self._lost = BudgetError(
            f"the release {name!r} was charged, but has no result: it was removed, or its run "
            "failed after its draws. Nothing was read or charged now. Give another name; it is "
            "charged again"
        )
        dataset = hashlib.sha256(spending.dataset.encode()).hexdigest()[:32]
        self._folder = spending.path.with_name(f"{spending.path.name}.once")
        self._running = self._folder / f"{name}-{dataset}-running.json"
        self._items = self._folder / f"{name}-{dataset}-items.parquet"

    def stored(self) -> Release | None:
        """What was released under this name; None if it may run, for the first time or again."""
        entry = self._spending.named(self._name)
        if entry is None:
            return None
        asked = self._as_planned_then(entry)
        if entry.state == PENDING:
            if self._running.exists() and claimed_by_somebody(self._running):
                raise ParameterError(
                    "{once} is running in another process; wait until it has ended",
                    exit_code=TRY_AGAIN,
                    once=self._name,
                )
            return None
        if not kept.show(self._items, entry.run):
            raise self._lost
        released = kept.load(self._items, asked)
        if released.run.id != entry.run:
            # It is of a ledger that was here before.
            raise self._lost
        self._spending.returned_again(entry)
        return released

    def _as_planned_then(self, entry: RecordedRelease) -> Plan:
        """The plan with the version of dpsu that planned it then, if it is no other plan."""
        noted = {} if entry.plan is None else json.loads(entry.plan)
        asked = replace(self._plan, version=str(noted.get("version")))
        if entry.plan_hash != asked.hash:
            raise ParameterError(
                f"{{once}} was begun by another plan, {str(entry.plan_hash)[:16]}, and this one "
                f"is {asked.hash[:16]}; nothing was read or charged. Give the options of the "
                "first run, or another name, which is charged again",
                exit_code=REFUSED,
                once=self._name,
            )
        return asked

    def claim(self, run: Run) -> str:
        """Let no other process run this name; the charge says whether it was begun before."""
        try:
            self._folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise OutputError(
                f"{str(self._folder)!r} is no folder; nothing was read. Remove it, or mount what "
                "it leads to",
                exit_code=INPUT,
            ) from None
        except OSError as error:
            raise self._unwritable(error) from None
        try:
            self._claim = claim(self._running, f"{json.dumps(vars(run))}\n")
        except FileExistsError:
            self._claim = self._claim_again()
        except OSError as error:
            raise self._unwritable(error) from None
        if self._claim is None:
            raise ParameterError(
                "another process began {once} meanwhile; nothing was read",
                exit_code=TRY_AGAIN,
                once=self._name,
            )
        kept.remove_leftovers(self._running)
        return self._name

    def _unwritable(self, error: OSError) -> OutputError:
        return OutputError(
            f"cannot write {str(self._running)!r}: {error.strerror}; nothing was read",
            exit_code=exit_code_of(error),
        )

    def _claim_again(self) -> BinaryIO | None:
        try:
            file = claim_again(self._running)
            # Only now that it is locked, no other process can empty it.
            if file is not None and not os.fstat(file.fileno()).st_size:
                let_go(file)
                raise self._lost
            return file
        except OSError as error:
            raise BudgetError(
                f"the release {self._name!r} was begun and has no result, and its lock cannot be "
                f"checked ({error.strerror}), so that it may still be running. Nothing was read or "
                "charged now. Give another name; it is charged again"
            ) from None

    def keep(self, found: Found, run: Run, charge: int | None) -> None:
        """Bring the result to the disk, mark this run as the one to publish, and show it."""
        assert charge is not None
        kept.stage(self._items, found, run)
        self._spending.publishing(charge, run.id)
        kept.show_or_fail(self._items, run.id)

    def spoil(self, run: Run, charge: int | None) -> bool:
        """Mark this run as the one to publish, with a result only if it staged one.

        The ledger may be locked, or memory and disk may be full. So the claim is emptied first,
        which needs neither and waits for nothing, and stays if the mark cannot be made.
        """
        assert charge is not None
        assert self._claim is not None
        self._spending.spoiled = self._is_emptied = True
        with contextlib.suppress(OSError):
            empty_claim(self._claim)
        try:
            self._spending.publishing(charge, run.id)
        except ParameterError:
            # This run was marked already, so that the ledger says it, or another one took it up.
            self._spending.spoiled = self._is_emptied = False
        except LedgerError:
            # Not marked, so that nothing may be shown.
            pass
        else:
            self._is_emptied = False
            with contextlib.suppress(OutputError):
                self._spending.spoiled = not kept.show(self._items, run.id)
        return self._spending.spoiled

    def end(self) -> None:
        """Let other processes run this name, as far as the ledger does."""
        if self._claim is not None and self._is_emptied:
            let_go(self._claim)
        elif self._claim is not None:
            with contextlib.suppress(OSError):
                unclaim(self._running, self._claim)
