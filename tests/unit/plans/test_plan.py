"""Plans: frozen, complete, equal when they say the same, and readable by people."""

from __future__ import annotations

import inspect
import math
import re
from typing import Any

import numpy as np
import pytest

import dpsu
from tests.support import flat
from tests.support.cases import every

# Options of mechanisms are those of tests/contracts.
OTHERS: list[dict[str, Any]] = [
    {"mechanism": "auto", "among": "parallel", "auto_budget": 0.1, "counts": True},
    {"mechanism": "auto", "text": "body", "ngrams": (1, 2)},
    {"mechanism": "greedy", "prior": {"a": 3}, "public_items": ["b"]},
    {"mechanism": "greedy", "calibration": "paper", "allow_unproven": True},
    {"mechanism": "policy-gaussian", "alpha": 0.0, "insecure_seed": 5},
    {"user": "author", "item": "Wort", "public_items": ["x", "y"]},
]


@every("options", OTHERS)
def test_plans_are_equal_when_they_say_the_same_and_say_whom_they_protect(
    options: dict[str, Any],
) -> None:
    plan = flat.plan(epsilon=1, delta=1e-5, **options)
    again = dpsu.Plan.from_json(plan.to_json())
    assert again == plan == flat.plan(epsilon=1, delta=1e-5, **options)
    assert hash(again) == hash(plan)
    assert again != flat.plan(epsilon=1.01, delta=1e-5, **options)
    assert again.needed == plan.needed
    text = str(plan)
    assert ("NO GUARANTEE" in text) == (not plan.private)
    assert f"one value of {plan.user.columns!r}" in text


def test_plan_and_release_take_the_same_options() -> None:
    planned = set(inspect.signature(dpsu.plan).parameters)
    released = set(inspect.signature(dpsu.release).parameters)
    assert released - planned == {
        "data", "plan", "prior", "strict", "format", "memory_limit", "progress", "ledger",
    }  # fmt: skip
    assert planned <= released
    assert len(released) <= 16


def test_what_an_item_needs() -> None:
    plan = dpsu.plan(epsilon=3, delta=math.exp(-10), mechanism=dpsu.PolicyGaussian(max_items=100))
    assert plan.needed[0.5] == pytest.approx(plan.threshold)
    assert plan.mechanism.people(plan.design, 6.4) == (
        "7 users who hold nothing else, or at most 64 users who hold 100 items each"
    )
    votes = dpsu.plan(epsilon=1, delta=1e-5, mechanism="greedy")
    assert votes.needed == {0.5: 12.0, 0.9: 13.0, 0.99: None}
    assert "1 in 11 of even the commonest items is missed" in str(votes)
    assert votes.largest_probability == pytest.approx(0.9118, abs=1e-4)
    assert dpsu.plan(epsilon=1, delta=1e-5, mechanism="count-gaussian").largest_probability == 1.0
    capped = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.PolicyGaussian(alpha=0.0))
    assert capped.needed[0.9] is None


def test_unproven_and_seeded_plans_say_so() -> None:
    assert dpsu.plan(epsilon=1, delta=1e-5).private
    assert not dpsu.plan(epsilon=1, delta=1e-5, insecure_seed=0).private
    unproven = dpsu.plan(
        epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(calibration="paper", allow_unproven=True)
    )
    assert not unproven.private
    assert unproven.threshold == pytest.approx(1 - math.log(2e-5))


def test_a_prior_is_part_of_the_plan_by_its_content() -> None:
    one = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(prior={"a": 1, "b": 2}))
    same = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(prior={"b": 2.0, "a": 1.0}))
    other = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(prior={"a": 1, "b": 3}))
    assert one == same != other


def test_public_names() -> None:
    # Some are loaded when they are first asked for.
    assert all(hasattr(dpsu, name) for name in dpsu.__all__)
    visible = {n for n in vars(dpsu) if not n.startswith("_")}
    modules = {n for n in visible if inspect.ismodule(getattr(dpsu, n))}
    assert sorted(visible - modules) == dpsu.__all__ == sorted(dpsu.__all__)
    for name in dpsu.__all__:
        assert getattr(dpsu, name).__doc__
    for function in (dpsu.audit, dpsu.plan, dpsu.release, dpsu.Ledger, dpsu.Query):
        for section in ("Privacy\n", "Cost\n", "Examples\n"):
            assert section in str(function.__doc__)


@every(
    ("epsilon", "delta"),
    [(1.0000049, 1.00049e-6), (1, 1e-6), (3.0, 4.539992976248485e-05), (0.1, 1e-9)],
)
def test_a_guarantee_is_never_printed_smaller_than_it_is(epsilon: float, delta: float) -> None:
    told = re.search(
        r"\(([^,]+), ([^)]+)\)-differential", str(dpsu.plan(epsilon=epsilon, delta=delta))
    )
    assert told is not None
    assert epsilon <= float(told[1]) <= epsilon * 1.001
    assert delta <= float(told[2]) <= delta * 1.001


def test_numbers_of_numpy_are_plain_numbers() -> None:
    def typed(whole: Any, real: Any) -> list[str]:
        guarantee = dpsu.Privacy(real(3), real(0.125), ids_per_person=whole(100))
        assert type(guarantee.ids_per_person) is int
        assert type(guarantee.epsilon) is type(guarantee.delta) is float
        plan = dpsu.plan(
            epsilon=whole(3), delta=1e-6, mechanism=dpsu.PolicyGaussian(max_items=whole(100)),
            user=dpsu.Users(ids_per_person=whole(2)), insecure_seed=whole(100),
            counts=dpsu.Counts(max_items=whole(3), share=real(0.125)),
        )  # fmt: skip
        split = dpsu.split_budget((real(3), 1e-6), releases=whole(100))
        return [repr(guarantee), plan.to_json(), repr(split)]

    plain = typed(int, float)
    for whole, real in ((np.int8, np.float32), (np.uint8, np.float16), (np.int64, np.float64)):
        assert typed(whole, real) == plain, whole
