"""Dask DataFrames as the front door sees them: what they declare, and tasks that read them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from dpsu.contributions.pairs import Tally
from dpsu.engines.cluster import engine as cluster
from dpsu.engines.cluster.engine import Query
from dpsu.engines.cluster.losses import report_notes
from dpsu.engines.cluster.reading import Reader, query_of
from dpsu.engines.cluster.running import ClusterData, refuse_what_clusters_cannot
from dpsu.engines.cluster.steps import Guarded
from dpsu.engines.cluster.texts import portable
from dpsu.engines.dask.engine import DaskEngine, Part, Parts, mapped, task_name
from dpsu.errors import DpsuError, ParameterError, without_values
from dpsu.inputs.files import expand
from dpsu.inputs.reading import to_read
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key

# Every task sends to every partition: with more of them Dask would do nothing but keep books.
MOST_PARTITIONS = 128


class DaskData(ClusterData):
    """A DataFrame of Dask."""

    def refuse(self, plan: Plan) -> None:
        """Refuse what plans, and objects that are no DataFrames, show to be wrong."""
        refuse_what_clusters_cannot(plan, "Dask")
        # A tokenizer that is not what the plan says, or that is not there.
        portable(plan)
        needed = ("columns", "expr", "npartitions", "to_delayed", "_meta")
        if not all(hasattr(self.frame, name) for name in needed):
            raise ParameterError(
                f"df is a {type(self.frame).__name__}, not a Dask DataFrame; dpsu.release takes "
                "other data"
            )

    def check(self, plan: Plan) -> None:
        """Refuse what the types that the frame declares show to be wrong."""
        self._reader(plan)

    def files(self) -> list[str]:
        """Files that the frame reads, as far as Dask tells: those of Parquet."""
        found: list[str] = []
        for step in self.frame.expr.walk():
            path = getattr(step, "path", None)
            with suppress(DpsuError):
                found += map(str, expand([path])) if isinstance(path, str) else []
        return found

    def query(self, plan: Plan, key: Key) -> Query[Parts]:
        """A release that has not run."""
        reader = self._reader(plan)
        names = [column.name for column in to_read(reader.columns)]
        frame = without_values(
            lambda: partitions_of(self.frame[names]),
            "the Dask DataFrame cannot be cut into its partitions; compute it yourself to see why",
        )
        schema, codec = reader.schema()
        partitions = self.partitions or min(MOST_PARTITIONS, max(1, len(frame.keys)))
        rows, ids = read_by(reader, frame, schema), (schema.field("item").type, codec)
        here = DaskEngine(key, set())
        return query_of(here, rows, plan, key, partitions, ids, sample=self.sample)

    def run(self, query: Query[Parts]) -> pa.Array:
        """Released items; warns of rows that are not complete."""
        found = cluster.run(query)
        assert isinstance(query.engine, DaskEngine)
        report_notes(query.job.plan, query.engine.notes, self.strict)
        return found

    def _reader(self, plan: Plan) -> Reader:
        return Reader.of(self.frame._meta, plan)


def partitions_of(frame: Any) -> Parts:
    """The partitions of a DataFrame, and the graph that makes them."""
    parts = list(frame.to_delayed())
    # They share one graph.
    graphs = {id(part.dask): part.dask for part in parts}
    tasks = {key: task for graph in graphs.values() for key, task in dict(graph).items()}
    return Parts(pa.schema([]), [part.key for part in parts], tasks)


def read_by(reader: Reader, frames: Parts, schema: pa.Schema) -> Parts:
    """Users and items of all partitions of a DataFrame."""
    from dask.task_spec import Task, TaskRef

    name = task_name("dpsu_Read")
    keys = [(name, at) for at in range(len(frames.keys))]
    tasks = {
        key: Task(key, read, reader, TaskRef(part))
        for key, part in zip(keys, frames.keys, strict=True)
    }
    return Parts(schema, keys, tasks, frames)


def read(reader: Reader, frame: Any) -> Part:
    """The task that reads a partition."""
    tally = Tally(None)
    made = mapped(Guarded(partial(reader, tally)), Part((frame,)))
    return replace(made, notes=frozenset(tally.lost))
