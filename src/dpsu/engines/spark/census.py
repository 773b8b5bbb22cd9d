"""How many users and rows there are, as Spark sees it on the way, to warn the curator.

Partitions of users tell how many they have, so that a plan is not run for more users than it is
proved for. Spark adds these numbers up as they pass by, which is no pass over the data of its own.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dpsu.engines.cluster.losses import inner, tells
from dpsu.engines.cluster.messages import CENSUS
from dpsu.engines.cluster.rounds import Ask
from dpsu.engines.cluster.steps import Weigh
from dpsu.engines.spark import losses
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

INT64_BYTES = 8


class Watch:
    """What Spark observes of rows, or texts, and users while a query runs, each of them once."""

    def __init__(self, plan: Plan) -> None:
        from pyspark.sql import Observation

        self._plan, self._rows, self._users = plan, Observation(), Observation()
        self._told: set[str] = set()

    def of_rows(self, rows: DataFrame) -> DataFrame:
        """The same rows; those that are not complete are counted while they are read."""
        from pyspark.sql import functions as f

        incomplete = f.col("user").isNull() | f.col("item").isNull()
        return rows.observe(
            self._rows, f.count_if(incomplete).alias("missing"), f.count(f.lit(1)).alias("rows")
        )

    def of_step(self, made: DataFrame, step: Any) -> DataFrame:
        """What a step made; what it tells of what it left out, or of users, is observed."""
        from pyspark.sql import functions as f

        if tells(step) and self._first("losses"):
            return losses.observed(made, self._plan, self._rows)
        number = _number_of_users(inner(step))
        if number is None or not self._first("users"):
            return made
        # A partition without users says nothing, and so may all of them.
        return made.observe(self._users, f.coalesce(f.sum(number), f.lit(0)).alias("users"))

    def seen(self) -> dict[str, int]:
        """What was observed while the query ran, or nothing; PRIVATE."""
        return _seen(self._rows) | (_seen(self._users) if "users" in self._told else {})

    def _first(self, what: str) -> bool:
        first = what not in self._told
        self._told.add(what)
        return first


def _seen(observation: Observation) -> dict[str, int]:
    """What was observed, or nothing; PRIVATE."""
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
