"""Texts on a cluster, without a cluster: the items of one machine, whatever makes tokens of them."""

from __future__ import annotations

import pickle
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.ids import Ids
from dpsu.contributions.samples import Sample
from dpsu.engines.cluster.losses import reasons
from dpsu.engines.cluster.messages import LOST, ROWS, arrived, unpack
from dpsu.engines.cluster.steps import Guarded, Job
from dpsu.engines.cluster.texts import SendTexts, portable, sender, without_function
from dpsu.engines.spark.query import refuse_what_spark_cannot
from dpsu.randomness.keys import Key
from tests.support.cases import every
from tests.support.clusters import saved_tokenizer

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}


def shouted(text: str) -> list[str]:
    return text.upper().split()


def job_of(plan: dpsu.Plan, seed: int, *, strict: bool = False) -> Job:
    return Job(plan, Key.from_insecure_seed(seed), 3, pa.string(), strict=strict)


def messages_of(table: pa.Table, job: Job) -> list[Any]:
    send = sender(job, portable(job.plan))
    return list(arrived(Guarded(send)(iter(table.to_batches(max_chunksize=3)))))


def test_what_is_left_out_is_told_without_values() -> None:
    plan = dpsu.plan(item=dpsu.Tokens("body"), mechanism="weighted-laplace", **BUDGET)
    broken = pa.array([b"secret \xff"]).view(pa.string())
    cases = [
        (pa.table({"user": ["a"], "body": pa.array([None], pa.string())}), 0),
        (pa.table({"user": ["a"], "body": broken}), 1),
        (pa.table({"user": ["a"], "body": ["secret" * 1000]}), 2),
        (pa.table({"user": pa.array([None], pa.string()), "body": ["secret"]}), 4),
    ]
    for table, place in cases:
        (message,) = messages_of(table, job_of(plan, 1))
        assert (message.kind, message.sender, len(message.data)) == (LOST, place, 0)
        with pytest.raises(RuntimeError, match=f"DataError: {reasons(plan)[place]}") as refused:
            messages_of(table, job_of(plan, 1, strict=True))
        assert "secret" not in str(refused.value)


def test_what_a_text_gives_depends_on_no_other_text() -> None:
    """Not even on an equal one of the same author: a task that runs again sends the same."""
    texts = dpsu.Tokens("body", tokenizer="paper", ngrams=2)
    plan = dpsu.plan(item=texts, mechanism="weighted-laplace", **BUDGET)
    rows = [
        ("a", "one two three"), (None, "to nobody"), ("b", "two three"), ("b", None),
        ("[deleted]", "not here"), ("a", "one two"), ("b", b"\xff \xff"), ("c", "one two"),
    ]  # fmt: skip

    def given(*some: tuple[str | None, str | bytes | None]) -> set[tuple[str, str]]:
        bodies = pa.array([text for _, text in some], pa.binary()).view(pa.string())
        table = pa.table(
            {"user": pa.array([user for user, _ in some], pa.string()), "body": bodies}
        )
        found = set()
        for message in messages_of(table, job_of(plan, 1)):
            if message.kind == LOST:
                continue
            part = {name: column.to_pylist() for name, column in unpack(message.data).items()}
            owners = np.repeat(part["users"], part["sizes"])
            found |= {
                (str(u), part["items"][c]) for u, c in zip(owners, part["codes"], strict=True)
            }
        return found

    alone = [given(row) for row in rows]
    assert [alone[at] for at in (1, 3, 4, 6)] == [set()] * 4
    assert alone[0] == {("a", "one two"), ("a", "two three")}
    assert given(*rows) == set().union(*alone) == given(*reversed(rows), *rows)


