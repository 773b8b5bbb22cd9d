"""How many exchanges a release takes, and that nothing of it can be read anywhere else."""

from __future__ import annotations

import base64
import gc
import io
import logging
import time
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
import dpsu.spark
from dpsu.engines.cluster.engine import Query
from dpsu.engines.spark.query import CLEAN_UP, SparkData
from dpsu.engines.spark.quietly import QUOTING_LOGGERS
from dpsu.randomness.keys import Key
from tests.support import clusters, flat
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

MODES = ("simple", "extended", "codegen", "cost", "formatted")
# Turns of users and items; each takes one exchange to users and one to items.
TURNS: list[tuple[str, dict[str, Any], float]] = [
    ("count-gaussian", {}, 1),
    ("weighted-laplace", {}, 1),
    ("weighted-gaussian", {}, 1),
    ("reroute", {}, 2),
    ("sips", {}, 3),
    ("sips", {"rounds": 5}, 5),
    ("bits", {"expected_items_per_user": 5}, 4),
    # Four rounds of three exchanges: users survey themselves before they give.
    ("bits", {}, 6),
    ("bits", {"rounds": 1, "expected_items_per_user": 5}, 1),
    ("bits", {"rounds": 1}, 1.5),
    ("sieve", {"rounds": 6}, 6),
    ("sieve", {}, 20),
]


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(clusters.random_table(np.random.default_rng(1), "text-text"))


def explained(frame: DataFrame, mode: str = "simple") -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        frame.explain(mode=mode)
    return out.getvalue()


def query_of(rows: DataFrame, key: Key, mechanism: str, **options: Any) -> Query[DataFrame]:
    plan = flat.plan(epsilon=1, delta=1e-3, mechanism=mechanism, **options)
    return SparkData(rows, partitions=3).query(plan, key)


@every(("mechanism", "options", "turns"), TURNS)
def test_two_shuffles_a_round(
    rows: DataFrame, mechanism: str, options: dict[str, Any], turns: float
) -> None:
    plan = explained(query_of(rows, Key.from_os(), mechanism, **options).items())
    assert plan.count("Exchange ") == 2 * turns
    assert "Sort" not in plan
    assert "Broadcast" not in plan
    assert "Cartesian" not in plan
    assert "InMemory" not in plan


def test_an_estimate_is_a_job_of_one_shuffle(rows: DataFrame) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-3, mechanism=dpsu.Auto(among="parallel"))
    query = SparkData(rows, partitions=3).query(plan, Key.from_os())
    assert explained(query.set_sizes()).count("Exchange ") == 1


def test_counts_take_two_shuffles_more(rows: DataFrame) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-3, mechanism="sips", counts=True)
    query = SparkData(rows, partitions=3).query(plan, Key.from_os())
    told = explained(query.counts(pa.array(["a", "b"], pa.large_string())))
    # Group by user, group by item; the join with the released items broadcasts what is public.
    assert told.count("Exchange hashpartitioning") + told.count("Exchange shuffle") <= 3


def spelled(secret: bytes) -> Iterator[bytes]:
    """Ways in which bytes could show in a text or a file."""
    yield secret
    yield secret.hex().encode()
    yield secret.hex(" ").encode()
    for start in range(3):
        # Base64 of any text that has the secret in it, however it is aligned.
        yield base64.b64encode(secret[start:])[4:32]
    yield ", ".join(map(str, secret)).encode()
    yield ", ".join(str(b - 256 if b > 127 else b) for b in secret).encode()
    yield repr(secret)[2:-1].encode()
    yield str(int.from_bytes(secret, "big")).encode()


def written(folder: Path, needed: str) -> list[bytes]:
    """Event logs, once they tell of a step; they are written in the background."""
    deadline = time.time() + 120
    while True:
        logs = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
        if any(needed.encode() in log for log in logs):
            return logs
        assert time.time() < deadline
        time.sleep(0.5)


