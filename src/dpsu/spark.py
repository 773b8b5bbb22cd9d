"""Releases where the data are: Spark DataFrames in, Spark DataFrames out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from dpsu.clusters import release_on
from dpsu.codebooks import Domains, values_of
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.ledger.spending import Spending
from dpsu.options import flag, suggests_keywords
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.plan import Plan
from dpsu.results import Release
from dpsu.selection import select_on
from dpsu.showing.progress import Stages, stages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkRelease", "domains", "release", "select"]


@dataclass(frozen=True, eq=False)
class SparkRelease:
    """What may be published, as :class:`dpsu.Release` has it, and as a Spark DataFrame.

    Released items have come back to the driver; the DataFrame is made from them. It does not depend
    on the rows or the key any more, so that nothing is computed again if the rows change.
    ``len`` is the number of items.

    Attributes
    ----------
    released : Release
        The release itself: items, noisy counts and run, all of them on the driver.
    session : pyspark.sql.SparkSession
        The session in which `items` is made.
    """

    released: Release
    session: SparkSession = field(repr=False)

    def __len__(self) -> int:
        return len(self.released)

    def __repr__(self) -> str:
        return f"<Spark{repr(self.released).removeprefix('<')}"

    def _repr_html_(self) -> str:
        return self.released._repr_html_()

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
        types = [pa.string() if pa.types.is_large_string(c.type) else c.type for c in table.columns]
        schema = pa.schema(list(zip(table.column_names, types, strict=True)))
        return self.session.createDataFrame(table.cast(schema))

    def report(self) -> str:
        """The release in words. Safe to publish."""
        return self.released.report()

    def report_json(self) -> str:
        """The same as JSON. Safe to publish."""
        return self.released.report_json()


@suggests_keywords
def release(
    df: DataFrame,
    plan: Plan | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | Mechanism | None = None,
    user: str | Sequence[str] | Users | None = None,
    item: str | Sequence[str] | Items | Tokens | None = None,
    counts: bool | Counts | None = None,
    public_items: Any = None,
    prior: Any = None,
    insecure_seed: int | None = None,
    strict: bool = False,
    partitions: int | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
) -> SparkRelease:
    """Release items of a Spark DataFrame, on its cluster.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        One row for each user and item, or text, in a session of one's own or over Spark Connect. It
        is read once, or once more for `counts`, for the estimate of Auto and to count rows, and
        once for each length of NGrams; it must not change meanwhile.
    plan : Plan, optional
        As for :func:`dpsu.release`; the same plan runs there and here.
    mechanism : str or Mechanism, optional
        Auto (default, among count-laplace, sieve and bits), Sieve, Bits, Sips, Reroute,
        WeightedGaussian, WeightedLaplace, CountGaussian or CountLaplace; for texts also NGrams.
        Mechanisms whose users act one after the other are refused.
    item : str, sequence of str, Items or Tokens, optional
        As for :func:`dpsu.release`. Texts are tokenized by the workers that read them, which need
        what the tokenizer needs. A tokenizer file is sent to them; so is a function, which must
        give the same tokens for a text in every process.
    partitions : int, optional
        In how many partitions users and items are grouped; one for a million rows by default, for
        which rows are counted first. Of more than 64, at most 16 for a million rows are made. The
        release does not depend on it.
    progress : bool or callable, optional
        True shows which stage it is at; a function is called with its name, and 0. A release is one
        query, and how far that is only Spark's own pages show.
    epsilon, delta, user, counts, public_items, prior, insecure_seed, strict, ledger
        As for :func:`dpsu.release`. Public data are read by the driver and sent to workers.

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
    Two shuffles for each round of users and items: one round for count-* and weighted-*, two for
    reroute, `rounds` for bits, sips and sieve; three shuffles for each round of bits if it
    estimates the number of items per user; two for each length of n-grams, which are read and
    tokenized again for each. Each carries about 4 bytes a pair, and some for each distinct item of
    a partition. Released items alone come back to the driver.

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
    from dpsu.engines.spark.query import SparkData

    released = release_on(
        SparkData, df, plan, epsilon=epsilon, delta=delta, mechanism=mechanism, user=user,
        item=item, counts=counts, public_items=public_items, prior=prior,
        insecure_seed=insecure_seed, strict=strict, partitions=partitions, progress=progress,
        ledger=ledger,
    )  # fmt: skip
    return SparkRelease(released, df.sparkSession)


