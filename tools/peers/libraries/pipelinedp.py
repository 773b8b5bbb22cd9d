"""Sums by PipelineDP, with public partitions or with its own selection of partitions."""

from __future__ import annotations

from typing import Any

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums


def given(ask: Ask) -> Sums:
    """Sums of released products."""
    purchases, keys, epsilon = ask.purchases, ask.keys, ask.epsilon
    max_rows, max_amount = ask.max_rows, ask.max_amount
    # guide
    import pipeline_dp
    import pyarrow.parquet as pq

    rows = pq.read_table(purchases).to_pylist()
    released = pq.read_table(keys)["product"].to_pylist()
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=epsilon, total_delta=0)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.SUM],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=max_rows,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=max_amount,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row["person"],
        partition_extractor=lambda row: row["product"],
        value_extractor=lambda row: row["amount"],
    )
    sums = engine.aggregate(rows, params, columns, public_partitions=released)
    budget.compute_budgets()  # nothing is computed before
    sums = {product: metrics.sum for product, metrics in sums}
    # end of guide
    return dict(sums)


def own(ask: Ask) -> Sums:
    """Sums of the partitions that PipelineDP selects, for half of epsilon and all of delta."""
    import pipeline_dp
    import pyarrow.parquet as pq

    rows: list[dict[str, Any]] = pq.read_table(ask.purchases).to_pylist()
    budget = pipeline_dp.NaiveBudgetAccountant(ask.epsilon, ask.delta)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.SUM],
        noise_kind=pipeline_dp.NoiseKind.LAPLACE,
        max_partitions_contributed=ask.max_rows,
        max_contributions_per_partition=1,
        min_value=0,
        max_value=ask.max_amount,
    )
    columns = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row["person"],
        partition_extractor=lambda row: row["product"],
        value_extractor=lambda row: row["amount"],
    )
    sums = engine.aggregate(rows, params, columns)
    budget.compute_budgets()
    return {product: metrics.sum for product, metrics in sums}


if __name__ == "__main__":
    answer("pipeline-dp", given, own)
