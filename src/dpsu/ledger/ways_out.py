"""Messages for releases that do not fit the budget, and for lost jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from dpsu.ledger.accounting import Amount, Cost, delta_text, total
from dpsu.ledger.records import ELSEWHERE, VOID
from dpsu.plans.mechanisms import Sieve
from dpsu.privacy.guarantee import Privacy

if TYPE_CHECKING:
    from dpsu.ledger.records import Account
    from dpsu.ledger.spending import Spending


def refusal(account: Account, cost: Cost, mechanism: str, path: Path) -> str:
    """Why a release is refused, and what to do about it."""
    spent, budget, left = account.spent.sums, account.budget, account.left.sums
    together, instead = total([*account.costs, cost]), _room_by_sieve(account, cost, mechanism)
    delta = float(together.gaussian_delta(budget.epsilon))
    room = "the Gaussian account has no room either"
    if delta < 1.0:
        room = f"at epsilon {budget.epsilon:g} delta would be {delta:.3g} by Gaussian composition"
    smaller = "" if left.epsilon <= 0.0 or left.delta <= 0.0 else "Give a smaller epsilon and delta"
    more = f"{change_budget(path, account.dataset)}, if more may be spent on these people"
    return (
        f"this costs {told(cost.privacy)}, and of the budget {told(budget)} of "
        f"{account.dataset!r} {told(spent)} is spent and {told(left)} left by sums; {room}. "
        f"Nothing was read or charged. {instead}{smaller + ', or ' if smaller else 'To go on, '}"
        f"{more}"
    )


def change_budget(path: Path, dataset: str) -> str:
    """How to change a budget, on the command line and in Python."""
    return (
        f"change the budget: dpsu ledger {str(path)!r} --dataset {dataset!r} --set-budget E,D, or "
        "Ledger.set_budget in Python"
    )


def told(privacy: Privacy | Amount) -> str:
    """Epsilon and delta as a pair."""
    return f"({privacy.epsilon:g}, {delta_text(privacy.delta)})"


def _room_by_sieve(account: Account, cost: Cost, mechanism: str) -> str:
    """The way out for a release that has no Gaussian account, if sieve has room in it.

    Or what would have been one, where earlier releases without such an account leave no room.
    """
    if cost.shift is not None or mechanism.startswith(ELSEWHERE):
        return ""
    now, before = _by_sieve(cost), account.costs
    why = "an estimate or a choice is paid for, as by auto, or noise is not Gaussian"
    if total([*before, now]).within(account.budget):
        return f"It has no Gaussian account ({why}); the same price fits if you name sieve. "
    named = [
        each.cost if each.elsewhere else _by_sieve(each.cost)
        for each in account.releases
        if each.state != VOID
    ]
    if total([*named, now]).within(account.budget):
        return (
            f"It has no Gaussian account, and neither have earlier releases ({why}): by sieve, "
            "named from the first, all of these would fit, and now it is too late for that. "
        )
    return ""


def _by_sieve(cost: Cost) -> Cost:
    """What a release would cost by sieve; those that have a Gaussian account keep theirs."""
    if cost.shift is not None:
        return cost
    sieve = Sieve()
    return replace(cost, shift=sieve.as_gaussian(sieve.design(cost.privacy), 1))


def lost_job(spending: Spending, cost: Cost, why: str, again: str) -> str:
    """Why a job was lost that has begun to read, what that costs, and how to run it `again`."""
    if spending.path is None and again:
        return f"{why}. {again}"
    if spending.path is None:
        return (
            f"{why}. No ledger was charged; count {told(cost.privacy)} as spent if others may see "
            "that this run failed"
        )
    charge = f"{told(cost.privacy)} stays charged to {spending.dataset!r}"
    return ". ".join(filter(None, (why, charge, again)))
