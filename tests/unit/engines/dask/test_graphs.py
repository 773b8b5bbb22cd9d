"""Graphs of Dask: how many tasks a release is, what they keep and show, and where they run."""

from __future__ import annotations

import pickle
from collections import Counter
from functools import partial
from typing import Any

import cloudpickle
import numpy as np
import pandas as pd
import pytest

import dpsu
import dpsu.dask
from dpsu.engines.cluster.engine import Query
from dpsu.engines.dask.engine import Part, Parts, SharedStep
from dpsu.engines.dask.query import DaskData
from dpsu.randomness.keys import Key
from tests.support import clusters
from tests.unit.engines.dask.test_releases import BUDGET, SECRET, SEEDED, parts_of, typed

dask: Any = pytest.importorskip("dask")
dd: Any = pytest.importorskip("dask.dataframe")

DEFAULT: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "insecure_seed": 3}


def query_of(plan: dpsu.Plan, key: Key, *, parts: int, partitions: int) -> Query[Parts]:
    """A release of few rows that has not run."""
    frame = typed(clusters.random_table(np.random.default_rng(1), "text-text"), parts)
    return DaskData(frame, False, partitions).query(plan, key)


def sips(rounds: int, **options: Any) -> dpsu.Plan:
    return dpsu.plan(mechanism=dpsu.Sips(rounds=rounds), **BUDGET, **options)


def tables_of(rows: Parts) -> list[Parts]:
    """A table and all those before it, the first ones first."""
    before = [] if rows.before is None else tables_of(rows.before)
    return [*before, rows]


def test_a_round_is_two_shuffles_and_each_table_has_its_own_tasks_alone() -> None:
    """Neither a step nor a shuffle holds, or makes again, what was before it."""
    key, shown = Key.from_os(), {}
    for rounds in (1, 2, 10):
        for parts, partitions in ((3, 4), (5, 2), (1, 1)):
            rows = query_of(sips(rounds), key, parts=parts, partitions=partitions).items()
            graph, own = rows.graph(), [len(table.tasks) for table in tables_of(rows)]
            assert len(graph) == sum(own)
            shown[rounds, parts, partitions] = Counter(map(dask.utils.key_split, graph))
            # A step is data that all of its tasks use; a shuffle is a task for each pair, and two
            # for each partition.
            sends = parts + parts * (1 + partitions) + 1 + partitions
            round_ = 2 * (1 + partitions) + partitions**2 + 2 * partitions
            between = partitions**2 + 2 * partitions
            ours = Counter(
                {k: n for k, n in shown[rounds, parts, partitions].items() if "dpsu" in k}
            )
            assert ours.total() == parts + sends + rounds * round_ + (rounds - 1) * between
    names = set(shown[10, 3, 4])
    assert {
        "dpsu_Read",
        "dpsu_SendRows",
        "dpsu_Ask_0",
        "dpsu_Answer_9",
        "dpsu_Answer_9_step",
    } <= names


def test_what_past_rounds_made_is_not_kept() -> None:
    """The most parts that are alive at a time do not depend on how many rounds there are."""
    frame = typed(clusters.random_table(np.random.default_rng(1), "text-text"))

    def most_alive(rounds: int) -> int:
        alive: list[int] = []

        def look(key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            kept = list(state["cache"].values())
            alive.append(sum(isinstance(each, Part | list) for each in kept))

        with dask.callbacks.Callback(posttask=look), dask.config.set(scheduler="synchronous"):
            dpsu.dask.release(frame, sips(rounds), partitions=4)
        return max(alive)

    assert most_alive(2) == most_alive(12) <= 4 * (4 + 1) + 4


def test_tasks_show_their_steps_and_neither_key_nor_data() -> None:
    key = Key.from_os()
    graph = query_of(sips(2, public_items=[SECRET]), key, parts=3, partitions=2).items().graph()
    for shown in (repr(graph), str(list(graph))):
        assert key.secret.hex() not in shown
        assert repr(key.secret)[2:-1] not in shown
        assert str(key.salt("bucket of item")) not in shown
        assert SECRET not in shown


def test_a_step_is_sent_once_and_kept_without_the_key() -> None:
    """Workers write what they keep to disk if memory is short; tasks with keys they do not."""
    key = Key.from_os()
    public = [f"public item {number}" for number in range(20_000)]
    query = query_of(sips(2, public_items=public), key, parts=3, partitions=2)
    sizes: dict[str, list[int]] = {}
    for name, task in query.items().graph().items():
        sent = cloudpickle.dumps(task)
        step = dask.utils.key_split(name)
        if not step.startswith("dpsu"):
            continue
        sizes.setdefault(step, []).append(len(sent))
        assert not (step.endswith("_step") and key.secret in sent)
    (asked,) = sizes.pop("dpsu_Ask_0_step")
    assert asked > 200_000
    assert max(map(max, sizes.values())) < 5_000
    # It works with the key of the task, wherever it goes next, also with functions of the caller.
    options: Any = partial(lambda **given: given, key=key, other=[key, "x"])
    there = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(SharedStep(options)))))
    assert there.step(key)() == options()
    assert key.secret not in pickle.dumps(there)


@pytest.mark.slow
def test_the_default_runs_through_on_a_million_rows() -> None:
    """The sieve has 20 rounds, of two shuffles each: almost 6,000 tasks."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame(
        {"user": rng.integers(0, 100_000, 10**6), "item": rng.zipf(1.3, 10**6) % 500_000}
    )
    here = dpsu.release(rows, mechanism=dpsu.Auto(among="parallel"), **DEFAULT)
    assert dpsu.dask.release(dd.from_pandas(rows, 10), **DEFAULT) == here
    assert len(here) > 1000


@pytest.mark.slow
def test_processes_of_one_machine_release_the_same() -> None:
    table = clusters.random_table(np.random.default_rng(5), "text-text")
    plan = dpsu.plan(mechanism=dpsu.Sieve(rounds=2), insecure_seed=5, **BUDGET)
    with dask.config.set(scheduler="processes", num_workers=2):
        assert dpsu.dask.release(typed(table, 2), plan) == dpsu.release(table, plan)


@pytest.mark.slow
def test_workers_of_a_cluster_release_the_same_and_log_nothing() -> None:
    """A scheduler and two workers of their own processes, which talk over the loopback device."""
    distributed = pytest.importorskip("distributed")
    table = clusters.random_table(np.random.default_rng(5), "text-text")
    rows = pd.DataFrame({"user": [SECRET] * 4, "item": ["x"] * 4})
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, host="127.0.0.1",
            dashboard_address=None,
        ) as workers,
        distributed.Client(workers) as client,
    ):  # fmt: skip
        mechanisms = (dpsu.WeightedGaussian(), dpsu.Auto(among="parallel"), dpsu.Bits(rounds=1))
        for mechanism in mechanisms:
            plan = dpsu.plan(mechanism=mechanism, counts=True, insecure_seed=5, **BUDGET)
            there, here = dpsu.dask.release(typed(table, 4), plan), dpsu.release(table, plan)
            assert there == here
            assert there.counts is not None
            assert there.counts.equals(here.counts)
        with pytest.raises(dpsu.DataError, match="in another"):
            dpsu.dask.release(parts_of([rows, rows.assign(user=1)], rows.iloc[:0]), **SEEDED)
        told = str(client.get_worker_logs()) + str(client.cluster.scheduler.get_logs())
    assert "Compute Failed" not in told
    assert SECRET not in told
