"""The ledger: what is charged, what is refused, what is kept, and what no kill can undo."""

from __future__ import annotations

import contextlib
import json
import math
import multiprocessing
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scipy.stats import norm

import dpsu
from dpsu.ledger import Ledger
from dpsu.privacy import Privacy
from tests.test_cli import Run, run  # noqa: F401
from tests.test_docs import blocks
from tests.test_leaks import MARK, NUMBER, assert_clean, table

ROOT = Path(__file__).resolve().parent.parent
VISITS = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(500)}
SURE: dict[str, Any] = {"mechanism": "weighted-gaussian"}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def charge(ledger: Ledger, times: int = 1, **options: Any) -> None:
    with ledger.spending("visits", budget=(3, 1e-5)) as open_:
        for _ in range(times):
            open_.charge(dpsu.plan(**({"epsilon": 1, "delta": 1e-6} | options)))


# What the ledger allows, refuses and says.


def test_releases_are_charged_until_both_accounts_are_full(ledger: Ledger) -> None:
    charge(ledger, 3, mechanism="greedy")
    with pytest.raises(
        dpsu.BudgetError, match=r"costs \(1, 1e-06\), and of the budget \(3, 1e-05\)"
    ):
        charge(ledger, mechanism="greedy")
    assert len(ledger.account("visits").entries) == 3
    gaussian = Ledger(ledger.path.with_name("other.db"))
    with pytest.raises(dpsu.BudgetError):
        charge(gaussian, 100)
    entries = gaussian.account("visits").entries
    assert len(entries) == 9  # by sums there would be room for three
    shift = entries[0].cost.shift
    assert shift is not None
    for times, fits in ((9, True), (10, False)):
        mu = math.sqrt(times * shift.squared)
        tails = norm.sf(3 / mu - mu / 2), norm.sf(3 / mu + mu / 2)
        assert (tails[0] - math.exp(3) * tails[1] + times * shift.novel <= 1e-5) == fits


def test_budgets_are_set_once_and_changed_on_purpose(ledger: Ledger) -> None:
    with pytest.raises(dpsu.ParameterError, match="has no dataset 'visits'; a new one needs"):
        ledger.spending("visits").charge(dpsu.plan(epsilon=1, delta=1e-6))
    charge(ledger)
    ledger.spending("visits").charge(dpsu.plan(epsilon=1, delta=1e-6))
    for budget in ((4, 1e-5), (3, 1e-6)):
        with pytest.raises(dpsu.ParameterError, match=r"is \(3, 1e-05\); to change it, say dpsu"):
            ledger.spending("visits", budget=budget).charge(dpsu.plan(epsilon=1, delta=1e-6))
    with pytest.raises(dpsu.ParameterError, match="did you mean 'visits'"):
        ledger.spending("vists").charge(dpsu.plan(epsilon=1, delta=1e-6))
    ledger.set_budget("visits", (1.5, 1e-5))
    assert ledger.account("visits").budget == Privacy(1.5, 1e-5)
    with pytest.raises(dpsu.BudgetError):
        ledger.spending("visits").charge(dpsu.plan(epsilon=1, delta=1e-6, mechanism="greedy"))
    with pytest.raises(dpsu.ParameterError, match="has no dataset"):
        ledger.set_budget("else", (3, 1e-5))
    assert len(ledger.account("visits").entries) == 2
    assert ledger.datasets() == ["visits"]


@pytest.mark.parametrize(
    "options",
    [{"insecure_seed": 1}, {"mechanism": "greedy", "calibration": "paper", "allow_unproven": True}],
)
def test_what_has_no_guarantee_is_not_recorded(ledger: Ledger, options: dict[str, Any]) -> None:
    with pytest.raises(dpsu.ParameterError, match="this release has none"):
        charge(ledger, **options)
    candidates: list[dict[str, Any]] = [
        {"mechanism": "sieve"},
        {"mechanism": "greedy", "calibration": "paper", "allow_unproven": True},
    ]
    with pytest.raises(dpsu.ParameterError, match="this release has none"):
        dpsu.select(
            VISITS, candidates, epsilon=1, delta=1e-6, ledger=ledger, dataset="v", budget=(3, 1e-5)
        )
    assert not ledger.path.exists()


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    book = tmp_path / "ledger.db"
    for options, words in (
        ({"dataset": "visits"}, "goes with the file of a ledger"),
        ({"budget": (1, 1e-5)}, "goes with the file of a ledger"),
        ({"ledger": book}, "a ledger needs dataset"),
        ({"ledger": book, "dataset": ""}, "1 to 200 characters"),
        ({"ledger": book, "dataset": "a\nb"}, "printable"),
        ({"ledger": book, "dataset": "a "}, "printable"),
        ({"ledger": book, "dataset": "a", "budget": 3}, "two numbers"),
        ({"ledger": book, "dataset": "a", "budget": (3, 2)}, "delta=2 is out of range"),
        ({"ledger": Ledger(book).spending("a"), "dataset": "b"}, "drop dataset"),
    ):  # fmt: skip
        with pytest.raises(dpsu.ParameterError, match=words):
            dpsu.release(VISITS, epsilon=1, delta=1e-6, **options)
    assert not book.exists()


