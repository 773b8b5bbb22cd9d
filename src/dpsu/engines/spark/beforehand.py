"""What is asked of workers, tokenizers and rows before a release on Spark."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from dpsu.engines.cluster.texts import portable
from dpsu.engines.spark.quietly import condition_of, unlogged
from dpsu.errors import ParameterError, option_error
from dpsu.inputs.values import Values
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

# Sessions whose workers have loaded the package.
_ready: WeakSet[SparkSession] = WeakSet()
# About so many bytes of a text make an item of each length.
BYTES_OF_ITEM = 6


def refuse_unready_workers(session: SparkSession) -> None:
    """Refuse a session whose workers lack this package, which would show after the charge.

    A session is asked once; its workers have to start some time.
    """
    if session in _ready:
        return
    condition = ""
    try:
        with unlogged():
            session.range(1).mapInArrow(_unchanged, "id long").collect()
    except Exception as error:
        condition = condition_of(error)
    if "PYTHON" in condition.upper():
        raise ParameterError(
            f"the Python workers of this Spark session cannot load dpsu ({condition}): they need "
            "dpsu and pyarrow, as this process has them; on one machine set the variable "
            f"PYSPARK_PYTHON to {sys.executable} before the session starts"
        )
    # Of anything else the release itself will tell.
    if not condition:
        _ready.add(session)


def _unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What a worker runs; to find this function it loads the package."""
    yield from batches


def refuse_tokenizer(plan: Plan) -> None:
    """Refuse a tokenizer that is not what the plan says, or that cannot be sent to workers."""
    tokenizer = portable(plan)
    if not callable(tokenizer):
        return
    from pyspark import cloudpickle

    failed = ""
    try:
        dumps: Any = cloudpickle.dumps
        dumps(tokenizer)
    except Exception as error:
        failed = type(error).__name__
    if failed:
        raise option_error(
            "tokenizer",
            f"is a function that Spark cannot send to its workers ({failed}): it "
            "holds what cannot be copied, such as a lock or an open file; make those inside of the "
            "function, or put it in a module that workers have",
        )


def rows_in(frame: DataFrame, plan: Plan) -> int:
    """How many rows of items there are; of texts about how many, by their bytes. PRIVATE."""
    from pyspark.sql import functions as f

    if plan.text is None:
        # A row of a wide table leads to one row of each kind.
        return frame.count() * (len(plan.item.kinds) if isinstance(plan.item, Values) else 1)
    (total,) = frame.agg(f.sum(f.octet_length("item")).alias("bytes")).collect()[0]
    return (total or 0) * (plan.text.longest - plan.text.shortest + 1) // BYTES_OF_ITEM
