"""Release on Spark and on one machine, and compare: run once by every version of Spark.

    python -m tools.peers.releasing purchases.parquet

Prints one line of JSON. It needs PySpark and what `dpsu` needs, whose source is on the path.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

import dpsu
import dpsu.spark
from dpsu.plans.mechanisms import Mechanism

MECHANISMS: tuple[Mechanism, ...] = (
    dpsu.CountLaplace(max_items=10),
    dpsu.WeightedGaussian(max_items=10),
    dpsu.Reroute(max_items=10),
    dpsu.Bits(rounds=1),
    dpsu.Sieve(rounds=6),
)
# Fewer and more than there are cores; Spark 4.0 may bring two of our partitions to one task.
PARTITIONS = (3, 5)
SEED = 7


def main() -> None:
    """Compare all mechanisms."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    import pyspark
    from pyspark.sql import SparkSession

    warnings.simplefilter("ignore", dpsu.DataWarning)
    settings = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "2")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    path = sys.argv[1]
    frame = spark.read.parquet(path)
    equal: dict[str, bool] = {}
    released: dict[str, int] = {}
    for number, mechanism in enumerate(MECHANISMS):
        asked: dict[str, Any] = {
            "user": "person", "item": "product", "epsilon": 1, "delta": 1e-6,
            "mechanism": mechanism, "counts": number == 0, "insecure_seed": SEED,
        }  # fmt: skip
        here = dpsu.release(path, **asked)
        partitions = PARTITIONS[number % len(PARTITIONS)]
        there = dpsu.spark.release(frame, partitions=partitions, **asked).released
        equal[mechanism.name] = there.to_arrow().equals(here.to_arrow())
        released[mechanism.name] = len(here)
    spark.stop()
    told = {"version": pyspark.__version__, "equal": equal}
    print(json.dumps(told | {"released": released}), flush=True)


if __name__ == "__main__":
    main()
