"""Releases where the data are: Dask DataFrames in, released items out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsu.clusters import planned_for, release_on
from dpsu.inputs.columns import Items, Users
from dpsu.keywords import kind_keywords
from dpsu.ledger.spending import Spending
from dpsu.options import flag
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.plan import Plan
from dpsu.results import Release
from dpsu.runtime.extras import load
from dpsu.showing.progress import Stages, stages

__all__ = ["release"]


@kind_keywords
def release(
    df: Any,
    plan: Plan | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | Mechanism | None = None,
    user: str | Sequence[str] | Users | None = None,
    item: str | Sequence[str] | Items | None = None,
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
        One row for each user and item. It is read once, or once more for `counts` and for the
        estimate of Auto; it must not change meanwhile.
    plan : Plan, optional
        As for :func:`dpsu.release`; the same plan runs there and here.
    mechanism : str or Mechanism, optional
        Auto (default, among count-laplace, sieve and bits), Sieve, Bits, Sips, Reroute,
        WeightedGaussian, WeightedLaplace, CountGaussian or CountLaplace. Mechanisms whose users act
        one after the other are refused.
    partitions : int, optional
        In how many partitions users and items are grouped; as many as the DataFrame has by default,
        and at most 128. The release does not depend on it.
    progress : bool or callable, optional
        True shows which stage it is at; a function is called with its name, and 0. A release is one
        graph, and how far that is only Dask's own pages show.
    epsilon, delta, user, item, counts, public_items, prior, insecure_seed, strict, ledger
        As for :func:`dpsu.release`. Public data are read here and sent to workers.

    Returns
    -------
    Release

    Privacy
    -------
    That of :func:`dpsu.release`: for the same key, the released items are the same, bit for bit.
    The key goes to the workers inside tasks, whose names are all that Dask shows of them. A job
    that dies has released nothing, and its key is never used again; a ledger has it on record as
    spent all the same.

    Cost
    ----
    Two shuffles for each round of users and items, as on Spark. A shuffle is a task for each pair
    of partitions: with P partitions, a round has about 2 P^2 of them.

    Examples
    --------
    >>> import dpsu.dask
    >>> import dask.dataframe  # doctest: +SKIP
    >>> visits = dask.dataframe.read_parquet("visits")  # doctest: +SKIP
    >>> found = dpsu.dask.release(
    ...     visits, user="person", item="product", epsilon=1, delta=1e-6
    ... )  # doctest: +SKIP
    """
    from dpsu.engines.cluster.running import checked_partitions
    from dpsu.engines.dask.query import DaskData
    from dpsu.inputs.reading import refuse_same_object

    load("dask")
    refuse_same_object(df, public_items, getattr(mechanism, "prior", None), prior)

    spending = Spending.of(ledger, may_be_named=True)
    flag("strict", strict)
    shown = stages(progress)
    approved = planned_for(
        plan, mechanism, epsilon=epsilon, delta=delta, user=user, item=item, counts=counts,
        public_items=public_items, prior=prior, insecure_seed=insecure_seed,
    )  # fmt: skip
    data = DaskData(df, strict, checked_partitions(partitions))
    return release_on(data, plan, approved, spending, shown)
