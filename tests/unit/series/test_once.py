"""A release of a ledger that has a name is made once."""

# ruff: noqa: F811
from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tools.pages import ROOT

import dpsu
from dpsu.errors import FAILED, exit_code_of
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.spending import Spending
from dpsu.runtime.writing import claim
from dpsu.series.once import Once, keeper_of
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401
from tests.unit.series.test_series import unread

VISITS = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(600)}
PLAN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "mechanism": "weighted-gaussian"}
BUDGET = (5.0, 1e-5)


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
    with pytest.raises(dpsu.ParameterError, match=r"drop it for dpsu.select"):
        dpsu.select(VISITS, [dpsu.plan(**PLAN)], ledger=monday)
    assert not ledger.path.exists()


def test_what_another_ledger_kept_is_not_returned(ledger: Ledger, monday: Spending) -> None:
    first = dpsu.release(VISITS, **PLAN, ledger=monday)
    ledger.path.unlink()
    second = dpsu.release(VISITS, **PLAN, ledger=monday)
    assert dpsu.release(unread(), **PLAN, ledger=monday).run == second.run != first.run
    (items,) = folder_of(ledger).glob("*.parquet")
    kept = items.read_bytes()
    ledger.path.unlink()
    dpsu.release(VISITS, **PLAN, ledger=monday)
    items.write_bytes(kept)
    with pytest.raises(dpsu.BudgetError, match="but has no result"):
        dpsu.release(unread(), **PLAN, ledger=monday)


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
    """Whether the first run is done, or failed and may run again."""
    with pytest.raises(ZeroDivisionError):
        dpsu.release(failing(), **PLAN, ledger=monday)
    for state in ("pending", "done"):
        assert states(ledger) == [state]
        with pytest.raises(dpsu.ParameterError, match="once='monday' was begun by another plan"):
            dpsu.release(unread(), **(PLAN | {"epsilon": 0.5}), ledger=monday)
        dpsu.release(VISITS, **PLAN, ledger=monday)
    # Of two processes that ask at the same time, the second is refused by the charge.
    with pytest.raises(dpsu.ParameterError, match="another process released 'monday' meanwhile"):
        monday.charge(dpsu.plan(**PLAN), run="b" * 32, name="monday")
    with pytest.raises(ZeroDivisionError):
        dpsu.release(failing(), **PLAN, ledger=ledger.dataset("visits", once="tuesday"))
    with pytest.raises(dpsu.ParameterError, match="'tuesday' was begun by plan"):
        monday.charge(dpsu.plan(**(PLAN | {"epsilon": 0.5})), run="b" * 32, name="tuesday")
    assert ledger.account("visits").total.epsilon == 2


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


def folder_of(ledger: Ledger) -> Path:
    return ledger.path.with_name("ledger.db.once")


def failing() -> Iterator[tuple[str, str]]:
    yield "somebody", "something"
    raise ZeroDivisionError


def test_what_failed_runs_again_under_its_charge(ledger: Ledger, monday: Spending) -> None:
    for runs in (1, 2):
        with pytest.raises(ZeroDivisionError):
            dpsu.release(failing(), **PLAN, ledger=monday)
        (entry,) = ledger.account("visits").releases
        assert (entry.state, entry.name, entry.runs) == ("pending", "monday", runs)
        assert list(folder_of(ledger).iterdir()) == []

    # What reads nothing is void only if no earlier run may have read.
    def unlucky(stage: str, done: int) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dpsu.release(unread(), **PLAN, ledger=monday, progress=unlucky)
    assert states(ledger) == ["pending"]
    found = dpsu.release(VISITS, **PLAN, ledger=monday)
    (entry,) = ledger.account("visits").releases
    assert (entry.state, entry.runs, entry.run) == ("done", 4, found.run.id)
    assert ledger.account("visits").total.epsilon == 1
    assert dpsu.release(unread(), **PLAN, ledger=monday) == found
    tuesday = ledger.dataset("visits", once="tuesday")
    with pytest.raises(ZeroDivisionError):
        dpsu.release(unread(), **PLAN, ledger=tuesday, progress=unlucky)
    assert len(dpsu.release(VISITS, **PLAN, ledger=tuesday)) == 2
    assert states(ledger) == ["done", "void", "done"]


