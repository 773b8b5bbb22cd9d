"""What a cluster runs, without a cluster: the same items as the local engine, however it is cut."""

from __future__ import annotations

import itertools
import pickle
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.ids import Ids
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs
from dpsu.contributions.samples import Sample
from dpsu.engines import local
from dpsu.engines.cluster import engine
from dpsu.engines.cluster.conversations import conversation_of
from dpsu.engines.cluster.messages import (
    FOUND,
    GIVEN,
    REPLY,
    SURVEY,
    USERS,
    arrived,
    pack,
    sent,
    unpack,
)
from dpsu.engines.cluster.rounds import Answer, Ask, steps_of
from dpsu.engines.cluster.running import refuse_what_clusters_cannot
from dpsu.engines.cluster.steps import FAILED, Guarded, Job, SendRows, failure
from dpsu.engines.local_rounds import LocalRounds
from dpsu.inputs import public
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.reading import Source
from dpsu.plans.mechanisms import MECHANISMS, OneShot
from dpsu.privacy.bits import CoinTable
from dpsu.randomness.keys import Key
from dpsu.randomness.noise import Noise
from dpsu.rounds import BitsRounds, SieveRounds
from dpsu.rounds.bits import LIMITS, UNITS, open_noise
from dpsu.runtime import threads
from tests.support import clusters, flat, sieve_probes
from tests.support.cases import every
from tests.support.databases import limited

# Policies whose users look at what those before them gave.
IN_TURN = ("greedy", "l1-descent", "l2-descent")
NOBODY = Pairs(Ids(pa.nulls(0, pa.int64())), Ids(pa.nulls(0, pa.large_string())), [])
KINDS = ("text-text", "int-int", "int-text", "text-int")


def job_of(seed: int, table: pa.Table, partitions: int, **options: Any) -> Job:
    known = {name: options[name] for name in ("prior", "public_items") if name in options}
    plan = flat.plan(epsilon=4.0, delta=0.05, insecure_seed=seed, **options)
    integral = pa.types.is_integer(table["item"].type)
    return Job(
        plan,
        Key.from_insecure_seed(seed),
        partitions,
        pa.int64() if integral else pa.string(),
        public.read_prior(known["prior"]) if "prior" in known else None,
        public.read_public_items(known["public_items"]) if "public_items" in known else None,
    )


@every(("mechanism", "options"), clusters.OFFERED)
def test_steps_release_what_the_local_engine_releases(
    mechanism: str, options: dict[str, Any]
) -> None:
    rng, cut = np.random.default_rng(3), random.Random(3)
    found = 0
    for seed, kind in zip(range(8), itertools.cycle(KINDS), strict=False):
        table = clusters.random_table(rng, kind)
        given = {"mechanism": mechanism, **options}
        expected = flat.release(table, epsilon=4.0, delta=0.05, insecure_seed=seed, **given).items
        job = job_of(seed, table, int(rng.integers(1, 7)), **given)
        assert clusters.released(table, job, cut, int(rng.integers(1, 5))) == list(expected)
        found += len(expected)
    assert found > 20


@every(
    ("mechanism", "options"),
    [("weighted-laplace", {}), ("sieve", {"rounds": 4}), ("bits", {"rounds": 1})],
)
def test_steps_drop_the_rows_of_users_who_are_not_in_the_sample(
    mechanism: str, options: dict[str, Any]
) -> None:
    rng, cut = np.random.default_rng(6), random.Random(6)
    found = fewer = 0
    for seed, kind in enumerate(KINDS):
        table = clusters.random_table(rng, kind, 900)
        job = job_of(seed, table, 3, mechanism=mechanism, **options)
        everybody = clusters.released(table, job, cut)
        pairs = Source(table, Users("user"), Items("item")).pairs(job.key, with_repeats=False)
        for sample in (Sample(0.4, 12345), Sample(0.4, 12345, others=True)):
            part = pairs.of_users(sample.among(pairs.users))
            _, expected = local.select_items(job.plan, part, job.key)
            there = clusters.released(table, replace(job, sample=sample), cut)
            assert there == expected.to_pylist()
            found += len(there)
            fewer += len(there) < len(everybody)
    assert found > 20
    assert fewer > 3