def test_a_file_travels_by_its_content_and_is_the_approved_one(tmp_path: Path) -> None:
    path = Path(saved_tokenizer(tmp_path / "tokenizer.json"))
    plan = dpsu.plan(
        item=dpsu.Tokens("body", tokenizer=str(path)), mechanism="weighted-laplace", **BUDGET
    )
    step = pickle.loads(pickle.dumps(sender(job_of(plan, 1), portable(plan))))
    content = path.read_text(encoding="utf-8")
    path.write_text(content.replace("w7", "w77"), encoding="utf-8")
    with pytest.raises(dpsu.ParameterError, match="another file than the plan"):
        portable(plan)
    with pytest.raises(dpsu.ParameterError, match="another file than the plan"):
        refuse_what_spark_cannot(plan)
    path.unlink()
    table = pa.table({"user": ["a"], "body": ["w7 w8 w7"]})
    (message,) = arrived(step(iter(table.to_batches())))
    assert unpack(message.data)["items"].to_pylist() == ["w7", "w8"]


def test_steps_that_make_no_tokens_have_no_function() -> None:
    plan = dpsu.plan(
        item=dpsu.Tokens("body", tokenizer=shouted), mechanism="weighted-laplace", **BUDGET
    )
    lean = without_function(plan)
    assert lean.hash == plan.hash
    assert b"shouted" not in pickle.dumps(lean).replace(b"function shouted", b"")
    assert not callable(lean.item.tokenizer)
    assert lean.text == plan.text
    with pytest.raises(dpsu.ParameterError, match="which a file does not hold"):
        portable(lean)
    assert isinstance(sender(job_of(lean, 1), portable(plan)), SendTexts)


def test_a_function_that_cannot_be_sent_is_refused() -> None:
    import threading

    pytest.importorskip("pyspark")
    lock = threading.Lock()

    def locked(text: str) -> list[str]:
        with lock:
            return text.split()

    plan = dpsu.plan(
        item=dpsu.Tokens("body", tokenizer=locked), mechanism="weighted-laplace", **BUDGET
    )
    with pytest.raises(dpsu.ParameterError, match=r"cannot send to its workers \(TypeError\)"):
        refuse_what_spark_cannot(plan)
    plan = dpsu.plan(
        item=dpsu.Tokens("body", tokenizer=shouted), mechanism="weighted-laplace", **BUDGET
    )
    refuse_what_spark_cannot(plan)


def test_a_function_that_fails_tells_nothing_of_the_text() -> None:
    def failing(text: str) -> list[str]:
        if text == "secret":
            raise ValueError(text)
        return [text]

    plan = dpsu.plan(
        item=dpsu.Tokens("body", tokenizer=failing), mechanism="weighted-laplace", **BUDGET
    )
    table = pa.table({"user": ["a"], "body": ["secret"]})
    (message,) = messages_of(table, job_of(plan, 1))
    assert (message.kind, message.sender, len(message.data)) == (LOST, 3, 0)
    with pytest.raises(RuntimeError, match="DataError: the tokenizer fails") as failed:
        messages_of(table, job_of(plan, 1, strict=True))
    assert "secret" not in "".join(traceback.format_exception(failed.value))


@every("mechanism", ["weighted-laplace", "ngrams"])
def test_texts_of_users_who_are_not_in_the_sample_are_not_even_told_of(mechanism: str) -> None:
    plan = dpsu.plan(item=dpsu.Tokens("body"), mechanism=mechanism, **BUDGET)
    users = [f"user {number}" for number in range(40)]
    table = pa.table({"user": users * 2, "body": ["one two"] * 40 + [None] * 40})
    seen: list[str] = []
    for others in (False, True):
        sample = Sample(0.5, 7, others)
        told = sample.among(Ids(pa.array(users, pa.large_string())))
        expected = [user for user, yes in zip(users, told, strict=True) if yes]
        job = replace(job_of(plan, 1), sample=sample)
        rows = [m for m in messages_of(table, job) if m.kind == ROWS]
        found = [user for message in rows for user in unpack(message.data)["users"].to_pylist()]
        assert sorted(found) == sorted(expected)
        seen += found
        outside = table.filter(pa.array(~np.tile(told, 2)))
        assert messages_of(outside, job) == []
    assert sorted(seen) == sorted(users)