def test_every_way_to_release_is_charged(ledger: Ledger) -> None:
    given: dict[str, Any] = {"ledger": ledger, "dataset": "visits", "budget": (20, 1e-3)}
    privacy: dict[str, Any] = {"epsilon": 3, "delta": 1e-5}
    assert len(dpsu.release(VISITS, **privacy, **SURE, **given)) == 2
    dpsu.ngrams(
        {u: " ".join(i) for u, i in VISITS.items()}, text="t", longest=1, **privacy, **given
    )
    dpsu.select(VISITS, [SURE], **privacy, **given)
    dpsu.release(VISITS, mechanism="auto", auto_budget=0.1, **privacy, **given)
    entries = ledger.account("visits").entries
    assert [e.mechanism for e in entries] == ["weighted-gaussian", "ngrams", "select", "auto"]
    assert [e.cost.shift is None for e in entries] == [False, False, True, True]
    assert {e.state for e in entries} == {"done"}
    assert {e.cost.privacy for e in entries} == {Privacy(3.0, 1e-5)}
    assert dpsu.Plan.from_json(str(entries[0].plan)) == dpsu.plan(**privacy, **SURE)


def test_failures_after_the_charge_stay_charged(ledger: Ledger, tmp_path: Path) -> None:
    given: dict[str, Any] = {"ledger": ledger, "dataset": "visits", "budget": (3, 1e-5)}
    with pytest.raises(dpsu.DataError):
        dpsu.release([("a", 1), ("b", "x")], epsilon=1, delta=1e-6, **given)
    with contextlib.suppress(ZeroDivisionError), ledger.spending("visits") as open_:
        dpsu.release(VISITS, epsilon=1, delta=1e-6, ledger=open_)
        _ = 1 / 0
    assert [e.state for e in ledger.account("visits").entries] == ["unfinished"] * 2


def test_what_was_not_finished_counts(ledger: Ledger) -> None:
    """Three releases that never came to an end leave no room for a fourth."""
    open_ = ledger.spending("visits", budget=(3, 1e-5))
    for _ in range(3):
        open_.charge(dpsu.plan(epsilon=1, delta=1e-6, mechanism="greedy"))
    assert {e.state for e in ledger.account("visits").entries} == {"unfinished"}
    with pytest.raises(dpsu.BudgetError):
        open_.charge(dpsu.plan(epsilon=1, delta=1e-6, mechanism="greedy"))


def test_mistyped_names_cost_nothing(ledger: Ledger, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "ledger": ledger,
        "dataset": "visits",
        "budget": (3, 1e-5),
        "epsilon": 1,
        "delta": 1e-6,
    }
    (tmp_path / "rows.csv").write_text("user,item\na,b\n")
    pa.parquet.write_table(table(), tmp_path / "rows.parquet")
    (tmp_path / "empty.db").touch()
    for data in (
        tmp_path / "nowhere.csv", tmp_path / "rows.csv", [tmp_path / "rows.parquet"], table(),
        dpsu.Query(f"duckdb:{tmp_path}/nowhere.db", "select 1"),
    ):  # fmt: skip
        with pytest.raises(dpsu.ParameterError, match="there is no"):
            dpsu.release(data, user="usr", **given)
    with pytest.raises(dpsu.DpsuError, match=r"no\.json"):
        dpsu.release(VISITS, text="t", tokenizer=str(tmp_path / "no.json"), **given)
    with pytest.raises(dpsu.ParameterError, match="tune_fraction"):
        dpsu.select(VISITS, [SURE], tune_fraction=2.0, **given)
    assert not ledger.path.exists()


