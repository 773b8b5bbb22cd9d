"""Texts on Spark: the same key and the same texts give the release of one machine."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsu
import dpsu.spark
from tests.spark.test_cli import SPARK
from tests.support import clusters
from tests.support.clusters import saved_tokenizer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "insecure_seed": 3}


def both(spark: SparkSession, table: pa.Table, **options: Any) -> dpsu.Release:
    """The release of one machine, which is that of Spark, with the same warnings."""
    with warnings.catch_warnings(record=True) as here:
        warnings.simplefilter("always", dpsu.DataWarning)
        expected = dpsu.release(table, **BUDGET, **options)
    with warnings.catch_warnings(record=True) as there:
        warnings.simplefilter("always", dpsu.DataWarning)
        found = dpsu.spark.release(spark.createDataFrame(table), **BUDGET, **options)
    assert found.released == expected
    assert found.plan == expected.plan
    told = [{str(each.message) for each in some} for some in (here, there)]
    assert told[0] == told[1]
    return expected


def test_users_of_several_columns_and_texts_that_are_lost(spark: SparkSession) -> None:
    table = clusters.random_texts(np.random.default_rng(6), 200)
    days = pa.array(np.arange(len(table)) % 2 + 19000, pa.int32()).cast(pa.date32())
    table = table.append_column("day", days)
    lost = pa.table({
        "user": ["x", "y", None], "body": [None, "secret" * 999, "w1"], "day": days.slice(0, 3)
    }, schema=table.schema)  # fmt: skip
    options: dict[str, Any] = {
        "user": ["user", "day"], "item": dpsu.Tokens("body"), "mechanism": "weighted-gaussian"
    }  # fmt: skip
    table = pa.concat_tables([table, lost]).combine_chunks()
    assert len(both(spark, table, **options)) > 3
    with pytest.raises(dpsu.DataError, match="do without strict") as refused:
        dpsu.spark.release(spark.createDataFrame(table), strict=True, **BUDGET, **options)
    assert "secret" not in str(refused.value)
    assert both(spark, table.slice(len(table) - 3), **options).items == ()


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
    "command", [["release", "--ngrams", "1-2", "--mechanism", "weighted-gaussian"], ["ngrams"]],
    ids=" ".join,
)  # fmt: skip
def test_texts_from_the_shell(tmp_path: Path, command: list[str]) -> None:
    table = clusters.random_texts(np.random.default_rng(9))
    pq.write_table(table, tmp_path / "posts.parquet")
    saved_tokenizer(tmp_path / "tokenizer.json")
    asked = [
        *command, str(tmp_path / "posts.parquet"), "--text", "body",
        "--tokenizer", str(tmp_path / "tokenizer.json"), "--epsilon", "4", "--delta", "0.05",
        "--insecure-seed", "3",
    ]  # fmt: skip
    here, there = (
        subprocess.run(
            [sys.executable, "-m", "dpsu", *asked, *more],
            capture_output=True, text=True, timeout=900, check=False, env=os.environ,
        )
        for more in ([], SPARK)
    )  # fmt: skip
    assert there.returncode == 0, there.stderr
    assert (there.stdout, there.stderr) == (here.stdout, here.stderr)
    assert there.stdout.count("\n") > 3
