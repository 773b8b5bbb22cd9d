"""A release on Spark: from a DataFrame to the released items, as `OneMachine` is on one machine."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from dpsu.contributions.attendance import Attendance
from dpsu.engines.found import Found, Report
from dpsu.engines.spark import query
from dpsu.inputs.reading import refuse_same_files
from dpsu.options import whole_number
from dpsu.plans.mechanisms import Choice
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

LARGEST_PARTITIONS = 1 << 16


class Cluster:
    """A release on a cluster: it refuses what Spark cannot run before any row is read."""

    def __init__(
        self,
        plan: Plan,
        frame: DataFrame,
        report: Report,
        *,
        strict: bool = False,
        partitions: int | None = None,
        attendance: Attendance | None = None,
    ) -> None:
        if partitions is not None:
            partitions = whole_number("partitions", partitions, 1, LARGEST_PARTITIONS)
        query.refuse_what_spark_cannot(plan)
        query.refuse_other_objects(frame)
        self._plan, self._frame, self._report = plan, frame, report
        self._strict, self._partitions, self._attendance = strict, partitions, attendance

    def check(self) -> None:
        """Refuse what names and types in the schema say is wrong, and public files that are not."""
        known = self._plan.knowledge
        query.rows_of(self._frame, self._plan, known.public_items)
        if known.paths:
            refuse_same_files(query.files_of(self._frame), known.paths)

    def run(self, key: Key) -> Found:
        """Run the query that chooses items, and those for estimates and counts."""
        plan, known = self._plan, self._plan.knowledge
        prepared = query.query(
            self._frame, plan, key, prior=known.prior, public=known.public_items,
            strict=self._strict, partitions=self._partitions, attendance=self._attendance,
        )  # fmt: skip
        if isinstance(plan.selection, Choice):
            self._report("estimating set sizes", 0)
            prepared = query.chosen(prepared)
            # Functions that make tokens stay on the driver, in the plan that was given.
            plan = replace(prepared.job.plan.with_knowledge(known), item=plan.item)
        self._report("choosing items", 0)
        items = query.run(prepared)
        if plan.noisy_counts is None:
            return Found(plan, items, codec=prepared.codec)
        self._report("counting users", 0)
        return Found(plan, items, query.count(prepared, items), prepared.codec)
