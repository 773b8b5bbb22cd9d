"""A release on a cluster: from data that stay there to the released items."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

from dpsu.engines.cluster import engine
from dpsu.engines.found import Found, Report
from dpsu.errors import ParameterError
from dpsu.inputs.also_public import refuse_same_files
from dpsu.inputs.columns import ONE_PER_ENTRY
from dpsu.options import whole_number
from dpsu.plans.mechanisms import Auto, Choice
from dpsu.plans.mechanisms.auto import PARALLEL
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key
from dpsu.runtime.cores import usable_cores

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsu.contributions.samples import Sample

LARGEST_PARTITIONS = 1 << 16


def checked_partitions(partitions: int | None) -> int | None:
    """The number of partitions that was typed, if it is one."""
    if partitions is None:
        return None
    return whole_number("partitions", partitions, 1, LARGEST_PARTITIONS)


def refuse_what_clusters_cannot(plan: Plan, engine: str) -> None:
    """Refuse what only one machine can do, and a DPSU_THREADS that is no number."""
    usable_cores()
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
            "knowing what those before it gave; choose a mechanism that runs in parallel, such as "
            "sieve"
        )


@dataclass(frozen=True, repr=False)
class ClusterData(ABC):
    """A DataFrame as a front door sees it: of all users, or of a sample."""

    frame: Any
    strict: bool = False
    partitions: int | None = None
    sample: Sample | None = None

    def of_users(self, some: Sample) -> Self:
        """The same data, of some users; rows of others are dropped as they are read."""
        return replace(self, sample=some)

    @abstractmethod
    def refuse(self, plan: Plan) -> None:
        """Refuse what the plan, or an object that is no data of this cluster, shows to be wrong.

        It is called whenever a `Cluster` is made, before anything else; a tokenizer may be read.
        """

    @abstractmethod
    def check(self, plan: Plan) -> None:
        """Refuse what names and types of columns show to be wrong; no row is read."""

    @abstractmethod
    def files(self) -> Iterable[str]:
        """Local files that the data are read from, as far as they are known."""

    @abstractmethod
    def query(self, plan: Plan, key: Key) -> engine.Query[Any]:
        """A release that has not run."""

    @abstractmethod
    def run(self, query: engine.Query[Any]) -> pa.Array:
        """Released items, sorted; warns of rows that were left out."""


class Cluster:
    """A release where the data are, as `OneMachine` is on one machine.

    A plan that cannot run there is refused when this is made.
    """

    def __init__(self, plan: Plan, data: ClusterData, report: Report) -> None:
        data.refuse(plan)
        self._plan, self._data, self._report = plan, data, report

    def check(self) -> None:
        """Refuse what names and types in the schema say is wrong, and public files that are not."""
        self._data.check(self._plan)
        if self._plan.knowledge.paths:
            refuse_same_files(self._data.files(), self._plan.knowledge.paths)

    def run(self, key: Key) -> Found:
        """Run the query that chooses items, and those for estimates and counts."""
        plan, query = self._plan, self._data.query(self._plan, key)
        if isinstance(plan.selection, Choice):
            self._report("estimating set sizes", 0)
            query = engine.chosen(query)
            # Functions that make tokens stay on the driver, in the plan that was given.
            plan = replace(query.job.plan.with_knowledge(plan.knowledge), item=plan.item)
        self._report("choosing items", 0)
        # Before they are counted, so that what they imply has a count, too.
        items = query.codec.with_implied(self._data.run(query))
        if plan.noisy_counts is None:
            return Found(plan, items, codec=query.codec)
        self._report("counting users", 0)
        return Found(plan, items, engine.count(query, items), query.codec)
