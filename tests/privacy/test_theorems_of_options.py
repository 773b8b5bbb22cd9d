"""The table of which theorem covers which options is what `plan` accepts, and nothing else."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from tools import stamp

import dpsu
from dpsu.engines.estimates import estimate
from dpsu.options import options_of
from dpsu.plans.mechanisms import MECHANISMS
from dpsu.plans.mechanisms.auto import Hints
from dpsu.plans.plan import Plan
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import OF_PAIRS, UNPUBLISHED, limited
from tests.support.reference import hockey_stick

# Options of a column, each as one could give it; with a prior, orders are those of the prior.
COLUMNS: dict[str, list[dict[str, Any]]] = {
    "`min_users`": [{"min_users": 2}, {"min_users": 50}],
    "`passes`": [{"passes": 3}],
    "`alpha`, `cutoff`": [{"alpha": 0.0}, {"alpha": 4.5}, {"cutoff": 60.5}],
    "`prior`": [{"prior": {"a": 3, "b": 1}}],
    "`order`, `repeats`": [{"order": "hash"}, {"order": "repeats"}, {"repeats": "n"}],
    "`rounds`": [{"rounds": 4}, {"rounds": 1}],
    "`scout_items`": [{"scout_items": 0}, {"scout_items": 5000}],
}
EVERYWHERE: list[dict[str, Any]] = [
    {},
    {"counts": True},
    {"public_items": ["a"]},
    {"text": "body", "ngrams": (1, 2)},
    {"max_items": 3},
]
# Orders by one's own counts make no use of a prior, and two ways to order exclude each other.
CLASH = {"`prior`", "`order`, `repeats`"}


def table() -> dict[tuple[str, str], dict[str, str]]:
    """Rows of the page by mechanism and calibration."""
    text = (stamp.PROOFS / "index.md").read_text(encoding="utf-8")
    lines = text.partition("| mechanism | calibration |")[2].partition("\n\n")[0].split("\n")
    names = [name.strip() for name in lines[0].split("|")[:-1]]
    rows = {}
    for line in lines[2:]:
        mechanism, calibration, *cells = (cell.strip() for cell in line.split("|")[1:-1])
        # Of a choice by the value, the options here are the last.
        last = [cell.rpartition("else ")[2] for cell in cells]
        rows[mechanism, calibration] = dict(zip(names, last, strict=True))
    return rows


TABLE = table()


def base(row: tuple[str, str]) -> dict[str, Any]:
    """What makes a plan of this row without further options."""
    name, calibration = row
    options: dict[str, Any] = {"mechanism": name.split(",")[0]}
    if options["mechanism"] not in UNPUBLISHED:
        options["calibration"] = calibration
    if name.endswith("fractional"):
        options["alpha"] = 2.0
    if row == ("greedy", "paper"):
        options["allow_unproven"] = True
    return limited(options["mechanism"], 9) | options


def everywhere(row: tuple[str, str]) -> list[dict[str, Any]]:
    """Options that change no theorem; bits and auto have no limit of items."""
    return [
        each for each in EVERYWHERE if row[0] not in ("bits", "auto") or "max_items" not in each
    ]


def theorem(row: tuple[str, str], options: dict[str, Any]) -> str:
    """The theorem that a plan names; a dash where it is refused."""
    given = base(row) | options
    if "cutoff" in given and "cutoff" in options:
        given.pop("alpha", None)
    try:
        plan = flat.plan(epsilon=1, delta=1e-5, **given)
    except dpsu.ParameterError:
        return "-"
    return plan.theorem if plan.proven else "none"


def test_every_mechanism_and_calibration_has_its_row() -> None:
    rows = {(name.split(",")[0], calibration) for name, calibration in TABLE}
    assert rows == {
        (name, calibration)
        for name in OF_PAIRS
        for calibration in ("tight", "paper")
        if calibration == "tight" or name not in UNPUBLISHED
    }
    for name in UNPUBLISHED:
        assert theorem((name, "tight"), {"calibration": "paper"}) == "-"


def test_every_option_of_a_mechanism_has_its_column() -> None:
    covered = {name for options in COLUMNS.values() for option in options for name in option}
    covered |= {name for option in EVERYWHERE for name in option}
    offered = {name for kind in OF_PAIRS for name in options_of(MECHANISMS[kind])}
    # A calibration is a row; the second carries no guarantee; `scarce` needs the third; the fourth is
    # one of bits, whose theorem covers estimates and public numbers alike; the others are
    # those of auto, whose theorem covers all of its choices.
    named = {"calibration", "allow_unproven", "expected_users", "items_per_user"}
    named |= {"users", "budget", "among", "prefer"}
    assert offered - covered == named


@every("row", TABLE)
def test_the_table_is_what_plan_accepts(row: tuple[str, str]) -> None:
    cells = TABLE[row]
    for options in everywhere(row):
        assert theorem(row, options) == cells["theorem"]
    for column, ways in COLUMNS.items():
        for option in ways:
            for more in everywhere(row):
                both = more | option
                if "repeats" in option and "text" in more:
                    continue  # texts are counted by their tokens
                assert theorem(row, both) == cells[column], both


@every("row", TABLE)
def test_two_options_are_covered_by_the_theorem_of_the_one_that_changes_it(
    row: tuple[str, str],
) -> None:
    cells = TABLE[row]
    alone = cells["theorem"]
    for one, other in combinations(COLUMNS, 2):
        if {one, other} == CLASH:
            continue
        for option in COLUMNS[one]:
            for second in COLUMNS[other]:
                found = theorem(row, option | second)
                if "-" in (cells[one], cells[other]) and row[0] != "greedy, whole votes":
                    assert found == "-", option | second
                elif found != "-":
                    changed = {cells[one], cells[other]} - {alone, "-"}
                    assert found in (changed or {alone}), option | second


OUT_OF_BOUNDS: dict[str, list[Any]] = {
    "min_users": [0, -50, 1.5, "2", True, 10**7, 10**400],
    "max_items": [0, -1, 2.5, "9", True, 10**6],
    "passes": [0, -1, 1.5, "2", True, 10**6],
    "alpha": [-1, "3", True, 10**400, float("nan")],
    "cutoff": [0.5, -7, "40", True, 10**400, float("inf")],
    "rounds": [0, -1, 2.5, "3", True, 10**6],
    "scout_items": [-1, 2.5, "3000", True, 10**9],
    "counts": [1, "yes", None, []],
    "order": ["gap", 1, [], True],
    "calibration": ["loose", None, 1, []],
    "allow_unproven": [1, "yes", None],
}


@every("option", OUT_OF_BOUNDS)
def test_values_out_of_bounds_are_refused_by_every_mechanism(option: str) -> None:
    """Also where a design makes no use of the value: engines do."""
    for row in TABLE:
        for value in OUT_OF_BOUNDS[option]:
            assert theorem(row, {option: value}) == "-", (row, value)


def test_votes_in_several_passes_are_fractional() -> None:
    row = ("greedy, whole votes", "tight")
    assert theorem(row, {"cutoff": 60}) == theorem(row, {"cutoff": 60.0}) == "optimal"
    assert theorem(row, {"passes": 2, "cutoff": 60.5}) == "truncated-laplace"
    assert theorem(row, {"passes": 2, "cutoff": 60}) == "-"


def test_orders_by_a_prior_are_covered_as_other_orders() -> None:
    for row, cells in TABLE.items():
        for order in ({"order": "popular"}, {"order": "scarce", "expected_users": 10_000}):
            options = {"prior": {"a": 3, "b": 1}} | order
            assert theorem(row, options) == cells["`order`, `repeats`"]
        assert theorem(row, {"prior": {"a": 3}, "order": "repeats"}) == "-"


def test_ngrams_have_one_theorem_and_neither_counts_nor_public_items() -> None:
    for options in ({}, {"longest": 1}, {"shares": (1, 2, 3)}, {"spurious": 0.1}, {"max_items": 3}):
        assert ngrams_theorem(options) == "ngrams"
    for refused in ({"counts": True}, {"public_items": ["a"]}, {"ngrams": (1, 2)}):
        assert ngrams_theorem(refused) == "-"
    assert set(options_of(MECHANISMS["ngrams"])) == {"longest", "max_items", "shares", "spurious"}


def ngrams_theorem(options: dict[str, Any]) -> str:
    """The theorem of n-grams that are released length by length; a dash where they are refused."""
    try:
        return flat.plan(epsilon=1, delta=1e-5, mechanism="ngrams", text="body", **options).theorem
    except dpsu.ParameterError:
        return "-"


@every("kind", [np.int8, np.int16, np.int32, np.int64, np.uint8])
@every("name", ["weighted-laplace", "count-laplace", "weighted-gaussian", "greedy"])
def test_numbers_of_numpy_are_taken_as_numbers_of_python(name: str, kind: type[Any]) -> None:
    """In 32 bits and fewer a shift by units of weight overflows, and every item would gain."""
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "mechanism": name, "max_items": 9}
    plan = flat.plan(**options | {"max_items": kind(9), "min_users": kind(51)})
    assert plan == flat.plan(**options, min_users=51)
    assert type(plan.min_users) is int
    assert plan.shift << 30 == 50 << 30
    assert dpsu.Plan.from_json(plan.to_json()) == plan
    seeded = flat.plan(**options, insecure_seed=kind(3))
    assert type(seeded.insecure_seed) is int


def test_estimates_are_paid_in_numbers_of_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy's short floats equal long ones, and what was computed in them would be kept for both."""
    short = np.float16(0.0999755859375), np.float16(2**-14)
    data = {str(u): ["a"] for u in range(50)}
    asked: list[Any] = []

    def watched(counted: Any, key: Any, epsilon: float, ids: int) -> Any:
        asked.append(epsilon)
        return estimate(counted, key, epsilon, ids)

    monkeypatch.setattr("dpsu.engines.local.estimate", watched)
    dpsu.release(data, epsilon=short[0], delta=short[1], mechanism=dpsu.Auto(budget=0.5))  # type: ignore[arg-type]
    assert asked
    assert all(type(number) is float for number in asked)
    plan = dpsu.plan(
        epsilon=0.04998779296875, delta=2**-14, mechanism=dpsu.WeightedGaussian(calibration="paper")
    )
    assert plan.noise_scale is not None
    assert hockey_stick(plan.privacy.epsilon, Fraction(1) / Fraction(plan.noise_scale) ** 2) <= (
        plan.privacy.delta / 2
    )


@every("bad", [(-20.0, 0.0), (0.0, -0.4), (2.0, 0.0), (0.0, 0.5)])
def test_estimates_cost_something_and_not_more_than_there_is(bad: tuple[float, float]) -> None:
    hints = Hints()
    # Hints that were changed after they were made, past their own checks.
    object.__setattr__(hints, "epsilon", bad[0])
    object.__setattr__(hints, "delta", bad[1])
    with pytest.raises(dpsu.ParameterError):
        Plan.derived(dpsu.Privacy(1, 0.01), dpsu.Sieve(), dpsu.Users(), dpsu.Items(), hints=hints)
    if min(bad) < 0.0:
        with pytest.raises(dpsu.ParameterError):
            Hints(None, None, *bad)