def test_counts_of_steps_are_those_of_the_local_engine() -> None:
    """Users count in their partitions; noise is of the item, held or not."""
    rng, cut = np.random.default_rng(5), random.Random(5)
    for seed, kind in enumerate(KINDS):
        table = clusters.random_table(rng, kind)
        given: dict[str, Any] = {"mechanism": "weighted-gaussian", "max_items": 4}
        given |= {"counts": True, "counts_items": 2}
        expected = flat.release(table, epsilon=4.0, delta=0.05, insecure_seed=seed, **given)
        assert expected.counts is not None
        job = job_of(seed, table, 3, **given)
        for more in (expected.values[:0], pa.array([77 if kind.endswith("int") else "nobody's"])):
            items = pa.concat_arrays([expected.values, more.cast(expected.values.type)])
            found = engine.count(clusters.query(table, job, cut), items)
            assert found[: len(expected)].to_pylist() == expected.counts.to_pylist()
            alone = local.count(job.plan, NOBODY, items[len(expected) :], job.key)
            assert found[len(expected) :].to_pylist() == alone.to_pylist()


def coarse(plan: dpsu.Plan) -> dpsu.Plan:
    """The same in whole weights, so that all round to nothing, with boundaries that noise crosses."""
    assert isinstance(plan.selection, SieveRounds)
    blunt = sieve_probes.lowered(plan.selection, fraction_bits=0)
    return replace(plan, design=replace(plan.design, selection=blunt))


def read_again(table: pa.Table, job: Job, trap: str | None) -> list[str | int]:
    """What a second reading of the sieve releases, with the noise of the key."""
    plan, key = job.plan, job.key
    assert isinstance(plan.selection, SieveRounds)
    sieve = plan.selection
    rows = Source(table, Users("user"), Items("item")).rows(key, with_repeats=False)
    pairs = intern(rows)
    items = local.group_as_planned(plan, pairs, key)[1]
    scales = {this_round.number: sieve.scale(this_round) for this_round in sieve.rounds()}

    def engine() -> LocalRounds:
        users, ordered, held = local.group_as_planned(plan, pairs, key)
        return LocalRounds(held, users, ordered, key)

    def noise(round_: int) -> np.ndarray:
        return Noise(key, items).rounded(round_, scales[round_])

    released = sieve_probes.run(sieve, engine, noise, len(items), trap)[0]
    return sorted(items.take(np.flatnonzero(released)).values.to_pylist())


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
@every("scouting", [0, 8])
def test_items_whose_weight_rounds_to_nothing_are_present(scouting: int) -> None:
    """Being in a set is what counts, on one machine and on a cluster: noise may release it."""
    rng, cut = np.random.default_rng(5), random.Random(5)
    held_only = 0
    for seed in range(12):
        table = clusters.random_table(rng, KINDS[seed % 4], users=40)
        options = {"mechanism": "sieve", "max_items": 6, "scout_items": scouting, "rounds": 5}
        job = job_of(seed, table, int(rng.integers(1, 5)), **options)
        job = replace(job, plan=coarse(job.plan))
        careful = read_again(table, job, None)
        rows = Source(table, Users("user"), Items("item")).rows(job.key, with_repeats=False)
        assert local.select_items(job.plan, intern(rows), job.key)[1].to_pylist() == careful
        assert clusters.released(table, job, cut, 2) == careful
        held_only += careful != read_again(table, job, "positive weight instead of membership")
    assert held_only > 5


@every("scouting", [0, 8])
def test_classes_of_users_travel_and_stay(scouting: int) -> None:
    """What a user may give is fixed by its first set, also once nothing of that set is left."""
    table = clusters.random_table(np.random.default_rng(3), "int-text")
    options = {"mechanism": "sieve", "max_items": 6, "scout_items": scouting, "rounds": 10}
    job, cut = job_of(3, table, 3, **options), random.Random(3)
    assert isinstance(job.plan.selection, SieveRounds)
    easy = sieve_probes.lowered(job.plan.selection)
    job = replace(job, plan=replace(job.plan, design=replace(job.plan.design, selection=easy)))
    conversation = conversation_of(job.plan)
    assert conversation is not None
    now = clusters.shuffled(SendRows(job)(iter(table.to_batches())), 1, cut)[0]
    first: dict[int, list[int]] = {}
    emptied = 0
    for round_number in range(9):
        asked = list(Ask(job, conversation, round_number)(iter(now)))
        kept = {m.to: unpack(m.data) for m in arrived(asked) if m.kind == USERS}
        classes = {to: own["classes"].to_pylist() for to, own in kept.items()}
        sizes = {to: own["sizes"].to_pylist() for to, own in kept.items()}
        if round_number == 0:
            of = easy.account.sizes()
            first = {to: sieve_probes.classes_of(of, sizes[to]).tolist() for to in sizes}
            assert {0, 5} <= {each for part in first.values() for each in part}
        assert classes == {to: first[to] for to in classes}
        emptied += sum(size == 0 for part in sizes.values() for size in part)
        now = list(Answer(job, conversation, round_number)(iter(asked)))
    assert emptied > 0 or not scouting


