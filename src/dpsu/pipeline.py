"""The one way through a release: check, claim, charge, read, run, keep, show.

Every front door takes it, so that none charges before it has checked what can be checked for free,
none reads before it has charged, and none shows a result that another run could still replace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsu.engines.found import Found, Report
from dpsu.errors import (
    FAILED,
    REFUSED,
    DataError,
    JobLostError,
    ParameterError,
    exit_code_of,
    warn,
)
from dpsu.ledger.accounting import cost_of
from dpsu.ledger.spending import Spending
from dpsu.ledger.ways_out import lost_job
from dpsu.plans.mechanisms import Choice
from dpsu.plans.plan import Plan
from dpsu.plans.prose import warn_of_weakness
from dpsu.randomness.keys import Key
from dpsu.results import Release, Run, new_run
from dpsu.showing.progress import LOG

# What rows, types and lost machines cause, whatever was drawn.
WITHOUT_DRAWS = (DataError, ParameterError, ConnectionError, JobLostError)
# Nothing that decides about items is drawn in this stage.
READING = "reading"


class UnnamedRelease:
    """A release that is made whenever it is asked for, and kept nowhere here."""

    drawing = False
    # What is said of a run that may be made again.
    again = ""

    def watching(self, report: Report) -> Report:
        """The same report, which notices when reading has ended and draws may begin."""

        def watched(stage: str, done: int) -> None:
            self.drawing = self.drawing or stage != READING
            report(stage, done)

        return watched

    def stored(self) -> Release | None:
        """What was released before."""
        return None

    def claim(self, run: Run) -> str | None:
        """Called before the charge: claim a name, and say what the ledger calls it."""
        return None

    def unclaim(self) -> None:
        """Called if the release is refused or fails before anything is read."""

    def keep(self, found: Found, run: Run, charge: int | None) -> None:
        """Called with the result before it is shown; at most one run of a name gets past this."""

    def spoil(self, run: Run, charge: int | None) -> bool:
        """Called if what was drawn may be why the run failed: no run of this name may follow.

        It says whether the name is spent, which it is if no result was kept.
        """
        return False

    def end(self) -> None:
        """Called at the end, whatever happened."""


def carry_out(
    plan: Plan,
    *,
    check: Callable[[], None],
    run: Callable[[Key], Found],
    spending: Spending,
    report: Report = lambda stage, done: None,
    choice: str | None = None,
    named: UnnamedRelease | None = None,
) -> Release:
    """Release by a plan, of which everything that options get wrong was refused as it was made.

    `check` refuses what names and types of columns say is wrong; it reads no row. `run` reads the
    data and chooses items. `choice` says what will choose the final plan by the data: the guarantee
    of the whole is charged then. `named` keeps the result, if the release has a name, and watches
    what `run` reports.
    """
    named = named or UnnamedRelease()
    seed = plan.insecure_seed
    key = Key.from_os() if seed is None else Key.from_insecure_seed(seed)
    if seed is not None:
        warn("insecure_seed: this release is not private")
    check()
    warn_of_weakness(plan)
    started = new_run(spending.dataset)
    try:
        name = named.claim(started)
        try:
            with spending.charged(plan, run=started.id, choice=choice, name=name) as charge:
                account = (
                    "no ledger" if charge is None else f"{spending.dataset!r} by entry {charge}"
                )
                LOG.info("run %s: charged to %s: %r", started.id, account, plan)
                report("reading", 0)
        except BaseException:
            named.unclaim()
            raise
        try:
            found = run(key)
            named.drawing = True
            named.keep(found, started, charge)
        except Exception as error:
            # To draw again until nothing fails would change the law of what is released.
            defect = exit_code_of(error) == FAILED
            if named.drawing and (defect or not isinstance(error, WITHOUT_DRAWS)):
                try:
                    spent = named.spoil(started, charge)
                except Exception:
                    # It began by what no lack of memory or disk prevents.
                    spent = True
                if spent:
                    # Errors of Python have no such number; `exit_code_of` finds it all the same.
                    error.exit_code = REFUSED  # type: ignore[attr-defined]
            if isinstance(error, JobLostError):
                why = lost_job(spending, cost_of(plan), str(error), named.again)
                raise JobLostError(why) from None
            raise
    finally:
        named.end()
    # The plan that was run may name a number of users, from an estimate that was paid for.
    warn_of_weakness(found.plan, plan)
    approved = plan if isinstance(plan.selection, Choice) else None
    values, counts = found.values()
    released = Release(found.plan, values, counts, _known_share(found), approved, started)
    spending.returned(charge)
    LOG.info("run %s: released %d items", started.id, len(released))
    return released


def _known_share(found: Found) -> float | None:
    """The part of the released items that the prior knew."""
    prior: Any = found.plan.knowledge.prior
    if prior is None or not len(found.items):
        return None
    from dpsu.contributions.ids import Ids

    return float(prior.known(Ids(found.items)).mean())
