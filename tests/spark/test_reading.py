"""Files and tables read by Spark are what the local reader reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
import dpsu.spark
from dpsu.engines.spark.reading import open_frame
from tests.support import flat
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CELLS = ['"a ""b"""', '"x\ny"', '""', "", "007", "é", " padded ", '"a,b"', "NA", "null"]
SEEDED: dict[str, Any] = {
    "epsilon": 4.0, "delta": 0.05, "mechanism": "weighted-laplace", "insecure_seed": 3,
}  # fmt: skip


@every("suffix", ["csv", "tsv"])
def test_cells_are_text(spark: SparkSession, tmp_path: Path, suffix: str) -> None:
    between = "," if suffix == "csv" else "\t"
    rows = [f"{user // 2}{between}{CELLS[user % len(CELLS)]}" for user in range(400)]
    for k in range(2):
        text = f"user{between}item\n" + "\n".join(rows[k::2]) + "\n"
        (tmp_path / f"{k}.{suffix}").write_text(text, encoding="utf-8")
    frame = open_frame(spark, [str(tmp_path)], None)
    assert frame.dtypes == [("user", "string"), ("item", "string")]
    with pytest.warns(dpsu.DataWarning, match="some rows have no"):
        here = flat.release(tmp_path, **SEEDED)
    with pytest.warns(dpsu.DataWarning, match="some rows have no"):
        there = flat.spark_release(frame, partitions=2, **SEEDED)
    assert there.released.items == here.items
    assert set(here) == {'a "b"', "x\ny", "", "007", "é", " padded ", "a,b", "NA", "null"}


@pytest.mark.filterwarnings("ignore:some rows have no")
def test_rows_that_are_none_are_ignored_as_on_one_machine(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [f"u{k % 50},i{k % 4}" for k in range(200)]
    rows[3:3] = [
        "u1",
        "u2,x,y",
        ",z",
        "u3,",
        "u4" + "," * 30_000,
        "u5,\xff,more",
    ]
    path = tmp_path / "rows.csv"
    path.write_text("user,item\n" + "\n".join(rows) + "\n", encoding="latin-1")
    with pytest.warns(dpsu.DataWarning, match="too few or too many"):
        here = flat.release(path, **SEEDED)
    frame = open_frame(spark, [str(path)], None)
    with pytest.warns(dpsu.DataWarning, match="some rows have no"):
        there = flat.spark_release(frame, partitions=2, **SEEDED)
    assert there.released.items == here.items == ("i0", "i1", "i2", "i3")
    with pytest.raises(dpsu.DataError, match="some rows have no"):
        flat.spark_release(frame, partitions=2, strict=True, **SEEDED)


# What is no integer would be one that nothing else is.
TEXTS = ["7", "008", "-0", "9\n", "-9223372036854775808", "9223372036854775808", "x", "12", None]
REALS = [7.0, 2.5, float("nan"), float("inf"), -0.0, 2.0**53, 1 - 2.0**53, 12.0, None]
SINGLES = [7.0, 2.5, 2.0**24 - 1, 2.0**24, -0.0, -(2.0**24), 2.0**60, 12.0, None]


@every("column", ["texts", "reals", "singles", "whole", "raw"])
@every("type_", ["text", "integer"])
def test_declared_types_as_on_one_machine(spark: SparkSession, column: str, type_: str) -> None:
    cells: dict[str, pa.Array] = {
        "texts": pa.array(TEXTS, pa.string()),
        "reals": pa.array(REALS, pa.float64()),
        "singles": pa.array(SINGLES, pa.float32()),
        "whole": pa.array([7, 12, None, -1, 0, 5, 6, 2**63 - 1, -(2**63)], pa.int64()),
        "raw": pa.array([None if t is None else t.encode() for t in TEXTS], pa.binary()),
    }
    items = pa.chunked_array([cells[column]] * 60)
    table = pa.table({"user": [str(k // 9) for k in range(len(items))], "item": items})
    options = SEEDED | {"user_type": "integer", "item_type": type_}
    with pytest.warns(dpsu.DataWarning):
        here = flat.release(table, **options)
    with pytest.warns(dpsu.DataWarning):
        there = flat.spark_release(spark.createDataFrame(table), partitions=2, **options)
    assert len(here) > 1
    assert there.released.items == here.items
    assert there.released.values.type == here.values.type
    assert there.plan == here.plan
    if column in ("reals", "singles"):
        assert not {str(item) for item in here} & {str(2**53), str(2**24), str(2**60)}


def test_unsigned_integers_are_the_ids_of_one_machine(spark: SparkSession, tmp_path: Path) -> None:
    """Spark reads them as decimals, which have the same digits."""
    users = np.repeat(np.arange(2**63 - 50, 2**63 + 50, dtype=np.uint64), 4)
    items = np.array([7, 2**63 - 1, 2**63, 2**64 - 1] * 100, np.uint64)
    pyarrow.parquet.write_table(pa.table({"user": users, "item": items}), tmp_path / "x.parquet")
    here = flat.release(tmp_path / "x.parquet", counts=True, **SEEDED)
    frame = open_frame(spark, [str(tmp_path / "x.parquet")], None)
    there = flat.spark_release(frame, partitions=2, counts=True, **SEEDED).released
    assert here.values.type == pa.uint64()
    assert there.values.type == pa.decimal128(20, 0)
    assert list(map(int, there.items)) == list(here.items)
    assert there.to_arrow()["noisy_users"].equals(here.to_arrow()["noisy_users"])


def test_columns_in_another_order_are_not_mistaken(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("user,item\n1,a\n")
    (tmp_path / "2.csv").write_text("item,user\na,1\n")
    with pytest.raises(dpsu.DataError, match="could not finish"):
        flat.spark_release(open_frame(spark, [str(tmp_path)], None), partitions=1, **SEEDED)


def test_tables_and_parquet(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"user": list(range(60)), "item": ["a", "b", "c"] * 20})
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    by_path = open_frame(spark, [str(tmp_path / "*.parquet")], None)
    as_table = open_frame(spark, [f"parquet.`{tmp_path}/rows.parquet`"], "table")
    assert sorted(by_path.collect()) == sorted(as_table.collect())
    twice = open_frame(spark, [f"parquet.`{tmp_path}/rows.parquet`"] * 2, "table")
    assert twice.count() == 120


@every(
    ("sources", "format_", "words"),
    [
        (["-"], "csv", "no pipes"),
        (["rows.jsonl"], None, "Spark reads parquet"),
        (["rows.csv.zst"], None, "no .zst"),
        (["rows.csv", "rows.parquet"], None, "one format"),
        (["s3a://bucket/folder"], None, "one format"),
        (["nothing.csv"], None, "there is no file"),
    ],
)
def test_refusals(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: list[str],
    format_: str | None,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("rows.jsonl", "rows.csv.zst", "rows.csv", "rows.parquet"):
        (tmp_path / name).touch()
    with pytest.raises(dpsu.ParameterError, match=words):
        open_frame(spark, sources, format_)
