"""What steps tell of what they left out, as Spark sees it on the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsu.contributions.pairs import Tally, report_lost, report_nothing
from dpsu.engines.cluster.losses import nothing, reasons
from dpsu.engines.cluster.messages import LOST, ROWS
from dpsu.engines.cluster.steps import Job
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation


def observed(messages: DataFrame, plan: Plan, seen: Observation) -> DataFrame:
    """The same messages; `seen` observes of which kinds they are."""
    from pyspark.sql import functions as f

    kind, place = f.col("kind"), f.col("sender")
    each = [
        f.count_if((kind == LOST) & (place == at)).alias(f"lost {at}")
        for at, _ in enumerate(reasons(plan))
    ]
    return messages.observe(seen, f.count_if(kind == ROWS).alias("rows"), *each)


def warn_of(job: Job, seen: dict[str, Any]) -> None:
    """Warn the curator of what was left out, as the local engine does."""
    tally = Tally(nothing(job.plan))
    for at, reason in enumerate(reasons(job.plan)):
        tally.lose(reason, seen.get(f"lost {at}", 0))
    report_lost(tally, strict=False)
    if not seen.get("rows"):
        report_nothing(tally, job.strict)
