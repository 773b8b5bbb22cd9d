"""A release of a ledger that has a name is made once."""

# ruff: noqa: F811
from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.spending import Spending
from dpsu.runtime.writing import claim
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401
from tests.unit.series.test_series import unread

VISITS = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(600)}
PLAN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "weighted-gaussian"}
BUDGET = (3.0, 1e-5)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


@pytest.fixture
def monday(ledger: Ledger) -> Spending:
    return ledger.dataset("visits", budget=BUDGET, once="monday")


def states(ledger: Ledger) -> list[str]:
    return [each.state for each in ledger.account("visits").releases]


@pytest.mark.parametrize("mechanism", ["sieve", "auto"])
def test_a_second_run_returns_the_first_and_spends_nothing(ledger: Ledger, mechanism: str) -> None:
    plan = dpsu.plan(**(PLAN | {"mechanism": mechanism, "counts": True}))
    first, again = (
        dpsu.release(data, plan, ledger=ledger.dataset("visits", budget=BUDGET, once="monday"))
        for data in (VISITS, unread())
    )
    assert again == first
    for name in ("run", "plan_hash", "approved"):
        assert getattr(again, name) == getattr(first, name)
    assert states(ledger) == ["done"]


def test_a_choice_among_plans_is_not_kept_by_a_name(ledger: Ledger, monday: Spending) -> None:
    with pytest.raises(dpsu.ParameterError, match=r"needs a release by one plan.*drop it"):
        dpsu.select(VISITS, [dpsu.plan(**PLAN)], ledger=monday)
    assert not ledger.path.exists()


def test_names_and_datasets_are_apart(ledger: Ledger) -> None:
    rare = {"a": ["b", "c"]}
    given = [("visits", "monday", VISITS), ("visits", "tuesday", rare), ("other", "monday", rare)]
    for dataset, name, data in given * 2:
        named = ledger.dataset(dataset, budget=BUDGET, once=name)
        found = dpsu.release(data, **PLAN, ledger=named)
        assert found.items == (("bread", "milk") if data is VISITS else ())
    assert states(ledger) == ["done", "done"]
    assert len(ledger.account("other").releases) == 1


def test_another_plan_is_refused(ledger: Ledger, monday: Spending) -> None:
    dpsu.release(VISITS, **PLAN, ledger=monday)
    with pytest.raises(dpsu.ParameterError, match="once='monday' was released by another plan"):
        dpsu.release(unread(), **(PLAN | {"epsilon": 0.5}), ledger=monday)
    (begun,) = ledger.path.with_name("ledger.db.once").glob("*-begun.json")
    begun.write_text("")
    with pytest.raises(dpsu.ParameterError, match="another plan"):
        dpsu.release(unread(), **PLAN, ledger=monday)
    assert states(ledger) == ["done"]


@pytest.mark.parametrize("mechanism", ["weighted-gaussian", "auto"])
def test_another_version_of_dpsu_is_no_other_plan(
    ledger: Ledger, monday: Spending, mechanism: str
) -> None:
    """What was released before an upgrade is returned, with the plan that was approved then."""
    now = dpsu.plan(**(PLAN | {"mechanism": mechanism}))
    before = replace(now, version="0.0.9")
    first = dpsu.release(VISITS, before, ledger=monday)
    again = dpsu.release(unread(), now, ledger=monday)
    assert again == first
    assert again.plan_hash == first.plan_hash == before.hash != now.hash
    assert again.approved == first.approved
    with pytest.raises(dpsu.ParameterError, match="another plan"):
        dpsu.release(unread(), now.at(0.5), ledger=monday)
    (begun,) = ledger.path.with_name("ledger.db.once").glob("*-begun.json")
    noted = json.loads(begun.read_text())
    assert (noted["version"], noted["plan_hash"]) == ("0.0.9", before.hash)
    # The version is believed only together with the hash.
    begun.write_text(json.dumps(noted | {"version": now.version}))
    with pytest.raises(dpsu.ParameterError, match="another plan"):
        dpsu.release(unread(), now, ledger=monday)
    assert states(ledger) == ["done"]


def test_a_plan_that_this_version_does_not_know_is_named(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    dpsu.release(VISITS, **PLAN, ledger=monday)

    def unknown(text: str) -> dpsu.Plan:
        raise dpsu.ParameterError("it was designed otherwise")

    monkeypatch.setattr(dpsu.Plan, "from_json", unknown)
    with pytest.raises(dpsu.ParameterError, match=r"items\.parquet' has items that were released"):
        dpsu.release(unread(), **PLAN, ledger=monday)
    assert states(ledger) == ["done"]


def test_what_failed_is_spent(ledger: Ledger, monday: Spending) -> None:
    def rows() -> Iterator[tuple[str, str]]:
        yield "somebody", "something"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dpsu.release(rows(), **PLAN, ledger=monday)
    with pytest.raises(dpsu.BudgetError, match="another name spends again"):
        dpsu.release(unread(), **PLAN, ledger=monday)
    assert states(ledger) == ["unfinished"]


def test_two_processes_do_not_spend_one_name(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    dpsu.release(VISITS, **PLAN, ledger=monday)
    for file in ledger.path.with_name("ledger.db.once").iterdir():
        file.unlink()
        begun = file.with_name(file.name.replace("items.parquet", "begun.json"))
    with claim(begun, ""), pytest.raises(dpsu.ParameterError, match="is running in another"):
        dpsu.release(unread(), **PLAN, ledger=monday)
    monkeypatch.setattr("dpsu.series.once.Once.stored", lambda self: None)
    with pytest.raises(dpsu.ParameterError, match="another process began once='monday'"):
        dpsu.release(unread(), **PLAN, ledger=monday)
    assert states(ledger) == ["done", "void"]


@every("name", ["", "a/b", "..", ".x", "x" * 81, "a b", 7, "a\n"])
def test_what_is_no_name_is_refused(tmp_path: Path, name: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(dpsu.ParameterError, match="once"):
        dpsu.release(VISITS, **PLAN, ledger=ledger.dataset("visits", budget=BUDGET, once=name))
    assert not ledger.path.exists()


def test_the_command_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = "".join(f"{user},{item}\n" for user, held in VISITS.items() for item in held)
    (tmp_path / "visits.csv").write_text(f"user,item\n{rows}")
    typed = ["release", "visits.csv", "--mechanism", "weighted-gaussian", "--delta", "1e-6"]
    once = ["--once", "monday"]
    book = ["--ledger", "ledger.db", "--dataset", "visits", "--budget", "3,1e-5", *once]
    first = run(*typed, "--epsilon", "1", *book)
    assert first[:2] == (0, "bread\nmilk\n"), first
    assert "note" not in first[2]
    code, out, err = run(*typed, "--epsilon", "1", *book)
    assert (code, out) == (0, "bread\nmilk\n")
    assert "note: monday was released" in err
    assert "nothing was read or charged" in err
    code, out, err = run(*typed, "--epsilon", "0.5", *book)
    assert (code, out) == (3, "")
    assert "--once monday was released by another plan" in err
    code, out, err = run(*typed, "--epsilon", "1", *once)
    assert (code, "--once monday needs a --ledger" in err) == (2, True)
    assert states(Ledger("ledger.db")) == ["done"]
