"""Keys of tests are the same in every run, and Spark tests run where Java is and they are wanted.

All tests of a process share one Spark session, with an event log and a folder of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from dpsu.engines.spark.session import NO_JAVA, has_java
from dpsu.randomness.keys import KEY_BYTES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("spark")]
    reason = "DPSU_SKIP_SPARK=1" if os.environ.get("DPSU_SKIP_SPARK") == "1" else ""
    if marked and not reason and not has_java():
        reason = NO_JAVA
    for item in marked if reason else []:
        item.add_marker(pytest.mark.skip(reason=reason))


hypothesis.settings.register_profile("alike", derandomize=True)
hypothesis.settings.load_profile("alike")


@pytest.fixture(autouse=True)
def _no_luck(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are fresh in every release, and the same whenever this test runs.

    Commands in processes of their own draw from the operating system all the same.
    """
    drawn, from_os = itertools.count(), secrets.token_bytes

    def token_bytes(size: int | None = None) -> bytes:
        if size != KEY_BYTES:  # the name of a file
            return from_os(size)
        return hashlib.sha256(f"{request.node.nodeid} {next(drawn)}".encode()).digest()

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)


@pytest.fixture(scope="session")
def spark_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    for name in ("events", "local", "warehouse"):
        (folder / name).mkdir()
    return folder


@pytest.fixture(scope="session")
def spark(spark_folder: Path) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": (spark_folder / "events").as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.logBlockUpdates.enabled": "true",
        "spark.local.dir": str(spark_folder / "local"),
        "spark.sql.warehouse.dir": (spark_folder / "warehouse").as_uri(),
        "spark.sql.shuffle.partitions": "4",
    }
    # Four attempts for each task: some tests make them fail.
    builder = SparkSession.builder.master("local[2,4]").appName("dpsu tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
