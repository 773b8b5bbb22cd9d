"""What all front doors to clusters share: the way through a release that an engine runs."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from dpsu.engines.found import Found
from dpsu.inputs.columns import named_by
from dpsu.ledger.spending import Spending
from dpsu.pipeline import carry_out
from dpsu.plans.mechanisms import Auto, Choice, Mechanism
from dpsu.plans.mechanisms.auto import PARALLEL
from dpsu.plans.plan import Plan
from dpsu.plans.planning import mechanism_of
from dpsu.randomness.keys import Key
from dpsu.releases import planned
from dpsu.results import Release
from dpsu.showing.progress import Stages

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsu.engines.cluster.engine import Query

LARGEST_PARTITIONS = 1 << 16


class Cluster(Protocol):
    """Data on a cluster, as a front door sees them."""

    def check(self, plan: Plan) -> None:
        """Refuse what names and types of columns show to be wrong; no row is read."""

    def files(self) -> Iterable[str]:
        """Local files that the data are read from, as far as they are known."""

    def query(self, plan: Plan, key: Key) -> Query[Any]:
        """A release that has not run."""

    def run(self, query: Query[Any]) -> pa.Array:
        """Released items, sorted; warns of rows that were left out."""


def release_on(
    cluster: Cluster,
    given: Plan | None,
    plan: Plan,
    spending: Spending,
    shown: AbstractContextManager[Stages],
) -> Release:
    """Release data of a cluster by a plan; `given` is the plan that was handed in, if one was."""
    from dpsu.engines.cluster import engine
    from dpsu.inputs.reading import refuse_same_files

    def run(key: Key) -> Found:
        prepared, chosen = cluster.query(plan, key), plan
        if isinstance(plan.selection, Choice):
            report("estimating set sizes", 0)
            prepared = engine.chosen(prepared)
            chosen = prepared.job.plan.with_knowledge(plan.knowledge)
        report("choosing items", 0)
        items = cluster.run(prepared)
        if chosen.noisy_counts is None:
            return Found(chosen, items, codec=prepared.codec)
        report("counting users", 0)
        return Found(chosen, items, engine.count(prepared, items), prepared.codec)

    # Names and types are in the schema: what they rule out costs nothing, ledger or not.
    with named_by(given):
        cluster.check(plan)
    if plan.knowledge.paths:
        refuse_same_files(cluster.files(), plan.knowledge.paths)
    with shown as report:
        return carry_out(plan, check=lambda: None, run=run, spending=spending, report=report)


def planned_for(
    engine: str, plan: Plan | None, mechanism: str | Mechanism | None, **typed: Any
) -> Plan:
    """The plan that was handed in, or the one that was typed, if a cluster can run it."""
    from dpsu.engines.cluster.refusals import refuse_what_clusters_cannot

    # What was typed beside a plan is refused there.
    mechanism = in_parallel(mechanism) if plan is None else mechanism
    approved = planned(plan, mechanism=mechanism, **typed)
    refuse_what_clusters_cannot(approved, engine)
    return approved


def in_parallel(given: str | Mechanism | None) -> Mechanism:
    """The mechanism that was typed, or the default; auto has no candidate that cannot run here."""
    made = mechanism_of(given)
    return replace(made, among=PARALLEL) if isinstance(made, Auto) else made
