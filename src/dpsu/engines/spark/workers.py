"""Steps in the Python workers of Spark, which serve one task after the other.

After every task, PySpark collects garbage in the whole process. With NumPy, PyArrow and the
compiled kernels loaded, these are some 180,000 objects that never become garbage, and looking at
them takes longer than what a step does in a round. So they are set aside once (`gc.freeze`).
"""

from __future__ import annotations

import gc
from dataclasses import dataclass

from dpsu.engines.cluster.engine import Step
from dpsu.engines.cluster.steps import Batches

# Libraries make more objects than this when they are loaded, and a step makes fewer.
MANY_OBJECTS = 20_000


@dataclass(frozen=True, repr=False)
class InWorker:
    """A step that is run by a Python worker of Spark: a process that runs nothing but tasks."""

    step: Step

    @property
    def __name__(self) -> str:
        """The name that plans and web pages of Spark show."""
        return self.step.__name__

    def __call__(self, batches: Batches) -> Batches:
        """What the step makes of the batches."""
        yield from self.step(batches)
        set_aside_what_stays()


def set_aside_what_stays() -> None:
    """Let the collector of garbage pass over what is loaded, if there is much of it.

    Garbage is collected before: what is set aside is never looked at again, and private data in a
    cycle of references would stay in the memory of a worker.
    """
    # Objects that were set aside are not counted, so that this is quick from the second task on.
    if len(gc.get_objects()) > MANY_OBJECTS:
        gc.collect()
        gc.freeze()
