"""How a release is charged: an intent before anything is read, a mark when its output is out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dpsu.errors import LedgerError, ParameterError, warn
from dpsu.ledger.accounting import cost_of
from dpsu.ledger.records import DONE, LONGEST_NAME, VOID, RecordedRelease, facts_of
from dpsu.plans.plan import Plan
from dpsu.privacy.guarantee import Privacy
from dpsu.showing.progress import LOG

if TYPE_CHECKING:
    from dpsu.ledger.ledger import Ledger


class Spending:
    """Releases that are charged to one dataset; made by :meth:`Ledger.dataset`.

    As a context it marks its releases as done at the end, if all went well: leave it when their
    output is in place. Otherwise a release is done when it returns. No charge is taken back but by
    :meth:`charged`, before anything is read.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        dataset: str | None,
        budget: Privacy | None,
        once: str | None = None,
    ) -> None:
        self._ledger, self.dataset, self._budget = ledger, dataset, budget
        # The name under which one release is made and kept; see `dpsu.series.once`.
        self.once = once
        # Whether what it returned was released before.
        self.repeated = False
        self._open: list[int] = []
        self._unmarked = False
        self._kept_open = False
        self._closing = False
        # Whether its name may not be run again; see `dpsu.pipeline.carry_out`.
        self.spoiled = False
        # Several threads may release under one name; each closes what it charged.
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        # What is running here is not running wherever the copy goes.
        kept = {name: value for name, value in vars(self).items() if name != "_lock"}
        return kept | {"_open": [], "_unmarked": False, "_kept_open": False, "_closing": False}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Spending:
        return self

    def __repr__(self) -> str:
        if self._ledger is None:
            return "<Spending: nothing is recorded>"
        budget = self._budget
        shown = "" if budget is None else f", budget=({budget.epsilon:g}, {budget.delta:g})"
        return f"<Spending of {self.dataset!r}{shown} in {self._ledger!r}>"

    @classmethod
    def of(cls, ledger: Any, *, may_be_named: bool = False) -> Spending:
        """What the argument of a release means; without a ledger nothing is recorded.

        `may_be_named` says that the caller keeps releases that have a name.
        """
        if ledger is None:
            return cls(None, None, None)
        if isinstance(ledger, Spending):
            if ledger.once is not None and not may_be_named:
                raise ParameterError(
                    "{once} works with dpsu.release, dpsu.spark.release and dpsu.dask.release "
                    "only; drop it for dpsu.select, and for a series, whose periods have names",
                    once=ledger.once,
                )
            return ledger
        raise ParameterError(
            "a ledger needs the name under which releases add up: "
            "ledger=dpsu.Ledger('ledger.db').dataset('visits', budget=(3, 1e-5))"
        )

    @property
    def path(self) -> Path | None:
        """The file of the ledger; None where nothing is recorded."""
        return None if self._ledger is None else self._ledger.path

    @property
    def unfinished(self) -> bool:
        """Whether something that was charged is not on record as done or void."""
        return bool(self._open) or self._unmarked

    @property
    def said(self) -> str | None:
        """What is true of a charge that is not on record as done or void; None if there is none.

        A signal may ask in the middle of anything.
        """
        if self._closing:
            return "`dpsu ledger` says whether this release is done"
        if not self.unfinished:
            return None
        if self.once is None:
            return "the ledger keeps the charge"
        again = (
            "this name is spent"
            if self.spoiled
            else "run it again under the same name at no further cost"
        )
        return f"the ledger keeps the charge; {again}"

    def charge(
        self, plan: Plan, *, run: str, choice: str | None = None, name: str | None = None
    ) -> RecordedRelease | None:
        """Charge a release by this plan, or by one that a `choice` from the data will put there.

        `run` is the random id of the run, which its report carries too. Under a `name` that is
        pending it runs again under the charge that is there. None where nothing is recorded.
        """
        if self._ledger is None or self.dataset is None:
            return None
        cost = cost_of(plan)
        facts = facts_of(cost, run, plan, choice, name)
        entry = self._ledger.charge(self.dataset, self._budget, cost, facts)
        self._adopt(entry)
        return entry

    @contextmanager
    def charged(
        self, plan: Plan, *, run: str, choice: str | None = None, name: str | None = None
    ) -> Iterator[int | None]:
        """Charge a release, then do what comes before its first row; reading begins afterwards.

        It gives the number of the charge. Nothing inside may look at any row. If it fails, the
        release ends without having read anything, and its charge is made void, on record with the
        kind of the error; but not if an earlier run under the same charge may have read something.
        """
        entry = self.charge(plan, run=run, choice=choice, name=name)
        try:
            yield None if entry is None else entry.number
        except BaseException as error:
            if entry is not None and entry.runs == 1:
                self._close(entry.number, VOID, reason=type(error).__name__[:LONGEST_NAME])
            raise

    def named(self, name: str) -> RecordedRelease | None:
        """The release of this name that was charged; None if there is none."""
        if self._ledger is None or self.dataset is None:
            return None
        return self._ledger.named(self.dataset, name)

    def publishing(self, number: int, run: str) -> None:
        """Put on record that the result of this run is the one that is shown; or refuse it."""
        assert self._ledger is not None
        self._ledger.publishing(number, run)

    def returned_again(self, entry: RecordedRelease | None) -> None:
        """Call it when what was released before is returned: it is done, if it was not yet."""
        self.repeated = True
        LOG.info("released before; nothing was read or charged")
        if entry is not None and entry.state not in (DONE, VOID):
            self._adopt(entry)
            self.returned(entry.number)

    def _adopt(self, entry: RecordedRelease) -> None:
        """Take it on to put on record how this release ends."""
        with self._lock:
            if entry.number not in self._open:
                self._open.append(entry.number)

    def kept_open(self) -> Spending:
        """The same, to be marked as done by whoever brings the output where it belongs."""
        self._kept_open = True
        return self

    def returned(self, number: int | None) -> None:
        """Call it when a release is returned: it is out, unless the caller keeps this open."""
        if number is not None and not self._kept_open:
            self._close(number, DONE)

    def done(self) -> None:
        """Mark what was charged as done."""
        with self._lock:
            charged = list(self._open)
        for number in charged:
            self._close(number, DONE)

    def _close(self, number: int, kind: str, **facts: str) -> None:
        assert self._ledger is not None
        self._closing = True
        try:
            self._ledger._close(number, kind, **facts)
        except LedgerError as error:
            # The output is out and paid for, or another error is on its way: neither may be lost.
            self._unmarked = True
            warn(f"a release is not on record as {kind}, and counts in full: {error}")
        finally:
            with self._lock:
                # A context that ended with an error has forgotten it.
                if number in self._open:
                    self._open.remove(number)
            self._closing = False

    def __enter__(self) -> Spending:
        return self.kept_open()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kept_open = False
        if kind is None:
            self.done()
        # What failed stays on record as it is, and is nothing that a later context could end.
        with self._lock:
            self._open.clear()
