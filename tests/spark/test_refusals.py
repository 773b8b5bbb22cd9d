"""What Spark cannot run is refused before anything is read, with the way out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsu
import dpsu.spark
from tests.support import flat
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-3}


@every(
    ("columns", "options", "error", "words"),
    [
        ("user int, items string", {}, dpsu.ParameterError, "did you mean 'items'"),
        ("user int, item string, ITEM string", {}, dpsu.DataError, "AMBIGUOUS"),
        ("user int, item double", {}, dpsu.DataError, "type double.*--item-type integer"),
        ("user int, item map<string,int>", {}, dpsu.DataError, "one row for each item"),
        ("user int, item interval day", {}, dpsu.DataError, "convert it to text or integers"),
        ("user array<string>, item string", {}, dpsu.DataError, "a user is one value"),
        ("user int, item array<array<int>>", {}, dpsu.DataError, "lists of lists"),
        ("user int, item struct<a:double>", {}, dpsu.DataError, "round them"),
        ("user int, item string collate UTF8_LCASE", {}, dpsu.DataError, r"f\.lower\("),
        ("user string collate UNICODE, item int", {}, dpsu.DataError, "'user' has a collation"),
        ("user int, item array<struct<a:string collate UTF8_BINARY_RTRIM>>", {}, dpsu.DataError,
         "'item' has a collation"),
        ("user int, a int, item string collate UTF8_LCASE", {"item": ["a", "item"]},
         dpsu.DataError, "'item' has a collation"),
        ("user int, item string", {"item": "user"}, dpsu.ParameterError, "different columns"),
        ("user int, item string", {"partitions": 0}, dpsu.ParameterError, "partitions"),
        ("user int, item int", {"public_items": ["a"]}, dpsu.DataError, "not an integer"),
    ],
)  # fmt: skip
def test_refusals(
    spark: SparkSession, columns: str, options: dict[str, Any], error: type, words: str
) -> None:
    df = spark.createDataFrame([], columns)
    with pytest.raises(error, match=words):
        flat.spark_release(df, **BUDGET, **options)


def test_a_collation_is_refused_with_what_cures_it(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    df = spark.sql("select id % 300 as user, 'Ann' collate UTF8_LCASE as item from range(600)")
    for item in ("item", dpsu.Values("item")):
        with pytest.raises(dpsu.DataError, match="'item' has a collation") as caught:
            dpsu.spark.release(df, item=item, epsilon=1, delta=1e-6)
    cured = eval(str(caught.value).rpartition(": ")[2], {"df": df, "f": f})
    given: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "weighted-gaussian"}
    assert [*dpsu.spark.release(cured, **given).items.collect()] == [("ann",)]
    unread = dpsu.spark.release(df.selectExpr("*", "1 as x"), item="x", **given)
    assert [*unread.items.collect()] == [(1,)]


def test_one_machine_does_not_collect_a_cluster(spark: SparkSession) -> None:
    df = spark.createDataFrame([], "user int, item string")
    with pytest.raises(dpsu.ParameterError, match=r"dpsu\.spark\.release"):
        flat.release(df, **BUDGET)
    with pytest.raises(
        dpsu.ParameterError, match=r"spark\.read\.parquet.*dpsu\.release, which takes other data"
    ):
        flat.spark_release({1: ["a"]}, **BUDGET)


def test_a_file_of_private_data_is_no_public_one(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "private rows.parquet"
    pq.write_table(pa.table({"user": ["a", "b"], "item": ["secret a", "secret b"]}), path)
    frame = spark.read.parquet(str(path))
    with pytest.raises(dpsu.ParameterError, match="also given as public data"):
        dpsu.spark.release(frame, epsilon=1, delta=1e-6, public_items=frame)
    with pytest.raises(dpsu.ParameterError, match="public_items is the file of the confidential"):
        dpsu.spark.release(frame, epsilon=1, delta=1e-6, public_items=path)


@pytest.mark.thorough
def test_workers_without_the_package_are_refused_before_the_charge(tmp_path: Path) -> None:
    """PySpark starts another Python than this one where nobody says which."""
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    script = tmp_path / "session.py"
    script.write_text(SESSION, encoding="utf-8")
    ledger = tmp_path / "ledger.db"
    # Its workers find PySpark, which Spark puts on their path, and nothing else.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment |= {"PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    source = str(Path(dpsu.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, str(script), source, str(ledger)],
        capture_output=True, text=True, env=environment, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert "PYSPARK_PYTHON" in done.stdout, done.stdout + done.stderr[-2000:]
    assert "cannot load dpsu" in done.stdout
    assert not ledger.exists()


SESSION = """
import sys
sys.path.insert(0, sys.argv[1])
import dpsu, dpsu.spark
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.log.level", "OFF").getOrCreate()
frame = spark.createDataFrame([("a", "x"), ("a", "y")], "user string, item string")
ledger = dpsu.Ledger(sys.argv[2]).dataset("visits", budget=(3, 1e-5))
try:
    dpsu.spark.release(frame, epsilon=1, delta=1e-6, mechanism="sieve", ledger=ledger)
except dpsu.ParameterError as error:
    print(error)
"""
