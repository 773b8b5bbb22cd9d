"""Releases where the data are: Spark DataFrames in, Spark DataFrames out."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import DataWarning
from dpsu.ledger.spending import Spending
from dpsu.options import whole_number
from dpsu.plans.plan import Plan
from dpsu.plans.planning import (
    DEFAULT_COUNTS_ITEMS,
    DEFAULT_COUNTS_SHARE,
    DEFAULT_ITEM,
    DEFAULT_USER,
    plan,
)
from dpsu.randomness.keys import Key
from dpsu.releases import Release

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from dpsu.ledger.ledger import Ledger

__all__ = ["SparkRelease", "release"]

LARGEST_PARTITIONS = 1 << 16


@dataclass(frozen=True, eq=False)
class SparkRelease:
    """What may be published, as :class:`dpsu.Release` has it, and as a Spark DataFrame.

    Released items have come back to the driver; the DataFrame is made of them. It does not depend
    on the private data or the key any more, so that nothing is computed again if the data change.
    """

    released: Release
    session: SparkSession = field(repr=False)

    @property
    def plan(self) -> Plan:
        """The plan that made the release."""
        return self.released.plan

    @property
    def private(self) -> bool:
        """Whether the guarantee holds."""
        return self.released.private

    @cached_property
    def items(self) -> DataFrame:
        """The released items, sorted, named as their column was; with counts also noisy_users."""
        import pyarrow as pa

        table = self.released.to_arrow()
        text = [pa.string() if pa.types.is_large_string(c.type) else c.type for c in table.columns]
        schema = pa.schema(list(zip(table.column_names, text, strict=True)))
        return self.session.createDataFrame(table.cast(schema))

    def report(self) -> str:
        """The release in words. Safe to publish."""
        return self.released.report()

    def report_json(self) -> str:
        """The same as JSON. Safe to publish."""
        return self.released.report_json()


def release(
    df: DataFrame,
    *,
    user: str = DEFAULT_USER,
    item: str = DEFAULT_ITEM,
    user_type: str | None = None,
    item_type: str | None = None,
    epsilon: float,
    delta: float,
    mechanism: str | None = None,
    max_items: int | None = None,
    alpha: float | None = None,
    cutoff: float | None = None,
    rounds: int | None = None,
    scout_items: int | None = None,
    min_users: int | None = None,
    counts: bool = False,
    counts_share: float = DEFAULT_COUNTS_SHARE,
    counts_items: int = DEFAULT_COUNTS_ITEMS,
    calibration: str = "tight",
    prior: Any = None,
    expected_users: int | None = None,
    expected_items_per_user: float | None = None,
    public_items: Any = None,
    insecure_seed: int | None = None,
    strict: bool = False,
    partitions: int | None = None,
    ledger: str | Path | Ledger | Spending | None = None,
    dataset: str | None = None,
    budget: tuple[float, float] | None = None,
) -> SparkRelease:
    """Release items of a Spark DataFrame, on its cluster.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row for each user and item, in a session of one's own or over Spark Connect. It is read
        once, or once more for `counts` and to count rows; it must not change meanwhile.
    mechanism : str, optional
        sieve (default), sips, reroute, weighted-gaussian, weighted-laplace, count-gaussian or
        count-laplace. Mechanisms whose users act in turn (policy-*, greedy) are refused.
    partitions : int, optional
        In how many buckets users and items are grouped; one for a million rows by default, for
        which rows are counted first. The release does not depend on it.
    user, item, user_type, item_type, epsilon, delta, max_items, alpha, cutoff, rounds, \
scout_items, min_users, counts, counts_share, counts_items, calibration, prior, expected_users, \
expected_items_per_user, public_items, insecure_seed, strict, ledger, dataset, budget
        As for :func:`dpsu.release`. Public knowledge is read by the driver and sent to workers.

    Returns
    -------
    SparkRelease
        Its `items` are a DataFrame.

    Privacy
    -------
    That of :func:`dpsu.release`: for the same key, the released items are the same, bit for bit.
    The key goes to the workers inside functions; plans, logs and web pages of Spark show the names
    of functions only. A job that dies has released nothing, and its key is never used again; a
    ledger has it on record as spent all the same.

    Cost
    ----
    Two exchanges for each turn of users and items: one turn for count-* and weighted-*, two for
    reroute, `rounds` for sips and sieve. Each carries about 4 bytes a pair, and some for each
    distinct item of a bucket. Released items alone come back to the driver.

    Examples
    --------
    >>> import dpsu.spark
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> spark = SparkSession.builder.getOrCreate()  # doctest: +SKIP
    >>> visits = spark.read.parquet("visits")  # doctest: +SKIP
    >>> found = dpsu.spark.release(
    ...     visits, user="person", item="product", epsilon=1, delta=1e-6
    ... )  # doctest: +SKIP
    >>> found.items.write.parquet("released")  # doctest: +SKIP
    """
    from dpsu.contributions.ids import Ids
    from dpsu.engines.spark import query as engine
    from dpsu.inputs import public

    known_prior = None if prior is None else public.read_prior(prior, item)
    known_items = None if public_items is None else public.read_public_items(public_items, item)
    chosen = plan(
        user=user, item=item, user_type=user_type, item_type=item_type, epsilon=epsilon,
        delta=delta, mechanism=mechanism,
        max_items=max_items, alpha=alpha, cutoff=cutoff, rounds=rounds, scout_items=scout_items,
        min_users=min_users, counts=counts, counts_share=counts_share, counts_items=counts_items,
        calibration=calibration, prior=known_prior, expected_users=expected_users,
        expected_items_per_user=expected_items_per_user, public_items=known_items,
        insecure_seed=insecure_seed,
    )  # fmt: skip
    if partitions is not None:
        partitions = whole_number("partitions", partitions, 1, LARGEST_PARTITIONS)
    engine.refuse_sequential(chosen)
    spending = Spending.of(ledger, dataset, budget)
    # Names and types are in the schema: what they rule out costs nothing.
    engine.rows_of(df, chosen, known_items)
    # On record before anything is read: a job that dies has spent what it may have shown.
    spending.charge(chosen)
    key = Key.from_os() if insecure_seed is None else Key.from_insecure_seed(insecure_seed)
    prepared = engine.query(
        df, chosen, key, prior=known_prior, public=known_items, strict=strict,
        partitions=partitions,
    )  # fmt: skip
    if insecure_seed is not None:
        warnings.warn("insecure_seed: this release is not private", DataWarning, stacklevel=2)
    items = engine.run(prepared)
    noisy = engine.count(prepared, items) if counts else None
    share = None
    if known_prior is not None and len(items):
        share = float(known_prior.known(Ids(items)).mean())
    spending.returned()
    return SparkRelease(Release(chosen, items, noisy, share), df.sparkSession)
