"""Choosing among plans on a cluster: the choice, the items and the price of one machine."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
import dpsu.dask
from dpsu.contributions.samples import Sample
from dpsu.engines.cluster.running import Cluster
from dpsu.ledger.spending import Spending
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.selection import repetition, select_on
from tests.support import clusters
from tests.support.cases import every

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}
PARALLEL = [
    dpsu.WeightedGaussian(max_items=4), dpsu.Sieve(rounds=3), dpsu.Bits(),
    dpsu.Auto(among="parallel", budget=0.5), dpsu.Reroute(max_items=4),
]  # fmt: skip


def plans(seed: int | None = None, **options: Any) -> list[dpsu.Plan]:
    given: dict[str, Any] = {"insecure_seed": seed} | BUDGET | options
    return [dpsu.plan(mechanism=mechanism, **given) for mechanism in PARALLEL]


def on_twin(table: pa.Table, candidates: Any, **options: Any) -> dpsu.Release:
    data = clusters.OneProcessData(table)
    given: dict[str, Any] = {"expected_runs": 5.0, "tune_fraction": None} | options
    spending = given.pop("spending", Spending.of(None))
    return select_on(data, candidates, report=lambda stage, done: None, spending=spending, **given)


def runs_under(seed: int) -> int:
    return repetition(Privacy(**BUDGET), 5.0).draw(Key.from_insecure_seed(seed))


@every(("seed", "fraction"), [(0, None), (1, 0.4), (3, None), (3, 0.4)])
def test_the_choice_is_that_of_one_machine(seed: int, fraction: float | None) -> None:
    table = clusters.random_table(np.random.default_rng(3), "text-int")
    here = dpsu.select(table, plans(seed), tune_fraction=fraction)
    there = on_twin(table, plans(seed), tune_fraction=fraction)
    assert here.items
    assert there == here
    assert there.values.equals(here.values)
    assert there.plan == here.plan


def test_values_are_chosen_with_what_they_imply() -> None:
    rows = [(f"p{at % 90}", ("fr", "de")[at % 2], f"c{at % 20}") for at in range(400)]
    columns = dict(
        zip(["user", "country", "city"], map(list, zip(*rows, strict=True)), strict=True)
    )
    item = dpsu.Values(levels=["country", "city"])
    here = dpsu.select(pa.table(columns), plans(1, item=item), tune_fraction=0.3)
    there = on_twin(pa.table(columns), plans(1, item=item), tune_fraction=0.3)
    assert there.to_arrow().equals(here.to_arrow())
    assert dpsu.Domains(there).levels == dpsu.Domains(here).levels


class Watched:
    """Clusters, with a note of the plan, the people and the key of each run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runs: list[tuple[dpsu.Plan, Any, bytes]] = []
        run = Cluster.run

        def watched(cluster: Any, key: Key) -> Any:
            self.runs.append((cluster._plan, cluster._data.sample, key.secret))
            return run(cluster, key)

        monkeypatch.setattr(Cluster, "run", watched)