@suggests_keywords
def domains(
    df: DataFrame,
    plan: Plan | None = None,
    *,
    columns: str | Sequence[str] | None = None,
    levels: Sequence[str] | Sequence[Sequence[str]] | None = None,
    types: Mapping[str, str] | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | Mechanism | None = None,
    user: str | Sequence[str] | Users | None = None,
    counts: bool | Counts | None = None,
    insecure_seed: int | None = None,
    strict: bool = False,
    partitions: int | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
) -> Domains:
    """Release the values of many columns of a Spark DataFrame at once, on its cluster.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A table with a column of users; a user may have many rows. It is read as often as
        :func:`dpsu.spark.release` reads it.
    plan, columns, levels, types
        As for :func:`dpsu.domains`; the same plan runs there and here.
    mechanism, partitions, progress
        As for :func:`dpsu.spark.release`.
    epsilon, delta, user, counts, insecure_seed, strict, ledger
        As for :func:`dpsu.release`. Missing cells are ignored, also with `strict`.

    Returns
    -------
    Domains
        A mapping from each column to its values, on the driver.

    Privacy
    -------
    That of :func:`dpsu.domains`: for the same key, the values are the same, bit for bit.

    Cost
    ----
    That of :func:`dpsu.spark.release` for rows times columns. A row becomes rows of one user and
    one value where it is read, so that wide rows are never shuffled.

    Examples
    --------
    >>> import dpsu.spark
    >>> from pyspark.sql import SparkSession  # doctest: +SKIP
    >>> spark = SparkSession.builder.getOrCreate()  # doctest: +SKIP
    >>> found = dpsu.spark.domains(
    ...     spark.read.parquet("people"), user="id", columns=["sex"], levels=["country", "city"],
    ...     epsilon=1, delta=1e-6,
    ... )  # doctest: +SKIP
    >>> found["sex"]  # doctest: +SKIP
    ('female', 'male')
    """
    released = release(
        df, plan, epsilon=epsilon, delta=delta, mechanism=mechanism, user=user,
        item=values_of(plan, columns=columns, levels=levels, types=types), counts=counts,
        insecure_seed=insecure_seed, strict=strict, partitions=partitions, progress=progress,
        ledger=ledger,
    )  # fmt: skip
    return Domains(released.released)


@suggests_keywords
def select(
    df: DataFrame,
    candidates: Sequence[Plan],
    *,
    expected_runs: float = 5.0,
    tune_fraction: float | None = None,
    strict: bool = False,
    partitions: int | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
) -> SparkRelease:
    """Release with the best of several plans, the choice paid for, on the cluster of a DataFrame.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        As for :func:`dpsu.spark.release`. Every run reads it; keep it in memory (``df.cache()``) if
        that is slow. It must not change meanwhile.
    candidates, expected_runs, tune_fraction
        As for :func:`dpsu.select`; mechanisms as for :func:`dpsu.spark.release`.
    strict, partitions, progress, ledger
        As for :func:`dpsu.spark.release`. Rows are counted for every run, unless
        `partitions` is at most 64.

    Returns
    -------
    SparkRelease
        Its plan names the options that were chosen and what the choice cost.

    Privacy
    -------
    That of :func:`dpsu.select`: for the same key, choice and items are the same, bit for bit. How
    many runs there were is not shown in the result, but logs and web pages of Spark show their
    jobs: they are for the curator only.

    Cost
    ----
    That of `expected_runs` releases on average, and of one more with `tune_fraction`.

    Examples
    --------
    >>> import dpsu.spark
    >>> sizes = [
    ...     dpsu.plan(epsilon=2, delta=1e-6, mechanism=dpsu.WeightedGaussian(max_items=size))
    ...     for size in (3, 30)
    ... ]
    >>> best = dpsu.spark.select(visits, sizes)  # doctest: +SKIP
    """
    from dpsu.engines.cluster.running import checked_partitions
    from dpsu.engines.spark.query import SparkData

    spending = Spending.of(ledger)
    flag("strict", strict)
    data = SparkData(df, strict, checked_partitions(partitions))
    with stages(progress) as report:
        released = select_on(
            data, candidates, expected_runs=expected_runs, tune_fraction=tune_fraction,
            report=report, spending=spending,
        )  # fmt: skip
    return SparkRelease(released, df.sparkSession)
