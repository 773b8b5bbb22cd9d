"""What is asked of rows and tokenizers before a release on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpsu.engines.cluster.texts import portable
from dpsu.errors import ParameterError
from dpsu.inputs.values import Values
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# About so many bytes of a text make an item of each length.
BYTES_OF_ITEM = 6


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
        raise ParameterError(
            f"{{tokenizer}} is a function that Spark cannot send to its workers ({failed}): it "
            "holds what cannot be copied, such as a lock or an open file; make those inside of the "
            "function, or put it in a module that workers have",
            tokenizer=...,
        )


def rows_in(frame: DataFrame, plan: Plan) -> int:
    """How many rows of items there are; of texts about how many, by their bytes. PRIVATE."""
    from pyspark.sql import functions as f

    if plan.text is None:
        # A row of a wide table leads to one row of each kind.
        return frame.count() * (len(plan.item.kinds) if isinstance(plan.item, Values) else 1)
    (total,) = frame.agg(f.sum(f.octet_length("item")).alias("bytes")).collect()[0]
    return (total or 0) * (plan.text.longest - plan.text.shortest + 1) // BYTES_OF_ITEM
