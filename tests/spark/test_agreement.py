"""Spark and the local engine: the same key and the same data give the same release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
import dpsu.spark
from tests.support import clusters, flat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

KINDS = ("text-text", "int-int", "int-text", "text-int")
BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}


def both(df: DataFrame, table: pa.Table, seed: int, **options: Any) -> dpsu.Release:
    """The release of the local engine, after comparing it with that of Spark."""
    partitions = options.pop("partitions", 3)
    if "mechanism" not in options and "rounds" not in options:
        # By default, Spark chooses among what runs there.
        options["among"] = "parallel"
    here = flat.release(table, insecure_seed=seed, **BUDGET, **options)
    there = flat.spark_release(
        df, insecure_seed=seed, partitions=partitions, **BUDGET, **options
    ).released
    assert there.items == here.items
    assert there.values.type == here.values.type
    assert there.plan == here.plan
    facts = [json.loads(found.report_json()) for found in (here, there)]
    # Each run is one of its own.
    first, second = (told.pop("run") for told in facts)
    assert first["id"] != second["id"]
    assert facts[0] == facts[1]
    assert (there.counts is None) == (here.counts is None)
    if here.counts is not None and there.counts is not None:
        assert there.counts.to_pylist() == here.counts.to_pylist()
    return here


@pytest.mark.parametrize("nth", range(len(clusters.OFFERED)))
def test_every_mechanism_agrees(spark: SparkSession, nth: int) -> None:
    mechanism, options = clusters.OFFERED[nth]
    # Mechanisms take the kinds of ids, and the ways in which a frame is cut, in turns.
    turn = nth % len(KINDS)
    table = clusters.random_table(np.random.default_rng(nth), KINDS[turn])
    # As it comes, in one part, or by another column: partitions must not matter.
    df = spark.createDataFrame(table)
    df = [df, df.coalesce(1), df.repartition(5, "item"), df.repartition(2)][turn]
    partitions = (1, 2, 3, 7)[turn]
    assert len(both(df, table, turn, mechanism=mechanism, partitions=partitions, **options)) > 3


def test_an_approved_plan_runs_here_and_there(spark: SparkSession, tmp_path: Path) -> None:
    table = clusters.random_table(np.random.default_rng(4), "text-text", 600)
    made = dpsu.plan(mechanism=dpsu.Sips(rounds=2), insecure_seed=4, **BUDGET)
    plan = dpsu.Plan.from_json(made.to_json())
    frame = spark.createDataFrame(table)
    with pytest.warns(dpsu.DataWarning, match="insecure_seed") as told:
        here = dpsu.release(table, plan)
    with pytest.warns(dpsu.DataWarning, match="insecure_seed") as told_there:
        there = dpsu.spark.release(frame, plan, partitions=2)
    assert {warning.filename for warning in [*told, *told_there]} == {__file__}
    assert len(here) > 3
    assert there.released == here
    assert there.plan.hash == here.plan.hash == made.hash
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


def test_one_item_each_is_counted_at_once(spark: SparkSession) -> None:
    """Users with one item each are seen by the estimate, here and there."""
    # Two rows a user: a row for each would be taken for a wrong column of users.
    users = np.repeat(np.arange(3000), 2)
    table = pa.table({"user": users, "item": users % 40})
    made = both(spark.createDataFrame(table), table, 9)
    assert made.plan.mechanism == dpsu.CountLaplace(max_items=1)
    assert made.plan.hints is not None
    assert made.plan.hints.epsilon > 0
    assert len(made) == 40


@pytest.mark.parametrize(
    "options",
    [
        {"mechanism": "weighted-gaussian", "max_items": 3, "prior": {"w3": 9.0, "ü 1": 2, "q": 1}},
        {"mechanism": "reroute", "max_items": 3, "prior": {"w3": 9.0, "ü 2": 2}},
        {"mechanism": "weighted-laplace", "public_items": ["w3", "not held", "e\u0301"]},
        {"mechanism": "sieve", "rounds": 4, "public_items": ["w3", "not held"]},
        {"mechanism": "sips", "counts": True, "counts_items": 2},
        {"mechanism": "count-gaussian", "counts": True, "public_items": ["not held"]},
        {"expected_items_per_user": 30, "expected_users": 1000},
    ],
    ids=str,
)
def test_options_agree(spark: SparkSession, options: dict[str, Any]) -> None:
    table = clusters.random_table(np.random.default_rng(5), "int-text")
    assert len(both(spark.createDataFrame(table), table, 5, **options)) > 0


def test_integer_types_and_odd_names(spark: SparkSession) -> None:
    table = clusters.random_table(np.random.default_rng(6), "int-int")
    df = spark.createDataFrame(table)
    df = df.selectExpr("cast(user as smallint) as `a person`", "cast(item as int) as `it.em``s`")
    named = table.rename_columns(["a person", "it.em`s"])
    released = both(df, named, 6, mechanism="sips", user="a person", item="it.em`s")
    found = flat.spark_release(
        df, user="a person", item="it.em`s", mechanism="sips", insecure_seed=6, **BUDGET
    )
    assert found.items.columns == ["it.em`s"]
    assert [row[0] for row in found.items.collect()] == list(released.items)
    assert found.plan == released.plan
    assert found.private is False
    assert "sips" in found.report()


def test_rows_that_are_not_there(spark: SparkSession) -> None:
    rows = pa.table({"user": ["a", None, "b", "c"] * 20, "item": ["x", "y", None, "x"] * 20})
    df = spark.createDataFrame(rows)
    with pytest.warns(dpsu.DataWarning, match="some rows have no 'user' or no 'item'"):
        both(df, rows, 1, mechanism="weighted-laplace")
    with pytest.raises(dpsu.DataError, match="some rows have no 'user'"):
        flat.spark_release(df, strict=True, **BUDGET)
    for mechanism in ("sieve", "weighted-gaussian"):
        with pytest.warns(dpsu.DataWarning, match="nothing can be released"):
            empty = flat.spark_release(
                df.limit(0), mechanism=mechanism, public_items=["p"], **BUDGET
            )
        assert empty.released.items == ("p",)
        assert empty.private


@pytest.mark.parametrize("mechanism", ["weighted-gaussian", "sieve"])
def test_skew(spark: SparkSession, mechanism: str) -> None:
    """One item that half of all users hold, and one user with a million items."""
    from pyspark.sql import functions as f

    users, many = 40_000, 1_000_000
    spread = [
        (np.arange(users), np.arange(users) % 500),
        (np.arange(0, users, 2), np.zeros(users // 2, int)),
    ]
    user = np.concatenate([u for u, _ in spread] + [np.full(many, -1)])
    item = np.concatenate([i for _, i in spread] + [np.arange(many)])
    table = pa.table({"user": user, "item": item})
    wide = spark.range(many).select(
        f.lit(-1).cast("bigint").alias("user"), f.col("id").alias("item")
    )
    df = spark.createDataFrame(table.slice(0, len(table) - many)).union(wide)
    options = {"mechanism": mechanism, **({"rounds": 4} if mechanism == "sieve" else {})}
    assert len(both(df, table, 3, partitions=4, **options)) > 300


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
