"""Every mechanism of the registry, for every form of data; `test_engines` has the engines."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

import dpsu
from dpsu.plans.mechanisms import MECHANISMS, Mechanism
from tests.contracts import assertions, inputs
from tests.support.cases import every

KINDS = list(MECHANISMS.values())
MADE = [make(kind) for kind in KINDS for make in (assertions.usual, assertions.small)]


@cache
def expected(mechanism: Mechanism) -> dpsu.Release:
    """What the local engine releases of a table."""
    return assertions.check_release(mechanism)


@every("mechanism", MADE)
def test_every_form_of_the_data_gives_the_same_release(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    assertions.check_inputs(mechanism, tmp_path, expected(mechanism))


@every("mechanism", MADE)
def test_public_items_and_counts_go_with_every_release(mechanism: Mechanism) -> None:
    assertions.check_public_items(mechanism)


@every("mechanism", MADE)
def test_a_plan_travels(mechanism: Mechanism) -> None:
    assertions.check_plan_travels(mechanism, expected(mechanism))
    assertions.check_edits_are_refused(mechanism)


@every("mechanism", MADE)
def test_the_shell_gives_the_same_release(mechanism: Mechanism, tmp_path: Path) -> None:
    assertions.check_shell(mechanism, tmp_path, expected(mechanism))


@every("mechanism", MADE)
def test_everything_that_is_kept_names_the_plan_and_the_run(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    assertions.check_traces(mechanism, tmp_path)


@every("mechanism", MADE)
def test_probability_costs_weight_and_epsilon_saves_it(mechanism: Mechanism) -> None:
    assertions.check_needs(mechanism)


@every("mechanism", MADE)
def test_a_plan_tells_what_it_promises(mechanism: Mechanism) -> None:
    assertions.check_words(mechanism)


@every("kind", KINDS)
def test_every_option_is_the_same_in_python_in_files_and_in_the_shell(
    kind: type[Mechanism], tmp_path: Path
) -> None:
    prior = tmp_path / "prior.csv"
    prior.write_text("item,holders\naai,9\naaj,3\n")
    for mechanism in assertions.variants(kind, str(prior)):
        assertions.check_options_travel(mechanism)


@every("mechanism", MADE)
def test_users_hold_the_same_whatever_the_order_of_rows(mechanism: Mechanism) -> None:
    rows = sorted(assertions.rows_of(mechanism))
    plan = assertions.plan_of(mechanism)
    for ordered in (rows, rows[::-1]):
        table = inputs.table(ordered, str(plan.item.columns))
        assert dpsu.release(table, plan) == expected(mechanism)


@pytest.mark.slow
@every("kind", KINDS)
def test_forecasts_and_audits_take_every_plan(kind: type[Mechanism]) -> None:
    mechanism = assertions.usual(kind)
    assertions.check_forecast(mechanism)
    assertions.check_audit(mechanism)
