"""Spark: the steps of a release as a query over DataFrames, and nothing else.

Only `mapInArrow`, shuffles and sums are asked of Spark, so that the same code runs in a session of
one's own and over Spark Connect. A release is one query. A mechanism of R rounds has 2 R shuffles:
in every round one to partitions of users and one to partitions of items (or by item). It has 3 R
where users make an estimate before they give. There is no cache or checkpoint that would have to be
cleaned up. The key is part of the functions that workers run; these are sent as bytes, and Spark
shows their names only.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsu.contributions.codecs import Codec, Keys, refuse_equal_names
from dpsu.contributions.ids import INTEGERS
from dpsu.contributions.pairs import question_users
from dpsu.engines.cluster.conversations import conversation_of
from dpsu.engines.cluster.messages import COLUMNS
from dpsu.engines.cluster.rounds import steps_of
from dpsu.engines.cluster.steps import (
    FAILED,
    AddNoise,
    Count,
    CountSizes,
    FlipCoins,
    Guarded,
    Job,
    SendRows,
    Weigh,
)
from dpsu.engines.estimates import CLASSES, estimate
from dpsu.engines.spark import census
from dpsu.engines.spark.columns import column_named, key_of, with_lists_as_rows
from dpsu.errors import DataError, DpsuError, ParameterError, ResourceError, warn
from dpsu.inputs.columns import ONE_PER_ENTRY, pick
from dpsu.inputs.public import Prior, PublicItems
from dpsu.inputs.reading import wanted
from dpsu.plans.mechanisms import Auto, Choice
from dpsu.plans.mechanisms.auto import PARALLEL
from dpsu.plans.plan import Plan
from dpsu.plans.public_data import PublicData
from dpsu.randomness.keys import Key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Observation, SparkSession

T = TypeVar("T")

# A partition of so many rows is a task of seconds and of some hundred megabytes.
ROWS_IN_PARTITION = 1 << 20
# Every partition of users writes to every partition of items: with more of them there would be too
# many messages.
MOST_PARTITIONS = 1 << 13
# Settings of sessions and of Connect servers; Spark ignores those that it does not know.
CLEAN_UP = (
    "spark.sql.classic.shuffleDependency.fileCleanup.enabled",
    "spark.sql.shuffleDependency.fileCleanup.enabled",
)
# What was observed if Spark observed nothing.
NO_ROWS = {"missing": 0, "rows": 0, "users": 0}
QUOTING_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@dataclass(frozen=True, repr=False)
class ReleaseQuery:
    """A release as a query that has not run: rows in, released items out."""

    rows: DataFrame
    job: Job
    codec: Codec

    def items(
        self, missing: Observation | None = None, users: Observation | None = None
    ) -> DataFrame:
        """The released items, in no order.

        `missing` observes how many rows are not complete, and `users` how many users there are.
        """
        conversation, item = conversation_of(self.job.plan), self._item
        frame = self._rows_by_user(missing)
        if conversation is None:
            weigh = Weigh(self.job)
            given = census.observed(_step(frame, weigh, f"{item}, number bigint"), weigh, users)
            return _step(_summed(given), FlipCoins(self._lean), item)
        *before, last = steps_of(self.job, self._lean, conversation)
        for step in before:
            told = census.observed(_step(frame, step, COLUMNS), step, users)
            frame = self._shuffled(told)
        return _step(frame, last, item)

    def set_sizes(self) -> DataFrame:
        """How many users have sets of each class of sizes, partition by partition. PRIVATE."""
        counted = "class bigint, number bigint"
        return _step(self._rows_by_user(), CountSizes(self.job), counted)

    def counts(self, released: pa.Array) -> DataFrame:
        """Noisy numbers of users of released items, in no order."""
        from pyspark.sql import functions as f

        counted = f"{self._item}, number bigint"
        held = _step(self._rows_by_user(), Count(self._lean, released), counted)
        session = self.rows.sparkSession
        all_items = session.createDataFrame(pa.table({"item": released.cast(self.job.item_type)}))
        joined = all_items.join(_summed(held), "item", "left")
        number = f.coalesce(f.col("number"), f.lit(0).cast("bigint")).alias("number")
        return _step(joined.select("item", number), AddNoise(self._lean), counted)

    @property
    def _item(self) -> str:
        return "item bigint" if pa.types.is_integer(self.job.item_type) else "item string"

    @property
    def _lean(self) -> Job:
        return replace(self.job, prior=None, public=None)

    def _rows_by_user(self, missing: Observation | None = None) -> DataFrame:
        from pyspark.sql import functions as f

        rows = self.rows
        if missing is not None:
            incomplete = f.col("user").isNull() | f.col("item").isNull()
            rows = rows.observe(
                missing, f.count_if(incomplete).alias("missing"), f.count(f.lit(1)).alias("rows")
            )
        return self._shuffled(_step(rows, SendRows(self._lean), COLUMNS))

    def _shuffled(self, frame: DataFrame) -> DataFrame:
        """Bring the messages to each partition together."""
        if hasattr(frame, "repartitionById"):
            return frame.repartitionById(self.job.partitions, "to")
        # Before Spark 4.1, our partitions are hashed to those of Spark: some get two and some none.
        return frame.repartition(self.job.partitions, "to")


@dataclass(frozen=True, repr=False)
class KeyedRows:
    """Columns `user` and `item`, the type of the ids of items, and which values they stand for."""

    frame: DataFrame
    item_type: pa.DataType
    codec: Codec


def rows_of(frame: DataFrame, plan: Plan, public: PublicItems | None = None) -> KeyedRows:
    """Columns `user` and `item` of the types that ids have, or that become ids; no row is read.

    Cells that have no id of that type become null, as on one machine. What the names and the types
    of columns show to be wrong is refused.
    """
    user, item = plan.user, plan.item
    columns = wanted(user.columns, item.columns, None, types=(user.type, item.type))
    if not hasattr(frame, "sparkSession"):
        raise ParameterError(
            f"df is a {type(frame).__name__}, not a Spark DataFrame; dpsu.release takes other data"
        )
    names = pick(
        [column.name for column in columns],
        failing_quietly(lambda: frame.columns),
        options=[column.option for column in columns],
    )
    types = failing_quietly(lambda: frame.select(*map(column_named, names)).schema)
    frame, columns_of = with_lists_as_rows(frame, columns, [field.dataType for field in types])
    found = {
        option: [part for part in columns_of if part.column.option == option]
        for option in ("user", "item")
    }
    keys, typed = Keys(), [(part.column, part.arrow) for part in found["item"]]
    refuse_equal_names(typed)
    keys.note(typed)
    if public is not None:
        public.refuse_other_than(keys.codec)
    ids = [key_of(found[option]).alias(option) for option in ("user", "item")]
    item_type = pa.string()
    if len(found["item"]) == 1 and found["item"][0].kind == INTEGERS:
        item_type = pa.int64()
    if public is not None:
        public.as_type(item_type)
    return KeyedRows(frame.select(*ids), item_type, keys.codec)


def query(
    frame: DataFrame,
    plan: Plan,
    key: Key,
    *,
    prior: Prior | None = None,
    public: PublicItems | None = None,
    strict: bool = False,
    partitions: int | None = None,
) -> ReleaseQuery:
    """Prepare a release of the columns that the plan names. Refuses what Spark cannot run."""
    refuse_what_spark_cannot(plan)
    keyed = rows_of(frame, plan, public)
    rows = keyed.frame
    if partitions is None:
        found = failing_quietly(rows.count)
        partitions = min(MOST_PARTITIONS, max(1, -(-found // ROWS_IN_PARTITION)))
    # Public data travel once, beside the plan.
    lean = plan.with_knowledge(PublicData())
    job = Job(lean, key, partitions, keyed.item_type, prior, public, strict)
    return ReleaseQuery(rows, job, keyed.codec)


def chosen(query: ReleaseQuery) -> ReleaseQuery:
    """The same query by the plan that an estimate of set sizes chooses, in a job of its own."""
    job = query.job
    assert isinstance(job.plan.selection, Choice)
    with _cleaned_up(query.rows.sparkSession):
        table = failing_quietly(lambda: query.set_sizes().toArrow())
    counted = np.zeros(CLASSES, np.int64)
    np.add.at(counted, table["class"].to_numpy(), table["number"].to_numpy())
    ids = job.plan.privacy.ids_per_person
    hints = estimate(counted, job.key, job.plan.selection.epsilon, ids)
    return replace(query, job=replace(job, plan=job.plan.chosen(hints)))


def run(query: ReleaseQuery) -> pa.Array:
    """Released items, sorted, in the type of the private items."""
    from pyspark.sql import Observation

    job, missing, users = query.job, Observation(), Observation()
    with _cleaned_up(query.rows.sparkSession):
        table = failing_quietly(lambda: query.items(missing, users).toArrow())
    type_ = pa.int64() if pa.types.is_integer(job.item_type) else pa.large_string()
    found = pa.concat_arrays([pa.nulls(0, type_), *table["item"].cast(type_).chunks])
    _warn(job, NO_ROWS | census.seen(missing) | census.seen(users))
    if job.public is not None:
        found = pa.concat_arrays([found, job.public.as_type(found.type)])
    return found.take(pc.sort_indices(found))


def count(query: ReleaseQuery, released: pa.Array) -> pa.Array:
    """Noisy numbers of users of the released items, in their order."""
    with _cleaned_up(query.rows.sparkSession):
        table = failing_quietly(lambda: query.counts(released).toArrow())
    at = pc.index_in(released, value_set=table["item"].cast(released.type).combine_chunks())
    return table["number"].combine_chunks().take(at)


def refuse_what_spark_cannot(plan: Plan) -> None:
    """Refuse what only one machine can do: users in an order, and texts."""
    if plan.user.names == (ONE_PER_ENTRY,):
        raise ParameterError(
            f"user={ONE_PER_ENTRY!r} is for one machine: Spark may compute rows again, in another "
            "order, so that they have no ids; give a column of users"
        )
    if plan.text is not None and plan.mechanism.parallel:
        raise ParameterError("texts are for one machine, not for Spark; give a column of items")
    if isinstance(plan.mechanism, Auto) and plan.mechanism.among != PARALLEL:
        raise ParameterError(
            "this plan may come to a mechanism that cannot run on Spark; plan it with "
            "mechanism=dpsu.Auto(among='parallel')"
        )
    if not plan.mechanism.parallel:
        raise ParameterError(
            f"{plan.name} cannot run on Spark: its users act one after the other, each "
            "knowing what those before it gave; choose sieve, which releases most of the "
            "mechanisms that run in parallel"
        )


def files_of(frame: DataFrame) -> list[str]:
    """Local files that a frame reads, as far as Spark tells; no row is read."""
    found: list[str] = []
    with suppress(Exception):
        found = list(failing_quietly(frame.inputFiles))
    return [unquote(urlsplit(name).path) for name in found if urlsplit(name).scheme == "file"]


def failing_quietly(act: Callable[[], T]) -> T:
    """Run a Spark action; its error message may quote cells, so it is not passed on."""
    condition = message = ""
    try:
        with warnings.catch_warnings(), _unlogged():
            # These warnings are about versions of pandas, which is not used.
            warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
            return act()
    except DpsuError:
        raise
    except Exception as error:
        message = str(error)
        condition = str(getattr(error, "getCondition", lambda: None)() or type(error).__name__)
    ours = re.search(re.escape(FAILED) + r"(\w+): ([^\n]*)", message)
    if ours is None:
        unexpected = re.search(re.escape(FAILED) + r"([^\n]*)", message)
        where = unexpected.group(1) if unexpected else condition
        raise DataError(
            f"Spark could not finish the job ({where}); nothing was released. Logs of the cluster "
            "say more, and may quote private values"
        )
    kind = ResourceError if ours.group(1) == "ResourceError" else DataError
    raise kind(ours.group(2).strip())


def _step(frame: DataFrame, step: Any, columns: str) -> DataFrame:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
        return frame.mapInArrow(Guarded(step), columns)


def _summed(frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as f

    return frame.groupBy("item").agg(f.sum("number").alias("number"))


@contextmanager
def _unlogged() -> Iterator[None]:
    """Keep PySpark from printing errors that quote cells before anybody can catch them."""
    from pyspark.logger import PySparkLogger

    # Made by PySpark's own class: PySpark cannot use loggers that another class made.
    loggers = [PySparkLogger.getLogger(name) for name in QUOTING_LOGGERS]
    before = [logger.disabled for logger in loggers]
    try:
        for logger in loggers:
            logger.disabled = True
        yield
    finally:
        for logger, was in zip(loggers, before, strict=True):
            logger.disabled = was


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


def _warn(job: Job, seen: dict[str, int]) -> None:
    """Warn the curator as the local engine does."""
    plan = job.plan
    if seen["missing"]:
        problem = f"some rows have no {plan.user.name!r} or no {plan.item.name!r}"
        warn(f"{problem}; they were ignored")
    if seen["missing"] == seen["rows"]:
        problem = f"no row has both {plan.user.name!r} and {plan.item.name!r}"
        if job.strict:
            raise DataError(f"{problem}; check what was read")
        warn(f"{problem}; nothing can be released")
    elif 1 < seen["rows"] - seen["missing"] == seen["users"]:
        question_users("row", plan.user.name)
