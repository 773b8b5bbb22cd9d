"""Releases that repeat under one budget."""

# ruff: noqa: F811
from __future__ import annotations

import datetime
import errno
import json
import os
import random
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tools.pages import ROOT

import dpsu
from dpsu.contributions import grouped
from dpsu.engines import local
from dpsu.ledger.accounting import cost_of, total
from dpsu.ledger.ledger import Ledger
from dpsu.runtime.writing import claim
from dpsu.series.state import DONE, LOST, PENDING, RUNNING, State
from tests.docs.test_docs import blocks
from tests.support.cases import every
from tests.support.examples import python, shell
from tests.unit.cli.test_cli import Run, run  # noqa: F401

BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-5}
Rows = dict[str, list[Any]]


def month(*items: Any) -> Rows:
    return {f"person {n}": [*items, f"secret {n}"] for n in range(600)}


def failing() -> Iterator[tuple[str, str]]:
    yield "somebody", "something"
    raise ZeroDivisionError


def unread() -> Iterator[tuple[str, str]]:
    raise AssertionError("rows were read")
    yield "somebody", "something"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "visits.series"


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """To divide a budget takes seconds, so that is done once."""
    path = tmp_path_factory.mktemp("begun") / "visits.series"
    return dpsu.Series.create(path, periods=3, **BUDGET).path


@pytest.fixture
def series(begun: Path, path: Path) -> dpsu.Series:
    shutil.copytree(begun, path)
    return dpsu.Series(path)


def test_each_period_releases_what_earlier_ones_did_not(series: dpsu.Series, path: Path) -> None:
    assert series.release(month("bread")).items == ("bread",)
    assert series.release(month("bread", "milk")).items == ("milk",)
    again = dpsu.Series(path)
    assert again.release(month("bread", "milk", "tea")).items == ("tea",)
    assert again.items == series.items == ("bread", "milk", "tea")
    assert [each.released for each in again.history] == [1, 1, 1]