def test_what_is_not_a_ledger(tmp_path: Path) -> None:
    for name, content in (("text", b"user,item\n" * 999), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(dpsu.LedgerError):
            Ledger(tmp_path / name).datasets()
    with pytest.raises(dpsu.LedgerError, match="not a ledger"):
        charge(Ledger(tmp_path / "text"))
    assert (tmp_path / "text").read_bytes() == b"user,item\n" * 999
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("create table t (n int)")
    connection.close()
    with pytest.raises(dpsu.LedgerError, match="not a ledger of dpsu"):
        charge(Ledger(tmp_path / "other.db"))
    with pytest.raises(dpsu.LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "nowhere.db").account("visits")
    with pytest.raises(dpsu.LedgerError):
        charge(Ledger(tmp_path / "no" / "ledger.db"))


def test_nothing_on_record_can_be_taken_back(ledger: Ledger) -> None:
    charge(ledger)
    connection = sqlite3.connect(ledger.path)
    for statement in (
        "delete from releases", "update releases set epsilon = 0", "delete from budgets",
        "update budgets set epsilon = 50", "update releases set dataset = 'x'",
    ):  # fmt: skip
        with pytest.raises(sqlite3.IntegrityError, match="are kept"):
            connection.execute(statement)
    connection.close()


def test_a_mark_that_cannot_be_made_does_not_cost_the_release(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Ledger, number: int) -> None:
        raise dpsu.LedgerError("the disk is full")

    monkeypatch.setattr(Ledger, "finish", broken)
    with pytest.warns(dpsu.DataWarning, match="stays on record as unfinished"):
        found = dpsu.release(
            VISITS, epsilon=1, delta=1e-6, ledger=ledger, dataset="visits", budget=(3, 1e-5), **SURE
        )
    assert len(found) == 2


def test_the_file_holds_plans_and_nothing_of_the_data(tmp_path: Path) -> None:
    file = tmp_path / "in.parquet"
    pa.parquet.write_table(table(), file)
    book = tmp_path / "ledger.db"
    given: dict[str, Any] = {"ledger": book, "dataset": "visits", "budget": (9, 1e-3)}
    common = dpsu.release(file, epsilon=3, delta=1e-5, counts=True, **given)
    assert "common 1" in common
    with pytest.raises(dpsu.DataError):
        dpsu.release({f"{MARK} 1": [MARK], f"{MARK} 2": [1]}, epsilon=1, delta=1e-9, **given)
    said = book.read_bytes().decode("latin-1")
    assert_clean(said)
    assert "common" not in said
    assert "in.parquet" not in said
    assert str(NUMBER * 4) not in said
    for entry in Ledger(book).account("visits").entries:
        assert_clean(repr(entry) + str(entry.plan))
    assert [p.name for p in tmp_path.iterdir() if "ledger" in p.name] == ["ledger.db"]


# The shell.


def test_the_shell_charges_shows_and_refuses(run: Run, tmp_path: Path) -> None:  # noqa: F811
    rows = tmp_path / "rows.csv"
    rows.write_text("user,item\n" + "".join(f"u{u},a\nu{u},b\n" for u in range(200)))
    book, out = tmp_path / "ledger.db", tmp_path / "out.txt"
    spend = ("--epsilon", "2", "--delta", "1e-6", "--mechanism", "policy-laplace", "--ledger", book)
    named = ("--dataset", "visits", "--budget", "3,1e-5")
    code, _, err = run("release", rows, *spend)
    assert (code, "needs --dataset" in err) == (2, True)
    code, _, err = run("release", rows, *spend[:6], *named)
    assert (code, "--ledger" in err) == (2, True)
    code, _, err = run("release", rows, *spend, "--dataset", "visits", "--budget", "3")
    assert (code, "--budget '3' is not" in err) == (2, True)
    code, _, err = run("release", rows, *spend, *named, "--report", book)
    assert (code, "also read" in err) == (2, True)
    assert not book.exists()
    assert run("release", rows, *spend, *named, "--output", out)[0] == 0
    assert out.exists()
    out.unlink()
    code, stdout, err = run("release", rows, *spend, *named, "--output", out)
    assert (code, stdout, out.exists()) == (1, "", False)
    assert "Nothing was read or charged" in err
    code, stdout, _ = run("ledger", book)
    assert code == 0
    assert "policy-laplace" in stdout
    assert "spent, sums: epsilon 2, delta 1e-06; left: epsilon 1, delta 9e-06" in stdout
    assert "unfinished" not in stdout
    code, stdout, _ = run("ledger", book, "--dataset", "visits", "--json")
    (facts,) = json.loads(stdout)
    assert facts["budget"] == {"epsilon": 3.0, "delta": 1e-05}
    assert [r["state"] for r in facts["releases"]] == ["done"]
    assert (
        dpsu.Plan.from_json(json.dumps(facts["releases"][0]["plan"])).mechanism == "policy-laplace"
    )
    code, stdout, _ = run("ledger", book, "--dataset", "visits", "--set-budget", "5,1e-5")
    assert "budget: epsilon 5" in stdout
    (tmp_path / "mixed.jsonl").write_text('{"user": 1, "item": 1}\n{"user": "x", "item": 1}\n')
    assert run("release", tmp_path / "mixed.jsonl", *spend, *named[:2])[0] == 1
    assert "1 unfinished: running, failed or killed" in run("ledger", book)[1]
    assert run("ledger", book, "--dataset", "vists")[0] == 2
    assert run("ledger", book, "--set-budget", "5,1e-5")[0] == 2
    assert run("ledger", tmp_path / "nowhere.db")[0] == 1


# Many at once, and kills.


def _charge_some(path: Path, times: int, allowed: Any) -> None:
    for _ in range(times):
        try:
            with Ledger(path).spending("visits", budget=(1.0, 1e-5)) as open_:
                open_.charge(dpsu.plan(epsilon=0.1, delta=1e-7, mechanism="greedy"))
            with allowed.get_lock():
                allowed.value += 1
        except dpsu.BudgetError:
            pass


@pytest.mark.slow
def test_processes_charge_one_after_the_other(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    allowed = spawn.Value("i", 0)
    path = tmp_path / "ledger.db"
    workers = [spawn.Process(target=_charge_some, args=(path, 5, allowed)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert allowed.value == 10
    assert len(Ledger(path).account("visits").entries) == 10


@pytest.mark.slow
def test_no_kill_loses_a_charge(tmp_path: Path) -> None:
    """Hundreds of kills: at every statement of the protocol, and at random instants."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.killing", str(tmp_path), str(random.randrange(10**6)), "400"],
        capture_output=True, check=False, text=True, cwd=ROOT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    killed, charged, visible = map(int, done.stdout.split())
    assert killed >= 400
    assert charged > visible > 20  # some died in between, and many did not


@pytest.mark.slow
def test_no_kill_of_a_command_loses_a_charge(tmp_path: Path) -> None:
    rows, book, outputs = tmp_path / "rows.csv", tmp_path / "ledger.db", tmp_path / "out"
    rows.write_text("user,item\n" + "".join(f"u{u},a\nu{u},b\n" for u in range(200)))
    outputs.mkdir()
    command = [
        sys.executable, "-m", "dpsu", "release", str(rows), "--epsilon", "0.5", "--delta", "1e-6",
        "--mechanism", "policy-laplace", "--ledger", str(book), "--dataset", "visits", "--budget",
        "40,1e-3", "--quiet", "--output",
    ]  # fmt: skip
    began = time.monotonic()
    subprocess.run([*command, str(outputs / "first.txt")], check=True, timeout=300)
    usual = time.monotonic() - began
    killed = 0
    for pair in range(6):
        started = [
            subprocess.Popen(
                [*command, str(outputs / f"{pair}-{n}.txt")], stderr=subprocess.DEVNULL
            )
            for n in range(2)
        ]
        time.sleep(random.uniform(0.2, 1.0) * usual)
        for process in started:
            process.send_signal(signal.SIGKILL)
            killed += process.wait(60) == -signal.SIGKILL
        visible = [p for p in outputs.iterdir() if not p.name.startswith(".")]
        entries = Ledger(book).account("visits").entries
        assert len(entries) >= len(visible)
        assert sum(e.state == "done" for e in entries) <= len(visible)
    assert killed > 0
    subprocess.run([*command, str(outputs / "last.txt")], check=True, timeout=300)
    with sqlite3.connect(book) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()


def test_a_locked_ledger_is_waited_for_and_then_told(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge(ledger)
    monkeypatch.setattr("dpsu.ledger.SECONDS_TO_WAIT", 0.2)
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(dpsu.LedgerError, match=r"kept it locked for 0\.2 seconds"):
        charge(ledger)
    assert len(ledger.account("visits").entries) == 1  # reading goes on
    connection.execute("ROLLBACK")
    connection.close()
    charge(ledger)


def test_a_charge_is_there_before_anything_is_read(ledger: Ledger) -> None:
    seen: list[int] = []

    class Watched(dict[str, list[str]]):
        def items(self) -> Any:
            seen.append(len(ledger.account("visits").entries))
            return super().items()

    dpsu.release(
        Watched(VISITS), epsilon=1, delta=1e-6, ledger=ledger, dataset="visits", budget=(3, 1e-5)
    )
    assert seen
    assert set(seen) == {1}


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = ROOT / "docs" / "ledger.md"
    rows = "".join(f"p{u},{i}\n" for u in range(300) for i in ("bread", "milk", f"secret {u}"))
    (tmp_path / "visits.csv").write_text(f"user,item\n{rows}")
    (script,) = blocks(guide, "sh")
    done = subprocess.run(
        ["bash", "-ec", script.replace("dpsu ", f"{sys.executable} -m dpsu ")],
        cwd=tmp_path, capture_output=True, check=False, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (shown,) = blocks(guide, "text")
    # All of it but the times.
    for line in shown.splitlines()[-4:]:
        assert line in done.stdout
    (tmp_path / "ledger.db").unlink()
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(guide, "python")
    exec(compile(code, "ledger.md", "exec"), {})
    assert (tmp_path / "items.txt").exists()
    assert [e.state for e in Ledger("ledger.db").account("visits").entries] == ["done"] * 2
