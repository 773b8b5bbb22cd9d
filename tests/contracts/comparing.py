"""Comparing what an engine releases with what one machine releases, under one key."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pyarrow as pa

import dpsu
import dpsu.spark

Run = Callable[[pa.Table, dpsu.Plan], dpsu.Release]
# Not told of on clusters wherever one machine does; `tests/spark/test_warnings.py` says where.
NOT_TOLD_OF = ("every row has its own", "some cells of 'tags' are missing")


def on_spark(
    session: Any, partitions: int | None = 3, cut: Callable[[Any], Any] = lambda frame: frame
) -> Run:
    """Releases of tables by Spark; `cut` says how their rows come."""

    def run(table: pa.Table, plan: dpsu.Plan) -> dpsu.Release:
        frame = session.createDataFrame(table)
        for name, type_ in zip(table.column_names, table.schema.types, strict=True):
            if pa.types.is_timestamp(type_) and type_.tz is None:
                # Spark takes them for instants.
                frame = frame.withColumn(name, frame[name].cast("timestamp_ntz"))
        return dpsu.spark.release(cut(frame), plan, partitions=partitions).released

    return run


def heard(run: Run, table: pa.Table, plan: dpsu.Plan) -> tuple[dpsu.Release, set[str]]:
    """What is released, and what is said of the data."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", dpsu.DataWarning)
        released = run(table, plan)
    return released, {str(each.message) for each in told}


def check_same(
    run: Run, table: pa.Table, plan: dpsu.Plan, *, some: bool = True
) -> tuple[dpsu.Release, set[str]]:
    """Items, types, counts, reports and warnings are those of one machine, which come back."""
    here, told = heard(dpsu.release, table, plan)
    there, told_there = heard(run, table, plan)
    assert here.items or not some, repr(plan)
    assert there == here, repr(plan)
    assert there.to_arrow().equals(here.to_arrow()), repr(plan)
    assert there.values.type == here.values.type, repr(plan)
    assert there.values.equals(here.values), repr(plan)
    assert there.plan.hash == here.plan.hash
    differ = {each for each in told ^ told_there if not each.startswith(NOT_TOLD_OF)}
    assert not differ, (repr(plan), differ)
    assert plan.hash in there.report()
    facts, facts_there = (json.loads(found.report_json()) for found in (here, there))
    # Each run is one of its own.
    assert facts.pop("run")["id"] != facts_there.pop("run")["id"]
    assert facts_there == facts, repr(plan)
    return here, told
