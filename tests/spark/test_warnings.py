"""What the curator hears of the data is the same on Spark and on one machine."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dpsu
import dpsu.spark
from dpsu.plans.mechanisms import Mechanism
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COUNT, SIEVE = dpsu.CountLaplace(max_items=1), dpsu.Sieve(rounds=3)
OWN = "every row has its own 'user'"
MISSING = "some rows have no 'user' or no 'item'; they were ignored"
NOTHING = "no row has both 'user' and 'item'; nothing can be released"
TABLES: dict[str, tuple[dict[str, list[Any]], list[str]]] = {
    "a row for each user": ({"user": [*range(700)], "item": ["x"] * 700}, [OWN]),
    "and rows without items": (
        {"user": [*range(700), *range(5)], "item": [*["x"] * 700, *[None] * 5]},
        [MISSING, OWN],
    ),
    "two rows of one user": ({"user": [*range(700), 7], "item": ["x"] * 700 + ["y"]}, []),
    "the same row twice": ({"user": [*range(700), 7], "item": ["x"] * 701}, []),
    "a single row": ({"user": [1], "item": ["x"]}, []),
    "a user with two spellings": ({"user": ["e\u0301", "\u00e9"], "item": ["x", "y"]}, []),
    "no item": ({"user": [1, 2], "item": pa.nulls(2, pa.string()).to_pylist()}, [MISSING, NOTHING]),
}
RUNS: list[tuple[str, Mechanism]] = [
    *((case, COUNT) for case in TABLES if case != "no item"),
    *((case, SIEVE) for case in ("a row for each user", "the same row twice", "no item")),
    # Users survey themselves before they tell how many they are.
    ("a row for each user", dpsu.Bits(rounds=1)),
]


def _name(given: str | Mechanism) -> str:
    return given if isinstance(given, str) else given.name


def heard(release: Any, *arguments: Any, **options: Any) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", dpsu.DataWarning)
        warnings.filterwarnings("ignore", "weak guarantee")
        found = release(*arguments, **options)
    assert {warning.filename for warning in told} <= {__file__}
    return found, sorted(str(warning.message) for warning in told)


@every(("case", "mechanism"), RUNS)
def test_warnings_are_those_of_one_machine(
    spark: SparkSession, case: str, mechanism: Mechanism
) -> None:
    columns, expected = TABLES[case]
    table = pa.table({**columns, "item": pa.array(columns["item"], pa.string())})
    options: dict[str, Any] = {"epsilon": 4, "delta": 0.05, "mechanism": mechanism}
    _, here = heard(dpsu.release, table, **options)
    frame = spark.createDataFrame(table).repartition(3)
    found, there = heard(dpsu.spark.release, frame, partitions=2, **options)
    assert there == here
    assert len(there) == len(expected)
    assert all(any(told.startswith(start) for told in there) for start in expected)
    # They are for the curator: a report says nothing of them.
    assert not any(told in found.report() for told in there)


def test_steps_that_spark_leaves_out_do_not_stop_a_release(spark: SparkSession) -> None:
    """No row is complete, so nothing is summed, and Spark forgets what it observed before."""
    frame = spark.createDataFrame([(1, None), (2, None)], "user bigint, item string")
    found, there = heard(
        dpsu.spark.release, frame, epsilon=4, delta=0.05, mechanism=COUNT, partitions=2
    )
    assert len(found) == 0
    assert NOTHING in there
    with pytest.raises(dpsu.DataError, match="some rows have no 'user'"):
        dpsu.spark.release(frame, epsilon=4, delta=0.05, mechanism=COUNT, partitions=2, strict=True)
