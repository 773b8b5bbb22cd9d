"""The contract of engines: every mechanism on every engine releases what one machine releases.

For one key, sets, types and noisy counts are compared bit for bit, for one column of items, for keys
of several columns, for values of many columns, and for texts; on Spark, all but single items by some
of the mechanisms. A new engine is one line in `ENGINES` and one in `PRIMITIVES`.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import dpsu
import dpsu.dask
import dpsu.spark
from dpsu.plans.mechanisms import MECHANISMS, Mechanism
from tests.contracts import assertions, engine_primitives, inputs
from tests.support import clusters

Run = Callable[[pa.Table, dpsu.Plan], dpsu.Release]

OFFERED: dict[str, type[Mechanism]] = {**MECHANISMS, dpsu.Auto.name: dpsu.Auto}
PARALLEL = {name: assertions.small(kind) for name, kind in OFFERED.items() if kind.parallel}
DAY = datetime.date(2024, 2, 29)


def on_spark(request: pytest.FixtureRequest) -> Run:
    session = request.getfixturevalue("spark")

    def run(table: pa.Table, plan: dpsu.Plan) -> dpsu.Release:
        return dpsu.spark.release(session.createDataFrame(table), plan, partitions=2).released

    return run


def on_dask(request: pytest.FixtureRequest) -> Run:
    frames = pytest.importorskip("dask.dataframe")
    pandas = pytest.importorskip("pandas")

    def run(table: pa.Table, plan: dpsu.Plan) -> dpsu.Release:
        typed = table.to_pandas(types_mapper=pandas.ArrowDtype)
        return dpsu.dask.release(frames.from_pandas(typed, npartitions=3), plan, partitions=2)

    return run


ENGINES: dict[str, Callable[[pytest.FixtureRequest], Run]] = {
    "local": lambda request: lambda table, plan: dpsu.release(table.slice(0), plan),
    "twin": lambda request: clusters.twin_release,
    "dask": on_dask,
    "spark": on_spark,
}
EACH_ENGINE = [
    pytest.param(name, marks=[pytest.mark.spark] if name == "spark" else []) for name in ENGINES
]


def items(mechanism: Mechanism) -> tuple[pa.Table, dpsu.Plan]:
    """One column of users and one of items; some public items, held or not."""
    public = list(assertions.PUBLIC) if mechanism.counts else None
    return assertions.data_of(mechanism), assertions.plan_of(mechanism, public_items=public)


def keys(mechanism: Mechanism) -> tuple[pa.Table, dpsu.Plan]:
    """Several columns for users and for items, one of them shared, of several types; with counts."""
    rows = [(*user.split("u"), item[:2], item[2:]) for user, item in inputs.made_up_rows()]
    table = pa.table(
        {
            "visitor": [int(number) for _, number, _, _ in rows],
            "site": ["a\t" if int(number) % 2 else "b\\" for _, number, _, _ in rows],
            "word": [word for _, _, word, _ in rows],
            "day": [DAY + datetime.timedelta(ord(letter)) for _, _, _, letter in rows],
        }
    )
    columns = {"user": ["visitor", "site"], "item": ["word", "day", "site"]}
    return table, assertions.plan_of(mechanism, counts=mechanism.counts, **columns)


def values(mechanism: Mechanism) -> tuple[pa.Table, dpsu.Plan]:
    """Values of many columns of several types, some of them missing, and of levels; with counts."""
    rows = [(user, item[:2], item[2:]) for user, item in inputs.made_up_rows()]
    table = pa.table(
        {
            "user": [user for user, _, _ in rows],
            "word": [None if at % 5 == 0 else word for at, (_, word, _) in enumerate(rows)],
            "day": [DAY + datetime.timedelta(ord(letter)) for _, _, letter in rows],
            "size": pa.array([ord(letter) % 3 for _, _, letter in rows], pa.int16()),
            "tags": [["x", word] if letter < "h" else None for _, word, letter in rows],
        }
    )
    item = dpsu.Values(["size", "tags", "day"], levels=["word", "size", "day"])
    return table, assertions.plan_of(mechanism, counts=mechanism.counts, item=item)


def texts(mechanism: Mechanism) -> tuple[pa.Table, dpsu.Plan]:
    """Texts, whose tokens are the items."""
    table = inputs.table(inputs.as_texts(inputs.made_up_rows()), "text")
    return table, assertions.plan_of(mechanism, item=dpsu.Tokens("text"))


KINDS: dict[str, Callable[[Mechanism], tuple[pa.Table, dpsu.Plan]]] = {
    "items": items, "keys": keys, "values": values, "texts": texts
}  # fmt: skip
# A release takes seconds on Spark: there, every mechanism releases items, and three of them each of
# the others. The twin and Dask release keys by all of them; tests/spark/test_texts.py releases texts
# by further ones.
ENOUGH_ON_SPARK = {
    "items": tuple(PARALLEL),
    "keys": ("weighted-gaussian", "sips", "bits"),
    "values": ("count-gaussian", "sieve", "auto"),
    "texts": ("count-laplace", "sieve", "ngrams"),
}
CASES = [
    pytest.param(
        kind, name, engine,
        marks=[pytest.mark.spark] if engine == "spark" else [], id=f"{kind}-{name}-{engine}",
    )
    for engine in ENGINES
    for name, mechanism in PARALLEL.items()
    for kind in KINDS
    # Some read texts alone.
    if kind == "texts" or not mechanism.by_length
    if engine != "spark" or name in ENOUGH_ON_SPARK[kind]
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "engine"), CASES)
@pytest.mark.filterwarnings("ignore:some cells of 'tags' are missing:dpsu.DataWarning")
def test_every_engine_gives_the_same_release(
    kind: str, name: str, engine: str, request: pytest.FixtureRequest
) -> None:
    table, plan = KINDS[kind](PARALLEL[name])
    run = ENGINES[engine](request)
    here, there = dpsu.release(table, plan), run(table, plan)
    assert here.items
    assert there == here
    assert there.values.type == here.values.type
    assert there.values.equals(here.values)
    assert there.plan.hash == here.plan.hash
    if here.counts is not None:
        assert there.counts is not None
        assert there.counts.equals(here.counts)
    assert plan.hash in there.report()


def primitives_of_twin(request: pytest.FixtureRequest) -> tuple[Any, engine_primitives.Make]:
    def make(tables: list[pa.Table]) -> Any:
        return clusters.Tasks(tables[0].schema, [each.to_batches() for each in tables])

    return clusters.OneProcess(random.Random(2)), make


def primitives_of_dask(request: pytest.FixtureRequest) -> tuple[Any, engine_primitives.Make]:
    pytest.importorskip("dask")
    from dpsu.engines.dask.engine import DaskEngine, Part, Parts, task

    def make(tables: list[pa.Table]) -> Any:
        made = [task("rows", partial(Part, tuple(each.to_batches()))) for each in tables]
        return Parts(tables[0].schema, made)

    return DaskEngine(7, set()), make


def primitives_of_spark(request: pytest.FixtureRequest) -> tuple[Any, engine_primitives.Make]:
    from dpsu.engines.spark.query import SparkEngine

    request.getfixturevalue("sent_by_value")
    session = request.getfixturevalue("spark")

    def make(tables: list[pa.Table]) -> Any:
        return session.createDataFrame(pa.concat_tables(tables)).repartition(len(tables))

    return SparkEngine(session), make


PRIMITIVES: dict[str, Callable[[pytest.FixtureRequest], tuple[Any, engine_primitives.Make]]] = {
    "twin": primitives_of_twin,
    "dask": primitives_of_dask,
    "spark": primitives_of_spark,
}


@pytest.fixture
def sent_by_value() -> Iterator[None]:
    """Workers know the package, not the tests."""
    from pyspark import cloudpickle as untyped

    cloudpickle: Any = untyped
    cloudpickle.register_pickle_by_value(engine_primitives)
    yield
    cloudpickle.unregister_pickle_by_value(engine_primitives)


@pytest.mark.parametrize("engine", [each for each in EACH_ENGINE if each.values[0] != "local"])
@pytest.mark.parametrize("check", engine_primitives.CHECKS, ids=lambda check: check.__name__)
def test_every_engine_keeps_the_contract_of_primitives(
    engine: str,
    check: Callable[[Any, engine_primitives.Make], None],
    request: pytest.FixtureRequest,
) -> None:
    check(*PRIMITIVES[engine](request))