def test_known_items_take_no_part_in_later_periods(
    series: dpsu.Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are left out of everybody's set before anything is weighed."""
    series.release(month("bread"))
    seen: list[list[str]] = []
    arrange = grouped.arrange

    def watched(pairs: Any, users: Any, items: Any, **more: Any) -> Any:
        seen.append(pairs.items.values.take(pa.array(items)).to_pylist())
        return arrange(pairs, users, items, **more)

    monkeypatch.setattr(local, "arrange", watched)
    series.release(month("bread", "milk"))
    ((*held,),) = seen
    assert "milk" in held
    assert "bread" not in held


def test_what_is_left_out_is_what_was_released_and_not_what_others_hold(
    series: dpsu.Series,
) -> None:
    """An item that was held before, and did not come out, takes part."""
    assert series.release(month() | {"one": ["rare"]}).items == ()
    assert series.release(month("rare")).items == ("rare",)


def test_all_periods_are_within_the_budget_and_a_further_one_is_refused(
    series: dpsu.Series,
) -> None:
    costs = [cost_of(series.plan)] * series.periods
    assert total(costs).within(series.budget)
    assert not total([*costs, costs[0]]).within(series.budget)
    for _ in range(3):
        series.release(month("bread"))
    assert series.left == 0
    assert "by Gaussian composition (`dpsu proofs series`)" in str(series)
    assert "You promise that" in series._repr_html_()
    with pytest.raises(dpsu.BudgetError, match="all 3 periods of the series"):
        series.release(unread())
    assert len(series.history) == 3


@pytest.mark.parametrize("mechanism", ["auto", "policy-laplace", dpsu.Bits(items_per_user=200)])
def test_mechanisms_without_gaussian_noise_share_by_sums(mechanism: Any, path: Path) -> None:
    series = dpsu.Series.create(path, periods=4, mechanism=mechanism, **BUDGET)
    assert series.plan.privacy == dpsu.Privacy(0.75, 2.5e-6)
    assert "by sums of epsilon and delta" in str(series)


def test_a_period_may_choose_its_mechanism(path: Path) -> None:
    series = dpsu.Series.create(path, periods=2, mechanism="auto", **BUDGET)
    series.release(month("bread"))
    released = series.release(month("bread", "milk"))
    assert released.items == ("milk",)
    assert released.approved == series.plan
    assert series.stored(2) == released
    assert series.stored(2).approved == series.plan


def test_a_period_is_spent_before_anything_is_read(series: dpsu.Series) -> None:
    seen: list[int] = []

    def rows() -> Iterator[tuple[str, str]]:
        for user, items in month("bread").items():
            seen.append(series.left)
            yield from ((user, item) for item in items)

    series.release(rows())
    assert set(seen) == {2}


def test_a_period_that_fails_runs_again(series: dpsu.Series) -> None:
    with pytest.raises(ZeroDivisionError):
        series.release(failing())
    assert [each.state for each in series.history] == [PENDING]
    assert "A pending period failed or was killed" in str(series)
    # The next one may be asked for by its number, and the pending one later.
    assert series.release(month("bread"), period=2).items == ("bread",)
    assert [each.state for each in series.history] == [PENDING, DONE]
    assert series.release(month("bread", "milk"), period=1).items == ("milk",)
    with pytest.raises(ZeroDivisionError):
        series.release(failing())
    assert series.left == 0
    assert series.release(month("bread", "tea")).items == ("tea",)
    assert [each.state for each in series.history] == [DONE] * 3


def test_a_period_that_failed_after_its_draws_is_spent(
    series: dpsu.Series, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if there is no room to say so."""

    def full(*args: Any) -> None:
        raise dpsu.OutputError("no space left on device")

    for number, places in enumerate((("stage",), ("stage", "publish")), 1):
        with monkeypatch.context() as patched:
            for name in places:
                patched.setattr(State, name, full)
            with pytest.raises(dpsu.OutputError):
                series.release(month("bread"))
        assert series.history[-1].state == LOST
        with pytest.raises(dpsu.BudgetError, match=f"period {number} of the series .* is spent"):
            series.release(month("bread"), period=number)
    assert "A lost period is spent" in str(series)
    assert series.release(month("bread")).items == ("bread",)
    (path / "0003-items.parquet").unlink()
    assert [each.state for each in series.history] == [LOST] * 3


def test_mistakes_that_names_show_cost_nothing(series: dpsu.Series, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("who,what\na,b\n")
    with pytest.raises(dpsu.ParameterError, match="the plan names it"):
        series.release(tmp_path / "rows.csv")
    with pytest.raises(dpsu.ParameterError, match="there is no file"):
        series.release(tmp_path / "none.csv")
    with pytest.raises(dpsu.ParameterError, match="format"):
        series.release(tmp_path / "rows.csv", format="excel")
    assert series.left == 3


def test_a_job_that_runs_twice_gets_the_same_release(series: dpsu.Series) -> None:
    first = series.release(month("bread"), period=1)
    again = series.release(month("bread", "other data"), period=1)
    assert again == first == series.stored(1)
    assert (again.run, again.plan_hash) == (first.run, first.plan_hash)
    assert series.left == 2
    for wrong in (0, 4, True, "1"):
        with pytest.raises(dpsu.ParameterError, match="period"):
            series.release(month("bread"), period=wrong)  # type: ignore[arg-type]
    with pytest.raises(dpsu.ParameterError, match="at most period 2 can be released"):
        series.release(month("bread"), period=3)
    with pytest.raises(dpsu.ParameterError, match="not done"):
        series.stored(2)


def test_two_processes_do_not_spend_one_period(
    series: dpsu.Series, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second is refused while the first runs, and where that is not known, by the file."""
    noted = {"id": "a" * 32, "time": "2025-03-03T08:00:00+00:00", "dataset": None}
    with claim(path / "0001-begun.json", json.dumps(noted)):
        assert series.history[0].state == RUNNING
        with pytest.raises(dpsu.ParameterError, match="is running in another process"):
            series.release(month("bread"))
        with monkeypatch.context() as patched:
            patched.setattr(dpsu.Series, "_next", lambda self, period: 1)
            patched.setattr(State, "begun", lambda self, terms: 0)
            with pytest.raises(dpsu.ParameterError, match="another process began period 1"):
                series.release(unread())
    assert series.history[0].state == PENDING
    assert series.release(month("bread")).items == ("bread",)
    monkeypatch.setattr(State, "begun", lambda self, terms: 0)
    with pytest.raises(dpsu.ParameterError, match="another process began period 1"):
        series.release(unread())


def test_a_run_that_lost_its_period_shows_nothing(series: dpsu.Series, path: Path) -> None:
    """A hand moves its lock away while it reads, and another run takes the period up."""

    def rows() -> Iterator[tuple[str, str]]:
        shutil.copy(path / "0001-begun.json", path / "copy")
        (path / "copy").replace(path / "0001-begun.json")
        assert dpsu.Series(path).release(month("milk")).items == ("milk",)
        yield "somebody", "something"

    with pytest.raises(dpsu.ParameterError, match=r"another run of period 1 .* was published"):
        series.release(rows())
    assert series.items == ("milk",)


def test_where_there_are_no_locks_a_period_is_not_taken_up(
    series: dpsu.Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*args: Any) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    with pytest.raises(ZeroDivisionError):
        series.release(failing())
    monkeypatch.setattr("fcntl.flock", none)
    with pytest.raises(dpsu.BudgetError, match="its lock cannot be checked"):
        series.release(unread())
    assert series.release(month("bread"), period=2).items == ("bread",)


def test_a_period_that_is_killed_is_taken_up_or_done(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.series_kills", str(tmp_path)],
        capture_output=True, check=False, text=True, cwd=ROOT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    killed, pending, beginnings = map(int, done.stdout.split())
    assert killed >= 12
    assert 0 < pending < killed
    assert beginnings >= 6


def test_a_ledger_is_charged_for_each_period(series: dpsu.Series, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    dataset = ledger.dataset("visits", budget=(3, 1e-5))
    for items in (["bread"], ["bread", "milk"]):
        series.release(month(*items), ledger=dataset)
    account = ledger.account("visits")
    assert [each.state for each in account.releases] == ["done", "done"]
    assert {each.plan_hash for each in account.releases} == {series.plan.hash}
    assert [each.run.id for each in series.history if each.run] == [
        each.run for each in account.releases
    ]
    ledger.add("visits", "something else", (0.5, 0))
    with pytest.raises(dpsu.BudgetError, match="Nothing was read or charged"):
        series.release(month("bread"), ledger=dataset)
    assert series.left == 1


def test_series_of_equal_terms_are_charged_apart(
    series: dpsu.Series, path: Path, tmp_path: Path
) -> None:
    """Also where the first of them failed, so that its charge is open."""
    other = dpsu.Series(shutil.copytree(path, tmp_path / "other.series"))
    ledger = Ledger(tmp_path / "ledger.db")
    dataset = ledger.dataset("visits", budget=(3, 1e-5))
    with pytest.raises(ZeroDivisionError):
        series.release(failing(), ledger=dataset)
    for each in (other, series):
        assert each.release(month("bread"), ledger=dataset).items == ("bread",)
    releases = ledger.account("visits").releases
    assert [(each.state, each.runs) for each in releases] == [("done", 2), ("done", 1)]


def test_a_period_is_charged_once_however_often_it_runs(
    series: dpsu.Series, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    dataset = ledger.dataset("visits", budget=(3, 1e-5))

    def states() -> list[tuple[str, int]]:
        return [(each.state, each.runs) for each in ledger.account("visits").releases]

    def fail(*args: Any) -> None:
        raise ZeroDivisionError

    # Before it reads, it is neither begun nor charged.
    with pytest.raises(ZeroDivisionError):
        series.release(unread(), ledger=dataset, progress=fail)
    assert (series.left, states()) == (3, [("void", 1)])
    with pytest.raises(ZeroDivisionError):
        series.release(failing(), ledger=dataset)
    old = shutil.copytree(path, tmp_path / "old.series")
    with pytest.raises(ZeroDivisionError):
        series.release(unread(), ledger=dataset, progress=fail)
    assert (series.left, states()[1:]) == (2, [("pending", 2)])
    with ledger.dataset("visits") as open_:
        series.release(month("bread"), ledger=open_)
        assert states()[1:] == [("publishing", 3)]
    series.release(unread(), ledger=dataset, period=1)
    assert states()[1:] == [("done", 3)]
    # An older copy of the folder gets nothing of this charge.
    with pytest.raises(dpsu.BudgetError, match="the ledger has another run of period 1"):
        dpsu.Series(old).release(unread(), ledger=dataset)
    # Nor does the folder itself, if a copy was faster; its run was killed between two marks.
    with pytest.raises(ZeroDivisionError):
        series.release(failing(), ledger=dataset)
    copy = shutil.copytree(path, tmp_path / "copy.series")
    with monkeypatch.context() as patched:
        patched.setattr(Ledger, "publishing", interrupted)
        with pytest.raises(KeyboardInterrupt):
            series.release(month("milk"), ledger=dataset)
    assert dpsu.Series(copy).release(month("jam"), ledger=dataset).items == ("jam",)
    with pytest.raises(dpsu.BudgetError, match="the ledger has another run of period 2"):
        series.release(unread(), ledger=dataset, period=2)


def interrupted(*args: Any) -> None:
    raise KeyboardInterrupt


def test_a_period_that_another_process_takes_back_leaves_no_gap(
    series: dpsu.Series, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, begun in ((None, 1), (2, 1)):
        with monkeypatch.context() as patched:
            patched.setattr(State, "begun", lambda self, terms, begun=begun: begun)
            if number == 2:
                patched.setattr(dpsu.Series, "_next", lambda self, period: 2)
            with pytest.raises(dpsu.ParameterError, match="meanwhile") as refused:
                series.release(unread(), period=number)
        assert refused.value.exit_code == 75
        assert series.history == ()
    assert series.release(month("bread")).items == ("bread",)


def test_nanoseconds_are_left_out_as_they_were_released(series: dpsu.Series) -> None:
    users = [f"u{n}" for n in range(600)]

    def times(*cells: int) -> Any:
        column = pa.array([cell for cell in cells for _ in users], pa.timestamp("ns"))
        return pa.table({"user": users * len(cells), "item": column})

    assert len(series.release(times(1, 2001))) == 2
    assert series.release(times(1, 2001, 3001)).values.cast(pa.int64()).to_pylist() == [3001]


def test_words_of_texts(path: Path) -> None:
    series = dpsu.Series.create(
        path,
        periods=2,
        item=dpsu.Tokens("body"),
        user="who",
        mechanism="weighted-laplace",
        **BUDGET,
    )

    def posts(text: str) -> Any:
        return pa.table({"who": [f"u{n}" for n in range(600)] * 2, "body": [text] * 1200})

    assert series.release(posts("so long")).items == ("long", "so")
    assert series.release(posts("so long, fish")).items == ("fish",)


@every(
    ("typed", "message"),
    [
        ({"periods": 0}, "periods=0"),
        ({"periods": 2.5}, "periods=2.5"),
        ({"mechanism": dpsu.NGrams(), "item": dpsu.Tokens("body")}, "ngrams cannot leave out"),
        ({"mechanism": dpsu.Greedy(prior={"a": 1})}, "nor a prior"),
        ({"mechanism": dpsu.Greedy(calibration="paper", allow_unproven=True)}, "allow_unproven"),
        ({"item": dpsu.Tokens("body", tokenizer=str.split)}, "by a function"),
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": 0.001, "periods": 20, "delta": 1e-5}, "periods=20"),
        ({"counts": 3}, "counts"),
    ],
)
def test_what_cannot_repeat_is_refused(typed: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(dpsu.ParameterError, match=message):
        dpsu.Series.create(path, **({"periods": 3} | BUDGET | typed))
    assert not path.exists()


def test_a_series_is_begun_once(
    series: dpsu.Series, path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(dpsu.ParameterError, match="is there already"):
        dpsu.Series.create(path, periods=30, mechanism="weighted-laplace", **BUDGET)
    with pytest.raises(dpsu.ParameterError, match="there is no series"):
        dpsu.Series(tmp_path / "other")
    with pytest.raises(dpsu.OutputError, match="cannot make"):
        dpsu.Series.create(
            tmp_path / "no" / "folder", periods=3, mechanism="weighted-laplace", **BUDGET
        )
    with pytest.raises(dpsu.ParameterError, match="name of a folder"):
        dpsu.Series(3)  # type: ignore[arg-type]
    # Of two processes that begin it at the same time, one is told so; nothing else is left.
    with monkeypatch.context() as patched:
        patched.setattr("os.path.lexists", lambda path: False)
        with pytest.raises(dpsu.ParameterError, match="is there already"):
            State(path).create(series._terms)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(dpsu.ParameterError, match="is there already"):
        State(tmp_path / "link").create(series._terms)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", path.name]


def test_terms_that_were_edited_are_refused(series: dpsu.Series, path: Path) -> None:
    file = path / "series.json"
    text = file.read_text()
    good = json.loads(text)
    for change in (
        {"periods": 30},
        {"periods": "3"},
        {"budget": {"epsilon": 1.0, "delta": 1e-5}},
        {"budget": None},
        {"format": 2},
        {"more": 1},
        {"plan": None},
        {"plan": good["plan"] | {"hash": "0" * 64}},
    ):
        file.write_text(json.dumps(good | change))
        with pytest.raises(dpsu.ParameterError, match="is damaged, or was made by another dpsu"):
            dpsu.Series(path)
    # People read the first of two numbers, and programs the last.
    twice = text.replace('"periods": 3', '"periods": 1, "periods": 3')
    assert twice != text
    for broken in ("{", twice):
        file.write_text(broken)
        with pytest.raises(dpsu.ParameterError, match="is damaged"):
            dpsu.Series(path)


def test_files_that_are_missing_or_added_are_noticed(series: dpsu.Series, path: Path) -> None:
    for _ in range(3):
        series.release(month("bread"))
    for name, message in (
        ("0001-begun.json", "not numbered"),
        ("0003-begun.json", "never begun"),
        ("0003-published.json", "or published"),
    ):
        (path / name).rename(path / "kept")
        with pytest.raises(dpsu.ParameterError, match=message):
            series.release(month("bread"))
        (path / "kept").rename(path / name)
    shutil.copy(path / "0003-begun.json", path / "0004-begun.json")
    with pytest.raises(dpsu.ParameterError, match="not numbered"):
        series.release(month("bread"))
    (path / "0004-begun.json").unlink()
    (path / "0002-items.parquet").write_text("nonsense")
    with pytest.raises(dpsu.ParameterError, match="damaged; restore"):
        dpsu.Series(path).items  # noqa: B018


@pytest.mark.thorough
def test_later_periods_find_what_a_single_one_would_not(tmp_path: Path) -> None:
    """A mailing list by month: the words of everybody, and topics that come up in one month.

    Against one release of the first month with the whole budget, and against releases of every
    month by the same plan that do not leave out what is known.
    """
    rng = random.Random(5)
    common, fresh = ([1 / (rank + 3) for rank in range(size)] for size in (3000, 300))

    def words(number: int) -> list[str]:
        often = rng.choices(range(len(common)), common, k=30)
        new = rng.choices(range(len(fresh)), fresh, k=10)
        return [f"word {w}" for w in often] + [f"topic {number}.{w}" for w in new]

    months = [{f"person {n}": words(number) for n in range(2500)} for number in range(4)]
    series = dpsu.Series.create(tmp_path / "list.series", periods=4, **BUDGET)
    found = [len(series.release(rows)) for rows in months]
    alone = dpsu.release(months[0], mechanism="sieve", **BUDGET)
    unaware = {item for rows in months for item in dpsu.release(rows, series.plan)}
    assert sum(found) == len(set(series.items))
    assert min(found[1:]) > 0.3 * found[0]
    assert len(series.items) > 1.1 * len(alone)
    assert len(series.items) > 1.08 * len(unaware)
    for number in range(1, 4):
        assert any(str(item).startswith(f"topic {number}.") for item in series.items)


def test_counts_are_of_new_items_and_their_price_is_in_the_account(path: Path, run: Run) -> None:
    """What is known takes no part: a user of many known items counts in full for a new one."""
    known = [f"known {n}" for n in range(12)]
    few = dpsu.Counts(max_items=2)
    series = dpsu.Series.create(path, periods=2, counts=few, epsilon=20.0, delta=1e-12)
    assert series.plan.counts == few
    costs = [cost_of(series.plan)] * 2
    assert total(costs).within(series.budget)
    assert not total([*costs, costs[0]]).within(series.budget)
    assert set(series.release(month(*known)).to_dict()) == set(known)
    second = series.release(month(*known, "new"))
    assert second.items == ("new",)
    assert second.counts is not None
    assert second.counts_error is not None
    assert abs(second.counts[0].as_py() - 600) < 8 * second.counts_error
    assert second.counts_error < 10
    assert series.stored(2) == second
    listed = run("series", "items", str(path))[1].splitlines()
    assert [line.split("\t")[0] for line in listed] == sorted([*known, "new"])
    assert listed[-1] == f"new\t{second.counts[0].as_py()}"


def test_the_command_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, items in (("1", ("bread",)), ("2", ("bread", "milk"))):
        rows = "".join(f"{user},{item}\n" for user, held in month(*items).items() for item in held)
        (tmp_path / f"{name}.csv").write_text(f"who,what\n{rows}")
    new = ["series", "new", "v", "--periods", "3", "--user", "who", "--item", "what"]
    code, out, err = run(*new, "--prior", "x.csv")
    assert (code, "No such option" in err) == (2, True)
    code, out, err = run(*new)
    assert (code, "Missing option '--epsilon'" in err) == (2, True)
    code, out, err = run(*new, "--epsilon", "3", "--delta", "1e-5", "--max-items", "50")
    assert code == 0, err
    assert "periods: 3, of which 0 were begun and 3 are left" in out
    assert run("series", "items", "v") == (0, "", "")
    code, out, err = run("series", "next", "v", "1.csv", "--output", "new.txt")
    assert (code, out) == (0, "")
    assert "period 1 of 3; 1 items so far; all periods together are (3, 1e-05)-private" in err
    assert run("series", "next", "v", "2.csv", "--quiet") == (0, "milk\n", "")
    assert run("series", "next", "v", "2.csv", "--quiet", "--period", "2") == (0, "milk\n", "")
    code, out, err = run("series", "next", "v", "2.csv", "--output", "v/items.txt")
    assert (code, "write it elsewhere" in err) == (2, True)
    (tmp_path / "bad.csv").write_text("who,what\n,\n")
    code, out, err = run("series", "next", "v", "bad.csv", "--strict")
    assert (code, "period 3 of 3 is pending: run it again, which costs nothing" in err) == (2, True)
    assert "A pending period failed" in run("series", "show", "v")[1]
    assert run("series", "next", "v", "2.csv", "--quiet") == (0, "", "")
    code, out, err = run("series", "next", "v", "2.csv")
    assert (code, "all 3 periods of the series" in err) == (3, True)
    assert run("series", "items", "v") == (0, "bread\nmilk\n", "")
    assert run("series", "items", "v", "--period", "2") == (0, "milk\n", "")
    told = json.loads(run("series", "show", "v", "--json")[1])
    assert [each["state"] for each in told["history"]] == [DONE, DONE, DONE]
    assert told["left"] == 0
    assert dpsu.Plan.from_dict(told["plan"]) == dpsu.Series("v").plan


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_items_are_listed_in_the_order_of_their_values(
    run: Run, series: dpsu.Series, path: Path
) -> None:
    """And a period of texts leaves out the integers that are known, and finds integers."""
    for found in ((9, 100), (10, -3), ("x", "9", "8")):
        users = [n for n in range(600) for _ in found]
        series.release(pa.table({"user": users, "item": list(found) * 600}))
        if found == (10, -3):
            assert run("series", "items", str(path)) == (0, "-3\n9\n10\n100\n", "")
            assert run("series", "items", str(path), "--period", "2") == (0, "-3\n10\n", "")
    assert series.items == (-3, 8, 9, 10, 100)


@pytest.mark.thorough
def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = ROOT / "docs" / "guides" / "series.md"
    for name, items in (("january", ("bread",)), ("february", ("bread", "milk"))):
        rows = "".join(f"{user},{item}\n" for user in month() for item in items)
        (tmp_path / f"{name}.csv").write_text(f"user,item\n{rows}")
    for script in blocks(guide, "sh"):
        shell(textwrap.dedent(script), tmp_path)
    assert (tmp_path / "all-so-far.txt").read_text() == "bread\nmilk\n"
    assert (tmp_path / "february.txt").read_text() == "milk\n"
    each = dpsu.Series(tmp_path / "visits.series").plan.privacy
    assert each == dpsu.Privacy(0.8869, 4.166e-7)
    assert all(part in guide.read_text() for part in ("epsilon 0.8869", "delta 4.166e-7"))
    monkeypatch.chdir(tmp_path)
    space = python(blocks(guide, "python"), guide.name)
    assert space["series"].items == ("bread", "milk")
    assert space["series"].left == 10


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
@pytest.mark.parametrize("item", ["day", ["country", "day"]])
def test_keys_of_other_types_and_of_several_columns_repeat(item: Any, path: Path) -> None:
    first, second = (datetime.date(2024, 1, 31), "a\tb"), (datetime.date(2024, 2, 29), "c\\d")

    def rows(*items: tuple[datetime.date, str]) -> pa.Table:
        held = [(user, *one) for user in range(800) for one in items]
        names = ("site", "day", "country")
        return pa.table(dict(zip(names, map(list, zip(*held, strict=True)), strict=True)))

    def named(one: tuple[datetime.date, str]) -> Any:
        return one[0] if item == "day" else (one[1], one[0])

    series = dpsu.Series.create(
        path, periods=3, user="site", item=item, mechanism="weighted-laplace", **BUDGET
    )
    assert series.release(rows(first)).items == (named(first),)
    found = series.release(rows(first, second))
    assert found.items == (named(second),)
    assert series.stored(2) == found
    again = dpsu.Series(path)
    assert again.items == tuple(sorted([named(first), named(second)]))
    assert again.release(rows(first, second)).items == ()
    assert again.stored(2).items == (named(second),)
    assert again.stored(2).to_arrow().schema.field("day").type == pa.date32()


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_types_that_change_cost_no_period(path: Path, run: Run) -> None:
    """Timestamps with another unit and zone, then text, then integers: what is known stays so."""
    noon = datetime.datetime(2024, 2, 29, 12)
    berlin = pa.timestamp("us", "Europe/Berlin")
    columns = [
        pa.array([noon] * 800, pa.timestamp("us")), pa.array([noon] * 800, pa.timestamp("s")),
        pa.array([noon.replace(tzinfo=datetime.UTC)] * 800, berlin),
        pa.array(["2024-02-29T12:00:00"] * 800), pa.array([7] * 800), pa.array([7] * 800),
    ]  # fmt: skip
    series = dpsu.Series.create(
        path, periods=6, item="when", mechanism="weighted-laplace", **BUDGET
    )
    found = [series.release(pa.table({"user": range(800), "when": each})) for each in columns]
    assert [len(each) for each in found] == [1, 0, 1, 0, 1, 0]
    again = dpsu.Series(path)
    for number, made in enumerate(found, 1):
        assert again.stored(number) == made
        assert again.stored(number).to_arrow().schema == made.to_arrow().schema
    # Types that differ have no common order, and are sorted as texts.
    assert len(again.items) == len(run("series", "items", str(path))[1].splitlines()) == 3


def test_a_full_disk_spends_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    series = dpsu.Series.create(path, periods=2, mechanism="weighted-laplace", **BUDGET)

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for _ in range(3):
        with pytest.raises(
            dpsu.OutputError, match="begins: No space left on device; nothing was read"
        ):
            series.release({"a": ["b"]})
    monkeypatch.undo()
    assert dpsu.Series(path).left == 2
    assert sorted(each.name for each in path.iterdir()) == ["series.json"]


def test_periods_of_another_plan_are_noticed(path: Path, tmp_path: Path) -> None:
    fixed: dict[str, Any] = {"periods": 2, "mechanism": "weighted-laplace"} | BUDGET
    series = dpsu.Series.create(path, **fixed)
    series.release({f"p{n}": ["bread", "milk"] for n in range(800)})
    others = {"mechanism": "policy-laplace", "counts": True, "periods": 3, "epsilon": 9}
    for name, value in others.items():
        other = dpsu.Series.create(tmp_path / name, **fixed | {name: value})
        shutil.copy(other.path / "series.json", path / "series.json")
        with pytest.raises(dpsu.ParameterError, match="begun by another plan"):
            dpsu.Series(path).release({"a": ["b"]})
