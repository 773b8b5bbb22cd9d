"""What no cluster can run, by the plan alone."""

from __future__ import annotations

from dpsu.errors import ParameterError
from dpsu.inputs.columns import ONE_PER_ENTRY
from dpsu.plans.mechanisms import Auto
from dpsu.plans.mechanisms.auto import PARALLEL
from dpsu.plans.plan import Plan


def refuse_what_clusters_cannot(plan: Plan, engine: str) -> None:
    """Refuse what only one machine can do."""
    if plan.user.names == (ONE_PER_ENTRY,):
        raise ParameterError(
            f"user={ONE_PER_ENTRY!r} is for one machine: {engine} may compute rows again, in "
            "another order, so that they have no ids; give a column of users"
        )
    if isinstance(plan.mechanism, Auto) and plan.mechanism.among != PARALLEL:
        raise ParameterError(
            f"this plan may come to a mechanism that cannot run on {engine}; plan it with "
            "mechanism=dpsu.Auto(among='parallel') (--among parallel)"
        )
    if not plan.mechanism.parallel:
        raise ParameterError(
            f"{plan.name} cannot run on {engine}: its users act one after the other, each "
            "knowing what those before it gave; choose sieve, which releases most of the "
            "mechanisms that run in parallel"
        )
