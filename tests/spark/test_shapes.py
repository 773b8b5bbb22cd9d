"""Shapes of data and of plans that clusters find hard: the release is that of one machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
import dpsu.spark
from tests.support import clusters

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:insecure_seed")]

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "insecure_seed": 5}
ONE_SHOT, ROUNDS = dpsu.WeightedGaussian(max_items=4), dpsu.Sieve(rounds=3)
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


def agreed(spark: SparkSession, table: pa.Table, partitions: int, **options: Any) -> int:
    """How many items both engines release, after comparing them."""
    here = dpsu.release(table, **BUDGET, **options)
    frame = spark.createDataFrame(table).repartition(4)
    there = dpsu.spark.release(frame, partitions=partitions, **BUDGET, **options).released
    assert there == here
    return len(here)


@pytest.mark.parametrize("plan", PLANS)
def test_adaptive_plans_change_nothing(spark: SparkSession, plan: str) -> None:
    table = clusters.random_table(np.random.default_rng(2), "int-text")
    with settings(spark, PLANS[plan]):
        assert agreed(spark, table, 3, mechanism=ONE_SHOT, counts=True) > 3
        assert agreed(spark, table, 3, mechanism=ROUNDS) > 3


@pytest.mark.slow
def test_many_partitions(spark: SparkSession) -> None:
    """Each would be a task in every shuffle, so that few rows do not get as many as asked for."""
    table = clusters.random_table(np.random.default_rng(4), "int-text", 3000)
    assert agreed(spark, table, 40, mechanism=ONE_SHOT) > 3
    assert agreed(spark, table, 2_000, mechanism=ONE_SHOT) > 3
