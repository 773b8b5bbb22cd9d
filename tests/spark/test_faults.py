"""Tasks fail, workers are killed, executors vanish: the release is the same, or there is none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dpsu
import dpsu.spark
from dpsu.engines.cluster import engine as cluster
from dpsu.engines.cluster.steps import Guarded
from dpsu.engines.spark.query import SparkData
from dpsu.randomness.keys import Key
from tests.spark import flaky
from tests.support import clusters, flat
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}
ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def sent_by_value() -> Any:
    """Workers know the package, not the tests."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    cloudpickle.register_pickle_by_value(flaky)
    yield
    cloudpickle.unregister_pickle_by_value(flaky)


@pytest.mark.usefixtures("sent_by_value")
@every(
    ("mechanism", "options", "killed"),
    [("weighted-gaussian", {}, True), ("sips", {"rounds": 2}, False)],
)
def test_a_task_of_every_stage_dies_on_the_way(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    mechanism: str,
    options: dict[str, Any],
    killed: bool,
) -> None:
    table = clusters.random_table(np.random.default_rng(2), "int-text")
    df = spark.createDataFrame(table)
    given: dict[str, Any] = {
        "mechanism": mechanism,
        "max_items": 4,
        "insecure_seed": 2,
        **options,
        **BUDGET,
    }
    expected = flat.release(table, **given).items
    attempts: list[Any] = []

    def made(step: Any) -> Any:
        attempts.append(step)
        return flaky.Flaky(Guarded(step), killed=killed)

    monkeypatch.setattr(cluster, "Guarded", made)
    assert flat.spark_release(df, partitions=2, **given).released.items == expected
    assert len(attempts) >= 3
    assert len(expected) > 3


def test_a_job_that_dies_releases_nothing(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its error is all there is, and the next run draws a key of its own."""
    keys: list[bytes] = []
    wanted = SparkData.query

    def noted(data: SparkData, plan: dpsu.Plan, key: Key) -> Any:
        keys.append(key.secret)
        return wanted(data, plan, key)

    monkeypatch.setattr(SparkData, "query", noted)
    df = spark.range(200).selectExpr("id % 100 as user", "id % 5 as item")
    dying = df.selectExpr("raise_error('died') as user", "item").selectExpr(
        "cast(user as bigint) as user", "item"
    )
    with pytest.raises(dpsu.DataError, match="nothing was released"):
        flat.spark_release(dying, partitions=2, rounds=4, **BUDGET)
    assert len(flat.spark_release(df, partitions=2, rounds=4, **BUDGET).released) == 5
    assert len(set(keys)) == 2
