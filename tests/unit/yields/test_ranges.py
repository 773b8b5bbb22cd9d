"""Made-up populations, ranges of forecasts, and yields of more users than are made up."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsu
from dpsu.engines import local
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.yields import profiles
from dpsu.yields.expected import counted, pairs_to_try
from dpsu.yields.forecasted import Point
from dpsu.yields.made_up import zipf_like
from dpsu.yields.profiles import RANGE, MadeUp, usual_vocabulary
from dpsu.yields.tables import about, rough
from dpsu.yields.trials import Growth, Trial, other_sizes, settled
from tests.support.cases import every

NAMES = ("sieve", "weighted-gaussian", "policy-laplace")
SMALL: dict[str, Any] = {"users": 1500, "items_per_user": 6}


def points(population: MadeUp, epsilon: float = 2.0, delta: float = 1e-5) -> tuple[Point, ...]:
    plan = dpsu.plan(epsilon=epsilon, delta=delta)
    mechanisms = [plan.mechanism, *map(dpsu.mechanism, NAMES)]
    trial = Trial(plan, mechanisms, population, sweeps=False)
    return trial.run(lambda done, of: None)[1][0]


# Made-up users.


@every("spread", [1.0, 1.4, 1.8, 5.0])
@every("size", [2.5, 40.0])
def test_spread_is_the_mean_by_the_median(spread: float, size: float) -> None:
    table = zipf_like(5000, items_per_user=size, zipf=0.5, vocabulary=80_000, spread=spread, seed=1)
    sizes = np.bincount(table["user"].to_numpy(), minlength=5000)
    assert sizes.mean() == pytest.approx(size, rel=0.01)
    if spread == 1.0:
        assert set(sizes) <= {math.floor(size), math.ceil(size)}
    elif size == 40.0:
        assert sizes.mean() / np.median(sizes) == pytest.approx(spread, rel=0.06)


def test_the_usual_spread_is_that_of_forecasts() -> None:
    law: dict[str, Any] = {"items_per_user": 5, "zipf": 1.0, "vocabulary": 500}
    assert zipf_like(99, **law).equals(zipf_like(99, **law, spread=profiles.DEFAULT_SPREAD))


@given(st.integers(1, 2**32), st.floats(1.0, 100_000.0))
def test_a_vocabulary_is_neither_smaller_than_a_set_nor_larger_than_all_of_them(
    users: int, size: float
) -> None:
    found = usual_vocabulary(users, size)
    assert size <= found <= math.ceil(users * size)
    assert found <= usual_vocabulary(min(2**32, 2 * users), size)


def test_a_vocabulary_grows_more_slowly_than_the_pairs() -> None:
    small, large = (usual_vocabulary(users, 10) for users in (10_000, 1_000_000))
    assert large / small == pytest.approx(100**0.6, rel=0.01)


# Growth with the number of users.


def test_growth_goes_through_what_was_found_and_on_beyond() -> None:
    growth = Growth((100, 200, 400), (10.0, 18.0, 40.0), 1.3)
    assert [growth.at(n) for n in (100, 200, 400)] == [10.0, 18.0, 40.0]
    assert growth.at(math.sqrt(100 * 200)) == pytest.approx(math.sqrt(180))
    assert growth.at(1600) == pytest.approx(160.0)
    assert growth.at(50) == pytest.approx(5.0)
    # A few items at the beginning say nothing about what comes later.
    assert Growth((100, 200), (0.1, 10.0), 1.3).at(400) == pytest.approx(10 * 2**1.3)
    assert Growth((100, 200), (10.0, 9.0), 1.3).at(400) == pytest.approx(9.0)
    assert Growth((100, 200), (0.4, 0.2), -1.3).at(400) == pytest.approx(0.1)
    assert Growth((100,), (7.0,), 1.3).at(300) == 7.0
    assert Growth((100, 200), (0.0, 0.0), 1.3).at(400) == 0.0


@given(st.integers(1, 2**32), st.integers(1, 10**7))
def test_there_is_always_another_size_to_try(users: int, limit: int) -> None:
    sizes = other_sizes(users, limit)
    assert all(1 <= size <= limit for size in sizes)
    assert min(users, limit) not in sizes
    assert sizes or limit == 1
    if users * RANGE < limit and users > 2:
        assert sizes[0] < users < sizes[1]


def test_under_the_cap_yields_are_those_of_all_users(monkeypatch: pytest.MonkeyPatch) -> None:
    population = MadeUp(30_000, 8.0, 1.8, 1.0, usual_vocabulary(30_000, 8.0))
    truth = points(population)
    monkeypatch.setattr(profiles, "MOST_PAIRS", 60_000)
    assert population.limit == 7_500
    found = points(population)
    parts = [b.released / a.released for a, b in zip(truth, found, strict=True)]
    # One draw of so few users is noise of its own; they alone would release a third.
    assert math.prod(parts) ** (1 / len(parts)) == pytest.approx(1.0, abs=0.05)
    assert parts == pytest.approx([1.0] * len(parts), abs=0.1)
    for whole, capped in zip(truth, found, strict=True):
        assert capped.error is None
        assert capped.missing == pytest.approx(whole.missing, abs=0.05)
        assert capped.low is not None
        assert capped.high is not None
        assert capped.low < whole.released < capped.high


def test_what_is_extrapolated_is_said_to_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles, "MOST_PAIRS", 3000)
    plan = dpsu.plan(epsilon=1, delta=1e-9)
    made = dpsu.forecast(
        plan, users=10**6, items_per_user=3, vocabulary=400, mechanisms=["weighted-gaussian"]
    )
    assert (made.profile.users, made.profile.used_users) == (10**6, 1000)
    assert any("extrapolated from up to 1,000 users" in f.text for f in made.findings)
    # Items that do not exist are not released, however many users there are.
    every = (*made.by_mechanism, *made.by_epsilon, *made.by_max_items)
    assert max(point.high or 0.0 for point in every) <= 400
    assert made.planned.released > 300


# Ranges.


@pytest.fixture(scope="module")
def seen() -> dpsu.Forecast:
    return dpsu.forecast(dpsu.plan(epsilon=1, delta=1e-6), mechanisms=NAMES, **SMALL)


def test_a_range_is_there_for_all_that_was_planned(seen: dpsu.Forecast) -> None:
    for point in (*seen.by_mechanism, *seen.by_epsilon, *seen.by_max_items):
        if point.planned or point in seen.by_mechanism:
            assert point.low is not None
            assert point.high is not None
            assert point.low <= point.released <= point.high
        elif point.epsilon != 1:
            assert point.low is point.high is None
    planned = seen.planned
    assert planned.low is not None
    assert planned.low < 0.9 * planned.released
    assert f"({rough(planned.low)} to " in str(seen)
    assert about(planned) in str(seen)
    assert rough(planned.low) in seen.to_html()


@settings(max_examples=10, deadline=None, derandomize=True)
@given(
    users=st.integers(1, 3000),
    size=st.floats(1.0, 15.0),
    spread=st.floats(1.0, 6.0),
    zipf=st.floats(0.3, 1.6),
    vocabulary=st.none() | st.integers(20, 4000),
    epsilon=st.floats(0.3, 4.0),
)
def test_ranges_hold_their_points_and_never_more_than_exists(
    users: int, size: float, spread: float, zipf: float, vocabulary: int | None, epsilon: float
) -> None:
    different = usual_vocabulary(users, size) if vocabulary is None else vocabulary
    population = MadeUp(users, size, spread, zipf, different)
    for point in points(population, epsilon):
        assert point.low is not None
        assert point.high is not None
        assert 0.0 <= point.low <= point.released <= point.high <= different
        assert 0.0 <= point.missing <= 1.0


def test_more_users_release_more() -> None:
    sizes = (300, 1000, 3000, 10_000)
    found = [points(MadeUp(n, 6.0, 1.8, 1.0, usual_vocabulary(n, 6.0))) for n in sizes]
    for fewer, more in pairwise(found):
        for less, many in zip(fewer, more, strict=True):
            assert many.released > less.released


@every(
    ("value", "text"), [(0.0, "0"), (3.26, "3.3"), (94.6, "95"), (3_467.0, "3,500"), (999.9, "1,000")],
)  # fmt: skip
def test_rough_numbers_have_two_digits(value: float, text: str) -> None:
    assert rough(value) == text


# The choice of auto.


@every(
    ("size", "epsilon", "name"), [(1.0, 2.0, "greedy"), (1.6, 2.0, "policy-laplace"), (12.0, 2.0, "sieve")],
)  # fmt: skip
def test_a_forecast_of_auto_is_that_of_its_choice(size: float, epsilon: float, name: str) -> None:
    plan = dpsu.plan(epsilon=epsilon, delta=1e-5)
    made = dpsu.forecast(plan, users=6000, items_per_user=size, mechanisms=[])
    planned = made.planned
    assert (planned.mechanism, planned.chosen) == ("auto", name)
    assert f"auto would choose {name}" in str(made)
    assert f"auto would choose {name}" in made.to_html()
    population = profiles.find_users(6000, size, None, None, None, None, plan)
    assert settled(plan, counted(population.pairs(6000)).classes).name == name
    runs = [
        local.select_items(plan, population.pairs(6000), Key.from_insecure_seed(seed))
        for seed in range(5)
    ]
    assert [taken.name for taken, _ in runs].count(name) >= 4


def test_choices_are_shown_in_every_form(seen: dpsu.Forecast) -> None:
    written = json.loads(seen.to_json())
    assert written["profile"]["spread"] == 1.8
    planned = next(point for point in written["by_mechanism"] if point["planned"])
    assert (planned["low"], planned["high"]) == (seen.planned.low, seen.planned.high)
    assert planned["chosen"] == "sieve"
    assert seen.without_max_items == ("auto",)
    for shown in (str(seen), seen.to_html(), seen._repr_html_()):
        assert "auto has no max_items to choose and is not shown here." in shown
    # Noise hides how many items few people hold, and who does not know chooses sieve.
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    assert dpsu.forecast(plan, users=300, items_per_user=1, mechanisms=[]).planned.chosen == "sieve"
    # A mechanism that was named chooses nothing.
    named = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve")
    made = dpsu.forecast(named, mechanisms=["greedy"], **SMALL)
    assert {point.chosen for point in made.by_mechanism} == {None}
    assert "would choose" not in str(made)


def test_sets_are_counted_as_estimates_count_them() -> None:
    table = {f"u{n}": [f"i{k}" for k in range(1 + n % 3)] for n in range(30)}
    sets = counted(pairs_to_try(Source(table, Users(), Items())))
    assert (sets.pairs, sets.items) == (60, 3)
    assert sets.classes[:3].tolist() == [10, 10, 10]
