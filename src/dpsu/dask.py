"""Releases where the data are: Dask DataFrames in, released items out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

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
from dpsu.runtime.extras import load
from dpsu.selection import select_on
from dpsu.showing.progress import Stages, stages

__all__ = ["domains", "release", "select"]


@suggests_keywords
def release(
    df: Any,
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
) -> Release:
    """Release items of a Dask DataFrame, where Dask runs.

    Parameters
    ----------
    df : dask.dataframe.DataFrame
        One row for each user and item, or text. It is read once, or once more for `counts` and for
        the estimate of Auto, and once for each length of NGrams; it must not change meanwhile.
    plan : Plan, optional
        As for :func:`dpsu.release`; the same plan runs there and here.
    mechanism : str or Mechanism, optional
        Auto (default, among count-laplace, sieve and bits), Sieve, Bits, Sips, Reroute,
        WeightedGaussian, WeightedLaplace, CountGaussian or CountLaplace; for texts also NGrams.
        Mechanisms whose users act one after the other are refused.
    item : str, sequence of str, Items or Tokens, optional
        As for :func:`dpsu.release`. Texts are tokenized by the workers that read them, which need
        what the tokenizer needs. A function must give the same tokens for a text in every process.
    partitions : int, optional
        In how many partitions users and items are grouped; as many as the DataFrame has by default,
        and at most 128. The release does not depend on it.
    progress : bool or callable, optional
        True shows which stage it is at; a function is called with its name, and 0. A release is one
        graph, and how far that is only Dask's own pages show.
    epsilon, delta, user, counts, public_items, prior, insecure_seed, strict, ledger
        As for :func:`dpsu.release`. Public data are read here and sent to workers.

    Returns
    -------
    Release

    Privacy
    -------
    That of :func:`dpsu.release`: for the same key, the released items are the same, bit for bit.
    The key goes to the workers inside tasks, whose names are all that Dask shows of them, and not
    among the data that workers may write to disk. A job that dies has released nothing, and its key
    is never used again; a ledger has it on record as spent all the same.

    Cost
    ----
    Two shuffles for each round of users and items, as on Spark. A shuffle is a task for each pair
    of partitions: with P partitions, a round has 2 P^2 + 6 P + 2 of them. The graph is put together
    once.

    Examples
    --------
    >>> import dpsu.dask
    >>> import dask.dataframe  # doctest: +SKIP
    >>> visits = dask.dataframe.read_parquet("visits")  # doctest: +SKIP
    >>> found = dpsu.dask.release(
    ...     visits, user="person", item="product", epsilon=1, delta=1e-6
    ... )  # doctest: +SKIP
    """
    from dpsu.engines.dask.query import DaskData

    load("dask")
    return release_on(
        DaskData, df, plan, epsilon=epsilon, delta=delta, mechanism=mechanism, user=user, item=item,
        counts=counts, public_items=public_items, prior=prior, insecure_seed=insecure_seed,
        strict=strict, partitions=partitions, progress=progress, ledger=ledger,
    )  # fmt: skip


@suggests_keywords
def domains(
    df: Any,
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
    """Release the values of many columns of a Dask DataFrame at once, where Dask runs.

    Parameters
    ----------
    df : dask.dataframe.DataFrame
        A table with a column of users; a user may have many rows.
    plan, columns, levels, types
        As for :func:`dpsu.domains`; the same plan runs there and here.
    mechanism, partitions, progress
        As for :func:`dpsu.dask.release`.
    epsilon, delta, user, counts, insecure_seed, strict, ledger
        As for :func:`dpsu.release`. Missing cells are ignored, also with `strict`.

    Returns
    -------
    Domains
        A mapping from each column to its values.

    Privacy
    -------
    That of :func:`dpsu.domains`: for the same key, the values are the same, bit for bit.

    Cost
    ----
    That of :func:`dpsu.dask.release` for rows times columns.

    Examples
    --------
    >>> import dpsu.dask
    >>> found = dpsu.dask.domains(
    ...     people, user="id", columns=["sex", "job"], epsilon=1, delta=1e-6
    ... )  # doctest: +SKIP
    """
    return Domains(
        release(
            df, plan, epsilon=epsilon, delta=delta, mechanism=mechanism, user=user,
            item=values_of(plan, columns=columns, levels=levels, types=types), counts=counts,
            insecure_seed=insecure_seed, strict=strict, partitions=partitions, progress=progress,
            ledger=ledger,
        )
    )  # fmt: skip


@suggests_keywords
def select(
    df: Any,
    candidates: Sequence[Plan],
    *,
    expected_runs: float = 5.0,
    tune_fraction: float | None = None,
    strict: bool = False,
    partitions: int | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
) -> Release:
    """Release with the best of several plans, the choice paid for, where Dask runs.

    Parameters
    ----------
    df : dask.dataframe.DataFrame
        As for :func:`dpsu.dask.release`. Every run reads it; it must not change meanwhile.
    candidates, expected_runs, tune_fraction
        As for :func:`dpsu.select`; mechanisms as for :func:`dpsu.dask.release`.
    strict, partitions, progress, ledger
        As for :func:`dpsu.dask.release`.

    Returns
    -------
    Release
        Its plan names the options that were chosen and what the choice cost.

    Privacy
    -------
    That of :func:`dpsu.select`: for the same key, choice and items are the same, bit for bit. How
    many runs there were is not shown in the result, but pages of Dask show their tasks: they are
    for the curator only.

    Cost
    ----
    That of `expected_runs` releases on average, and of one more with `tune_fraction`.

    Examples
    --------
    >>> import dpsu.dask
    >>> sizes = [
    ...     dpsu.plan(epsilon=2, delta=1e-6, mechanism=dpsu.WeightedGaussian(max_items=size))
    ...     for size in (3, 30)
    ... ]
    >>> best = dpsu.dask.select(visits, sizes)  # doctest: +SKIP
    """
    from dpsu.engines.cluster.running import checked_partitions
    from dpsu.engines.dask.query import DaskData

    load("dask")
    spending = Spending.of(ledger)
    flag("strict", strict)
    data = DaskData(df, strict, checked_partitions(partitions))
    with stages(progress) as report:
        return select_on(
            data, candidates, expected_runs=expected_runs, tune_fraction=tune_fraction,
            report=report, spending=spending,
        )  # fmt: skip
