"""What all front doors to clusters share: the way through a release that an engine runs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsu.inputs.columns import named_by
from dpsu.ledger.spending import Spending
from dpsu.pipeline import carry_out
from dpsu.plans.mechanisms import Auto, Mechanism
from dpsu.plans.mechanisms.auto import PARALLEL
from dpsu.plans.plan import Plan
from dpsu.plans.planning import mechanism_of
from dpsu.releases import planned
from dpsu.results import Release
from dpsu.series.once import keeper_of
from dpsu.showing.progress import Stages

if TYPE_CHECKING:
    from dpsu.engines.cluster.running import ClusterData


def release_on(
    data: ClusterData,
    given: Plan | None,
    plan: Plan,
    spending: Spending,
    shown: AbstractContextManager[Stages],
) -> Release:
    """Release data of a cluster by a plan; `given` is the plan that was handed in, if one was."""
    from dpsu.engines.cluster.running import Cluster

    with shown as report:
        # What a plan alone gets wrong is refused here, before anything is looked up.
        cluster = Cluster(plan, data, report)
        kept = keeper_of(spending, plan)
        stored = kept.stored()
        if stored is not None:
            return stored
        # Names and types are in the schema: what they rule out costs nothing, ledger or not.
        with named_by(given):
            cluster.check()
        return carry_out(
            plan, check=lambda: None, run=kept.keeping(cluster.run), spending=spending,
            report=report, begin=kept.begin,
        )  # fmt: skip


def planned_for(plan: Plan | None, mechanism: str | Mechanism | None, **typed: Any) -> Plan:
    """The plan that was handed in, or the one that was typed, with the default of clusters."""
    # What was typed beside a plan is refused there.
    return planned(plan, mechanism=in_parallel(mechanism) if plan is None else mechanism, **typed)


def in_parallel(given: str | Mechanism | None) -> Mechanism:
    """The mechanism that was typed, or the default; auto has no candidate that cannot run here."""
    made = mechanism_of(given)
    return replace(made, among=PARALLEL) if isinstance(made, Auto) else made
