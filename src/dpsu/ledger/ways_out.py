"""What a release that is refused could do instead."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsu.inputs.columns import Items
from dpsu.ledger.accounting import Cost, total
from dpsu.ledger.records import ELSEWHERE, VOID
from dpsu.plans.mechanisms import Sieve

if TYPE_CHECKING:
    from dpsu.ledger.records import Account


def room_by_sieve(account: Account, cost: Cost, mechanism: str) -> str:
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
    return replace(cost, shift=sieve.as_gaussian(sieve.design(cost.privacy, Items())))
