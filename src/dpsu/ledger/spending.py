"""How a release is charged: an intent before anything is read, a mark when its output is out."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from dpsu.errors import DataWarning, LedgerError, ParameterError
from dpsu.ledger.accounting import Cost, cost_of
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.records import DONE, LONGEST_NAME, VOID
from dpsu.plans.plan import Plan
from dpsu.privacy.guarantee import Privacy


class Spending:
    """Releases that are charged to one dataset; made by :meth:`Ledger.spending`.

    As a context it marks its releases as done at the end, if all went well: leave it when their
    output is in place. No charge is taken back but by :meth:`charged`, before anything is read.
    """

    def __init__(self, ledger: Ledger | None, dataset: str, budget: Privacy | None) -> None:
        self._ledger, self._dataset, self._budget = ledger, dataset, budget
        self._open: list[int] = []
        self._unmarked = False
        self._handed_in = True

    @classmethod
    def of(
        cls,
        ledger: str | os.PathLike[str] | Ledger | Spending | None,
        dataset: str | None,
        budget: tuple[float, float] | None,
    ) -> Spending:
        """What the arguments of a release mean; without a ledger nothing is recorded."""
        if ledger is None or isinstance(ledger, Spending):
            for name, value in (("dataset", dataset), ("budget", budget)):
                if value is not None:
                    raise ParameterError(
                        f"{name} goes with the file of a ledger: ledger='ledger.db'"
                        if ledger is None
                        else f"the ledger was given with its dataset; drop {name}"
                    )
            return cls(None, "", None) if ledger is None else ledger
        if dataset is None:
            raise ParameterError("a ledger needs dataset: the name under which releases add up")
        known = ledger if isinstance(ledger, Ledger) else Ledger(ledger)
        spending = known.spending(dataset, budget=budget)
        spending._handed_in = False
        return spending

    @property
    def path(self) -> Path | None:
        """The file of the ledger; None where nothing is recorded."""
        return None if self._ledger is None else self._ledger.path

    @property
    def unfinished(self) -> bool:
        """Whether something that was charged is not on record as done or void."""
        return bool(self._open) or self._unmarked

    def charge(self, plan: Plan, *, choice: str | None = None) -> int | None:
        """Charge a release by this plan, or by one that a `choice` from the data will put there.

        Returns its number in the ledger; None where nothing is recorded.
        """
        if self._ledger is None:
            return None
        cost = cost_of(plan)
        name = plan.mechanism if choice is None else choice
        told = plan.to_json() if choice is None else None
        if choice is not None:
            # Which plan it will be is not known yet, and the price of the whole is all there is.
            cost = Cost(plan.privacy)
        number = self._ledger.charge(self._dataset, self._budget, name, cost, told)
        self._open.append(number)
        return number

    @contextmanager
    def charged(self, plan: Plan, *, choice: str | None = None) -> Iterator[None]:
        """Charge a release, then do what comes before its first row; reading begins afterwards.

        Nothing inside may look at private data. If it fails, the release ends without having read
        anything, and its charge is made void, on record with the kind of the error.
        """
        number = self.charge(plan, choice=choice)
        try:
            yield
        except BaseException as error:
            if self._ledger is not None and number is not None:
                self._close(number, VOID, reason=type(error).__name__[:LONGEST_NAME])
            raise

    def kept_open(self) -> Spending:
        """The same, to be marked as done by whoever brings the output where it belongs."""
        self._handed_in = True
        return self

    def returned(self) -> None:
        """Call it when a release is returned: all is out, unless the caller keeps this open."""
        if not self._handed_in:
            self.done()

    def done(self) -> None:
        """Mark what was charged as done."""
        while self._open:
            self._close(self._open[0], DONE)

    def _close(self, number: int, kind: str, **facts: str) -> None:
        assert self._ledger is not None
        try:
            self._ledger._close(number, kind, **facts)
        except LedgerError as error:
            # The output is out and paid for, or another error is on its way: neither may be lost.
            self._unmarked = True
            warnings.warn(
                f"a release stays on record as unfinished, and counts in full: {error}",
                DataWarning,
                stacklevel=3,
            )
        finally:
            self._open.remove(number)

    def __enter__(self) -> Spending:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.done()
