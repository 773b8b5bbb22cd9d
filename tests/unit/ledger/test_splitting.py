"""One budget for several equal releases."""

# ruff: noqa: F811
from __future__ import annotations

import functools
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.ledger.accounting import cost_of, total
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.splitting import _rounded_down, repeated
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401

BUDGET = (3.0, 1e-5)
# To divide a budget takes seconds.
split = functools.cache(functools.partial(dpsu.split_budget, BUDGET))


@every(
    ("mechanism", "releases"),
    [("sieve", 8), ("weighted-gaussian", 3), ("policy-laplace", 8), ("auto", 3), ("auto", 1)],
)
def test_a_ledger_lets_all_of_them_happen_and_no_further_one(
    mechanism: str, releases: int, tmp_path: Path
) -> None:
    each = split(releases=releases, mechanism=mechanism)
    plan = dpsu.plan(epsilon=each.epsilon, delta=each.delta, mechanism=mechanism)
    spending = Ledger(tmp_path / "ledger.db").dataset("visits", budget=BUDGET)
    for _ in range(releases):
        spending.charge(plan, run="5e" * 16)
    with pytest.raises(dpsu.BudgetError):
        spending.charge(plan, run="5e" * 16)


def test_gaussian_releases_get_more_than_an_equal_share_and_about_the_most() -> None:
    releases = 8
    each = split(releases=releases, mechanism="sieve")
    assert each.epsilon > 1.2 * BUDGET[0] / releases
    assert each.delta <= BUDGET[1] / releases
    plan = dpsu.plan(epsilon=each.epsilon * 1.001, delta=each.delta, mechanism="sieve")
    assert not repeated(plan, releases).within(dpsu.Privacy(*BUDGET))
    shared = dpsu.plan(
        epsilon=BUDGET[0] / releases, delta=BUDGET[1] / releases, mechanism="sieve"
    ).needed[0.5]
    needed = dpsu.plan(epsilon=each.epsilon, delta=each.delta, mechanism="sieve").needed[0.5]
    assert shared is not None
    assert needed is not None
    assert needed < shared


def test_the_sum_of_equal_costs_is_that_of_a_ledger() -> None:
    plan = dpsu.plan(epsilon=0.3, delta=1e-7, mechanism="sieve", counts=True)
    assert repeated(plan, 7) == total([cost_of(plan)] * 7)


@every("value", [0.75, 1 / 3, 1e-5 / 12, 3.0, 0.1, 2.5e-6, 49.99999, 1e-100])
def test_numbers_are_rounded_down_to_few_digits(value: float) -> None:
    short = _rounded_down(value)
    assert float(f"{short:.4g}") == short
    assert value * 0.999 <= short
    assert Fraction(short) <= Fraction(value) * (1 + Fraction(1, 10**12))


@every(
    ("budget", "releases"), [(BUDGET, 0), (BUDGET, 2.0), (BUDGET, 10_001), (BUDGET, True), ((3,), 2), (3, 2), ((0.001, 1e-5), 20)],
)  # fmt: skip
def test_what_cannot_be_split_is_refused(budget: Any, releases: Any) -> None:
    with pytest.raises(dpsu.ParameterError, match=r"releases|budget"):
        dpsu.split_budget(budget, releases=releases)


def test_a_mechanism_without_a_guarantee_is_refused() -> None:
    unproven = dpsu.Greedy(calibration="paper", allow_unproven=True)
    with pytest.raises(dpsu.ParameterError, match="allow_unproven"):
        dpsu.split_budget(BUDGET, releases=4, mechanism=unproven)


def test_the_command_line_plans_one_of_them(run: Run) -> None:
    typed = ["plan", "--epsilon", "3", "--delta", "1e-5", "--mechanism", "weighted-gaussian"]
    code, out, err = run(*typed, "--releases", "4")
    assert code == 0, err
    each = split(releases=4, mechanism="weighted-gaussian")
    assert out.startswith("The plan of one of 4 equal releases, which together stay within epsilon")
    assert f"({each.epsilon:g}, {each.delta:g})-differential privacy" in out
    assert "by sums each would have epsilon 0.75" in out
    plan = dpsu.Plan.from_json(run(*typed, "--releases", "4", "--json")[1])
    assert plan.privacy == each
    assert plan.name == "weighted-gaussian"
    told = run(*typed[:-1], "auto", "--releases", "4")[1]
    assert "(by sums of epsilon and delta;" in told
    code, out, err = run(*typed, "--releases", "0")
    assert (code, "--releases 0" in err) == (2, True)
