"""Every mechanism of the registry, on every engine, for every form of data."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsu
from dpsu.plans.mechanisms import MECHANISMS, Mechanism
from tests.contracts import assertions, inputs

KINDS = [pytest.param(kind, id=name) for name, kind in MECHANISMS.items()]
SIZES = {"usual": assertions.usual, "small": assertions.small}
MADE = [
    pytest.param(make(kind), id=f"{name}-{size}")
    for name, kind in MECHANISMS.items()
    for size, make in SIZES.items()
]


@pytest.fixture(scope="module")
def released() -> dict[Mechanism, dpsu.Release]:
    """Releases by the local engine, each computed once."""
    return {}


@pytest.fixture
def expected(mechanism: Mechanism, released: dict[Mechanism, dpsu.Release]) -> dpsu.Release:
    """What the local engine releases of a table."""
    if mechanism not in released:
        released[mechanism] = assertions.check_release(mechanism)
    return released[mechanism]


@pytest.mark.parametrize("mechanism", MADE)
def test_every_form_of_the_data_gives_the_same_release(
    mechanism: Mechanism, expected: dpsu.Release, tmp_path: Path
) -> None:
    assertions.check_inputs(mechanism, tmp_path, expected)


@pytest.mark.parametrize("mechanism", MADE)
def test_every_engine_gives_the_same_release(mechanism: Mechanism, expected: dpsu.Release) -> None:
    if not mechanism.parallel:
        pytest.skip("its users act one after the other")
    assertions.check_cluster(mechanism, expected)


@pytest.mark.parametrize("mechanism", MADE)
def test_public_items_and_counts_go_with_every_release(mechanism: Mechanism) -> None:
    assertions.check_public_items(mechanism)


@pytest.mark.parametrize("mechanism", MADE)
def test_a_plan_travels(mechanism: Mechanism, expected: dpsu.Release) -> None:
    assertions.check_plan_travels(mechanism, expected)
    assertions.check_edits_are_refused(mechanism)


@pytest.mark.parametrize("mechanism", MADE)
def test_the_shell_gives_the_same_release(
    mechanism: Mechanism, expected: dpsu.Release, tmp_path: Path
) -> None:
    assertions.check_shell(mechanism, tmp_path, expected)


@pytest.mark.parametrize("mechanism", MADE)
def test_everything_that_is_kept_names_the_plan_and_the_run(
    mechanism: Mechanism, tmp_path: Path
) -> None:
    assertions.check_traces(mechanism, tmp_path)


@pytest.mark.parametrize("mechanism", MADE)
def test_probability_costs_weight_and_epsilon_saves_it(mechanism: Mechanism) -> None:
    assertions.check_needs(mechanism)


@pytest.mark.parametrize("mechanism", MADE)
def test_a_plan_tells_what_it_promises(mechanism: Mechanism) -> None:
    assertions.check_words(mechanism)


@pytest.mark.parametrize("kind", KINDS)
def test_every_option_is_the_same_in_python_in_files_and_in_the_shell(
    kind: type[Mechanism], tmp_path: Path
) -> None:
    prior = tmp_path / "prior.csv"
    prior.write_text("item,holders\naai,9\naaj,3\n")
    for mechanism in assertions.variants(kind, str(prior)):
        assertions.check_options_travel(mechanism)


@pytest.mark.parametrize("mechanism", MADE)
def test_users_hold_the_same_whatever_the_order_of_rows(
    mechanism: Mechanism, expected: dpsu.Release
) -> None:
    rows = sorted(assertions.rows_of(mechanism))
    plan = assertions.plan_of(mechanism)
    for ordered in (rows, rows[::-1]):
        assert dpsu.release(inputs.table(ordered, str(plan.item.columns)), plan) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_forecasts_and_audits_take_every_plan(kind: type[Mechanism]) -> None:
    mechanism = assertions.usual(kind)
    assertions.check_forecast(mechanism)
    assertions.check_audit(mechanism)
