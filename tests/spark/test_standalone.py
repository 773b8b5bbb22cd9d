"""A cluster of several processes: executors come and go, and a worker dies with all it wrote."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from tests.spark import standalone
from tests.support import clusters, flat

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

SCRIPT = Path(__file__).resolve().parent / "losing.py"


def test_a_worker_is_lost_in_the_middle(tmp_path: Path) -> None:
    table = clusters.random_table(np.random.default_rng(3), "int-text", 2000)
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=len(table) // 4)
    given: dict[str, Any] = {
        "mechanism": "sieve", "insecure_seed": 3, "rounds": 4, "epsilon": 4.0, "delta": 0.05,
    }  # fmt: skip
    with standalone.cluster(tmp_path, sys.executable) as cluster:
        pids = [worker.pid for worker in cluster.workers]
        done = subprocess.run(
            [sys.executable, "-W", "ignore", str(SCRIPT), cluster.url, str(tmp_path),
             str(tmp_path / "rows.parquet"), json.dumps(given), *map(str, pids)],
            capture_output=True, text=True, timeout=900, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        # One worker is gone, and with it its executor; nothing else is.
        assert sorted(worker.poll() is None for worker in cluster.workers) == [False, True]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    told = json.loads(done.stdout.splitlines()[-1])
    expected = flat.release(table, **given).items
    assert len(expected) > 3
    # Executors were asked for when there was work, and not before.
    assert told["grown"]["before"] == 0 < told["grown"]["after"]
    assert tuple(told["grown"]["items"]) == expected
    assert told["lost"]["killed"] == 1 == told["lost"]["left"]
    assert tuple(told["lost"]["items"]) == expected
