"""One user with ten million rows on Spark, beside many users with few: time, memory and equality.

    python benchmarks/spark_skew.py                   10,000,000 rows
    python benchmarks/spark_skew.py --rows 1000000    fewer

Rows of a user are in one partition, whatever `partitions` says, so that this is what a task must
be able to hold. Memory is the largest resident size that any Python worker ever had.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dpsu
import dpsu.spark
from benchmarks.spark import session
from benchmarks.spark_metrics import cpu_seconds
from dpsu.plans.mechanisms import Mechanism

OTHERS, ITEMS_EACH, POPULAR, SEED = 100_000, 3, 1_000, 11
MECHANISMS: tuple[Mechanism, ...] = (
    dpsu.WeightedGaussian(max_items=100),
    dpsu.Sieve(rounds=4),
)


def table(rows: int) -> Any:
    """Rows of one user, each with another item, and of others who hold some popular ones."""
    import numpy as np
    import pyarrow as pa

    rng = np.random.default_rng(SEED)
    user = np.concatenate([np.full(rows, -1), np.repeat(np.arange(OTHERS), ITEMS_EACH)])
    item = np.concatenate([np.arange(rows), rng.integers(0, POPULAR, OTHERS * ITEMS_EACH)])
    return pa.table({"user": user, "item": item})


def largest_worker() -> float:
    """GB of the largest Python worker of ours so far; Spark keeps them for the next task."""
    parents: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            told, command = status.read_text("utf-8"), status.with_name("cmdline").read_bytes()
        except OSError:
            continue
        facts = dict(re.findall(r"(PPid|VmHWM):\s+(\d+)", told))
        pid = int(status.parent.name)
        parents[pid] = int(facts["PPid"])
        if b"pyspark.daemon" in command:
            sizes[pid] = int(facts.get("VmHWM", 0))

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return max((size for pid, size in sizes.items() if ours(pid)), default=0) / 2**20


def main() -> None:
    """Print one line of JSON for each mechanism."""
    import pyarrow.parquet as pq

    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    asked = parser.parse_args()
    warnings.simplefilter("ignore", dpsu.DataWarning)
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "rows.parquet")
        pq.write_table(table(asked.rows), path)
        spark = session()
        frame = spark.read.parquet(path)
        for mechanism in MECHANISMS:
            options: dict[str, Any] = {
                "epsilon": 1, "delta": 1e-6, "mechanism": mechanism, "insecure_seed": SEED,
            }  # fmt: skip
            start, worked = time.perf_counter(), cpu_seconds()
            there = dpsu.spark.release(frame, partitions=asked.partitions, **options).released
            seconds, cpu = time.perf_counter() - start, cpu_seconds() - worked
            told = {
                "mechanism": mechanism.name, "rows": asked.rows, "seconds": round(seconds, 1),
                "CPU seconds": round(cpu, 1),
                "largest worker, GB": round(largest_worker(), 2), "released": len(there),
                "as on one machine": there == dpsu.release(path, **options),
            }  # fmt: skip
            print(json.dumps(told), flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
