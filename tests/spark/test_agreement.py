"""Spark and the local engine: the same key and the same data give the same release."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
import dpsu.spark
from dpsu.plans.mechanisms import Mechanism
from tests.contracts.comparing import check_same, on_spark
from tests.support import clusters, flat
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

KINDS = ("text-text", "int-int", "int-text", "text-int")
BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}
ONE_SHOT, ROUNDS = dpsu.WeightedGaussian(max_items=4), dpsu.Sieve(rounds=3)


@pytest.mark.thorough
@every("nth", range(len(clusters.OFFERED)))
def test_every_mechanism_agrees(spark: SparkSession, nth: int) -> None:
    mechanism, options = clusters.OFFERED[nth]
    # Mechanisms take the kinds of ids, and the ways in which a frame is cut, in turns.
    turn = nth % len(KINDS)
    table = clusters.random_table(np.random.default_rng(nth), KINDS[turn])
    # As it comes, in one part, or by another column: partitions must not matter.
    cuts: list[Callable[[Any], Any]] = [
        lambda df: df, lambda df: df.coalesce(1), lambda df: df.repartition(5, "item"),
        lambda df: df.repartition(2),
    ]  # fmt: skip
    plan = flat.plan(mechanism=mechanism, insecure_seed=turn, **BUDGET, **options)
    here, _ = check_same(on_spark(spark, (1, 2, 3, 7)[turn], cuts[turn]), table, plan)
    assert len(here) > 3


def test_an_approved_plan_runs_here_and_there(spark: SparkSession, tmp_path: Path) -> None:
    table = clusters.random_table(np.random.default_rng(4), "text-text", 600)
    made = dpsu.plan(mechanism=dpsu.Sips(rounds=2), insecure_seed=4, **BUDGET)
    plan = dpsu.Plan.from_json(made.to_json())
    frame = spark.createDataFrame(table)
    with pytest.warns(dpsu.DataWarning, match="insecure_seed") as told:
        here = dpsu.release(table, plan)
    with pytest.warns(dpsu.DataWarning, match="insecure_seed") as told_there:
        there = dpsu.spark.release(frame, plan, partitions=2)
    ours = [each for each in [*told, *told_there] if each.category is dpsu.DataWarning]
    assert {warning.filename for warning in ours} == {__file__}
    assert len(here) > 3
    assert there.released == here
    assert there.plan.hash == here.plan.hash == there.released.plan_hash == made.hash
    assert [row[0] for row in there.items.collect()] == list(here.items)
    assert made.hash in there.report()
    with pytest.raises(dpsu.ParameterError, match="the plan decides epsilon"):
        dpsu.spark.release(spark.createDataFrame(table), plan, epsilon=1)
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    private = dpsu.plan(mechanism=dpsu.Sips(rounds=2), **BUDGET)
    paid = dpsu.spark.release(
        spark.createDataFrame(table), private, partitions=2,
        ledger=ledger.dataset("visits", budget=(9, 0.1)),
    )  # fmt: skip
    (entry,) = ledger.account("visits").releases
    assert (entry.run, entry.plan_hash) == (paid.released.run.id, private.hash)


def test_rows_that_are_not_there(spark: SparkSession) -> None:
    rows = pa.table({"user": ["a", None, "b", "c"] * 20, "item": ["x", "y", None, "x"] * 20})
    plan = dpsu.plan(mechanism="weighted-laplace", insecure_seed=1, **BUDGET)
    _, told = check_same(on_spark(spark), rows, plan)
    assert any(each.startswith("some rows have no 'user' or no 'item'") for each in told)
    df = spark.createDataFrame(rows)
    with pytest.raises(dpsu.DataError, match="some rows have no 'user'"):
        flat.spark_release(df, strict=True, **BUDGET)
    with pytest.warns(dpsu.DataWarning, match="nothing can be released"):
        empty = flat.spark_release(df.limit(0), mechanism="sieve", public_items=["p"], **BUDGET)
    assert empty.released.items == ("p",)
    assert empty.private


@pytest.mark.thorough
@every("mechanism", [ONE_SHOT, ROUNDS])
def test_skew(spark: SparkSession, mechanism: Mechanism) -> None:
    """One item that half of all users hold, and one user with a million items."""
    from pyspark.sql import functions as f

    users, many = 40_000, 1_000_000
    spread = [
        (np.arange(users), np.arange(users) % 500),
        (np.arange(0, users, 2), np.zeros(users // 2, int)),
    ]
    user = np.concatenate([u for u, _ in spread])
    item = np.concatenate([i for _, i in spread])
    few = pa.table({"user": user, "item": item})
    one = pa.table({"user": np.full(many, -1), "item": np.arange(many)})
    wide = spark.range(many).select(
        f.lit(-1).cast("bigint").alias("user"), f.col("id").alias("item")
    )
    plan = dpsu.plan(mechanism=mechanism, insecure_seed=3, **BUDGET)
    here = dpsu.release(pa.concat_tables([few, one]), plan)
    there = dpsu.spark.release(spark.createDataFrame(few).union(wide), plan, partitions=4)
    assert there.released == here
    assert len(here) > 300


def test_without_a_seed_releases_differ(spark: SparkSession) -> None:
    """Fresh keys: at a budget where much is left to chance, three releases are hardly one."""
    rows = pa.table({"user": [*range(400)] * 2, "item": [k % 80 for k in range(400)] * 2})
    df = spark.createDataFrame(rows)
    found = {
        dpsu.spark.release(df, mechanism="weighted-gaussian", partitions=1, epsilon=1, delta=0.02)
        .released.items
        for _ in range(3)
    }  # fmt: skip
    assert len(found) == 3


ADAPTIVE = "spark.sql.adaptive"
# Adaptive plans change the number of partitions of a shuffle while they run; the last two make
# them change it as often as they can.
PLANS: dict[str, dict[str, str]] = {
    "fixed": {f"{ADAPTIVE}.enabled": "false"},
    "adaptive": {f"{ADAPTIVE}.enabled": "true"},
    "few large partitions": {
        f"{ADAPTIVE}.enabled": "true",
        f"{ADAPTIVE}.coalescePartitions.parallelismFirst": "false",
        f"{ADAPTIVE}.advisoryPartitionSizeInBytes": "1g",
    },
    "many small partitions": {
        f"{ADAPTIVE}.enabled": "true",
        f"{ADAPTIVE}.advisoryPartitionSizeInBytes": "1b",
        f"{ADAPTIVE}.coalescePartitions.minPartitionSize": "1b",
        f"{ADAPTIVE}.skewJoin.skewedPartitionThresholdInBytes": "1b",
        f"{ADAPTIVE}.skewJoin.skewedPartitionFactor": "1",
        f"{ADAPTIVE}.autoBroadcastJoinThreshold": "-1",
    },
}


@contextmanager
def settings(spark: SparkSession, changed: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in changed}
    try:
        for name, value in changed.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, was in before.items():
            if was is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, was)


@pytest.mark.thorough
@every("name", PLANS)
def test_adaptive_plans_change_nothing(spark: SparkSession, name: str) -> None:
    table = clusters.random_table(np.random.default_rng(2), "int-text")
    with settings(spark, PLANS[name]):
        for mechanism in (ONE_SHOT, ROUNDS):
            plan = dpsu.plan(mechanism=mechanism, counts=True, insecure_seed=5, **BUDGET)
            check_same(on_spark(spark, 3, lambda df: df.repartition(4)), table, plan)


@pytest.mark.thorough
@every("partitions", [40, 2_000])
def test_many_partitions(spark: SparkSession, partitions: int) -> None:
    """Each would be a task in every shuffle, so that few rows do not get as many as asked for."""
    table = clusters.random_table(np.random.default_rng(4), "int-text", 3000)
    plan = dpsu.plan(mechanism=ONE_SHOT, insecure_seed=5, **BUDGET)
    check_same(on_spark(spark, partitions), table, plan)


def test_users_of_several_columns_and_texts_that_are_lost(spark: SparkSession) -> None:
    table = clusters.random_texts(np.random.default_rng(6), 200)
    days = pa.array(np.arange(len(table)) % 2 + 19000, pa.int32()).cast(pa.date32())
    table = table.append_column("day", days)
    lost = pa.table({
        "user": ["x", "y", None], "body": [None, "secret" * 999, "w1"], "day": days.slice(0, 3)
    }, schema=table.schema)  # fmt: skip
    plan = dpsu.plan(
        user=["user", "day"], item=dpsu.Tokens("body"), mechanism="weighted-gaussian",
        insecure_seed=3, **BUDGET,
    )  # fmt: skip
    table = pa.concat_tables([table, lost]).combine_chunks()
    assert len(check_same(on_spark(spark), table, plan)[0]) > 3
    with pytest.raises(dpsu.DataError, match="do without strict") as refused:
        dpsu.spark.release(spark.createDataFrame(table), plan, strict=True)
    assert "secret" not in str(refused.value)
    assert not check_same(on_spark(spark, None), lost, plan, some=False)[0].items


@every(
    ("columns", "words"),
    [
        ("user int, bodies string", "did you mean 'bodies'"),
        ("user int, body int", "texts must be text"),
        ("user int, body array<string>", "give one row for each item"),
    ],
)
def test_columns_that_are_no_texts(spark: SparkSession, columns: str, words: str) -> None:
    with pytest.raises((dpsu.DataError, dpsu.ParameterError), match=words):
        dpsu.spark.release(
            spark.createDataFrame([], columns), item=dpsu.Tokens("body"), epsilon=1, delta=1e-3
        )
