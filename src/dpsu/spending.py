"""How a release is charged: an intent before anything is read, a mark when its output is out."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from types import TracebackType

from dpsu.accounting import Cost, cost_of
from dpsu.errors import DataWarning, LedgerError, ParameterError
from dpsu.ledger import Ledger
from dpsu.plan import Plan
from dpsu.privacy import Privacy


class Spending:
    """Releases that are charged to one dataset; made by :meth:`Ledger.spending`.

    As a context it marks its releases as done at the end, if all went well: leave it when their
    output is in place. Charges are not taken back in any case.
    """

    def __init__(self, ledger: Ledger | None, dataset: str, budget: Privacy | None) -> None:
        self._ledger, self._dataset, self._budget = ledger, dataset, budget
        self._open: list[int] = []
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

    def charge(self, plan: Plan, *, choice: str | None = None) -> None:
        """Charge a release by this plan, or by one that a `choice` from the data will put there."""
        if self._ledger is None:
            return
        cost = cost_of(plan)
        name = plan.mechanism if choice is None else choice
        told = plan.to_json() if choice is None else None
        if choice is not None:
            # Which plan it will be is not known yet, and the price of the whole is all there is.
            cost = Cost(plan.privacy)
        number = self._ledger.charge(self._dataset, self._budget, name, cost, told)
        self._open.append(number)

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
        while self._ledger is not None and self._open:
            try:
                self._ledger.finish(self._open.pop(0))
            except LedgerError as error:
                # The output is out and paid for: it must not be lost over a mark.
                warnings.warn(
                    f"a release stays on record as unfinished, which costs the same: {error}",
                    DataWarning,
                    stacklevel=2,
                )

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
