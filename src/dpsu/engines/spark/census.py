"""How many users and rows there are, as Spark sees it on the way, to warn the curator.

Partitions of users tell how many they have, so that a plan is not run for more users than it is
proved for. Spark adds these numbers up as they pass by, which is no pass over the data of its own.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpsu.engines.cluster.losses import COMPLETE, inner, reasons, tells
from dpsu.engines.cluster.messages import CENSUS, LOST, ROWS
from dpsu.engines.cluster.rounds import Ask
from dpsu.engines.cluster.steps import Weigh
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation

INT64_BYTES = 8


class Watch:
    """What Spark observes of rows, or texts, and users while a query runs, each of them once."""

    def __init__(self, plan: Plan) -> None:
        from pyspark.sql import Observation

        self._reasons, self._rows, self._users = reasons(plan), Observation(), Observation()
        self._told: set[str] = set()

    def of_rows(self, rows: DataFrame) -> DataFrame:
        """The same rows; those that are not complete are counted while they are read."""
        from pyspark.sql import functions as f

        incomplete = f.col("user").isNull() | f.col("item").isNull()
        return self._observed(rows, ~incomplete, [incomplete])

    def of_step(self, made: DataFrame, step: Any) -> DataFrame:
        """What a step made; what it tells of what it left out, or of users, is observed."""
        from pyspark.sql import functions as f

        if tells(step) and self._first("losses"):
            kind, place = f.col("kind"), f.col("sender")
            lost = [(kind == LOST) & (place == at) for at in range(len(self._reasons))]
            return self._observed(made, kind == ROWS, lost)
        number = _number_of_users(inner(step))
        if number is None or not self._first("users"):
            return made
        # A partition without users says nothing, and so may all of them.
        return made.observe(self._users, f.coalesce(f.sum(number), f.lit(0)).alias("users"))

    def notes(self) -> set[str]:
        """What was left out while the query ran, and that something was not."""
        seen = self._seen_of_rows
        lost = {reason for at, reason in enumerate(self._reasons) if seen.get(f"lost {at}")}
        return lost | ({COMPLETE} if seen.get("rows") else set())

    def all_alone(self) -> bool:
        """Whether there are several rows, and each has its own user. PRIVATE."""
        users = _seen(self._users) if "users" in self._told else {}
        return 1 < self._seen_of_rows.get("rows", 0) == users.get("users")

    @cached_property
    def _seen_of_rows(self) -> dict[str, int]:
        return _seen(self._rows)

    def _observed(self, rows: DataFrame, complete: Column, lost: list[Column]) -> DataFrame:
        from pyspark.sql import functions as f

        each = [f.count_if(column).alias(f"lost {at}") for at, column in enumerate(lost)]
        return rows.observe(self._rows, f.count_if(complete).alias("rows"), *each)

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
