"""Sums by OpenDP, with keys that were released before or by a threshold of its own."""

from __future__ import annotations

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums


def given(ask: Ask) -> Sums:
    """Sums of released products."""
    purchases, keys, epsilon = ask.purchases, ask.keys, ask.epsilon
    max_rows, max_amount = ask.max_rows, ask.max_amount
    # guide
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    released = pl.read_parquet(keys).select("product")
    context = dp.Context.compositor(
        # Rows without a released key are dropped first: a person's few rows are not for them.
        data=pl.scan_parquet(purchases).join(released.lazy(), on="product", how="semi"),
        privacy_unit=dp.unit_of(contributions=1, identifier="person"),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=10_000_000)],  # more rows than there can be
    )
    sums = (
        context.query()
        .truncate_per_group(max_rows)
        .group_by("product")
        .agg(pl.col("amount").fill_null(0).dp.sum((0, max_amount)))
        .with_keys(released)
        .release()
        .collect()
    )
    # end of guide
    return dict(sums.select("product", "amount").rows())


def own(ask: Ask) -> Sums:
    """Sums of products that a threshold on noisy counts lets through."""
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    context = dp.Context.compositor(
        data=pl.scan_parquet(ask.purchases),
        privacy_unit=dp.unit_of(contributions=1, identifier="person"),
        privacy_loss=dp.loss_of(epsilon=ask.epsilon, delta=ask.delta),
        split_evenly_over=1,
        margins=[dp.polars.Margin(by=[], max_length=10_000_000)],
    )
    sums = (
        context.query()
        # The second bound lowers the threshold: a person is at most one row of a product.
        .truncate_per_group(ask.max_rows)
        .truncate_per_group(1, by=["product"])
        .group_by("product")
        .agg(dp.len(signed=True), pl.col("amount").fill_null(0).dp.sum((0, ask.max_amount)))
        .release()
        .collect()
    )
    return dict(sums.select("product", "amount").rows())


if __name__ == "__main__":
    answer("opendp", given, own)
