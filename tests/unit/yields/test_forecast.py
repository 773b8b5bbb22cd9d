"""Forecasts: functions of public numbers, near what really comes out, and loud when hopeless."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsu
from dpsu.cli import progress
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.yields import profiles
from dpsu.yields.expected import (
    expect,
    held_by,
    holders_of,
    pairs_to_try,
    typical_need,
    universal_bound,
)
from dpsu.yields.made_up import zipf_like
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import OF_PAIRS, limited
from tests.unit.cli.test_cli import Run, run  # noqa: F401

SMALL: dict[str, Any] = {"users": 1500, "items_per_user": 6, "vocabulary": 2000}


def made_up(users: int, size: float, vocabulary: int = 500) -> Pairs:
    table = zipf_like(users, items_per_user=size, zipf=1.0, vocabulary=vocabulary, seed=3)
    return pairs_to_try(Source(table, Users(), Items(repeats="count")))


def planned(mechanism: str, epsilon: float = 2.0, **options: Any) -> dpsu.Plan:
    if mechanism == "count-laplace":
        options.setdefault("max_items", 4)
    return flat.plan(epsilon=epsilon, delta=1e-4, mechanism=mechanism, **options)


# The expectation itself.


@every("mechanism", OF_PAIRS)
def test_the_expectation_is_the_mean_over_many_keys(mechanism: str) -> None:
    pairs = made_up(600, 5.0)
    plan = planned(mechanism)
    expected = expect(pairs, [plan], 40)[0]
    sizes = [
        len(local.select_items(plan, pairs, Key.from_insecure_seed(seed))[1]) for seed in range(60)
    ]
    assert expected.error is not None
    error = math.hypot(expected.error, float(np.std(sizes, ddof=1)) / math.sqrt(len(sizes)))
    assert abs(expected.released - np.mean(sizes)) < 5 * error
    # Five standard errors must not be so wide that any number would do.
    assert expected.released > 3
    assert 5 * error < 0.25 * expected.released


def test_min_users_and_counts_are_part_of_the_plan() -> None:
    pairs = made_up(600, 5.0)
    plain = planned("weighted-gaussian")
    at_least = planned("weighted-gaussian", min_users=40)
    counted = planned("weighted-gaussian", counts=True, counts_share=0.6)
    free, bound, paid = expect(pairs, [plain, at_least, counted], 2)
    assert bound.released < free.released
    assert paid.released < free.released
    assert bound.needs is not None
    assert bound.needs >= 40


def test_summaries_against_plain_loops() -> None:
    rng = np.random.default_rng(5)
    holders = rng.integers(1, 30, 200)
    released = rng.random(200) < holders / 30
    held = held_by(holders)
    out = held.added_up(released.astype(float))
    best = typical_need(held.numbers, out, held.items)

    def wrong(least: int) -> int:
        return int((released & (holders < least)).sum() + (~released & (holders >= least)).sum())

    assert best is not None
    assert wrong(best) == min(wrong(least) for least in range(1, 32))
    nothing = typical_need(held.numbers, np.zeros(len(held.numbers)), held.items)
    assert nothing is None


@pytest.mark.filterwarnings("ignore:every row has its own")
def test_nothing_exceeds_the_universal_bound() -> None:
    pairs = made_up(600, 5.0)
    bound = universal_bound(held_by(holders_of(pairs)), 2.0, 1e-4)
    for found in expect(pairs, [planned(name) for name in OF_PAIRS], 3):
        assert found.released < bound
    # With one item per user, votes without a cutoff are optimal.
    single = made_up(600, 1.0)
    votes = planned("greedy", order="hash", cutoff=10_000)
    reached = expect(single, [votes], 1)[0].released
    best = universal_bound(held_by(holders_of(single)), 2.0, 1e-4)
    assert reached == pytest.approx(best, rel=1e-12)


# Made-up users.


@every("size", [1.0, 3.5, 40.0])
def test_made_up_users_are_as_asked_for(size: float) -> None:
    table = zipf_like(4000, items_per_user=size, zipf=1.0, vocabulary=50_000, seed=1)
    sizes = np.bincount(table["user"].to_numpy(), minlength=4000)
    assert sizes.min() >= 1
    assert sizes.mean() == pytest.approx(size, rel=0.01)
    assert len(set(zip(*(table[c].to_pylist() for c in ("user", "item")), strict=True))) == len(
        table
    )
    ranks = np.bincount(table["item"].to_numpy())
    assert ranks[1] > 1.3 * ranks[3] > 0
    assert table.equals(zipf_like(4000, items_per_user=size, zipf=1.0, vocabulary=50_000, seed=1))


# The forecast.


@pytest.fixture(scope="module")
def seen() -> dpsu.Forecast:
    return flat.forecast(epsilon=1, delta=1e-6, **SMALL)


def test_a_forecast_is_close_to_real_runs_on_the_same_users(seen: dpsu.Forecast) -> None:
    pairs = profiles.find_users(1500, 6, None, None, 2000, None, seen.plan).pairs(1500)
    for point in seen.by_mechanism:
        size = None if point.chosen else point.max_items
        mechanism = dpsu.mechanism(point.mechanism, **limited(point.mechanism, size))
        plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism=mechanism)
        runs = [
            len(local.select_items(plan, pairs, Key.from_insecure_seed(seed))[1])
            for seed in range(24)
        ]
        assert point.error is not None
        error = math.hypot(point.error, float(np.std(runs, ddof=1)) / math.sqrt(len(runs)))
        assert point.released == pytest.approx(np.mean(runs), rel=0.05, abs=4 * error)


def test_everything_is_there(seen: dpsu.Forecast) -> None:
    assert {point.mechanism for point in seen.by_mechanism} == set(OF_PAIRS)
    assert {point.epsilon for point in seen.by_epsilon} == {0.25, 0.5, 1.0, 2.0, 4.0}
    assert {point.max_items for point in seen.by_max_items} == {3, 10, 30, 100, 300}
    assert seen.planned.mechanism == "auto"
    assert not seen.hopeless
    text = str(seen)
    assert "an item needs about" in text
    assert "auto (planned)" in text
    assert "No confidential data was touched" in text
    assert json.loads(seen.to_json())["hopeless"] is False
    again = flat.forecast(epsilon=1, delta=1e-6, mechanisms=["greedy"], **SMALL)
    assert again.planned == seen.planned


@settings(max_examples=5, deadline=None, derandomize=True)
@given(
    epsilon=st.floats(0.2, 3.0),
    size=st.floats(1.0, 12.0),
    zipf=st.floats(0.6, 1.6),
    mechanism=st.sampled_from(OF_PAIRS),
)
def test_more_epsilon_never_releases_less(
    epsilon: float, size: float, zipf: float, mechanism: str
) -> None:
    options: dict[str, Any] = {"max_items": 5} if mechanism == "count-laplace" else {}
    made = flat.forecast(
        epsilon=epsilon, delta=1e-6, users=800, items_per_user=size, zipf=zipf, vocabulary=300,
        mechanism=mechanism, mechanisms=[], **options,
    )  # fmt: skip
    points = sorted(made.by_epsilon, key=lambda point: point.epsilon)
    assert len(points) == 5
    for less, more in pairwise(points):
        noise = 4 * math.hypot(less.error or 0.0, more.error or 0.0)
        assert more.released >= less.released - noise - 0.01


def test_options_of_the_plan_are_those_of_its_forecast() -> None:
    given: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "policy-gaussian"}
    slow, quick = (
        flat.forecast(alpha=alpha, mechanisms=["greedy"], **given, **SMALL) for alpha in (9.0, 2.0)
    )
    assert slow.plan.cutoff != quick.plan.cutoff
    assert slow.planned.released != quick.planned.released
    others = [next(p for p in f.by_mechanism if not p.planned) for f in (slow, quick)]
    assert others[0] == others[1]


def test_what_auto_chose_is_what_is_forecast() -> None:
    made = dpsu.forecast(dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.Auto(items_per_user=1.0)), users=1000, items_per_user=1, mechanisms=[])  # fmt: skip
    assert made.planned.mechanism == made.plan.name == "greedy"
    assert len(made.by_epsilon) == 5


def test_what_differs_from_the_release_is_said() -> None:
    made = flat.forecast(
        epsilon=1, delta=1e-6, mechanism="greedy", prior={"a": 1}, public_items=["b"],
        mechanisms=[], **SMALL,
    )  # fmt: skip
    assert any("not part of the forecast" in finding.text for finding in made.findings)
    assert made.plan.prior is not None
    # Sets that cannot be drawn are smaller.
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="greedy")
    made = dpsu.forecast(plan, users=1000, items_per_user=80, zipf=4, mechanisms=[])
    assert any("made-up users hold" in finding.text for finding in made.findings)


# Caps, corpora and wrong options.


def test_a_public_corpus_instead_of_made_up_users(tmp_path: Path) -> None:
    table = zipf_like(1000, items_per_user=4, zipf=1.0, vocabulary=300, seed=8)
    path = tmp_path / "corpus.parquet"
    pa.parquet.write_table(table, path)
    options: dict[str, Any] = {"epsilon": 2, "delta": 1e-5, "mechanisms": ["weighted-gaussian"]}
    made = flat.forecast(profile=path, **options)
    assert (made.profile.users, made.profile.used_pairs) == (1000, len(table))
    assert made.profile.zipf is None
    assert "public corpus of 1,000 users" in str(made)
    part = flat.forecast(profile=path, users=300, **options)
    assert part.profile.used_users == 300
    assert part.planned.released < made.planned.released
    more = flat.forecast(profile=path, users=3000, **options)
    assert more.planned.released > made.planned.released
    assert any("the most the corpus has" in finding.text for finding in more.findings)
    texts = {f"u{n}": "the quick brown fox" for n in range(400)}
    spoken = flat.forecast(profile=texts, text="text", ngrams=2, **options)
    assert spoken.profile.used_items == 3


@every(
    ("options", "words"),
    [
        ({}, "needs users and items_per_user"),
        ({"users": 10}, "needs users and items_per_user"),
        ({"users": 0, "items_per_user": 3}, "users=0 is out of range"),
        ({"users": 10, "items_per_user": 0.5}, "items_per_user=0.5 is out of range"),
        ({"users": 10, "items_per_user": 3, "zipf": -1}, "zipf=-1 is out of range"),
        ({"users": 10, "items_per_user": 3, "spread": 0.9}, "spread=0.9 is out of range"),
        ({"users": 10, "items_per_user": 30, "vocabulary": 20}, "above vocabulary=20"),
        ({"profile": {"u": ["a"]}, "spread": 2}, "spread is for made-up users"),
        ({"profile": {"u": ["a"]}, "zipf": 1}, "zipf is for made-up users"),
        ({"profile": {"u": []}}, "profile has no rows"),
        ({"users": 10, "items_per_user": 3, "mechanisms": ["magic"]}, "is not one of"),
        ({"users": 10, "items_per_user": 3, "alpha": 3.0}, "no mechanism was named, and sieve"),
    ],
)
@pytest.mark.filterwarnings("ignore:no row has both")
def test_wrong_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(dpsu.ParameterError, match=words):
        flat.forecast(epsilon=1, delta=1e-6, **options)


# The shell.

PLAN = ("plan", "--epsilon", "1", "--delta", "1e-6")


def test_a_forecast_from_the_shell(run: Run, tmp_path: Path) -> None:  # noqa: F811
    page = tmp_path / "plan.html"
    given = (*PLAN, "--users", 600, "--items-per-user", 6, "--vocabulary", 400)
    code, out, err = run(*given, "--html", page)
    assert (code, err) == (0, "")
    assert out.startswith(str(dpsu.plan(epsilon=1, delta=1e-6)))
    # Columns are named as options are in Python, which is all of it that the shell shows.
    assert not re.search(r"[a-z]_[a-z_]+ ?=", out)
    assert "Expected items by epsilon" in out
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
    code, out, err = run(*given, "--spread", 3, "--json")
    profile = json.loads(out)["profile"]
    assert (profile["users"], profile["spread"]) == (600, 3)
    code, _, err = run(*given, "--spread", 0.5)
    assert (code, "--spread 0.5 is out of range" in err) == (2, True)


def test_hopeless_settings_exit_with_1(run: Run) -> None:  # noqa: F811
    code, out, err = run(*PLAN, "--users", 9, "--items-per-user", 3)
    assert code == 1
    assert "STOP: at epsilon=1" in out
    assert err.startswith("dpsu: at epsilon=1, delta=1e-06 an item needs about ")
    assert err.count("\n") == 1


def test_what_is_read_is_not_written(run: Run, tmp_path: Path) -> None:  # noqa: F811
    corpus = tmp_path / "corpus.html"
    code, _, err = run(*PLAN, "--profile", corpus, "--html", corpus)
    assert code == 2
    assert "is also read" in err


@every(("epsilon", "delta"), [(50.0, 1e-6), (2e-4, 1e-100)])
def test_extremes(epsilon: float, delta: float) -> None:
    plan = dpsu.plan(epsilon=epsilon, delta=delta, mechanism="policy-gaussian")
    made = dpsu.forecast(plan, users=200, items_per_user=2, vocabulary=50, mechanisms=[])
    assert made.planned.epsilon == epsilon
    assert made.hopeless == (epsilon < 1)
    assert json.loads(made.to_json()) == made.to_dict()
    assert made.to_html()


def test_progress_is_shown_late_and_only_to_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("dpsu.cli.progress.time.monotonic", lambda: now[0])
    for watched, seconds, shown in ((True, 2.0, True), (True, 0.5, False), (False, 2.0, False)):
        monkeypatch.setattr(progress, "somebody_watches", lambda watched=watched: watched)
        now[0] = 0.0
        with progress.shown_steps("forecasting", quiet=False) as show:
            now[0] = seconds
            show(3, 10)
        # A bar that is cleared in the end leaves a line feed behind where there is no terminal.
        assert (capsys.readouterr().err != "") == shown
