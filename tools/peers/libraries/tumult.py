"""Sums by Tumult Analytics, with a KeySet that was released before or by `get_groups`."""

from __future__ import annotations

import os
import sys
from typing import Any

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums


def given(ask: Ask) -> Sums:
    """Sums of released products."""
    purchases, keys, epsilon = ask.purchases, ask.keys, ask.epsilon
    max_rows, max_amount = ask.max_rows, ask.max_amount
    spark = _session()
    # guide
    from tmlt.analytics import (
        AddRowsWithID,
        KeySet,
        MaxRowsPerID,
        PureDPBudget,
        QueryBuilder,
        Session,
    )

    released = spark.read.parquet(keys).select("product")
    session = Session.from_dataframe(
        privacy_budget=PureDPBudget(epsilon),
        source_id="purchases",
        dataframe=spark.read.parquet(purchases),
        protected_change=AddRowsWithID("person"),
    )
    query = (
        QueryBuilder("purchases")
        .join_public(released)  # drops rows without a released key, before the next line
        .enforce(MaxRowsPerID(max_rows))
        .groupby(KeySet.from_dataframe(released))
        .sum("amount", low=0, high=max_amount, name="amount")
    )
    sums = session.evaluate(query, privacy_budget=PureDPBudget(epsilon))
    # end of guide
    return _collected(sums)


def own(ask: Ask) -> Sums:
    """Sums of the groups that `get_groups` finds for half of epsilon and all of delta."""
    from tmlt.analytics import (
        AddRowsWithID,
        ApproxDPBudget,
        KeySet,
        MaxRowsPerID,
        QueryBuilder,
        Session,
    )

    session = Session.from_dataframe(
        privacy_budget=ApproxDPBudget(ask.epsilon, ask.delta),
        source_id="purchases",
        dataframe=_session().read.parquet(ask.purchases),
        protected_change=AddRowsWithID("person"),
    )
    rows, bound = QueryBuilder("purchases"), MaxRowsPerID(ask.max_rows)
    half = ApproxDPBudget(ask.epsilon / 2, ask.delta)
    found = session.evaluate(rows.enforce(bound).get_groups(["product"]), half)
    query = (
        rows.join_public(found)
        .enforce(bound)
        .groupby(KeySet.from_dataframe(found))
        .sum("amount", low=0, high=ask.max_amount, name="amount")
    )
    return _collected(session.evaluate(query, session.remaining_privacy_budget))


def _session() -> Any:
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    return session


def _collected(sums: Any) -> Sums:
    return {row["product"]: row["amount"] for row in sums.collect()}


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    answer("tmlt.analytics", given, own)
