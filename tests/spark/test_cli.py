"""`dpsu release --engine spark`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from dpsu import Plan
from dpsu.engines.spark.session import NO_JAVA
from tests.support import clusters
from tests.support.cases import every

pytestmark = pytest.mark.spark

SEEDED = ["--epsilon", "4", "--delta", "0.05", "--insecure-seed", "3", "--mechanism", "sips"]
SPARK = ["--engine", "spark", "--master", "local[2]", "--spark-conf", "spark.driver.host=127.0.0.1"]


def dpsu(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpsu", *arguments],
        capture_output=True, text=True, timeout=900, check=False, env=os.environ | env,
    )  # fmt: skip


def test_a_plan_runs_on_files_here_and_there(tmp_path: Path) -> None:
    table = clusters.random_table(np.random.default_rng(9), "int-text")
    (tmp_path / "parts").mkdir()
    for k in range(3):
        pyarrow.parquet.write_table(table.slice(k * 300, 300), tmp_path / "parts" / f"{k}.parquet")
    approved = dpsu("plan", *SEEDED, "--json")
    (tmp_path / "plan.json").write_text(approved.stdout, encoding="utf-8")
    asked = ["release", str(tmp_path / "parts"), "--plan", str(tmp_path / "plan.json")]
    here = dpsu(*asked)
    there = dpsu(*asked, *SPARK, "--report", str(tmp_path / "r.json"))
    assert there.returncode == 0, there.stderr
    assert there.stdout == here.stdout
    assert there.stdout.count("\n") > 3
    assert there.stderr.splitlines()[-1] == here.stderr.splitlines()[-1]
    told = json.loads((tmp_path / "r.json").read_text(encoding="utf-8"))
    assert told["plan_hash"] == Plan.read(tmp_path / "plan.json").hash
    assert told["plan"]["mechanism"]["name"] == "sips"


def test_without_java(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item\n1,a\n", encoding="utf-8")
    told = dpsu("release", str(path), *SEEDED, *SPARK, PATH="/nowhere", JAVA_HOME="")
    assert told.returncode == 2
    assert told.stderr.strip() == f"dpsu: {NO_JAVA}"


@every(
    ("arguments", "words"),
    [
        (["--engine", "spark", "--mechanism", "greedy", "--order", "hash"], "cannot run on Spark"),
        (["--engine", "spark", "--memory-limit", "4GB"], "--memory-limit is for one machine"),
        (["--master", "local[2]"], "--master is for --engine spark"),
        (["--format", "table"], "--format table is for --engine spark"),
        (["--engine", "spark", "--spark-conf", "x"], "KEY=VALUE"),
    ],
)
def test_refusals(tmp_path: Path, arguments: list[str], words: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item\n1,a\n", encoding="utf-8")
    told = dpsu("release", str(path), "--epsilon", "1", "--delta", "1e-3", *arguments)
    assert told.returncode == 2
    assert words in told.stderr
