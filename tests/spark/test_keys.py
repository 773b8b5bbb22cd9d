"""Keys of several columns and of all types: on Spark the release of one machine, typed alike."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dpsu
import dpsu.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.filterwarnings("ignore:every row:dpsu.DataWarning")]

USERS = 200
NOON = datetime.datetime(2024, 2, 29, 12)
SEEDED: dict[str, Any] = {
    "epsilon": 2, "delta": 1e-4, "mechanism": "weighted-gaussian", "insecure_seed": 3,
}  # fmt: skip
ROWS = range(2 * USERS)
SECOND = datetime.timedelta(seconds=1)
TABLE = pa.table(
    {
        "site": ["a\t" if row % 2 else "b\\" for row in ROWS],
        "visitor": [row // 2 for row in ROWS],
        "day": [(NOON + row % 2 * datetime.timedelta(1)).date() for row in ROWS],
        "flag": [row % 2 == 0 for row in ROWS],
        "local": pa.array([NOON + row % 2 * SECOND for row in ROWS], pa.timestamp("us")),
        "instant": pa.array([NOON] * len(ROWS), pa.timestamp("us", "UTC")),
        "price": [decimal.Decimal(f"{row % 2}.50") for row in ROWS],
        "raw": [b"\xff" if row % 2 else b"a" for row in ROWS],
        "tags": [["x", "y"] if row % 2 else None for row in ROWS],
        "place": [{"name": "fr", "day": NOON.date()} if row % 2 else None for row in ROWS],
        "number": pa.array([row % 3 if row % 5 else None for row in ROWS], pa.int16()),
    }
)


def frame_of(spark: SparkSession) -> DataFrame:
    """The table on Spark, which takes timestamps for instants unless it is told otherwise."""
    frame = spark.createDataFrame(TABLE)
    return frame.withColumn("local", frame["local"].cast("timestamp_ntz"))


@pytest.mark.filterwarnings("ignore:some (rows|cells):dpsu.DataWarning")
@pytest.mark.parametrize(
    ("user", "item"),
    [
        (["site", "visitor"], ["site", "day"]),
        ("visitor", ["day", "flag", "local", "instant", "price", "raw"]),
        ("visitor", ["number", "flag"]),
        ("visitor", "day"),
        ("visitor", ["flag", "tags"]),
        (["visitor", "day"], ["place", "site"]),
        ("visitor", dpsu.Items("day", type="text")),
    ],
    ids=str,
)
def test_keys_are_those_of_one_machine(spark: SparkSession, user: Any, item: Any) -> None:
    frame = frame_of(spark)
    here = dpsu.release(TABLE, user=user, item=item, **SEEDED, counts=True)
    found = dpsu.spark.release(frame, user=user, item=item, **SEEDED, counts=True, partitions=3)
    there = found.released
    assert here.items
    assert there.items == here.items
    assert there.to_arrow().schema.equals(here.to_arrow().schema)
    assert there.counts is not None
    assert there.counts.equals(here.counts)
    assert found.items.columns == here.to_arrow().column_names
    assert found.items.count() == len(here)


def test_users_of_other_types_and_public_items(spark: SparkSession) -> None:
    frame = spark.createDataFrame(TABLE)
    known = [("c", NOON.date())]
    options: dict[str, Any] = SEEDED | {"user": ["site", "visitor"], "item": ["site", "day"]}
    here = dpsu.release(TABLE, **options, public_items=known)
    there = dpsu.spark.release(frame, **options, public_items=known, partitions=2)
    assert ("c", NOON.date()) in there.released
    assert there.released.items == here.items
    with pytest.raises(dpsu.DataError, match="no values of the columns"):
        dpsu.spark.release(frame, **options, public_items=[("c", "tomorrow")])
    days = {"user": ["day", "flag"], "item": "site"}
    assert not len(dpsu.spark.release(frame, **(options | days)))


def test_incomplete_keys_are_told_or_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(TABLE)
    options: dict[str, Any] = SEEDED | {"user": "visitor", "item": ["number", "day"]}
    with pytest.warns(dpsu.DataWarning, match="no 'visitor' or no 'number, day'"):
        dpsu.spark.release(frame, **options, partitions=2)
    with pytest.raises(dpsu.DataError, match="no 'visitor' or no 'number, day'"):
        dpsu.spark.release(frame, **options, partitions=2, strict=True)
