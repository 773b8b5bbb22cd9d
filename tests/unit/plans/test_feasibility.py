"""Settings that cannot work are told before anything is read or spent, with what would help."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dpsu.plans.feasibility import fewest_holders, smallest_epsilon
from dpsu.privacy.curves import Optimal
from dpsu.privacy.guarantee import Privacy
from tests.support import flat

SMALL: dict[str, Any] = {"users": 1500, "items_per_user": 6, "vocabulary": 2000}


def hopeless(**options: Any) -> list[str]:
    made = flat.forecast(mechanisms=[], **options)
    return [finding.text for finding in made.findings if finding.stops]


def test_too_few_users_are_told_with_the_epsilon_that_would_do() -> None:
    # Each epsilon that is tried is a plan, and one of auto takes far longer.
    few: dict[str, Any] = {"mechanism": "policy-laplace", "delta": 1e-9, "users": 100}
    (told,) = hopeless(epsilon=0.1, items_per_user=3, **few)
    assert "at epsilon=0.1, delta=1e-09 an item needs about" in told
    assert "you expect users=100: nothing can come out" in told
    enough = float(told.rsplit(" ", 1)[1])
    assert hopeless(epsilon=0.9 * enough, items_per_user=3, **few)
    assert not hopeless(epsilon=enough, items_per_user=1, zipf=5, vocabulary=1, **few)


def test_users_whom_no_epsilon_helps() -> None:
    told = hopeless(epsilon=1, delta=1e-30, users=1, items_per_user=1)
    assert "No epsilon up to 50 is enough" in told[0]


def test_a_large_delta_is_a_warning_in_the_first_line() -> None:
    many: dict[str, Any] = {"users": 5000, "items_per_user": 3, "mechanism": "policy-laplace"}
    made = flat.forecast(epsilon=1, delta=1e-3, mechanisms=[], **many)
    assert not made.hopeless
    (told,) = [finding for finding in made.findings if finding.warns]
    assert told.text.startswith("weak guarantee: delta is 0.001, the probability with which")
    assert str(made).startswith("WARNING: weak guarantee")
    assert "WARNING" in made._repr_html_()
    assert not hopeless(epsilon=1, delta=1e-4, **many)
    for delta, warned in ((2.1e-5, True), (1.9e-5, False)):
        seen = flat.forecast(epsilon=1, delta=delta, mechanisms=[], **many)
        assert any(finding.warns for finding in seen.findings) is warned


def test_weight_spread_too_thin_stops() -> None:
    (told,) = hopeless(epsilon=1, delta=1e-6, users=100, items_per_user=50, zipf=0.0)
    assert "auto is expected to release 0 items of users=100" in told


def test_sets_far_smaller_than_max_items_are_told() -> None:
    made = flat.forecast(
        epsilon=1, delta=1e-6, mechanism="count-gaussian", max_items=500, mechanisms=[], **SMALL
    )
    told = [finding for finding in made.findings if "far above the 6 items" in finding.text]
    assert told
    assert not told[0].stops
    assert "try a limit of 18" in told[0].text
    better = [f.text for f in made.findings if "is expected to release" in f.text]
    assert any(text.startswith("a limit of ") for text in better)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(epsilon=st.floats(0.05, 5.0), log_delta=st.floats(-20, -2))
def test_no_private_mechanism_needs_fewer_holders(epsilon: float, log_delta: float) -> None:
    privacy = Privacy(epsilon, 10.0**log_delta)
    best = fewest_holders(privacy)
    chance = 0.0
    for _ in range(best - 1):
        chance = min(
            math.exp(epsilon) * chance + privacy.delta,
            1 - math.exp(-epsilon) * (1 - chance - privacy.delta),
            1.0,
        )
    assert chance < 0.5 * (1 + 1e-9)
    assert Optimal(epsilon, privacy.delta).probability(best) >= 0.5


def test_the_smallest_epsilon_is_found_by_halving() -> None:
    found = smallest_epsilon(0.1, lambda epsilon: epsilon >= 1.234)
    assert found is not None
    assert 1.234 <= found <= 1.3
    assert smallest_epsilon(0.1, lambda epsilon: False) is None