@every("fraction", [None, 0.4])
def test_runs_have_their_own_price_and_key_and_nobody_is_in_both_parts(
    fraction: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = next(seed for seed in range(1000) if runs_under(seed) > 4)
    watched, key = Watched(monkeypatch), Key.from_insecure_seed(seed)
    people = [f"u{at}" for at in range(300)]
    table = pa.table({"user": people * 2, "item": ["x"] * 300 + ["y"] * 300})
    on_twin(table, plans(seed), tune_fraction=fraction)
    tries = watched.runs if fraction is None else watched.runs[:-1]
    assert len(tries) == runs_under(seed)
    assert {plan.privacy for plan, _, _ in tries} == {repetition(Privacy(**BUDGET), 5.0).run}
    secrets = [key.secret, *(secret for _, _, secret in watched.runs)]
    assert len(set(secrets)) == len(secrets)
    if fraction is None:
        assert {part for _, part, _ in tries} == {None}
        return
    final, others, _ = watched.runs[-1]
    sample = Sample(fraction, key.salt("tuning sample"))
    assert final.privacy == Privacy(**BUDGET)
    assert {part for _, part, _ in tries} == {sample}
    assert others == Sample(fraction, sample.salt, others=True)


def test_people_of_the_sample_are_not_in_the_release() -> None:
    """What only the sample holds never comes out, and what the others hold does."""
    seed, people = 2, [f"u{at}" for at in range(900)]
    sample = Sample(0.5, Key.from_insecure_seed(seed).salt("tuning sample"))
    inside = sample.among(dpsu_ids(people))
    assert 300 < inside.sum() < 600
    items = ["of the sample" if each else "of the others" for each in inside]
    (candidate,) = [dpsu.plan(mechanism=dpsu.WeightedGaussian(), insecure_seed=seed, **BUDGET)]
    found = on_twin(
        pa.table({"user": people * 2, "item": items * 2}), [candidate], tune_fraction=0.5
    )
    assert found.items == ("of the others",)


def dpsu_ids(people: list[str]) -> Any:
    from dpsu.contributions.ids import Ids

    return Ids(pa.array(people, pa.large_string()))


def test_everybody_hears_once_of_what_all_runs_saw() -> None:
    """The number of warnings would tell the number of runs."""
    seed = next(seed for seed in range(1000) if runs_under(seed) > 4)
    table = pa.table({"user": ["a", None, "b"] * 30, "item": ["x", "y", None] * 30})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", dpsu.DataWarning)
        on_twin(table, plans(seed))
    messages = [str(each.message) for each in told]
    assert messages.count("some rows have no 'user' or no 'item'; they were ignored") == 1
    assert len(messages) == len(set(messages))
    assert {each.filename for each in told} == {__file__}


@every("fraction", [None, 0.4])
def test_names_and_plans_are_refused_before_a_ledger_is_charged(
    fraction: float | None, tmp_path: Path
) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    spending = ledger.dataset("visits", budget=(4, 0.05))
    table = clusters.random_table(np.random.default_rng(3), "text-int")
    given: dict[str, Any] = {"tune_fraction": fraction, "spending": spending}
    with pytest.raises(dpsu.ParameterError, match="did you mean 'items'"):
        on_twin(table.rename_columns(["user", "items"]), plans(), **given)
    one_machine = dpsu.plan(mechanism="greedy", **BUDGET)
    with pytest.raises(dpsu.ParameterError, match="greedy cannot run on the twin"):
        on_twin(table, [*plans(), one_machine], **given)
    floats = table.set_column(1, "item", pa.array(np.zeros(len(table))))
    with pytest.raises(dpsu.DataError, match="type double"):
        on_twin(floats, plans(), **given)
    assert not ledger.path.exists()
    paid = on_twin(table, plans(), **given)
    (entry,) = ledger.account("visits").releases
    assert entry.run == paid.run.id
    assert entry.cost.privacy == Privacy(**BUDGET)


def test_runs_that_cannot_be_planned_are_refused_before_a_ledger_is_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run has a smaller delta than the whole, which a mechanism may refuse."""
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    spending = ledger.dataset("visits", budget=(4, 0.05))
    table = clusters.random_table(np.random.default_rng(3), "text-int")
    candidates = plans()

    def refused(*given: Any, **options: Any) -> Any:
        raise dpsu.ParameterError("delta is too small")

    monkeypatch.setattr(dpsu.Plan, "with_mechanism", refused)
    with pytest.raises(dpsu.ParameterError, match="too small"):
        on_twin(table, candidates, spending=spending)
    with pytest.raises(dpsu.ParameterError, match="too small"):
        dpsu.select(table, candidates, ledger=spending)
    assert not ledger.path.exists()


def test_stages_do_not_tell_how_many_runs_there_are() -> None:
    table = clusters.random_table(np.random.default_rng(3), "text-int")
    seed = next(seed for seed in range(1000) if runs_under(seed) > 4)
    heard: list[str] = []
    select_on(
        clusters.OneProcessData(table), plans(seed), expected_runs=5.0,
        tune_fraction=0.4, report=lambda stage, done: heard.append(stage),
        spending=Spending.of(None),
    )  # fmt: skip
    assert heard == ["reading", "choosing items"]


def test_dask_chooses_as_one_machine_does() -> None:
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")
    table = clusters.random_table(np.random.default_rng(3), "text-int")
    frame = frames.from_pandas(table.to_pandas(types_mapper=pandas.ArrowDtype), npartitions=2)
    here = dpsu.select(table, plans(1), tune_fraction=0.4)
    there = dpsu.dask.select(frame, plans(1), tune_fraction=0.4, partitions=2)
    assert there == here
    assert there.plan == here.plan
