"""What a query on Spark took: CPU seconds by the system, shuffles and their bytes by Spark."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any


def cpu_seconds() -> float:
    """What this process and all that descend from it have worked so far."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    worked: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                told = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(told[1])
            # Own time and that of children that have ended, in user and in system mode.
            worked[int(folder.name)] = sum(map(int, told[11:15])) / tick

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return sum(seconds for pid, seconds in worked.items() if ours(pid))


class Shuffles:
    """The stages of a session that write to a shuffle, those of the last reading left out."""

    def __init__(self, spark: Any) -> None:
        self._context, self._jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
        self._no_quantiles = spark.sparkContext._gateway.new_array(self._jvm.double, 0)
        self._seen: set[int] = set()
        self.since()

    def since(self) -> dict[str, int]:
        """Shuffles that were written since the last call, and their bytes, compressed."""
        # What ended last is told last.
        self._context.listenerBus().waitUntilEmpty()
        every = self._jvm.java.util.ArrayList()
        stages = self._context.statusStore().stageList(
            every, False, False, self._no_quantiles, self._jvm.java.util.ArrayList()
        )
        shuffles = written = 0
        for place in range(stages.size()):
            stage = stages.apply(place)
            if stage.stageId() not in self._seen:
                self._seen.add(stage.stageId())
                shuffles += stage.shuffleWriteRecords() > 0
                written += stage.shuffleWriteBytes()
        return {"shuffles": shuffles, "bytes": written}
