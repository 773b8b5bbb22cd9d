"""A cluster in one process: the steps of a release, with rows shuffled and tasks cut at random."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dpsu
from dpsu.clusters import release_on
from dpsu.contributions.codecs import PLAIN
from dpsu.contributions.pairs import Tally
from dpsu.engines.cluster import engine
from dpsu.engines.cluster.engine import Query, Step
from dpsu.engines.cluster.losses import notes_of, report_notes
from dpsu.engines.cluster.messages import SCHEMA, arrived, sent
from dpsu.engines.cluster.reading import Reader, query_of
from dpsu.engines.cluster.running import ClusterData, refuse_what_clusters_cannot
from dpsu.engines.cluster.steps import Job, failure
from dpsu.engines.cluster.texts import portable
from dpsu.plans.mechanisms import Choice
from dpsu.randomness.keys import Key

Batches = list[pa.RecordBatch]
# What Spark offers, with options that make small data interesting.
OFFERED: list[tuple[str, dict[str, Any]]] = [
    ("count-laplace", {"max_items": 4}),
    ("count-gaussian", {"max_items": 4, "min_users": 2}),
    ("weighted-laplace", {}),
    ("weighted-gaussian", {"max_items": 4}),
    ("weighted-gaussian", {"max_items": 4, "calibration": "paper"}),
    ("reroute", {"max_items": 4, "cutoff": 2.0}),
    ("sips", {"max_items": 4}),
    ("bits", {}),
    ("bits", {"expected_items_per_user": 5}),
    ("bits", {"rounds": 1}),
    ("bits", {"rounds": 1, "expected_items_per_user": 5}),
    ("sieve", {"max_items": 4, "scout_items": 8, "rounds": 5}),
    ("sieve", {"max_items": 4, "scout_items": 0, "rounds": 3}),
    ("auto", {"among": "parallel", "auto_budget": 0.5}),
]


def shuffled(batches: Iterable[pa.RecordBatch], tasks: int, rng: random.Random) -> list[Batches]:
    """Messages of each partition together, in any order; a task may have several partitions."""
    messages = list(arrived(batches))
    rng.shuffle(messages)
    parts: list[list] = [[] for _ in range(tasks)]  # type: ignore[type-arg]
    for message in messages:
        parts[message.to % tasks].append(message)
    return [list(sent(part)) for part in parts]


@dataclass(frozen=True, repr=False)
class Tasks:
    """A table in parts: the batches of each task."""

    columns: pa.Schema
    parts: list[Batches]

    def batches(self) -> Batches:
        return [batch for part in self.parts for batch in part]


@dataclass(frozen=True, repr=False)
class OneProcess:
    """An engine without machines, processes or threads: one task after the other."""

    rng: random.Random
    tasks: int = 3
    notes: set[str] = field(default_factory=set)

    def rows(self, table: pa.Table) -> Tasks:
        """Rows in as many tasks."""
        size = max(1, -(-len(table) // self.tasks))
        parts = [table.slice(first, size) for first in range(0, len(table), size)]
        return Tasks(table.schema, [part.to_batches(max_chunksize=7) for part in parts])

    def map_batches(self, rows: Tasks, step: Step, columns: pa.Schema) -> Tasks:
        try:
            made = [list(step(iter(part))) for part in rows.parts]
        except RuntimeError as error:
            raise failure("the twin", str(error), "?") from None
        assert all(batch.schema.equals(columns) for part in made for batch in part)
        self.notes.update(*(notes_of(step, part) for part in made))
        return Tasks(columns, made)

    def together(self, messages: Tasks, partitions: int) -> Tasks:
        assert all(message.to in range(partitions) for message in arrived(messages.batches()))
        return Tasks(SCHEMA, shuffled(messages.batches(), self.tasks, self.rng))

    def sum_by_item(self, numbers: Tasks) -> Tasks:
        sums = self.collect(numbers).group_by("item").aggregate([("number", "sum")])
        sums = sums.rename_columns(["item", "number"]).combine_chunks()
        return Tasks(sums.schema, [[batch] for batch in sums.to_batches(max_chunksize=5)])

    def collect(self, rows: Tasks) -> pa.Table:
        return pa.Table.from_batches(rows.batches(), rows.columns)


def query(table: pa.Table, job: Job, rng: random.Random, tasks: int = 3) -> Query[Tasks]:
    """A release of a table of users and items."""
    here = OneProcess(rng, tasks)
    return Query(here, here.rows(table), job, PLAIN, portable(job.plan))


def released(table: pa.Table, job: Job, rng: random.Random, tasks: int = 3) -> list[str | int]:
    """Sorted items, as the steps release them."""
    prepared = query(table, job, rng, tasks)
    if isinstance(job.plan.selection, Choice):
        prepared = engine.chosen(prepared)
    found: list[str | int] = engine.run(prepared).to_pylist()
    return found


@dataclass(frozen=True, repr=False)
class OneProcessData(ClusterData):
    """A table as the front door of the twin sees it."""

    partitions: int = 2
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    tasks: int = 3
    tally: Tally = field(default_factory=lambda: Tally(None))

    def refuse(self, plan: dpsu.Plan) -> None:
        refuse_what_clusters_cannot(plan, "the twin")

    def check(self, plan: dpsu.Plan) -> None:
        Reader.of(self.frame.slice(0, 0), plan)

    def files(self) -> list[str]:
        return []

    def query(self, plan: dpsu.Plan, key: Key) -> Query[Tasks]:
        reader, here = Reader.of(self.frame.slice(0, 0), plan), OneProcess(self.rng, self.tasks)
        cut = [pa.Table.from_batches(part) for part in here.rows(self.frame).parts if part]
        schema, codec = reader.schema()
        rows = Tasks(schema, [list(reader(self.tally, iter([part]))) for part in cut])
        ids = schema.field("item").type, codec
        return query_of(here, rows, plan, key, self.partitions, ids, sample=self.sample)

    def run(self, query: Query[Tasks]) -> pa.Array:
        found = engine.run(query)
        assert isinstance(query.engine, OneProcess)
        report_notes(query.job.plan, {*self.tally.lost, *query.engine.notes}, self.strict)
        return found


def twin_release(table: pa.Table, plan: dpsu.Plan, **options: Any) -> dpsu.Release:
    """A release by the one-process twin, by way of the front door that all clusters share."""
    data = OneProcessData(table, **options)
    nothing: dict[str, Any] = dict.fromkeys(("item", "mechanism", "prior", "public_items"))
    return release_on(lambda *_: data, table, plan, **nothing)


def saved_tokenizer(path: Path) -> str:
    """A tokenizer file of the words that random texts have."""
    import tokenizers

    words = ["[UNK]", *(f"w{n}" for n in range(40))]
    model = tokenizers.models.WordLevel({w: n for n, w in enumerate(words)}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(path))
    return str(path)


def random_texts(rng: np.random.Generator, texts: int = 400) -> pa.Table:
    """Texts of users, some of them twice, some empty, some of nobody, with words of all kinds."""
    words = [f"w{n}" if n % 3 else f"Ünter{n}" for n in range(40)]
    users = rng.integers(0, texts // 3, texts)
    bodies = [
        " ".join(words[min(int(rng.zipf(1.4)), 39)] for _ in range(rng.integers(0, 9)))
        + (". Next one!\nAnd a line", "")[int(rng.integers(2))]
        for _ in range(texts)
    ]
    rows = [*zip(users.tolist(), bodies, strict=True)]
    rows += rows[: texts // 4]
    ids = [f"é{user}" if user % 9 else None for user, _ in rows]
    return pa.table({"user": ids, "body": [body for _, body in rows]})


def random_table(rng: np.random.Generator, kind: str, users: int = 300) -> pa.Table:
    """Rows of users and popular items, some twice; `kind` names the types of both columns."""
    n_items = int(rng.integers(1, 60))
    rows = [
        (user, min(int(rng.zipf(1.3)), n_items))
        for user in range(int(rng.integers(1, users)))
        for _ in range(rng.integers(1, 12))
    ]
    rng.shuffle(rows)
    user_kind, item_kind = kind.split("-")

    def spelled(user: int, row: int) -> str | int:
        """One user in two spellings, composed and decomposed."""
        return user - 5 if user_kind == "int" else ("é" if row % 2 else "e\u0301") + str(user)

    def named(item: int) -> str | int:
        if item_kind == "int":
            return (item * 7919) % 31 - 3
        return f"ü {item}" if item % 3 else f"w{item}"

    return pa.table(
        {
            "user": [spelled(user, row) for row, (user, _) in enumerate(rows)],
            "item": [named(item) for _, item in rows],
        }
    )