def test_a_name_runs_once_at_a_time(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lock says so, between threads too; of two that ask for it, one wins."""

    def rows() -> Iterator[tuple[str, str]]:
        again = ledger.dataset("visits", once="monday")
        with pytest.raises(dpsu.ParameterError, match="once='monday' is running in another"):
            dpsu.release(unread(), **PLAN, ledger=again)
        with monkeypatch.context() as patched:
            patched.setattr("dpsu.series.once.Once.stored", lambda self: None)
            with pytest.raises(dpsu.ParameterError, match="another process began once='monday'"):
                dpsu.release(unread(), **PLAN, ledger=again)
        yield from ((user, item) for user, held in VISITS.items() for item in held)

    assert dpsu.release(rows(), **PLAN, ledger=monday).items == ("bread", "milk")
    assert [each.runs for each in ledger.account("visits").releases] == [1]


def test_where_there_are_no_locks_a_name_is_not_taken_up(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ZeroDivisionError):
        dpsu.release(failing(), **PLAN, ledger=monday)
    once = keeper_of(monday, dpsu.plan(**PLAN))
    assert isinstance(once, Once)
    claim(once._running, "killed\n").close()

    def none(*args: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with monkeypatch.context() as patched:
        patched.setattr("fcntl.flock", none)
        with pytest.raises(dpsu.BudgetError, match="its lock cannot be checked"):
            dpsu.release(unread(), **PLAN, ledger=monday)
    assert len(dpsu.release(VISITS, **PLAN, ledger=monday)) == 2


def test_a_run_that_lost_its_name_shows_nothing(ledger: Ledger, monday: Spending) -> None:
    """A hand removes its lock while it reads; another run takes the name up, and ends or fails."""
    for name, other in (("monday", VISITS), ("tuesday", failing)):

        def rows(name: str = name, other: Any = other) -> Iterator[tuple[str, str]]:
            for file in folder_of(ledger).glob(f"{name}-*"):
                file.unlink()
            again = ledger.dataset("visits", once=name)
            if other is VISITS:
                dpsu.release(VISITS, **PLAN, ledger=again)
            else:
                with pytest.raises(ZeroDivisionError):
                    dpsu.release(failing(), **PLAN, ledger=again)
            yield "somebody", "something"

        named = ledger.dataset("visits", budget=BUDGET, once=name)
        with pytest.raises(dpsu.ParameterError, match=f"another run took up '{name}' meanwhile"):
            dpsu.release(rows(), **PLAN, ledger=named)
    assert states(ledger) == ["done", "pending"]
    for name, data in (("monday", unread()), ("tuesday", VISITS)):
        named = ledger.dataset("visits", once=name)
        assert dpsu.release(data, **PLAN, ledger=named).items == ("bread", "milk")
    assert [each.runs for each in ledger.account("visits").releases] == [2, 3]


def test_what_is_marked_is_returned_if_it_is_there(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed after the mark, a run left its result hidden; if that is gone, so is the name.

    Before the mark it is nothing yet.
    """
    for place in ("dpsu.series.kept.stage", "dpsu.ledger.ledger.Ledger.publishing"):
        with monkeypatch.context() as patched:
            patched.setattr(place, interrupted)
            with pytest.raises(KeyboardInterrupt):
                dpsu.release(VISITS, **PLAN, ledger=monday)
        assert states(ledger) == ["pending"]
    for name in ("monday", "tuesday"):
        named = ledger.dataset("visits", budget=BUDGET, once=name)
        with monkeypatch.context() as patched:
            patched.setattr("dpsu.series.kept.show", interrupted)
            with pytest.raises(KeyboardInterrupt):
                dpsu.release(VISITS, **PLAN, ledger=named)
    assert states(ledger) == ["publishing", "publishing"]
    (left,) = folder_of(ledger).glob(".tuesday*.partial")
    left.unlink()
    assert dpsu.release(unread(), **PLAN, ledger=monday).items == ("bread", "milk")
    with pytest.raises(dpsu.BudgetError, match="but has no result"):
        dpsu.release(unread(), **PLAN, ledger=ledger.dataset("visits", once="tuesday"))
    assert states(ledger) == ["done", "publishing"]


def test_a_signal_while_a_name_is_given_up_does_not_free_it(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger may be locked for a minute, and a scheduler may not wait for so long."""
    with monkeypatch.context() as patched:
        patched.setattr("dpsu.series.kept.stage", full)
        patched.setattr("dpsu.ledger.ledger.Ledger.publishing", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dpsu.release(VISITS, **PLAN, ledger=monday)
    assert states(ledger) == ["pending"]
    # Also for a process that asked before.
    monkeypatch.setattr(Once, "stored", lambda self: None)
    with pytest.raises(dpsu.BudgetError, match="but has no result"):
        dpsu.release(unread(), **PLAN, ledger=ledger.dataset("visits", once="monday"))


def test_what_was_removed_before_it_was_shown_is_not_shown(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signal may remove it while the main thread goes on."""
    publish = Ledger.publishing

    def swept(self: Ledger, number: int, run: str) -> None:
        publish(self, number, run)
        (staged,) = folder_of(ledger).glob(".*items*.partial")
        assert staged.stat().st_mode & 0o777 == 0o600
        staged.unlink()

    monkeypatch.setattr(Ledger, "publishing", swept)
    with pytest.raises(dpsu.OutputError, match="was removed before"):
        dpsu.release(VISITS, **PLAN, ledger=monday)


def test_a_folder_that_is_none_is_not_a_name_that_runs(ledger: Ledger, monday: Spending) -> None:
    folder_of(ledger).symlink_to("nowhere/once")
    with pytest.raises(dpsu.OutputError, match="is no folder") as refused:
        dpsu.release(unread(), **PLAN, ledger=monday)
    assert refused.value.exit_code == 2
    assert not ledger.path.exists()


def interrupted(*args: Any) -> None:
    raise KeyboardInterrupt


def full(*args: Any) -> None:
    raise dpsu.OutputError("no space left on device")


def test_what_failed_after_its_draws_is_not_drawn_again(
    ledger: Ledger, monday: Spending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size may be why it could not be kept, and memory may not have had room for its draws."""

    def unmarked(*args: Any) -> None:
        raise dpsu.LedgerError("no space left on device")

    def no_memory(*args: Any, **more: Any) -> None:
        raise MemoryError

    def defect(*args: Any, **more: Any) -> None:
        # As a step of a cluster says it.
        raise dpsu.DataError("unexpected KeyError at steps.py:1", exit_code=FAILED)

    trials: dict[str, dict[str, Any]] = {
        "kept": {"dpsu.series.kept.stage": full},
        "full": {"dpsu.series.kept.stage": full, "dpsu.ledger.ledger.Ledger.publishing": unmarked},
        "unmarked": {"dpsu.ledger.ledger.Ledger.publishing": unmarked},
        "short": {
            "dpsu.series.kept.stage": no_memory,
            "dpsu.ledger.ledger.Ledger.publishing": no_memory,
        },
        "drawn": {"dpsu.engines.local.flip_coins": no_memory},
        "defect": {"dpsu.engines.local.flip_coins": defect},
    }
    for name, broken in trials.items():
        named = ledger.dataset("visits", budget=BUDGET, once=name)
        with monkeypatch.context() as patched:
            for place, what in broken.items():
                patched.setattr(place, what)
            kinds = (dpsu.OutputError, dpsu.LedgerError, dpsu.DataError, MemoryError)
            with pytest.raises(kinds) as failed:
                dpsu.release(VISITS, **PLAN, ledger=named)
        assert exit_code_of(failed.value) == 3
        assert str(named.said).endswith("this name is spent")
        with pytest.raises(dpsu.BudgetError, match="but has no result"):
            dpsu.release(unread(), **PLAN, ledger=ledger.dataset("visits", once=name))
    assert states(ledger) == ["publishing", *["pending"] * 3, "publishing", "publishing"]
    # What could not be marked was not shown.
    assert not list(folder_of(ledger).glob("*.parquet"))
    # Rows, and not draws, are why reading fails.
    monkeypatch.setattr("dpsu.inputs.reading.intern", no_memory)
    with pytest.raises(MemoryError):
        dpsu.release(VISITS, **PLAN, ledger=ledger.dataset("visits", once="read"))
    assert states(ledger)[6:] == ["pending"]


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
    book = ["--ledger", "ledger.db", "--dataset", "visits", "--budget", "5,1e-5", *once]
    first = run(*typed, "--epsilon", "1", *book)
    assert first[:2] == (0, "bread\nmilk\n"), first
    assert "note" not in first[2]
    code, out, err = run(*typed, "--epsilon", "1", *book)
    assert (code, out) == (0, "bread\nmilk\n")
    assert "note: monday was released" in err
    assert "nothing was read or charged" in err
    code, out, err = run(*typed, "--epsilon", "0.5", *book)
    assert (code, out) == (3, "")
    assert "--once monday was begun by another plan" in err
    code, out, err = run(*typed, "--epsilon", "1", *once)
    assert (code, "--once monday needs a --ledger" in err) == (2, True)
    assert states(Ledger("ledger.db")) == ["done"]


@pytest.mark.slow
def test_no_kill_publishes_twice_or_loses_a_charge(tmp_path: Path) -> None:
    """At every step of all doors, and the next run at another one."""
    done = subprocess.run(
        [sys.executable, "-m", "tools.soak.retries", str(tmp_path), "every"],
        capture_output=True, check=False, text=True, cwd=ROOT, timeout=1200,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    killed, twice, uncharged, lost = map(int, done.stdout.split())
    assert (twice, uncharged, lost) == (0, 0, 0), done.stderr
    assert killed > 150
