"""The one way through a release: check, charge, read, run, report.

Every front door takes it, so that none charges before it has checked what can be checked for free,
and none reads before it has charged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsu.engines.found import Found, Report
from dpsu.errors import JobLostError, warn
from dpsu.ledger.accounting import cost_of
from dpsu.ledger.spending import Spending
from dpsu.ledger.ways_out import lost_job
from dpsu.plans.mechanisms import Choice
from dpsu.plans.plan import Plan
from dpsu.plans.prose import warn_of_weakness
from dpsu.randomness.keys import Key
from dpsu.results import Release, Run, new_run
from dpsu.showing.progress import LOG


def carry_out(
    plan: Plan,
    *,
    check: Callable[[], None],
    run: Callable[[Key], Found],
    spending: Spending,
    report: Report = lambda stage, done: None,
    choice: str | None = None,
    begin: Callable[[Run], None] = lambda run: None,
) -> Release:
    """Release by a plan, of which everything that options get wrong was refused as it was made.

    `check` refuses what names and types of columns say is wrong; it reads no row. `begin` is called
    after the charge and before any row is read, and may still refuse the release; `run` reads the
    data and chooses items. `choice` says what will choose the final plan by the data: the guarantee
    of the whole is charged then.
    """
    seed = plan.insecure_seed
    key = Key.from_os() if seed is None else Key.from_insecure_seed(seed)
    if seed is not None:
        warn("insecure_seed: this release is not private")
    check()
    warn_of_weakness(plan)
    started = new_run(spending.dataset)
    with spending.charged(plan, run=started.id, choice=choice) as number:
        account = "no ledger" if spending.dataset is None else repr(spending.dataset)
        LOG.info("run %s: charged to %s: %r", started.id, account, plan)
        begin(started)
        report("reading", 0)
    try:
        found = run(key)
    except JobLostError as error:
        raise JobLostError(lost_job(spending, cost_of(plan), str(error))) from None
    # The plan that was run may name a number of users, from an estimate that was paid for.
    warn_of_weakness(found.plan, plan)
    approved = plan if isinstance(plan.selection, Choice) else None
    values, counts = found.values()
    released = Release(found.plan, values, counts, _known_share(found), approved, started)
    spending.returned(number)
    LOG.info("run %s: released %d items", started.id, len(released))
    return released


def _known_share(found: Found) -> float | None:
    """The part of the released items that the prior knew."""
    prior: Any = found.plan.knowledge.prior
    if prior is None or not len(found.items):
        return None
    from dpsu.contributions.ids import Ids

    return float(prior.known(Ids(found.items)).mean())
