"""The front door of releases that repeat."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from dpsu.engines.found import Found
from dpsu.errors import TRY_AGAIN, BudgetError, OutputError, ParameterError, option_error
from dpsu.inputs.columns import DEFAULT_ITEM, DEFAULT_USER, Items, Users, named_by
from dpsu.inputs.tokens import Tokens
from dpsu.ledger.spending import Spending
from dpsu.options import flag, suggests_keywords, whole_number
from dpsu.pipeline import UnnamedRelease, carry_out
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.plan import Plan
from dpsu.plans.planning import plan as make_plan
from dpsu.plans.planning import with_public_data
from dpsu.plans.public_data import PublicData
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.results import Release, Run
from dpsu.runtime.writing import empty_claim, let_go
from dpsu.series.places import engine_for
from dpsu.series.state import DONE, LOST, PENDING, RUNNING, Period, State, spent
from dpsu.series.terms import Terms
from dpsu.showing.progress import Stages, stages

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsu.inputs.public import PublicItems


class Series:
    """Releases that repeat, such as every month, under one budget that is fixed at the start.

    Each period releases only items that earlier ones did not: those are public, are left out of
    everybody's set, and cost nothing. :meth:`create` begins a series; ``Series(path)`` goes on.

    Parameters
    ----------
    path : str or Path
        The folder that holds the state: what was fixed at the start, which periods are spent, and
        what they released. Keep it: a copy that is older than the newest period would let that
        period be spent again.

    Privacy
    -------
    All periods together are (epsilon, delta)-differentially private for adding or removing one
    user with all rows in all periods, by ``dpsu proofs series``. The items are public. Whether a
    period failed may depend on the data, and is for the curator only.

    Cost
    ----
    That of a release for each period; items of earlier periods are kept in memory.

    Examples
    --------
    >>> import dpsu, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name) / "visits.series"
    >>> series = dpsu.Series.create(path, periods=2, epsilon=3, delta=1e-5)
    >>> january = {f"person {n}": ["bread", f"secret {n}"] for n in range(1000)}
    >>> series.release(january).items
    ('bread',)
    >>> february = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> series.release(february).items
    ('milk',)
    >>> dpsu.Series(path).items
    ('bread', 'milk')
    >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = _folder(path)
        self._state = State(self.path)
        self._terms = self._state.terms()

    @classmethod
    @suggests_keywords
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        periods: int,
        epsilon: float,
        delta: float,
        mechanism: str | Mechanism = "sieve",
        user: str | Sequence[str] | Users = DEFAULT_USER,
        item: str | Sequence[str] | Items | Tokens = DEFAULT_ITEM,
        counts: bool | Counts = False,
    ) -> Series:
        """Begin a series: fix its plan, its budget and how many periods there will be.

        Parameters
        ----------
        path : str or Path
            A folder that is not there yet.
        periods : int
            How many there will be at most.
        epsilon, delta : float
            The guarantee of all periods together.
        mechanism : str or Mechanism
            By which each period is released. Noise of sieve is Gaussian, so that each period has
            much more than an equal share of epsilon; "auto" has just that share.
        user, item : str, Users, Items or Tokens
            As in :func:`dpsu.release`.
        counts : bool or Counts
            Also release, for every new item, a noisy number of its users in that period.
        """
        folder = _folder(path)
        made = make_plan(
            epsilon=epsilon, delta=delta, mechanism=mechanism, user=user, item=item, counts=counts
        )
        State(folder).create(Terms.shared(made, periods))
        return cls(folder)

    @property
    def plan(self) -> Plan:
        """The plan of every period, with the guarantee of that period alone."""
        return self._terms.plan

    @property
    def periods(self) -> int:
        """How many periods there are at most."""
        return self._terms.periods

    @property
    def budget(self) -> Privacy:
        """The guarantee of all periods together."""
        return self._terms.budget

    @property
    def history(self) -> tuple[Period, ...]:
        """The periods that were begun, in their order."""
        begun = self._state.begun(self._terms)
        return tuple(self._state.period(number) for number in range(1, begun + 1))

    @property
    def left(self) -> int:
        """How many periods are left to begin; those that are pending come on top."""
        return self.periods - self._state.begun(self._terms)

    @property
    def items(self) -> tuple[Any, ...]:
        """All items that were released so far, sorted; tuples where there are several columns."""
        found: list[Any] = [item for released in self._released() for item in released.items]
        try:
            return tuple(sorted(found))
        except TypeError:
            # The types of columns changed between periods, and have no order among each other.
            return tuple(sorted(found, key=str))

    def stored(self, period: int) -> Release:
        """What a period released, as it was returned then."""
        begun = self._state.begun(self._terms)
        period = whole_number("period", period, 1, self.periods)
        if period > begun or self._state.period(period).state != DONE:
            raise option_error("period", "is not done: there is no release of it to return", period)
        return self._state.stored(period, self._terms)

    def release(
        self,
        data: Any,
        *,
        period: int | None = None,
        strict: bool = False,
        format: str | None = None,
        memory_limit: int | str | None = None,
        partitions: int | None = None,
        progress: bool | Stages | None = None,
        ledger: Spending | None = None,
    ) -> Release:
        """Release the items of the next period that no earlier one released.

        A pending period runs again at no further cost: it was killed, or failed for a reason that
        does not depend on what it drew. A period that failed for another reason is lost.

        Parameters
        ----------
        data
            The rows of this period, as for :func:`dpsu.release`, or a Spark DataFrame, which is
            released on its cluster. Periods may run here and there in turn.
        period : int, optional
            The number that this period must have, for jobs that may run twice: if it is done, what
            it released is returned again, and nothing is read or spent. If the newest period is
            pending, the number after it begins a new one; the pending one may run later, by its
            own number.
        strict, format, memory_limit, progress
            As for :func:`dpsu.release`; the format and the limit are not for Spark.
        partitions : int, optional
            As for :func:`dpsu.spark.release`, for a Spark DataFrame.
        ledger : optional
            A dataset of a ledger, where each period is charged too, like any release: for people
            about whom there are other releases.

        Returns
        -------
        Release
            The new items.
        """
        spending = Spending.of(ledger)
        flag("strict", strict)
        shown = stages(progress)
        number = self._next(period)
        named = _OnePeriod(self._state, self._terms, number, spending)
        if (stored := named.stored()) is not None:
            spending.returned_again(spending.named(named.name))
            return stored
        # What is left out is what earlier periods released, and nothing that these data say.
        plan = self._ready(self._released())

        with shown as report, named_by(self.plan):
            check, find = engine_for(
                data, plan, named.watching(report), strict=strict, format=format,
                memory_limit=memory_limit, partitions=partitions,
            )  # fmt: skip

            def run(key: Key) -> Found:
                found = find(key)
                # What is known is for this run alone, and so is the type that items have by now.
                made = replace(found.plan, item=self.plan.item, knowledge=PublicData())
                return replace(found, plan=made)

            return carry_out(
                self.plan, check=check, run=run, spending=spending, report=report, named=named
            )

    def _next(self, wanted: int | None) -> int:
        """The number of the period that is asked for, which may be done."""
        begun = self._state.begun(self._terms)
        if wanted is not None:
            wanted = whole_number("period", wanted, 1, self.periods)
            if wanted > begun + 1:
                raise ParameterError(
                    f"{{period}} is too large: at most period {begun + 1} can be released now",
                    period=wanted,
                )
        newest = None if begun == 0 else self._state.period(begun)
        runs = newest is not None and newest.state == RUNNING
        if runs and (wanted is None or wanted >= begun):
            raise ParameterError(
                f"period {begun} of {str(self.path)!r} is running in another process; wait until "
                "it has ended",
                exit_code=TRY_AGAIN,
            )
        if wanted is None and newest is not None and newest.state == PENDING:
            return begun
        if wanted is None and begun >= self.periods:
            raise spent(
                self.path, self.periods, [p.number for p in self.history if p.state == PENDING]
            )
        return begun + 1 if wanted is None else wanted

    def _released(self) -> list[Release]:
        """What the periods that are done released."""
        done = [each.number for each in self.history if each.state == DONE]
        return [self._state.stored(number, self._terms) for number in done]

    def _known(self, released: list[Release]) -> PublicItems | None:
        """All items of earlier periods; None if there are none."""
        import pyarrow as pa

        from dpsu.inputs.public import read_public_items
        from dpsu.series.known import KnownItems

        # Each by itself: the types of columns may have changed since.
        texts = [
            read_public_items(pa.table(each.columns), list(each.columns)).items
            for each in released
            if len(each)
        ]
        return KnownItems(pa.concat_arrays(texts).unique()) if texts else None

    def _ready(self, released: list[Release]) -> Plan:
        """The plan of every period with what this one leaves out at hand.

        Items keep the type that they had in the first period, if the plan did not say.
        """
        plan = with_public_data(self.plan)
        if released and isinstance(plan.item, Items) and plan.item.type is None:
            plan = replace(plan, item=replace(plan.item, type=_type(released[0].values)))
        return plan.with_knowledge(PublicData(public_items=self._known(released)))

    def __repr__(self) -> str:
        spent_now = self._state.begun(self._terms)
        return f"<Series {str(self.path)!r}: {spent_now:,} of {self.periods:,} periods spent>"

    def __str__(self) -> str:
        from dpsu.series.prose import series_text

        return series_text(self)

    def _repr_html_(self) -> str:
        from dpsu.series.prose import series_html

        return series_html(self)


