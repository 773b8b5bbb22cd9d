"""Series and named releases on Spark: the same as on one machine, and spent as there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
import dpsu.spark
from dpsu.randomness.keys import Key
from dpsu.series.state import DONE, PENDING
from tests.spark.test_cli import SPARK
from tests.spark.test_cli import dpsu as command
from tests.support import clusters
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BUDGET: dict[str, Any] = {"epsilon": 6.0, "delta": 0.05}
PLAN: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "mechanism": "weighted-gaussian"}


@pytest.fixture
def same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each release of a test has the key that its twin has."""
    monkeypatch.setattr(Key, "from_os", classmethod(lambda cls: Key.from_insecure_seed(11)))


def months(kind: str) -> list[pa.Table]:
    return [clusters.random_table(np.random.default_rng(seed), kind, 900) for seed in (3, 4)]


@every(("mechanism", "kind"), [("sieve", "text-text"), ("weighted-laplace", "int-text")])
def test_periods_here_and_there_release_the_same(
    spark: SparkSession, same_key: None, tmp_path: Path, mechanism: Any, kind: str
) -> None:
    here = dpsu.Series.create(
        tmp_path / "here", periods=3, mechanism=mechanism,
        counts=mechanism == "weighted-laplace", **BUDGET,
    )  # fmt: skip
    shutil.copytree(here.path, tmp_path / "there")
    there = dpsu.Series(tmp_path / "there")
    found = []
    for number, table in enumerate(months(kind), start=1):
        frame = spark.createDataFrame(table).repartition(3)
        released = there.release(frame, partitions=2)
        assert released == here.release(table)
        assert there.stored(number) == released
        found.append(len(released))
    assert there.items == here.items
    assert len(there.items) == sum(found) > 5
    # What is known now is known to the other engine, too.
    assert found[0] > 0
    assert there.release(None, period=2) == there.stored(2)


def test_what_fails_costs_no_further_period(spark: SparkSession, tmp_path: Path) -> None:
    series = dpsu.Series.create(tmp_path / "s", periods=2, mechanism="weighted-laplace", **BUDGET)
    frame = spark.range(200).selectExpr("id % 100 as user", "id % 5 as item")
    for wrong, options, message in (
        (frame.selectExpr("user as who", "item"), {}, "the plan names it"),
        (frame, {"format": "csv"}, "format='csv' is for one machine"),
        (frame, {"memory_limit": "4GB"}, "memory_limit='4GB' is for one machine"),
        (frame, {"partitions": 0}, "partitions=0"),
        ({"a": ["b"]}, {"partitions": 2}, "partitions=2 is for Spark"),
    ):
        with pytest.raises(dpsu.ParameterError, match=message):
            series.release(wrong, **options)
    assert series.left == 2
    dying = frame.selectExpr("raise_error('died') as user", "item")
    with pytest.raises(dpsu.DataError, match="nothing was released"):
        series.release(dying.selectExpr("cast(user as bigint) as user", "item"), partitions=2)
    assert [each.state for each in series.history] == [PENDING]
    assert len(series.release(frame, partitions=2)) == 5
    assert [each.state for each in series.history] == [DONE]
    one_by_one = dpsu.Series.create(tmp_path / "g", periods=2, mechanism="greedy", **BUDGET)
    with pytest.raises(dpsu.ParameterError, match="greedy cannot run on Spark"):
        one_by_one.release(frame)
    assert one_by_one.left == 2


def test_a_named_release_is_made_once_here_or_there(spark: SparkSession, tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    dataset = ledger.dataset("visits", budget=(9, 0.2), once="monday")
    table = clusters.random_table(np.random.default_rng(4), "text-text", 600)
    frame = spark.createDataFrame(table)
    never_read = frame.selectExpr("raise_error('read') as user", "item")
    # What failed runs again under its charge.
    with pytest.raises(dpsu.DpsuError, match="nothing was released"):
        dpsu.spark.release(never_read, **PLAN, partitions=2, ledger=dataset)
    first = dpsu.spark.release(frame, **PLAN, partitions=2, ledger=dataset)
    assert len(first) > 3
    again = dpsu.spark.release(never_read, **PLAN, ledger=dataset)
    assert again.released == first.released
    assert again.released.run == first.released.run
    assert again.items.collect() == first.items.collect()
    assert dpsu.release(table.slice(0, 0), **PLAN, ledger=dataset) == first.released
    with pytest.raises(dpsu.ParameterError, match="begun by another plan"):
        dpsu.spark.release(frame, **(PLAN | {"epsilon": 1.0}), ledger=dataset)
    assert [each.state for each in ledger.account("visits").releases] == ["done"]
    with pytest.raises(dpsu.ParameterError, match="not a Spark DataFrame"):
        dpsu.spark.release(table, **PLAN, ledger=dataset)


@pytest.mark.thorough
def test_the_command_line(tmp_path: Path) -> None:
    rows = pa.table({"user": [*range(600)] * 2, "item": ["bread"] * 600 + ["milk"] * 600})
    for name, table in (("1", rows.slice(0, 600)), ("2", rows)):
        pyarrow.parquet.write_table(table, tmp_path / f"{name}.parquet")
    state, book = str(tmp_path / "v"), ["--ledger", str(tmp_path / "l.db"), "--dataset", "v"]
    votes = ["--mechanism", "weighted-laplace"]
    made = command(
        "series", "new", state, "--periods", "2", "--epsilon", "3", "--delta", "1e-5", *votes
    )
    assert made.returncode == 0, made.stderr
    first = command("series", "next", state, str(tmp_path / "1.parquet"), "--quiet")
    assert first.stdout == "bread\n", first.stderr
    second = ["series", "next", state, str(tmp_path / "2.parquet"), "--quiet", "--period", "2"]
    assert "--master is for --engine spark" in command(*second, "--master", "local[2]").stderr
    there = command(*second, *SPARK, "--partitions", "2")
    assert (there.returncode, there.stdout) == (0, "milk\n"), there.stderr
    # What is done needs no Java.
    again = command(*second, *SPARK, PATH="/nowhere", JAVA_HOME="")
    assert (again.returncode, again.stdout) == (0, "milk\n"), again.stderr
    once = ["release", str(tmp_path / "2.parquet"), "--epsilon", "1", "--delta", "1e-6", *book]
    once += [*votes, "--budget", "3,1e-5", "--once", "monday", *SPARK]
    found = command(*once, "--quiet")
    assert (found.returncode, found.stdout) == (0, "bread\nmilk\n"), found.stderr
    told = command(*once, PATH="/nowhere", JAVA_HOME="")
    assert (told.returncode, told.stdout) == (0, "bread\nmilk\n"), told.stderr
    assert "note: monday was released" in told.stderr