def test_public_knowledge_travels() -> None:
    rng, cut = np.random.default_rng(4), random.Random(4)
    for seed in range(4):
        table = clusters.random_table(rng, "int-text")
        prior = {f"ü {k}": k for k in range(40)}
        given: dict[str, Any] = {"mechanism": "weighted-gaussian", "max_items": 3, "prior": prior}
        expected = flat.release(table, epsilon=4.0, delta=0.05, insecure_seed=seed, **given).items
        assert clusters.released(table, job_of(seed, table, 3, **given), cut) == list(expected)
        for mechanism in ("weighted-gaussian", "sieve"):
            given = {"mechanism": mechanism, "max_items": 3, "public_items": ["ü 1", "nobody's"]}
            whole = flat.release(table, epsilon=4.0, delta=0.05, insecure_seed=seed, **given)
            job = job_of(seed, table, 3, **given)
            assert clusters.released(table, job, cut) == list(whole.items)


def test_steps_can_be_sent_and_say_nothing_of_the_key() -> None:
    table = clusters.random_table(np.random.default_rng(1), "text-text")
    job = job_of(1, table, 2, mechanism="sieve", max_items=4, rounds=3)
    conversation = conversation_of(job.plan)
    assert conversation is not None
    for step in (SendRows(job), Ask(job, conversation, 1), Answer(job, conversation, 2)):
        guarded = Guarded(step)
        again = pickle.loads(pickle.dumps(guarded))
        assert again.step.job.key == job.key
        assert guarded.__name__.startswith("dpsu_")
        for text in (repr(step), repr(guarded), repr(job)):
            assert "Key" not in text
            assert job.key.secret.hex() not in text


def test_a_step_takes_one_thread_and_who_takes_its_rows_as_many_as_before() -> None:
    def step(batches: Any) -> Any:
        for _ in batches:
            yield threads.workers()

    with threads.use_workers(3):
        for seen in Guarded(step)(iter("abc")):
            assert (seen, threads.workers()) == (1, 3)
        # Nor does one that is left before its end keep anything.
        assert next(Guarded(step)(iter("abc"))) == 1
        assert threads.workers() == 3


def test_failures_tell_nothing() -> None:
    def fails(batches: Any) -> Any:
        yield next(batches)
        raise ValueError("alice bought a gun")

    with pytest.raises(RuntimeError, match=FAILED) as caught:
        list(Guarded(fails)(iter([1])))
    assert "unexpected ValueError at test_steps.py" in str(caught.value)
    assert threads.workers() == threads.usual_workers()
    assert "alice" not in repr(caught.value)
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None
    raised = failure("Cluster", f"Traceback: alice\n{caught.value}\nalice", "?")
    assert "unexpected ValueError at test_steps.py" in str(raised)
    assert "alice" not in str(raised)
    other = failure("Cluster", "alice bought a gun", "JobAborted")
    assert "Cluster could not finish the job (JobAborted)" in str(other)
    assert "alice" not in str(other)


def test_lost_and_strange_messages_are_noticed() -> None:
    """A message that does not come must stop the job: it would pass for 'everything is released'."""
    table = clusters.random_table(np.random.default_rng(2), "int-int")
    job = job_of(2, table, 3, mechanism="sips", max_items=4)
    conversation, cut = conversation_of(job.plan), random.Random(1)
    assert conversation is not None
    now = clusters.shuffled(SendRows(job)(iter(table.to_batches())), 1, cut)
    for round_number in range(2):
        asked = list(Ask(job, conversation, round_number)(iter(now[0])))
        if round_number == 1:
            messages = list(arrived(asked))
            given = next(p for p in messages if p.kind == GIVEN)
            fewer = [p for p in messages if p is not given]
            stranger = given._replace(sender=99)
            for wrong in (fewer, [*fewer, stranger]):
                with pytest.raises(AssertionError, match="lost or misled"):
                    list(Answer(job, conversation, round_number)(iter(list(sent(wrong)))))
        replies = list(
            Answer(job, conversation, round_number)(iter(clusters.shuffled(asked, 1, cut)[0]))
        )
        now = clusters.shuffled(replies, 1, cut)
    assert len(list(arrived(now[0]))) > 0
    kept = [p for p in arrived(now[0]) if p.kind != REPLY]
    with pytest.raises(AssertionError, match="lost or misled"):
        list(Ask(job, conversation, 2)(iter(list(sent(kept)))))