def test_the_key_shows_nowhere(spark: SparkSession, spark_folder: Path, rows: DataFrame) -> None:
    key = Key.from_os()
    for mechanism, options in (("weighted-gaussian", {}), ("sieve", {"rounds": 4})):
        query = query_of(rows, key, mechanism, **options)
        frame = query.items()
        shown = "".join(explained(frame, mode) for mode in MODES).encode()
        assert b"dpsu_SendRows" in shown
        SparkData(rows).run(query)
        logs = written(
            spark_folder / "events", f"dpsu_{'FlipCoins' if not options else 'Answer_3'}"
        )
        for text in (shown, *logs):
            for secret in spelled(key.secret):
                assert secret not in text
    # The search can find: the same spellings of what the log does contain.
    assert next(spelled(b"dpsu_SendRows")) in shown


def test_nothing_is_left_behind(spark: SparkSession, spark_folder: Path) -> None:
    """No cache, table or view; no file of an exchange once the query is over."""
    marked = [f"marked item {k}" for k in range(50)]
    items = [marked[k % 50] for k in range(2000)]
    table = pa.table({"user": [*range(2000)] * 2, "item": items * 2})
    df = spark.createDataFrame(table)

    def exchanged() -> set[str]:
        return {p.name for p in (spark_folder / "local").rglob("shuffle_*.data")}

    # Where a job failed in an earlier test, a task that was being stopped may have written its own.
    before, deadline = exchanged(), time.time() + 600
    dpsu.spark.release(
        df, epsilon=1, delta=1e-3, mechanism=dpsu.Sieve(rounds=4), partitions=3, counts=True
    )
    while left := exchanged() - before:
        assert time.time() < deadline, left
        time.sleep(0.5)
    failing = df.selectExpr("cast(item as int) as user", "item")
    with pytest.raises(dpsu.DataError):
        dpsu.spark.release(
            failing, epsilon=1, delta=1e-3, mechanism=dpsu.Sieve(rounds=4), partitions=3
        )
    gc.collect()
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty()
    assert spark.catalog.listTables() == []
    for name in CLEAN_UP:
        assert spark.conf.get(name) == "false"


def test_errors_tell_nothing_of_the_data(
    spark: SparkSession, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyspark.logger import PySparkLogger

    secret = "alice bought a gun"
    # A logger that an earlier test made prints to what was captured then.
    logged = io.StringIO()
    for logger in map(PySparkLogger.getLogger, QUOTING_LOGGERS):
        monkeypatch.setattr(logger, "handlers", [logging.StreamHandler(logged)])
    rows = spark.createDataFrame([("1", secret)] * 3, "user string, item string")
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-3, "partitions": 2}
    broken = rows.selectExpr("cast(item as int) as user", "item")
    not_text = rows.selectExpr("user", "cast(concat(item, x'ff') as string) as item")
    with pytest.raises(dpsu.DataError, match="could not finish the job") as caught:
        flat.spark_release(broken, mechanism="weighted-gaussian", **options)
    report_nothing(caught.value, secret)
    with pytest.raises(dpsu.DataError, match="some rows have no 'user' or no 'item'") as caught:
        flat.spark_release(not_text, mechanism="sips", strict=True, **options)
    report_nothing(caught.value, secret)
    # PySpark logs some errors, cells and all, before it raises them.
    printed = capfd.readouterr()
    assert secret not in printed.out + printed.err + logged.getvalue()


def report_nothing(error: BaseException, secret: str) -> None:
    seen: BaseException | None = error
    while seen is not None:
        assert secret not in repr(seen)
        assert "alice" not in str(seen)
        seen = seen.__context__ or seen.__cause__


def test_the_released_frame_does_not_hang_on_the_data(rows: DataFrame) -> None:
    """Computed again on other data, the same key would tell both apart."""
    found = dpsu.spark.release(rows, epsilon=4, delta=0.05, mechanism="sips", partitions=2)
    shown = explained(found.items, "extended")
    assert "dpsu_" not in shown
    assert "MapInArrow" not in shown
    assert [row.item for row in found.items.collect()] == list(found.released.items)
