"""Spark: the primitives of a release over DataFrames, and nothing else.

Only `mapInArrow`, shuffles and sums are asked of Spark, so that the same code runs in a session of
one's own and over Spark Connect. A release is one query. A mechanism of R rounds has 2 R shuffles:
in every round one to partitions of users and one to partitions of items (or by item). It has 3 R
where users make an estimate before they give. There is no cache or checkpoint that would have to be
cleaned up. The key is part of the functions that workers run; these are sent as bytes, and Spark
shows their names only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from dpsu.contributions.codecs import Codec, Keys, refuse_equal_names
from dpsu.contributions.ids import INTEGERS
from dpsu.contributions.pairs import question_users
from dpsu.engines.cluster import engine as cluster
from dpsu.engines.cluster.engine import Query, Step
from dpsu.engines.cluster.losses import report_notes
from dpsu.engines.cluster.reading import Reader, query_of
from dpsu.engines.cluster.running import ClusterData, refuse_what_clusters_cannot
from dpsu.engines.cluster.values import Read
from dpsu.engines.spark import beforehand, census
from dpsu.engines.spark.columns import (
    arrow_type,
    column_named,
    key_of,
    refuse_collations,
    with_lists_as_rows,
)
from dpsu.engines.spark.quietly import failing_quietly
from dpsu.engines.spark.workers import InWorker
from dpsu.errors import ParameterError
from dpsu.inputs.columns import pick
from dpsu.inputs.reading import wanted
from dpsu.inputs.values import Values
from dpsu.plans.plan import Plan
from dpsu.randomness.keys import Key
from dpsu.runtime.changes import shared

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# A partition of so many rows is a task of seconds and of some hundred megabytes.
ROWS_IN_PARTITION = 1 << 20
# Every partition of users writes to every partition of items: with more of them there would be too
# many messages.
MOST_PARTITIONS = 1 << 13
# A task takes some hundredths of a second to begin, in every shuffle. Up to 64 partitions are made
# for whoever asks for them; beyond that at most 16 for a million rows.
ALWAYS_GRANTED, MOST_FOR_MILLION = 1 << 6, 1 << 4
# Settings of sessions and of Connect servers; Spark ignores those that it does not know.
CLEAN_UP = (
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled",
    "spark.sql.shuffleDependency.fileCleanup.enabled",
)
# The types that steps have, as SQL declares them.
SQL_TYPES = {pa.int32(): "int", pa.int64(): "bigint", pa.string(): "string", pa.binary(): "binary"}


@dataclass(frozen=True, repr=False)
class SparkEngine:
    """The primitives of a release, over DataFrames."""

    session: SparkSession
    watch: census.Watch | None = None

    def map_batches(self, rows: DataFrame, step: Step, columns: pa.Schema) -> DataFrame:
        """Map batches by a function that workers run on Arrow."""
        declared = ", ".join(f"{field.name} {SQL_TYPES[field.type]}" for field in columns)
        made = failing_quietly(lambda: rows.mapInArrow(InWorker(step), declared))
        return made if self.watch is None else self.watch.of_step(made, step)

    def together(self, messages: DataFrame, partitions: int) -> DataFrame:
        """Shuffle messages to their partitions."""
        if hasattr(messages, "repartitionById"):
            return messages.repartitionById(partitions, "to")
        # Before Spark 4.1, our partitions are hashed to those of Spark: some get two and some none.
        return messages.repartition(partitions, "to")

    def sum_by_item(self, numbers: DataFrame) -> DataFrame:
        """Sum by a query of Spark."""
        from pyspark.sql import functions as f

        return numbers.groupBy("item").agg(f.sum("number").alias("number"))

    def collect(self, rows: DataFrame) -> pa.Table:
        """Run the query."""
        with shared(("clean up", id(self.session)), partial(_cleaned_up, self.session)):
            # A frame keeps the settings under which it was made, so one is made under these.
            return failing_quietly(lambda: rows.select("*").toArrow())


@dataclass(frozen=True, repr=False)
class KeyedRows:
    """Columns `user` and `item`, the type of the ids of items, and which values they stand for.

    Of a wide table, all columns that are read, and what makes users and items of them.
    """

    frame: DataFrame
    ids: tuple[pa.DataType, Codec]
    read: Read | None = None


def rows_of(frame: DataFrame, plan: Plan) -> KeyedRows:
    """Columns `user` and `item` of the types that ids have, or that become ids; no row is read.

    Cells that have no id of that type become null, as on one machine. What the names and the types
    of columns show to be wrong is refused.
    """
    if isinstance(plan.item, Values):
        return _wide_rows_of(frame, plan)
    in_texts = plan.text is not None
    columns, public = wanted(plan.user, plan.item), plan.knowledge.public_items
    names = pick(columns, failing_quietly(lambda: frame.columns))
    types = failing_quietly(lambda: frame.select(*map(column_named, names)).schema)
    frame, columns_of = with_lists_as_rows(frame, columns, [field.dataType for field in types])
    found = {
        option: [part for part in columns_of if (part.column.option == "user") == users]
        for option, users in (("user", True), ("item", False))
    }
    # Items of texts are text, whatever the column of texts is called.
    typed = [] if in_texts else [(part.column, part.arrow) for part in found["item"]]
    keys = Keys()
    refuse_equal_names(typed)
    keys.note(typed)
    if public is not None:
        public.refuse_other_than(keys.codec)
    ids = [key_of(found[option]).alias(option) for option in ("user", "item")]
    if in_texts:
        # Workers tell texts that are not UTF-8 from those that are missing.
        ids[1] = found["item"][0].cells.cast("string").alias("item")
    item_type = pa.string()
    if len(found["item"]) == 1 and found["item"][0].kind == INTEGERS:
        item_type = pa.int64()
    if public is not None:
        public.as_type(item_type)
    return KeyedRows(frame.select(*ids), (item_type, keys.codec))


def _wide_rows_of(frame: DataFrame, plan: Plan) -> KeyedRows:
    """The columns of users and of values, as they are: workers make ids of them."""
    fields = failing_quietly(lambda: frame.schema.fields)
    declared = pa.schema([(field.name, arrow_type(field.dataType)) for field in fields])
    reader = Reader.of(declared.empty_table(), plan)
    # Functions on Arrow take no names with dots or backticks, so that columns go by their places.
    places = [
        column_named(name).alias(f"c{at}") for at, name in enumerate(reader.declared.column_names)
    ]
    rows = failing_quietly(lambda: frame.select(*places))
    # Spark Connect finds out here whether it can select them.
    failing_quietly(lambda: rows.schema)
    return KeyedRows(rows, (pa.string(), reader.schema()[1]), reader.by_place)


def partitions_for(rows: int, asked: int | None) -> int:
    """How many partitions so many rows get: as many as were asked for, within reason.

    Releases do not depend on it. Every partition is a task in every shuffle, and may send a message
    to every other: thousands of them for few rows would take hours to do nothing.
    """
    deserved = min(MOST_PARTITIONS, max(1, -(-rows // ROWS_IN_PARTITION)))
    if asked is None:
        return deserved
    return min(asked, max(ALWAYS_GRANTED, MOST_FOR_MILLION * deserved))


def refuse_what_spark_cannot(plan: Plan) -> None:
    """Refuse what no cluster can run, and tokenizers that cannot be sent to workers."""
    refuse_what_clusters_cannot(plan, "Spark")
    beforehand.refuse_tokenizer(plan)


class SparkData(ClusterData):
    """A DataFrame of Spark."""

    def refuse(self, plan: Plan) -> None:
        """Refuse what plans, and objects that are no DataFrames, show to be wrong."""
        refuse_what_spark_cannot(plan)
        if not hasattr(self.frame, "sparkSession"):
            raise ParameterError(
                f"df is a {type(self.frame).__name__}, not a Spark DataFrame; read a file with "
                "spark.read.parquet(path), or give it to dpsu.release, which takes other data"
            )

    def check(self, plan: Plan) -> None:
        """Refuse what the schema shows to be wrong, and workers that cannot run a step."""
        rows_of(self.frame, plan)
        fields = failing_quietly(lambda: self.frame.schema.fields)
        refuse_collations(wanted(plan.user, plan.item), fields)
        beforehand.refuse_unready_workers(self.frame.sparkSession)

    def files(self) -> list[str]:
        """Local files that the frame reads, as far as Spark tells; no row is read."""
        found: list[str] = []
        with suppress(Exception):
            found = list(failing_quietly(self.frame.inputFiles))
        return [unquote(urlsplit(name).path) for name in found if urlsplit(name).scheme == "file"]

    def query(self, plan: Plan, key: Key) -> Query[DataFrame]:
        """A release that has not run."""
        keyed, partitions = rows_of(self.frame, plan), self.partitions
        rows, engine = keyed.frame, SparkEngine(self.frame.sparkSession)
        if partitions is None or partitions > ALWAYS_GRANTED:
            found = failing_quietly(lambda: beforehand.rows_in(rows, plan))
            partitions = partitions_for(found, partitions)
        return query_of(
            engine, rows, plan, key, partitions, keyed.ids,
            strict=self.strict, sample=self.sample, read=keyed.read,
        )  # fmt: skip

    def run(self, query: Query[DataFrame]) -> pa.Array:
        """Released items, sorted; warns of what was left out, as the local engine does."""
        watch, by_steps = census.Watch(query.job.plan), query.tokenizer or query.read
        rows = query.rows if by_steps else watch.of_rows(query.rows)
        engine = SparkEngine(query.rows.sparkSession, watch)
        found = cluster.run(replace(query, rows=rows, engine=engine))
        report_notes(query.job.plan, watch.notes(), query.job.strict)
        if not by_steps and watch.all_alone():
            question_users("row", query.job.plan.user.name)
        return found


@contextmanager
def _cleaned_up(session: SparkSession) -> Iterator[None]:
    """Let Spark remove what shuffles wrote to disk when a query ends, not some time later."""
    before: dict[str, str | None] = {}
    for name in CLEAN_UP:
        # Some services allow nobody to change settings; they clean up in their own way.
        with suppress(Exception):
            was = session.conf.get(name, None)
            session.conf.set(name, "true")
            before[name] = was
    try:
        yield
    finally:
        for name, value in before.items():
            with suppress(Exception):
                if value is None:
                    session.conf.unset(name)
                else:
                    session.conf.set(name, value)