class _OnePeriod(UnnamedRelease):
    """One period, which is claimed, published and kept in the folder of its series."""

    again = "The period is pending: run it again at no further cost"

    def __init__(self, state: State, terms: Terms, number: int, spending: Spending) -> None:
        self._state, self._terms, self._number = state, terms, number
        self._spending = spending
        self._claim: BinaryIO | None = None
        self._first = False

    @property
    def name(self) -> str:
        """What a ledger calls it; the run that began it tells series of equal terms apart."""
        return f"series period {self._number} {self._state.first_run(self._number)}"

    def stored(self) -> Release | None:
        """What it released; None if it may run, for the first time or again."""
        if self._number > self._state.begun(self._terms):
            return None
        state = self._state.period(self._number).state
        if state == LOST:
            raise BudgetError(
                f"period {self._number} of the series {str(self._state.path)!r} is spent, but has "
                "no result: it was removed, or its run failed after its draws. Nothing was read. "
                "Release the next period instead"
            )
        if state != DONE:
            return None
        released = self._state.stored(self._number, self._terms)
        self._refuse_copies(released.run.id)
        return released

    def _refuse_copies(self, run: str | None) -> None:
        """Refuse a period of which the ledger knows another run than this folder."""
        entry = self._spending.named(self.name)
        if entry is None:
            return
        if entry.state != PENDING if run is None else entry.run != run:
            raise BudgetError(
                f"the ledger has another run of period {self._number} than the series "
                f"{str(self._state.path)!r}, such as that of a copy of it. Nothing was read; go on "
                "with that copy"
            )

    def claim(self, run: Run) -> str:
        """Begin the period, or take it up again."""
        self._claim, self._first = self._state.begin(self._number, run, self._terms)
        self._refuse_copies(None)
        return self.name

    def unclaim(self) -> None:
        """Take back that it was begun, unless an earlier run of it may have read something."""
        # An interrupt may have left the charge of this run, which the next run is to take up.
        if self._first and self._claim is not None and self._spending.named(self.name) is None:
            with contextlib.suppress(OSError):
                self._state.take_back(self._number, self._claim)

    def keep(self, found: Found, run: Run, charge: int | None) -> None:
        """Bring the result to the disk, mark this run as the one to publish, and show it."""
        self._state.stage(self._number, found, run)
        self._state.publish(self._number, run)
        if charge is not None:
            # So that no older copy of the folder can be run again under this charge.
            self._spending.publishing(charge, run.id)
        self._state.show_or_fail(self._number, run)

    def spoil(self, run: Run, charge: int | None) -> bool:
        """Mark this run as the one to publish, with a result only if it staged one."""
        try:
            self._state.publish(self._number, run)
        except ParameterError:
            # This run was marked already.
            return False
        except BaseException:
            # Not marked. To empty the claim needs neither memory nor room on the disk.
            assert self._claim is not None
            with contextlib.suppress(OSError):
                empty_claim(self._claim)
            raise
        with contextlib.suppress(OutputError):
            return not self._state.show(self._number, run)
        return False

    def end(self) -> None:
        """Let other processes see that it does not run any more."""
        if self._claim is not None:
            let_go(self._claim)


def _type(values: pa.Array) -> str | None:
    """The type of items by the name that it has as an option."""
    import pyarrow as pa

    from dpsu.contributions.id_types import INTEGER_TYPE, TEXT_TYPE
    from dpsu.contributions.ids import is_text

    if pa.types.is_integer(values.type):
        return INTEGER_TYPE
    return TEXT_TYPE if is_text(values.type) else None


def _folder(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, (str, os.PathLike)) or not isinstance(os.fspath(path), str):
        raise ParameterError(f"path must be the name of a folder, not a {type(path).__name__}")
    return Path(path).absolute()
