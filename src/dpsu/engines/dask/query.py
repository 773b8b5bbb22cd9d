"""Dask DataFrames as the front door sees them: what they declare, and tasks that read them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa

from dpsu.contributions.pairs import Tally
from dpsu.contributions.samples import Sample
from dpsu.engines.cluster import engine as cluster
from dpsu.engines.cluster.engine import Query
from dpsu.engines.cluster.losses import report_notes
from dpsu.engines.cluster.reading import Reader, query_of
from dpsu.engines.cluster.running import refuse_what_clusters_cannot
from dpsu.engines.cluster.steps import Guarded
from dpsu.engines.cluster.texts import portable
from dpsu.engines.dask.engine import DaskEngine, Part, Parts, mapped, task
from dpsu.errors import DpsuError, ParameterError, without_values
from dpsu.inputs.files import expand
from dpsu.inputs.reading import to_read
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key

# Every task sends to every partition: with more of them Dask would do nothing but keep books.
MOST_PARTITIONS = 128


@dataclass(frozen=True, repr=False)
class DaskData:
    """A DataFrame, and how it is to be released."""

    frame: Any
    strict: bool
    partitions: int | None
    sample: Sample | None = None

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

    def of_users(self, some: Sample) -> DaskData:
        """The same data, of some users."""
        return replace(self, sample=some)

    def query(self, plan: Plan, key: Key) -> Query[Parts]:
        """A release that has not run."""
        reader = self._reader(plan)
        names = [column.name for column in to_read(reader.columns)]
        parts = without_values(
            lambda: list(self.frame[names].to_delayed()),
            "the Dask DataFrame cannot be cut into its partitions; compute it yourself to see why",
        )
        tasks = [task("dpsu_Read", partial(read, reader), part) for part in parts]
        partitions = self.partitions or min(MOST_PARTITIONS, max(1, len(parts)))
        here = DaskEngine(key.salt("bucket of item"), set())
        schema, codec = reader.schema()
        ids = schema.field("item").type, codec
        return query_of(here, Parts(schema, tasks), plan, key, partitions, ids, sample=self.sample)

    def run(self, query: Query[Parts]) -> pa.Array:
        """Released items; warns of rows that are not complete."""
        found = cluster.run(query)
        assert isinstance(query.engine, DaskEngine)
        report_notes(query.job.plan, query.engine.notes, self.strict)
        return found

    def _reader(self, plan: Plan) -> Reader:
        return Reader.of(self.frame._meta, plan)


def read(reader: Reader, frame: Any) -> Part:
    """The task that reads a partition."""
    tally = Tally(None)
    made = mapped(Guarded(partial(reader, tally)), Part((frame,)))
    return replace(made, notes=frozenset(tally.lost))
