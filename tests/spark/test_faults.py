"""Tasks fail, workers are killed: the release is the same, or there is none."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dpsu
import dpsu.spark
from dpsu.engines.cluster import engine as cluster
from dpsu.engines.cluster.steps import Guarded
from dpsu.engines.spark import beforehand
from dpsu.engines.spark.query import SparkData
from dpsu.randomness.keys import Key
from tests.spark import ending, flaky
from tests.support import clusters, flat
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}


@pytest.fixture
def sent_by_value() -> Any:
    """Workers know the package, not the tests."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    for module in (ending, flaky):
        cloudpickle.register_pickle_by_value(module)
    yield
    for module in (ending, flaky):
        cloudpickle.unregister_pickle_by_value(module)


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


@pytest.mark.usefixtures("sent_by_value")
def test_a_job_that_is_lost_says_what_it_cost(spark: SparkSession, tmp_path: Path) -> None:
    """Somebody cancels it, or the Python of a task dies whenever it is tried: data are not wrong.

    Without a ledger it is said what may count.
    """
    # That workers are ready is asked by a job of its own, which is not the one that is ended here.
    beforehand.refuse_unready_workers(spark)
    context, ledger = spark.sparkContext, dpsu.Ledger(tmp_path / "ledger.db")
    visits = ledger.dataset("visits", budget=(9, 0.4))
    df = spark.range(200).selectExpr("id % 100 as user", "id % 5 as item")
    options: dict[str, Any]
    charged, uncharged = "(4, 0.05) stays charged to 'visits'", "No ledger was charged; count (4"
    for step, given, name, cost in (
        (ending.wait, {"ledger": visits}, "SPARK_JOB_CANCELLED", charged),
        (ending.wait, {}, "SPARK_JOB_CANCELLED", uncharged),
        (flaky.die, {"ledger": visits}, "java.io.EOFException", charged),
    ):
        if step is ending.wait:
            cancel = (context, ending.ENDS["cancel"])
            threading.Thread(target=ending.end_once_it_runs, args=cancel, daemon=True).start()
        lost = df.mapInArrow(step, df.schema)
        options = {"mechanism": "weighted-gaussian", "partitions": 2, **BUDGET, **given}
        with pytest.raises(dpsu.JobLostError) as caught:
            dpsu.spark.release(lost, **options)
        said = str(caught.value)
        assert (f"the job ({name}); nothing was released" in said, cost in said) == (True, True), (
            said
        )
        assert caught.value.exit_code == 75
    assert [each.state for each in ledger.account("visits").releases] == ["pending"] * 2


@pytest.mark.slow
def test_a_job_or_session_that_is_ended_is_tried_again_by_the_shell(tmp_path: Path) -> None:
    rows, script = tmp_path / "rows.csv", Path(ending.__file__)
    rows.write_text("user,item\n" + "".join(f"u{u},a\n" for u in range(100)))
    spend = ("--ledger", str(tmp_path / "ledger.db"), "--dataset", "visits", "--budget", "9,1e-3")
    for end in ending.ENDS:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(script), end, "release", str(rows),
             "--epsilon", "1", "--delta", "1e-6", "--mechanism", "weighted-gaussian",
             "--engine", "spark", "--master", "local[2]", *spend],
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (75, ""), done.stderr
        assert "nothing was released. It was canceled" in done.stderr, end
        assert "(1, 1e-06) stays charged to 'visits'" in done.stderr, end
        # Of a Java that was killed PySpark tells, too.
        assert end == "kill" or done.stderr.count("\n") == 1, done.stderr