def surveyed_job(seed: int, table: pa.Table, partitions: int) -> Job:
    """Bits with less noise than is paid for, so that small data have an influence on the cap."""
    job = job_of(seed, table, partitions, mechanism="bits")
    bits = job.plan.selection
    assert isinstance(bits, BitsRounds)
    design = replace(job.plan.design, selection=replace(bits, noise=bits.noise / 20))
    return replace(job, plan=replace(job.plan, design=design))


def test_surveys_lead_every_partition_to_the_cap_of_one_machine() -> None:
    rng, cut = np.random.default_rng(6), random.Random(6)
    caps = set()
    for seed in range(6):
        users = 400 if seed % 2 else 60
        table = clusters.random_table(rng, KINDS[seed % 4], users=users)
        job = surveyed_job(seed, table, int(rng.integers(2, 6)))
        bits = job.plan.selection
        assert isinstance(bits, BitsRounds)
        rows = Source(table, Users("user"), Items("item")).rows(job.key, with_repeats=False)
        expected = local.select_items(job.plan, intern(rows), job.key)[1].to_pylist()
        assert clusters.released(table, job, cut, 3) == expected
        users_, items, held = local.group_as_planned(job.plan, intern(rows), job.key)
        sums = LocalRounds(held, users_, items, job.key).add_open(
            np.zeros(len(items), bool), LIMITS, UNITS
        )
        caps.add(bits.estimated_cap(sums, open_noise(job.key), 0))
    assert len(caps) > 1


def first_steps() -> tuple[list[pa.RecordBatch], Any, Any]:
    """What a survey of few users told, and the next two steps."""
    # A third of these users is too few for an estimate, and all of them hold one item each.
    table = pa.table({"user": list(range(14)), "item": [user % 3 for user in range(14)]})
    job = surveyed_job(2, table, 3)
    conversation = conversation_of(job.plan)
    assert conversation is not None
    survey, ask, answer = steps_of(job, job, conversation)[:3]
    return list(survey(SendRows(job)(iter(table.to_batches())))), ask, answer


def test_a_lost_survey_is_noticed() -> None:
    """A partition that misses one would make its users pay by another list of prices."""
    batches, ask, answer = first_steps()
    surveyed, cut = list(arrived(iter(batches))), random.Random(1)
    own = [m for m in surveyed if m.kind == SURVEY and m.to == 0]
    assert sorted(m.sender for m in own) == [0, 1, 2]
    whole = list(ask(iter(list(sent(surveyed)))))
    assert list(answer(iter(clusters.shuffled(whole, 1, cut)[0])))
    # Only what partition 0 hears is lost, so that the others go on by the right number.
    fewer = [m for m in surveyed if m not in own] + own[:1]
    wrong = list(ask(iter(list(sent(fewer)))))
    with pytest.raises(AssertionError, match="lost or misled"):
        list(answer(iter(clusters.shuffled(wrong, 1, cut)[0])))


