"""The same over Spark Connect, where there are DataFrames and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

import dpsu
from tests.spark.test_costs_and_leaks import spelled
from tests.support import clusters, flat

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.thorough
def test_over_a_connection(tmp_path: Path) -> None:
    table = clusters.random_table(np.random.default_rng(4), "int-text")
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    budget: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05, "insecure_seed": 4}
    asked: list[dict[str, Any]] = [
        {"mechanism": "weighted-gaussian", "counts": True, **budget},
        {"mechanism": "sieve", "rounds": 4, **budget},
        {"mechanism": "sips", "public_items": ["not held"], **budget},
        {"mechanism": "ngrams", "longest": 2, "text": "item", **budget},
    ]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(ROOT / "tests" / "spark" / "connecting.py"),
         str(tmp_path), str(tmp_path / "rows.parquet"), json.dumps(asked)],
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["kind"].startswith("pyspark.sql.connect")
    for options, rows in zip(asked, told["found"], strict=True):
        here = flat.release(table, **options)
        assert [row[0] for row in rows] == list(here.items)
        if here.counts is not None:
            assert [row[1] for row in rows] == here.counts.to_pylist()
    wide = table.append_column("i.d", table["user"])
    item = dpsu.Values(["user", "item"], types={"user": "text"})
    plan = dpsu.plan(user="i.d", item=item, mechanism="weighted-gaussian", **budget)
    assert told["values"] == dpsu.domains(wide, plan).to_dict()
    assert len(told["values"]["item"]) > 3
    assert "could not finish the job" in told["refused"]
    assert "ü" not in told["refused"]
    logs = [path.read_bytes() for path in (tmp_path / "events").rglob("*") if path.is_file()]
    logs.append((tmp_path / "server.log").read_bytes())
    assert any(b"dpsu_SendRows" in log for log in logs)
    for hexed in told["secrets"]:
        for secret in spelled(bytes.fromhex(hexed)):
            assert not any(secret in log for log in logs)
