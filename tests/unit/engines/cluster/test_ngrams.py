"""N-grams length by length on a cluster of one process: the release of one machine."""

from __future__ import annotations

import pickle
import random
import warnings
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.ids import Ids
from dpsu.engines.cluster.corpora import SendCorpus, received_corpora
from dpsu.engines.cluster.messages import LOST, arrived
from dpsu.engines.cluster.ngrams import Answer, FlipGrams, WeighedPairs, WeighGrams
from dpsu.engines.cluster.steps import Guarded, Job
from dpsu.engines.cluster.texts import portable, sender
from dpsu.errors import DataError
from dpsu.privacy.curves import Gaussian
from dpsu.randomness.keys import Key
from dpsu.rounds.ngrams import NGramRounds, drawn_pair, spurious_pairs
from dpsu.text.domain import Domain
from tests.support import clusters
from tests.support.cases import every

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}


def plan_of(seed: int = 1, tokenizer: Any = "words", **options: Any) -> dpsu.Plan:
    return dpsu.plan(
        item=dpsu.Tokens("body", tokenizer=tokenizer), mechanism=dpsu.NGrams(**options),
        insecure_seed=seed, **BUDGET,
    )  # fmt: skip


def job_of(plan: dpsu.Plan, seed: int = 1, partitions: int = 4, *, strict: bool = False) -> Job:
    return Job(plan, Key.from_insecure_seed(seed), partitions, pa.string(), strict=strict)


def in_two_spellings(text: str) -> list[str]:
    """Words, spelled in one way in some texts and in another way in others."""
    return normalize("NFD" if len(text) % 2 else "NFC", text).split()


@every(
    ("tokenizer", "max_items", "spurious"),
    [
        ("words", 3, 0.01), ("paper", 5, 0.3), ("regex:[a-z ]+|w.", 300, 0.5), ("words", 300, 0.3),
        (in_two_spellings, 5, 0.01),
    ],
)  # fmt: skip
def test_every_length_is_that_of_the_local_engine(
    tokenizer: Any, max_items: int, spurious: float
) -> None:
    rng = np.random.default_rng(max_items)
    for seed in range(2):
        table = clusters.random_texts(rng, 300)
        plan = plan_of(seed, tokenizer, longest=3, max_items=max_items, spurious=spurious)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpsu.DataWarning)
            expected = dpsu.release(table, plan).items
        job = job_of(plan, seed, int(rng.integers(1, 6)))
        assert clusters.released(table, job, random.Random(seed)) == list(expected)
        assert any(" " in gram for gram in expected) or str(tokenizer).startswith("regex")


def test_pairs_that_were_not_asked_about_are_asked_about() -> None:
    """However few the cluster is asked about at first, the drawn grams are those of one machine."""
    known = Domain.of_tokens(pa.array([f"w{n:03}" for n in range(200)], pa.large_string()))
    key, curve, held = Key.from_insecure_seed(7), Gaussian(1.0, 2.0), set(range(0, 40_000, 2))
    questions: list[int] = []

    def ask(asked: np.ndarray[Any, Any]) -> Answer:
        questions.append(len(asked))
        among = frozenset(held & set(asked.tolist()))
        return Answer(np.empty(0, np.int64), len(held), among)

    expected = spurious_pairs(known, frozenset(held), curve, key, 2)
    weighed = WeighedPairs(known, key, 2, ask, 0.0)
    assert questions == [64]
    assert spurious_pairs(known, weighed, curve, key, 2).tolist() == expected.tolist()
    assert len(expected) > 300
    assert len(questions) > 2
    assert drawn_pair(known, key, 2, 0) in weighed or expected[0] == drawn_pair(known, key, 2, 0)


