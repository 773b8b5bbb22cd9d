"""What all front doors to clusters share: the way through a release that an engine runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpsu.inputs.columns import named_by
from dpsu.ledger.spending import Spending
from dpsu.options import flag
from dpsu.pipeline import carry_out
from dpsu.plans.mechanisms import Auto, Mechanism
from dpsu.plans.mechanisms.auto import PARALLEL
from dpsu.plans.plan import Plan
from dpsu.plans.planning import mechanism_of
from dpsu.releases import planned
from dpsu.results import Release
from dpsu.series.once import keeper_of
from dpsu.showing.progress import Stages, stages

if TYPE_CHECKING:
    from dpsu.engines.cluster.running import ClusterData


def release_on(
    made: Callable[[Any, bool, int | None], ClusterData],
    df: Any,
    given: Plan | None,
    *,
    strict: bool = False,
    partitions: int | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
    **typed: Any,
) -> Release:
    """Release a frame on its cluster, by the plan that was handed in or by what was typed.

    `made` makes data of a frame, of `strict`, and of the number of partitions.
    """
    from dpsu.engines.cluster.running import Cluster, checked_partitions
    from dpsu.inputs.also_public import refuse_same_object

    prior = getattr(typed["mechanism"], "prior", None)
    refuse_same_object(df, typed["public_items"], prior, typed["prior"])
    spending = Spending.of(ledger, may_be_named=True)
    flag("strict", strict)
    shown = stages(progress)
    if given is None:
        typed["mechanism"] = in_parallel(typed["mechanism"])
    # What was typed beside a plan is refused here.
    plan = planned(given, **typed)
    data = made(df, strict, checked_partitions(partitions))
    with shown as report:
        named = keeper_of(spending, plan)
        # What a plan alone gets wrong is refused here, before anything is looked up.
        cluster = Cluster(plan, data, named.watching(report))
        stored = named.stored()
        if stored is not None:
            return stored
        # Names and types are in the schema: what they rule out costs nothing, ledger or not.
        with named_by(given):
            cluster.check()
        return carry_out(
            plan, check=lambda: None, run=cluster.run, spending=spending, report=report,
            named=named,
        )  # fmt: skip


def in_parallel(given: str | Mechanism | None) -> Mechanism:
    """The mechanism that was typed, or the default; auto has no candidate that cannot run here."""
    made = mechanism_of(given)
    return replace(made, among=PARALLEL) if isinstance(made, Auto) else made
