"""The contract of engines: every mechanism on every engine releases what one machine releases.

For one key, sets, types, noisy counts and warnings are compared bit for bit, for one column of
items, for keys of several columns, for values of many columns, and for texts; on Spark by some of the
mechanisms. A new engine is one line in `ENGINES` and one in `PRIMITIVES`.
"""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
import dpsu.dask
from dpsu.plans.mechanisms import MECHANISMS, Mechanism
from dpsu.randomness.keys import Key
from tests.contracts import assertions, engine_primitives, inputs
from tests.contracts.comparing import Run, check_same, on_spark
from tests.support import clusters
from tests.support.cases import every
from tests.support.clusters import saved_tokenizer

OFFERED: dict[str, type[Mechanism]] = {**MECHANISMS, dpsu.Auto.name: dpsu.Auto}
PARALLEL = {name: assertions.small(kind) for name, kind in OFFERED.items() if kind.parallel}
DAY = datetime.date(2024, 2, 29)


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
    "spark": lambda request: on_spark(request.getfixturevalue("spark")),
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
# A release takes seconds on Spark. `tests/spark/test_agreement.py` has all mechanisms.
ENOUGH_ON_SPARK = {
    "items": ("weighted-gaussian", "sieve", "bits"),
    "keys": ("sips",),
    "values": ("auto",),
    "texts": ("ngrams",),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("engine", EACH_ENGINE)
def test_every_engine_gives_the_same_release(
    engine: str, kind: str, request: pytest.FixtureRequest
) -> None:
    run = ENGINES[engine](request)
    for name, mechanism in PARALLEL.items():
        # Some read texts alone.
        reads = kind == "texts" or not mechanism.by_length
        if reads and (engine != "spark" or name in ENOUGH_ON_SPARK[kind]):
            check_same(run, *KINDS[kind](mechanism))


SEEDED: dict[str, Any] = {"epsilon": 4, "delta": 0.05, "insecure_seed": 3}
KEYS: list[tuple[Any, Any]] = [
    (["site", "id"], ["site", "born"]),
    ("id", ["born", "user", "local", "instant", "price", "raw"]),
    ("id", ["kind", "user"]),
    ("id", ["user", "tags"]),
    (["id", "born"], ["place", "site"]),
    ("id", dpsu.Items("born", type="text")),
    (dpsu.Users("id", type="text"), "kind"),
]
COLUMNS = ["kind", "a.b `c`", "user", "born", "local", "instant", "price", "part", "number", "raw"]
WIDE = dpsu.Values(
    [*COLUMNS, "tags"], levels=[["site", "city", "kind"], ["born", "tags"]],
    types={"part": "integer", "number": "integer"},
)  # fmt: skip


@pytest.mark.parametrize("engine", EACH_ENGINE)
def test_every_engine_reads_all_types(engine: str, request: pytest.FixtureRequest) -> None:
    """Keys and values of columns of all types, with names that need care and cells that miss."""
    run = ENGINES[engine](request)
    plain: dict[str, Any] = SEEDED | {"mechanism": "weighted-gaussian", "counts": True}
    for user, item in [*KEYS, ("id", WIDE), (["site", "id"], WIDE)]:
        check_same(run, inputs.people(), dpsu.plan(user=user, item=item, **plain))


# What makes tokens of texts, the lengths of n-grams, and a mechanism with further options.
TOKENIZED: list[tuple[Any, Any, Any, dict[str, Any]]] = [
    ("words", (1, 3), dpsu.WeightedGaussian(max_items=20), {}),
    ("paper", 2, dpsu.Sieve(rounds=3), {}),
    ("sentences", 1, dpsu.WeightedGaussian(max_items=20), {}),
    ("lines", 1, dpsu.Bits(), {"public_items": ["And a line"]}),
    ("regex:w[0-9]", (1, 2), dpsu.Sieve(rounds=3), {}),
    ("tokenizer.json", (1, 2), dpsu.WeightedGaussian(), {"counts": True}),
    (lambda text: text.title().split(), 2, dpsu.Sips(), {}),
    (lambda text: [text[:1]], 1, dpsu.Auto(among="parallel", budget=0.5), {}),
    ("words", 1, dpsu.NGrams(max_items=20, spurious=0.3), {}),
    ("paper", 1, dpsu.NGrams(max_items=20, spurious=0.3), {}),
]


@pytest.mark.parametrize("engine", EACH_ENGINE)
def test_every_engine_makes_the_same_tokens(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    run, rng = ENGINES[engine](request), np.random.default_rng(5)
    for tokenizer, ngrams, mechanism, options in TOKENIZED:
        given = (
            saved_tokenizer(tmp_path / tokenizer) if tokenizer == "tokenizer.json" else tokenizer
        )
        item = dpsu.Tokens("body", tokenizer=given, ngrams=ngrams)
        plan = dpsu.plan(item=item, mechanism=mechanism, **SEEDED, **options)
        check_same(run, clusters.random_texts(rng), plan)


def primitives_of_twin(request: pytest.FixtureRequest) -> tuple[Any, engine_primitives.Make]:
    def make(tables: list[pa.Table]) -> Any:
        return clusters.Tasks(tables[0].schema, [each.to_batches() for each in tables])

    return clusters.OneProcess(random.Random(2)), make


def primitives_of_dask(request: pytest.FixtureRequest) -> tuple[Any, engine_primitives.Make]:
    pytest.importorskip("dask")
    from dask.task_spec import Task

    from dpsu.engines.dask.engine import DaskEngine, Part, Parts, task_name

    def make(tables: list[pa.Table]) -> Any:
        keys = [task_name("rows") for _ in tables]
        tasks = {
            key: Task(key, Part, tuple(table.to_batches()))
            for key, table in zip(keys, tables, strict=True)
        }
        return Parts(tables[0].schema, keys, tasks)

    return DaskEngine(Key.from_insecure_seed(7), set()), make


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
@every("check", engine_primitives.CHECKS)
def test_every_engine_keeps_the_contract_of_primitives(
    engine: str,
    check: Callable[[Any, engine_primitives.Make], None],
    request: pytest.FixtureRequest,
) -> None:
    check(*PRIMITIVES[engine](request))
