"""A release on a cluster of two executors, one of which is killed on the way; prints the items.

Started by a test as a process of its own: a master cannot be changed in a running session.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def executors() -> list[int]:
    """Executors that descend from this process."""
    parents, found = {}, []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                told = (folder / "stat").read_text().rsplit(")", 1)[1].split()
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            parents[int(folder.name)] = int(told[1])
            if b"CoarseGrainedExecutorBackend" in command:
                found.append(int(folder.name))

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return [pid for pid in found if ours(pid)]


def main() -> None:
    """Release while somebody kills an executor after some stages."""
    # This is a script: Python looks for modules beside it, and the root of the project is above.
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from tests.support import flat

    folder, table, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.local.dir": folder,
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local-cluster[2,1,512]").appName("dpsu tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    killed: list[int] = []
    tracker = spark.sparkContext.statusTracker()
    df = spark.read.parquet(table).repartition(4)

    def kill() -> None:
        first = None
        while not killed:
            active = list(tracker.getActiveStageIds())
            first = min(active, default=None) if first is None else first
            # Some stages in: what the dead executor wrote must be made again.
            if first is not None and max(active, default=0) >= first + 4:
                victim = max(executors())
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
            time.sleep(0.01)

    threading.Thread(target=kill, daemon=True).start()
    found = flat.spark_release(df, partitions=4, **options).released
    print(json.dumps({"items": found.items, "killed": len(killed)}))
    spark.stop()


if __name__ == "__main__":
    main()
