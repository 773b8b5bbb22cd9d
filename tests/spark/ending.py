"""The command `dpsu` on Spark, of which somebody ends the job, or the session, while it runs.

Started by a test as a process of its own: it has a session of its own, which ends with it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

ENDS: dict[str, Callable[[Any], None]] = {
    "cancel": lambda context: context.cancelAllJobs(),
    "stop": lambda context: context.stop(),
    "kill": lambda context: context._gateway.proc.kill(),
}


def wait(batches: Iterator[Any]) -> Iterator[Any]:
    """A step that does not end by itself."""
    time.sleep(600)
    yield from batches


def end_once_it_runs(context: Any, end: Callable[[Any], None]) -> None:
    """End a job as soon as one of its tasks runs."""
    tracker = context.statusTracker()
    while not any(
        (stage := tracker.getStageInfo(number)) is not None and stage.numActiveTasks
        for number in tracker.getActiveStageIds()
    ):
        time.sleep(0.01)
    end(context)


def main() -> None:
    """Run the command; what it collects waits, and is ended."""
    from pyspark import cloudpickle as untyped
    from pyspark.sql.classic.dataframe import DataFrame

    import dpsu.cli

    end = ENDS[sys.argv.pop(1)]
    cloudpickle: Any = untyped
    cloudpickle.register_pickle_by_value(sys.modules["__main__"])
    patched: Any = DataFrame
    to_arrow = patched.toArrow

    def waiting(frame: Any) -> Any:
        context = frame.sparkSession.sparkContext
        threading.Thread(target=end_once_it_runs, args=(context, end), daemon=True).start()
        return to_arrow(frame.mapInArrow(wait, frame.schema))

    patched.toArrow = waiting
    dpsu.cli.run()


if __name__ == "__main__":
    main()
