"""How many users and rows there are, as Spark sees it on the way, to warn the curator.

Partitions of users tell how many they have, so that a plan is not run for more users than it is
proved for. Spark adds these numbers up as they pass by, which is no pass over the data of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpsu.engines.cluster.messages import CENSUS
from dpsu.engines.cluster.rounds import Ask
from dpsu.engines.cluster.steps import Weigh

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

INT64_BYTES = 8


def observed(frame: DataFrame, step: Any, users: Observation | None) -> DataFrame:
    """What a step made; `users` observes the number of users if it is the step that tells it."""
    from pyspark.sql import functions as f

    number = _number_of_users(step) if users is not None else None
    if users is None or number is None:
        return frame
    # A partition without users says nothing, and so may all of them.
    return frame.observe(users, f.coalesce(f.sum(number), f.lit(0)).alias("users"))


def seen(observation: Observation) -> dict[str, int]:
    """What was observed while a query ran, or nothing; PRIVATE."""
    # Spark takes steps out of its plan once it sees that no rows come to them, and forgets what
    # was observed there.
    with suppress(Exception):
        return {name: int(value) for name, value in observation.get.items()}
    return {}


def _number_of_users(step: Any) -> Column | None:
    """The number of users in a row that tells it, and null in other rows; PRIVATE."""
    from pyspark.sql import functions as f

    if isinstance(step, Weigh):
        return f.when(f.col("item").isNull(), f.col("number"))
    if isinstance(step, Ask) and step.round_number == 0:
        # Spark reads no binary numbers: the lowest of these bytes comes first.
        digits = f.hex("data")
        pairs = [f.substring(digits, 2 * n + 1, 2) for n in reversed(range(INT64_BYTES))]
        return f.when(f.col("kind") == CENSUS, f.conv(f.concat(*pairs), 16, 10).cast("bigint"))
    return None