def test_machines_that_make_different_chances_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The items of one user must have one table: two that are private alone need not be together."""
    (surveyed, ask, answer), cut = first_steps(), random.Random(1)
    here = clusters.shuffled(list(ask(iter(surveyed))), 1, cut)[0]
    made = BitsRounds.curve

    def elsewhere(bits: BitsRounds, round_: int, cap: float) -> CoinTable:
        curve = made(bits, round_, cap)
        return replace(
            curve, chances=(*curve.chances[:5], curve.chances[5] - 1, *curve.chances[6:])
        )

    assert list(answer(iter(here)))
    with monkeypatch.context() as patch:
        patch.setattr(BitsRounds, "curve", elsewhere)
        there = clusters.shuffled(list(ask(iter(surveyed))), 1, cut)[0]
        assert list(answer(iter(there)))
        # Users were on machines of one kind, and these items are on one of the other.
        with pytest.raises(dpsu.DpsuError, match="machines of one kind"):
            list(answer(iter(here)))
    own = [m for m in arrived(here) if m.kind != FOUND or m.sender > 0]
    other = [m for m in arrived(there) if m.kind == FOUND and m.sender == 0]
    assert other
    with pytest.raises(dpsu.DpsuError, match="machines of one kind"):
        list(answer(iter(list(sent([*own, *other])))))


@every("mechanism", ["weighted-gaussian", "sips", "reroute", "bits"])
def test_too_many_users_are_refused_over_all_partitions(mechanism: str) -> None:
    table = pa.table({"user": list(range(50)), "item": ["a"] * 50})
    job = job_of(1, table, 5, mechanism=mechanism)
    for most, refused in ((50, False), (49, True)):
        limited = replace(job.plan, design=replace(job.plan.design, max_users=most))
        bounded = replace(job, plan=limited)
        if refused:
            with pytest.raises(dpsu.DataError, match="more users than") as caught:
                clusters.released(table, bounded, random.Random(1))
            assert "50" not in str(caught.value)
        else:
            clusters.released(table, bounded, random.Random(1))


def test_rows_without_user_or_item() -> None:
    table = pa.table({"user": ["a", None, "b"], "item": [None, "x", "y"]})
    job = job_of(1, table, 1, mechanism="weighted-gaussian")
    (message,) = arrived(SendRows(job)(iter(table.to_batches())))
    assert unpack(message.data)["users"].to_pylist() == ["b"]
    with pytest.raises(dpsu.DataError, match="some rows have no 'user'"):
        list(SendRows(replace(job, strict=True))(iter(table.to_batches())))


def test_columns_of_any_type_and_length_travel() -> None:
    columns = {
        "text": pa.array(["a", "", "ü\n"], pa.large_string()),
        "none": pa.array([], pa.int64()),
        "numbers": np.arange(7, dtype=np.float64)[::2],
    }
    found = unpack(pack(columns))
    assert found["text"].to_pylist() == ["a", "", "ü\n"]
    assert found["none"].to_pylist() == []
    assert found["numbers"].to_pylist() == [0, 2, 4, 6]


def test_partitions_are_even_and_depend_on_the_key() -> None:
    ids = Ids(pa.array([f"id {k}" for k in range(20_000)], pa.large_string()))
    table = pa.table({"user": ["a"], "item": ["b"]})
    first, second = (job_of(seed, table, 16, mechanism="sips") for seed in (1, 2))
    sizes = np.bincount(first.partition_of(ids, "user"), minlength=16)
    assert sizes.min() > 1000
    assert (first.partition_of(ids, "user") != second.partition_of(ids, "user")).mean() > 0.8
    assert (first.partition_of(ids, "user") != first.partition_of(ids, "item")).mean() > 0.8


@every(
    ("mechanism", "shuffles"),
    [
        (dpsu.Bits(items_per_user=500), 8),
        (dpsu.Bits(), 12),
        (dpsu.Bits(items_per_user=500, rounds=1), 2),
        (dpsu.Bits(rounds=1), 3),
        # A hint for auto chooses bits, and is not handed on to it.
        (dpsu.Auto(items_per_user=500, among="parallel"), 12),
        (dpsu.Auto(items_per_user=50, among="parallel"), 40),
    ],
)
def test_shuffles_are_as_many_as_the_guide_says(mechanism: Any, shuffles: int) -> None:
    """One brings rows to their users; and there is one between any two steps."""
    plan = dpsu.plan(epsilon=1, delta=1e-5, mechanism=mechanism)
    job = Job(plan, Key.from_insecure_seed(1), 3, pa.string())
    conversation = conversation_of(plan)
    assert conversation is not None
    assert 1 + len(steps_of(job, job, conversation)) - 1 == shuffles


@every("name", MECHANISMS)
def test_users_who_act_in_turn_are_not_for_a_cluster(name: str) -> None:
    """In parts they would act in turn in every part for itself."""
    texts = {"text": "body"} if name == "ngrams" else {}
    if name == "auto":
        with pytest.raises(dpsu.ParameterError, match="among='parallel'"):
            refuse_what_clusters_cannot(dpsu.plan(epsilon=1, delta=1e-5, mechanism=name), "Spark")
        texts = {"among": "parallel"}
    plan = flat.plan(epsilon=1, delta=1e-5, mechanism=name, **limited(name, 5), **texts)
    in_turn = isinstance(plan.selection, OneShot) and plan.policy.kind in IN_TURN
    assert plan.mechanism.parallel == (not in_turn)
    if plan.mechanism.parallel:
        refuse_what_clusters_cannot(plan, "Spark")
        return
    with pytest.raises(dpsu.ParameterError, match="Spark"):
        refuse_what_clusters_cannot(plan, "Spark")
