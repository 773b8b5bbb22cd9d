"""A cluster in one process: the steps of a release, with rows shuffled and tasks cut at random."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from dpsu.engines.cluster.conversations import conversation_of
from dpsu.engines.cluster.messages import arrived, sent
from dpsu.engines.cluster.ngrams import ClusterTexts, FlipGrams, WeighGrams
from dpsu.engines.cluster.rounds import Answer, steps_of
from dpsu.engines.cluster.steps import CountSizes, FlipCoins, Job, Weigh
from dpsu.engines.cluster.texts import portable, sender
from dpsu.engines.estimates import CLASSES, estimate
from dpsu.engines.local_texts import all_lengths
from dpsu.plans.mechanisms import Choice
from dpsu.rounds.ngrams import NGramRounds

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


def _sums(given: Batches) -> Batches:
    """Sums by item, in small batches."""
    sums = pa.Table.from_batches(given).group_by("item").aggregate([("number", "sum")])
    batches: Batches = sums.combine_chunks().to_batches(max_chunksize=13)
    return batches


def released(table: pa.Table, job: Job, rng: random.Random, tasks: int = 3) -> list[str | int]:
    """Sorted items, as the steps release them."""
    size = max(1, -(-len(table) // tasks))
    parts = [table.slice(first, size) for first in range(0, len(table), size)]
    send = sender(job, portable(job.plan))

    def sent_to_users() -> list[Batches]:
        received = [
            batch for part in parts for batch in send(iter(part.to_batches(max_chunksize=7)))
        ]
        return shuffled(received, tasks, rng)

    if isinstance(job.plan.selection, NGramRounds):

        def ask(weigh: WeighGrams, flip: FlipGrams) -> pa.Table:
            given = [batch for part in sent_to_users() for batch in weigh(iter(part))]
            return pa.Table.from_batches(flip(iter(_sums(given))))

        engine = ClusterTexts(job, ask)
        found_grams: list[str | int] = all_lengths(
            job.plan.selection.run(engine, job.key)
        ).to_pylist()
        return found_grams
    now = sent_to_users()
    if isinstance(job.plan.selection, Choice):
        counted = pa.Table.from_batches(
            [batch for part in now for batch in CountSizes(job)(iter(part))]
        )
        sizes = np.zeros(CLASSES, np.int64)
        np.add.at(sizes, counted["class"].to_numpy(), counted["number"].to_numpy())
        hints = estimate(
            sizes, job.key, job.plan.selection.epsilon, job.plan.privacy.ids_per_person
        )
        job = replace(job, plan=job.plan.chosen(hints))
    conversation = conversation_of(job.plan)
    if conversation is None:
        given = [batch for part in now for batch in Weigh(job)(iter(part))]
        found = list(FlipCoins(job)(iter(_sums(given))))
    else:
        for step in steps_of(job, job, conversation):
            found = [batch for part in now for batch in step(iter(part))]
            if not isinstance(step, Answer) or step.round_number + 1 < conversation.rounds:
                now = shuffled(found, tasks, rng)
    return sorted(item for batch in found for item in batch.column(0).to_pylist())


def random_texts(rng: np.random.Generator, texts: int = 400) -> pa.Table:
    """Texts of users, some of them twice and some empty, with words of all kinds."""
    words = [f"w{n}" if n % 3 else f"Ünter{n}" for n in range(40)]
    users = rng.integers(0, texts // 3, texts)
    bodies = [
        " ".join(words[min(int(rng.zipf(1.4)), 39)] for _ in range(rng.integers(0, 9)))
        + (". Next one!\nAnd a line", "")[int(rng.integers(2))]
        for _ in range(texts)
    ]
    rows = [*zip(users.tolist(), bodies, strict=True)]
    rows += rows[: texts // 4]
    return pa.table({"user": [f"é{user}" for user, _ in rows], "body": [body for _, body in rows]})


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
