"""Where a period runs: on this machine, or on Spark, as its data say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsu.engines.found import Found, Report
from dpsu.errors import option_error
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key

Engine = tuple[Callable[[], None], Callable[[Key], Found]]


def engine_for(
    data: Any,
    plan: Plan,
    report: Report,
    *,
    strict: bool,
    format: str | None,
    memory_limit: int | str | None,
    partitions: int | None,
) -> Engine:
    """What checks names and types without reading a row, and what reads and finds items."""
    if type(data).__module__.partition(".")[0] == "pyspark":
        from dpsu.engines.cluster.running import Cluster, checked_partitions
        from dpsu.engines.spark.query import SparkData

        _refuse("Spark", "for one machine", format=format, memory_limit=memory_limit)
        there = SparkData(data, strict, checked_partitions(partitions))
        cluster = Cluster(plan, there, report)
        return cluster.check, cluster.run
    from dpsu.engines.local import OneMachine
    from dpsu.inputs.reading import Source
    from dpsu.runtime.memory import Memory, parse_size

    _refuse("one machine", "for Spark", partitions=partitions)
    source = Source(data, plan.user, plan.item, format, strict)
    machine = OneMachine(plan, source, Memory(parse_size(memory_limit)), report)
    return source.check, machine.run


def _refuse(here: str, there: str, **options: Any) -> None:
    """Refuse options of the other place."""
    for name, value in options.items():
        if value is not None:
            raise option_error(name, f"is {there}, not for {here}; drop it", value)
