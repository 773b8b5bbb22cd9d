"""Steps that die once, in the middle of what they do: by an error, or by a signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

Batches = Iterator[Any]


class Flaky:
    """Does a step, but in every stage the first attempt at the first task ends after one batch."""

    def __init__(self, step: Callable[[Batches], Batches], *, killed: bool) -> None:
        self.step, self.killed = step, killed

    def __call__(self, batches: Batches) -> Batches:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0 and context.partitionId() == 0
        for batch in self.step(batches):
            yield batch
            if first:
                break
        if first and self.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        if first:
            raise OSError("this attempt fails")


def die(batches: Batches) -> Batches:
    """A step that takes its process with it, whenever it is tried."""
    os.kill(os.getpid(), signal.SIGKILL)
    yield from batches