def test_texts_come_to_their_user_whole_and_once() -> None:
    """Tokens stay in order, texts stay apart, and posts of the papers count once for a user."""
    rows = [
        ("a", "one two three"), ("b", "three two"), ("a", "one two three"), ("[deleted]", "two"),
        ("c", "..."), ("b", "one two three"), ("a", "two one"), ("a", ""), ("d", "one"), ("e", "one"),
        ("d", None), (None, "three"), ("e", "two"),
    ]  # fmt: skip
    table = pa.table({"user": [user for user, _ in rows], "body": [text for _, text in rows]})
    for tokenizer, times, parts in (("regex:[a-z]+", 2, 4), ("paper", 1, 4), ("paper", 1, 1)):
        plan = plan_of(1, tokenizer)
        send = pickle.loads(pickle.dumps(sender(job_of(plan, 1, parts), portable(plan))))
        assert isinstance(send, SendCorpus)
        rows_of = iter(table.to_batches(max_chunksize=len(rows) if parts == 1 else 3))
        now = clusters.shuffled(send(rows_of), 4, random.Random(1))
        found = []
        for part in now:
            for corpus in received_corpora(plan, arrived(iter(part))):
                tokens, users = corpus.tokens.values.to_pylist(), corpus.users.values.to_pylist()
                assert corpus.codes[-1] == -1
                ends = np.flatnonzero(corpus.codes == -1)
                for codes, owners in zip(
                    np.split(corpus.codes, ends + 1), np.split(corpus.owners, ends + 1), strict=True
                ):
                    if len(codes):
                        assert len(set(owners.tolist())) == 1
                        said = " ".join(tokens[code] for code in codes[:-1])
                        found.append((users[owners[0]], said))
        expected = [("a", "one two three")] * times + [("a", "two one")]
        expected += [("b", "one two three"), ("b", "three two")]
        expected += [("d", "one"), ("e", "one"), ("e", "two")]
        if tokenizer == "paper":
            expected.append(("c", "..."))
        else:
            expected.append(("[deleted]", "two"))
        assert sorted(found) == sorted(expected)


def test_what_is_left_out_of_texts_is_told_without_values() -> None:
    plan = plan_of(1, "regex:.+")
    table = pa.table({"user": ["a"], "body": ["secret words"]})
    job = job_of(plan)
    (message,) = arrived(sender(job, portable(plan))(iter(table.to_batches())))
    assert (message.kind, message.sender, len(message.data)) == (LOST, 5, 0)
    strict = job_of(plan, strict=True)
    with pytest.raises(RuntimeError, match="some tokens contain white space") as refused:
        list(Guarded(sender(strict, portable(plan)))(iter(table.to_batches())))
    assert "secret" not in str(refused.value)


def test_too_many_users_are_refused_over_all_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpsu.Plan, "max_users", 3)
    plan = plan_of()
    assert isinstance(plan.selection, NGramRounds)
    table = pa.table({"user": ["a", "b", "c", "d"], "body": ["one two"] * 4})
    with pytest.raises(DataError, match="more users than this plan is proved for"):
        clusters.released(table, job_of(plan), random.Random(1))
    assert clusters.released(table.slice(1), job_of(plan), random.Random(1)) is not None


def test_answers_have_released_grams_and_those_asked_about_only() -> None:
    """Neither weights nor other grams that users hold come back to the driver."""
    plan = plan_of()
    known = Domain.of_tokens(pa.array(["one", "three", "two"], pa.large_string()))
    job = Job(plan, Key.from_insecure_seed(1), 2, pa.int64())
    never = Gaussian(1e-3, 1e6)
    rows = pa.table({"item": [1, 2, 5, None], "number": [1 << 40, 2, 3, 1]}).to_batches()
    step = FlipGrams(job, known, never, 2, np.array([0, 2, 7]))
    found = Answer.of(pa.Table.from_batches(step(iter(rows))), tokens=False)
    assert (list(found.released), found.n_weighed, found.weighed) == ([], 3, frozenset([2]))
    always = Gaussian(1e-3, 1e-3)
    step = FlipGrams(job, known, always, 2, np.array([], np.int64))
    found = Answer.of(pa.Table.from_batches(step(iter(rows))), tokens=False)
    assert 1 in found.released
    assert found.weighed == frozenset()
    assert Ids(known.spelled(np.array([1]))).values.to_pylist() == ["one three"]
    assert WeighGrams(job, (known,)).round_number == 2
