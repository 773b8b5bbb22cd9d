"""What only Spark owes, beside the contract of all engines (`test_engines`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dpsu
import dpsu.spark
from dpsu.plans.mechanisms import MECHANISMS, Mechanism
from tests.contracts import assertions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEQUENTIAL = [
    pytest.param(assertions.usual(kind), id=name)
    for name, kind in MECHANISMS.items()
    if not kind.parallel
]


def test_released_items_are_a_frame(spark: SparkSession) -> None:
    table = assertions.data_of(dpsu.Sips())
    plan = dpsu.Plan.from_json(assertions.plan_of(dpsu.Sips(rounds=2)).to_json())
    found = dpsu.spark.release(spark.createDataFrame(table), plan, partitions=2)
    assert found.released == dpsu.release(table, plan)
    assert found.released.plan_hash == plan.hash
    assert [row[0] for row in found.items.collect()] == list(found.released.items)
    assert plan.hash in found.report()


@pytest.mark.parametrize("mechanism", SEQUENTIAL)
def test_spark_refuses_mechanisms_whose_users_act_in_turn(
    spark: SparkSession, mechanism: Mechanism
) -> None:
    frame = spark.createDataFrame(assertions.data_of(mechanism))
    with pytest.raises(dpsu.ParameterError, match=mechanism.name):
        dpsu.spark.release(frame, assertions.plan_of(mechanism))


def test_a_spark_frame_is_sent_to_the_door_for_it(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("u", "a")], ["user", "item"])
    with pytest.raises(dpsu.ParameterError, match=r"dpsu\.spark\.release"):
        dpsu.release(frame, epsilon=1, delta=1e-6)
