"""Releases on a standalone cluster that grows while it works, and then loses a worker.

Started by a test as a process of its own: a master cannot be changed in a running session. Prints
what was released.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# This is a script: Python looks for modules beside it, and the root of the project is above.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # Files of a dead worker do not come back, however long one waits.
    "spark.shuffle.io.maxRetries": "1",
    "spark.shuffle.io.retryWait": "100ms",
}
ON_DEMAND = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
}
# Both workers have an executor before the first task starts.
AT_ONCE = {
    "spark.dynamicAllocation.enabled": "false",
    "spark.cores.max": "2",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


class Waiting:
    """Does a step, but its first task, once it is halfway, waits to be killed."""

    def __init__(self, step: Callable[[Iterator[Any]], Iterator[Any]], flag: str) -> None:
        self.step, self.flag = step, flag

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in self.step(batches):
            yield batch
            try:
                # Only one task can make this file.
                with Path(self.flag).open("x", encoding="utf-8") as file:
                    file.write(str(os.getpid()))
            except FileExistsError:
                continue
            time.sleep(600)


def session(master: str, folder: str, **settings: str) -> Any:
    """A session on the cluster."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("dpsu tests")
    for name, value in {**SETTINGS, "spark.local.dir": folder, **settings}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def executors(spark: Any) -> int:
    """How many executors there are, without the driver."""
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def kill_where_it_waits(flag: Path, workers: list[int], killed: list[int]) -> None:
    """Kill the worker on which a task waits, with everything below it."""
    from tests.spark.standalone import descendants, kill

    while not (told := flag.read_text("utf-8") if flag.exists() else ""):
        time.sleep(0.01)
    (victim,) = [worker for worker in workers if int(told) in descendants(worker)]
    kill(victim)
    killed.append(victim)


def main() -> None:
    """Release on executors that come when there is work; then while a worker is killed."""
    from pyspark import cloudpickle as untyped
    from pyspark.sql.classic.dataframe import DataFrame

    from tests.support import flat

    master, folder, table, told, *workers = sys.argv[1:]
    options = json.loads(told)
    spark = session(master, folder, **ON_DEMAND)
    before = executors(spark)
    found = flat.spark_release(spark.read.parquet(table), partitions=4, **options).released
    grown = {"before": before, "after": executors(spark), "items": found.items}
    spark.stop()
    spark = session(master, folder, **AT_ONCE)
    cloudpickle: Any = untyped
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    flag = Path(folder) / "waiting"
    killed: list[int] = []

    patched: Any = DataFrame
    map_in_arrow = patched.mapInArrow

    def waiting(frame: Any, step: Any, *columns: Any) -> Any:
        # In the middle: what the worker wrote in earlier stages must be made again.
        halfway = step.__name__ == "dpsu_Ask_2"
        return map_in_arrow(frame, Waiting(step, str(flag)) if halfway else step, *columns)

    patched.mapInArrow = waiting
    arguments = (flag, [int(worker) for worker in workers], killed)
    threading.Thread(target=kill_where_it_waits, args=arguments, daemon=True).start()
    found = flat.spark_release(spark.read.parquet(table), partitions=4, **options).released
    lost = {"killed": len(killed), "left": executors(spark), "items": found.items}
    spark.stop()
    print(json.dumps({"grown": grown, "lost": lost}))


if __name__ == "__main__":
    main()
