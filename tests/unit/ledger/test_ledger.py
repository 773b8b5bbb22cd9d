"""The ledger: what is charged, what is refused, what is kept, and what no kill can undo."""

# ruff: noqa: F811
from __future__ import annotations

import contextlib
import hashlib
import html
import json
import math
import multiprocessing
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from scipy.stats import norm

import dpsu
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.ledger import _append as append
from dpsu.ledger.records import BUDGET, content_of, facts_of
from dpsu.privacy.guarantee import Privacy
from tests.docs.test_docs import blocks
from tests.privacy.test_leaks import MARK, NUMBER, assert_clean, says, table
from tests.support import flat
from tests.support.cases import every
from tests.support.examples import python, shell
from tests.unit.cli.test_cli import Run, run  # noqa: F401

ROOT = Path(__file__).resolve().parents[3]
VISITS = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(500)}
SURE: dict[str, Any] = {"mechanism": "weighted-gaussian"}
RUN = "5e" * 16


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def execute(path: Path, *statements: str) -> list[Any]:
    """What SQLite does with a file, whatever it is for; the rows of the last statement."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return [connection.execute(statement).fetchall() for statement in statements][-1]


def charge(ledger: Ledger, times: int = 1, **options: Any) -> None:
    with ledger.dataset("visits", budget=(3, 1e-5)) as open_:
        for _ in range(times):
            open_.charge(flat.plan(**({"epsilon": 1, "delta": 1e-6} | options)), run=RUN)


# What the ledger allows, refuses and says.


def test_releases_are_charged_until_both_accounts_are_full(ledger: Ledger) -> None:
    charge(ledger, 3, mechanism="greedy")
    with pytest.raises(
        dpsu.BudgetError, match=r"costs \(1, 1e-06\), and of the budget \(3, 1e-05\)"
    ):
        charge(ledger, mechanism="greedy")
    assert len(ledger.account("visits").releases) == 3
    gaussian = Ledger(ledger.path.with_name("other.db"))
    with pytest.raises(dpsu.BudgetError):
        charge(gaussian, 100, mechanism="sieve")
    entries = gaussian.account("visits").releases
    assert len(entries) == 8  # by sums there would be room for three
    shift = entries[0].cost.shift
    assert shift is not None
    for times, fits in ((8, True), (9, False)):
        mu = math.sqrt(times * shift.squared)
        tails = norm.sf(3 / mu - mu / 2), norm.sf(3 / mu + mu / 2)
        assert (tails[0] - math.exp(3) * tails[1] + times * shift.novel <= 1e-5) == fits


def test_budgets_are_set_once_and_changed_on_purpose(ledger: Ledger) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    with pytest.raises(dpsu.ParameterError, match="has no dataset 'visits'; a new one needs"):
        ledger.dataset("visits").charge(plan, run=RUN)
    charge(ledger)
    ledger.dataset("visits").charge(plan, run=RUN)
    for budget in ((4, 1e-5), (3, 1e-6)):
        with pytest.raises(dpsu.ParameterError, match=r"is \(3, 1e-05\); drop it, or change"):
            ledger.dataset("visits", budget=budget).charge(plan, run=RUN)
    with pytest.raises(dpsu.ParameterError, match="did you mean 'visits'"):
        ledger.dataset("vists").charge(plan, run=RUN)
    ledger.set_budget("visits", (1.5, 1e-5))
    assert ledger.account("visits").budget == Privacy(1.5, 1e-5)
    with pytest.raises(dpsu.BudgetError):
        ledger.dataset("visits").charge(plan, run=RUN)
    with pytest.raises(dpsu.ParameterError, match="has no dataset"):
        ledger.set_budget("else", (3, 1e-5))
    assert len(ledger.account("visits").releases) == 2
    assert ledger.datasets() == ["visits"]


def test_different_units_are_noted_and_warned_of(ledger: Ledger, run: Run) -> None:
    one, two = dpsu.Users("user"), dpsu.Users(("user", "day"), ids_per_person=2)
    plans = [
        dpsu.plan(epsilon=0.5, delta=1e-6, user=user, mechanism="sieve") for user in (one, two)
    ]
    charge(ledger)
    ledger.add("visits", "sums", (0.1, 0))
    with ledger.dataset("visits").charged(plans[0], run=RUN, choice="select"):
        pass  # the same unit, and no warning
    assert "different units" not in str(ledger.account("visits"))
    other, text = ledger.dataset("visits"), "2 ids by 'day, user'; 1 id by 'user'"
    # Where warnings are errors, as here, nothing is charged.
    with pytest.raises(dpsu.DataWarning):
        other.charge(plans[1], run=RUN)
    assert ledger.account("visits").units == (one,)
    for same in (two, dpsu.Users(["day", "user"], None, 2)):
        plan = dpsu.plan(epsilon=0.1, delta=1e-7, user=same, mechanism="sieve")
        with pytest.warns(
            dpsu.DataWarning,
            match=re.escape(f"'visits' has releases that protect different units ({text})"),
        ):
            other.charge(plan, run=RUN)
    account = ledger.account("visits")
    assert len(account.units) == 2
    assert text in str(account)
    assert text in html.unescape(account._repr_html_())
    assert text in " ".join(run("ledger", ledger.path)[1].split())
    (told,) = json.loads(run("ledger", ledger.path, "--json")[1])["datasets"]
    units = [each["unit"] for each in told["releases"]]
    first = {"columns": ["user"], "ids_per_person": 1}
    second = {"columns": ["day", "user"], "ids_per_person": 2}
    assert units == [first, None, first, second, second]


@every(
    "options",
    [{"insecure_seed": 1}, {"mechanism": "greedy", "calibration": "paper", "allow_unproven": True}],
)
def test_what_has_no_guarantee_is_not_recorded(tmp_path: Path, options: dict[str, Any]) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(dpsu.ParameterError, match="this release has none"):
        charge(ledger, **options)
    candidates: list[dict[str, Any]] = [
        {"mechanism": "sieve"},
        {"mechanism": "greedy", "calibration": "paper", "allow_unproven": True},
    ]
    with pytest.raises(dpsu.ParameterError, match="this release has none"):
        flat.select(
            VISITS, candidates, epsilon=1, delta=1e-6, ledger=ledger, dataset="v", budget=(3, 1e-5)
        )
    assert not ledger.path.exists()


def test_arguments_that_do_not_fit(tmp_path: Path) -> None:
    book = tmp_path / "ledger.db"
    for options, words in (
        ({"ledger": book}, "needs the name under which releases add up: ledger=dpsu.Ledger"),
        ({"ledger": Ledger(book)}, "needs the name under which releases add up: ledger=dpsu.Led"),
        ({"ledger": book, "dataset": ""}, "1 to 200 characters"),
        ({"ledger": book, "dataset": "a\nb"}, "printable"),
        ({"ledger": book, "dataset": "a", "budget": 3}, "two numbers"),
        ({"ledger": book, "dataset": "a", "budget": (3, 2)}, "budget: its delta 2 is out of range"),
        ({"ledger": book, "dataset": "a", "budget": ("3", 1e-5)}, "budget: its epsilon .3. is not"),
        ({"ledger": book, "dataset": "a", "budget": (10**400, 1e-5)}, "out of range"),
        ({"ledger": book, "dataset": ["a"]}, "1 to 200 characters"),
        ({"ledger": 5, "dataset": "a"}, "name of a file, not a int"),
        ({"ledger": b"ledger.db", "dataset": "a"}, "name of a file, not a bytes"),
        ({"ledger": "a\0b", "dataset": "a"}, "not a valid file name"),
        ({"ledger": book, "dataset": "a", "budget": (3, 1e-5), "progress": 5}, "neither a function"),
    ):  # fmt: skip
        with pytest.raises(dpsu.ParameterError, match=words):
            flat.release(VISITS, epsilon=1, delta=1e-6, **options)
    given: dict[str, Any] = {"ledger": book, "dataset": "a", "budget": (3, 1e-5), "delta": 1e-6}
    for name, number in (
        ("epsilon", Fraction(10**400)),
        ("epsilon", math.nan),
        ("max_items", 10**9999),
    ):
        with pytest.raises(dpsu.ParameterError, match=rf"{name}=.{{0,99}} is "):
            flat.release(VISITS, **({"epsilon": 1} | given | {name: number}))
    with pytest.raises(dpsu.ParameterError, match="neither a function"):
        flat.ngrams(VISITS, text="t", epsilon=1, progress=5, **given)
    assert not book.exists()
    with pytest.raises(dpsu.ParameterError, match="1 to 200 characters"):
        Ledger(book).set_budget(None, (3, 1e-5))  # type: ignore[arg-type]
    with pytest.raises(dpsu.ParameterError, match="two numbers"):
        Ledger(book).set_budget("a", None)  # type: ignore[arg-type]
    assert not book.exists()


def test_every_way_to_release_is_charged(ledger: Ledger) -> None:
    given: dict[str, Any] = {"ledger": ledger, "dataset": "visits", "budget": (20, 1e-3)}
    privacy: dict[str, Any] = {"epsilon": 3, "delta": 1e-5}
    assert len(flat.release(VISITS, **privacy, **SURE, **given)) == 2
    flat.ngrams(
        {u: " ".join(i) for u, i in VISITS.items()}, text="t", longest=1, **privacy, **given
    )
    flat.select(VISITS, [SURE], **privacy, **given)
    flat.release(VISITS, mechanism="auto", auto_budget=0.1, **privacy, **given)
    entries = ledger.account("visits").releases
    assert [e.mechanism for e in entries] == ["weighted-gaussian", "ngrams", "select", "auto"]
    assert [e.cost.shift is None for e in entries] == [False, False, True, True]
    assert {e.state for e in entries} == {"done"}
    assert {e.cost.privacy for e in entries} == {Privacy(3.0, 1e-5)}
    assert dpsu.Plan.from_json(str(entries[0].plan)) == flat.plan(**privacy, **SURE)


def test_mistyped_names_cost_nothing(ledger: Ledger, tmp_path: Path) -> None:
    given: dict[str, Any] = {"ledger": ledger, "dataset": "visits", "budget": (3, 1e-5)}
    given |= {"epsilon": 1, "delta": 1e-6}
    (tmp_path / "rows.csv").write_text("user,item\na,b\n")
    pa.parquet.write_table(table(), tmp_path / "rows.parquet")
    (tmp_path / "empty.db").touch()
    for data in (
        tmp_path / "nowhere.csv", tmp_path / "rows.csv", [tmp_path / "rows.parquet"], table(),
        dpsu.Query(f"duckdb:{tmp_path}/nowhere.db", "select 1"),
    ):  # fmt: skip
        with pytest.raises(dpsu.ParameterError, match="there is no"):
            flat.release(data, user="usr", **given)
    with pytest.raises(dpsu.DpsuError, match=r"no\.json"):
        flat.release(VISITS, text="t", tokenizer=str(tmp_path / "no.json"), **given)
    with pytest.raises(dpsu.ParameterError, match="tune_fraction"):
        flat.select(VISITS, [SURE], tune_fraction=2.0, **given)
    for options in (
        {"public_items": ["bread"], "item_type": "integer"}, {"mechanism": "auto", "repeats": "n"},
    ):  # fmt: skip
        with pytest.raises(dpsu.DpsuError):
            flat.release(VISITS, **options, **given)
    assert not ledger.path.exists()


def test_what_is_not_a_ledger(tmp_path: Path) -> None:
    for name, content in (("text", b"user,item\n" * 999), ("empty", b"")):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(dpsu.LedgerError):
            Ledger(tmp_path / name).datasets()
    with pytest.raises(dpsu.LedgerError, match="not a ledger"):
        charge(Ledger(tmp_path / "text"))
    assert (tmp_path / "text").read_bytes() == b"user,item\n" * 999
    execute(tmp_path / "other.db", "create table t (n int)")
    with pytest.raises(dpsu.LedgerError, match="not a ledger of dpsu"):
        charge(Ledger(tmp_path / "other.db"))
    with pytest.raises(dpsu.LedgerError, match="there is no ledger"):
        Ledger(tmp_path / "nowhere.db").account("visits")
    with pytest.raises(dpsu.LedgerError):
        charge(Ledger(tmp_path / "no" / "ledger.db"))


@every(
    "statement", [
        "delete from entries", "update entries set content = '{}'", "update entries set number = 9",
        "insert or replace into entries values (1, '{}', '')", "insert into entries values (9, 1, 1)",
        "insert or ignore into entries (content, hash) values ('{}', '')",
        "update or replace entries set number = 1 where number = 2",
    ],
)  # fmt: skip
def test_nothing_on_record_can_be_taken_back(tmp_path: Path, statement: str) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    charge(ledger)
    before = ledger.head
    with pytest.raises(sqlite3.IntegrityError, match="are kept"):
        execute(ledger.path, statement)
    assert ledger.head == before


def test_a_mark_that_cannot_be_made_does_not_cost_the_release(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither that it is done, nor that it is void: it is pending, and counts."""

    def broken(self: Ledger, number: int, kind: str, **facts: str) -> None:
        raise dpsu.LedgerError("the disk is full")

    monkeypatch.setattr(Ledger, "_close", broken)
    with pytest.warns(dpsu.DataWarning, match="is not on record as done, and counts in full"):
        found = flat.release(
            VISITS, epsilon=1, delta=1e-6, ledger=ledger, dataset="visits", budget=(3, 1e-5), **SURE
        )
    assert len(found) == 2
    with (
        pytest.warns(dpsu.DataWarning, match="is not on record as void, and counts in full"),
        pytest.raises(Unlucky),
        ledger.dataset("visits").charged(dpsu.plan(epsilon=1, delta=1e-6), run=RUN),
    ):
        raise Unlucky
    assert [e.state for e in ledger.account("visits").releases] == ["pending"] * 2


def test_the_file_holds_plans_and_nothing_of_the_data(tmp_path: Path) -> None:
    file = tmp_path / "in.parquet"
    pa.parquet.write_table(table(), file)
    book = tmp_path / "ledger.db"
    given: dict[str, Any] = {"ledger": book, "dataset": "visits", "budget": (9, 1e-3)}
    common = flat.release(file, epsilon=3, delta=1e-5, counts=True, **given)
    assert "common 1" in common
    bad = {f"{MARK} 1": [MARK], f"{MARK} 2": [0.5]}
    with pytest.raises(dpsu.DataError):
        flat.release(bad, epsilon=1, delta=1e-9, strict=True, **given)
    said = book.read_bytes().decode("latin-1")
    assert_clean(said)
    assert "common" not in said
    assert "in.parquet" not in said
    assert not says(said, NUMBER * 4)
    for entry in Ledger(book).account("visits").releases:
        assert_clean(repr(entry) + str(entry.plan))
    assert [p.name for p in tmp_path.iterdir() if "ledger" in p.name] == ["ledger.db"]


# Names: a ledger is one file on a disk, whatever it is called.


SPECIAL = [":memory:", "", ":", "file:l.db", "file:l.db?mode=memory", "file::memory:", "FILE:x"]


@every("name", SPECIAL)
def test_names_that_keep_nothing_are_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("user,item\na,b\n")
    named = ("--dataset", "visits", "--budget", "3,1e-5")
    before = sorted(tmp_path.iterdir())
    for arguments in (
        ("release", "rows.csv", "--epsilon", "1", "--delta", "1e-6", "--ledger", name, *named),
        ("ledger", name),
    ):
        code, out, err = run(*arguments)
        assert (code, out) == (2, "")
        assert "does not name a file that stays" in err
    with pytest.raises(dpsu.ParameterError, match="does not name a file that stays"):
        dpsu.release(
            VISITS, epsilon=1, delta=1e-6, ledger=Ledger(name).dataset("a", budget=(3, 1e-5))
        )
    assert sorted(tmp_path.iterdir()) == before


NAMES = [
    "sub/../ledger.db", "a?mode=memory", "a#b%41.db", "~", "~/l.db", "./:memory:", "./file:l.db",
    "link.db", "dangling.db", "folder/l.db", "tückisch.db",
]  # fmt: skip


@every("name", NAMES)
def test_whatever_a_ledger_is_called_it_is_found_again(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("user,item\na,b\n")
    for folder in ("sub", "real") + (("~",) if name == "~/l.db" else ()):
        (tmp_path / folder).mkdir()
    charge(Ledger(tmp_path / "real" / "old.db"))
    (tmp_path / "link.db").symlink_to(tmp_path / "real" / "old.db")
    (tmp_path / "dangling.db").symlink_to(tmp_path / "real" / "new.db")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    code, _, err = run(
        "release", "rows.csv", "--epsilon", "1", "--delta", "1e-6", "--mechanism", "greedy",
        "--ledger", name, "--dataset", "visits", "--budget", "3,1e-5",
    )  # fmt: skip
    assert code == 0, err
    code, out, _ = run("ledger", name, "--json")
    assert code == 0
    releases = json.loads(out)["datasets"][0]["releases"]
    assert len(releases) == (2 if name == "link.db" else 1)
    assert Path(name).is_file()
    # Only what was there and the one ledger, and not a second by another name.
    ledgers = {path.resolve() for path in tmp_path.rglob("*") if path.is_file()}
    assert len(ledgers) == (2 if name == "link.db" else 3)


def test_a_ledger_stays_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    book = Ledger("ledger.db")
    monkeypatch.chdir(tmp_path / "other")
    charge(book)
    assert (tmp_path / "ledger.db").is_file()
    assert not list((tmp_path / "other").iterdir())
    assert book.path == (tmp_path / "ledger.db").resolve()


def test_only_regular_files_are_ledgers(run: Run, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/null"), Path("/dev/zero")):
        for act in (lambda: Ledger(path).datasets(), lambda: charge(Ledger(path))):  # noqa: B023
            with pytest.raises(dpsu.LedgerError, match="not a regular file"):
                act()
        assert run("ledger", path)[0] == 2
    with pytest.raises(dpsu.DpsuError, match="circle"):
        charge(Ledger(tmp_path / "circle"))
    with pytest.raises(dpsu.DpsuError, match="x" * 999):
        charge(Ledger(tmp_path / ("x" * 999)))
    (tmp_path / "file").touch()
    with pytest.raises(dpsu.LedgerError, match="cannot be opened"):
        charge(Ledger(tmp_path / "file" / "ledger.db"))


# Edited by hand.


def edit(path: Path, *statements: str) -> None:
    """Do to a ledger what its triggers do not allow, and put them back."""
    triggers = execute(path, "select name, sql from sqlite_master where type = 'trigger'")
    dropped = [f"drop trigger {name}" for name, _ in triggers]
    execute(path, *dropped, *statements, *(made for _, made in triggers))


def rewrite(path: Path, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change what entries say, and make their hashes fit, as whoever holds the file could."""
    contents = execute(path, "select content from entries order by number")
    entries = [json.loads(content) for (content,) in contents]
    change(entries)
    statements, head = ["delete from entries"], ""
    for number, entry in enumerate(entries, 1):
        content = json.dumps(entry)
        head = hashlib.sha256(f"{head}\n{number}\n{content}".encode()).hexdigest()
        quoted = content.replace("'", "''")
        statements.append(f"insert into entries values ({number}, '{quoted}', '{head}')")
    edit(path, *statements)


def refused(ledger: Ledger, run: Run, words: str) -> None:
    """It can be neither read nor charged, and whoever tries is told the file and what is wrong."""
    for act in (ledger.datasets, lambda: ledger.head, lambda: charge(ledger)):
        with pytest.raises(dpsu.LedgerError) as caught:
            act()
        assert str(ledger.path) in str(caught.value)
        assert words in str(caught.value)
        assert "must lie between" not in str(caught.value)  # nobody called with it
    for more in (("--json",), ("--dataset", "visits", "--set-budget", "9,1e-5")):
        code, out, err = run("ledger", ledger.path, *more)
        assert (code in (1, 2), out) == (True, "")
        assert words in err
        assert "defect" not in err


def _put(at: int, **facts: Any) -> Callable[[list[dict[str, Any]]], object]:
    return lambda entries: entries[at].update(facts)


def _drop(at: int, name: str) -> Callable[[list[dict[str, Any]]], object]:
    return lambda entries: entries[at].pop(name)


@every(
    ("change", "words"),
    [
        (_put(1, epsilon=-1.0), "entry 2 gives for epsilon a number that is not between 0.0001"),
        (_put(0, epsilon=0), "entry 1 gives for epsilon a number that is not between"),
        (_put(1, delta=math.nan), "entry 2 is not JSON"),
        (_put(1, epsilon="1"), "entry 2 gives no number for epsilon"),
        (_put(1, epsilon=True), "entry 2 gives no number for epsilon"),
        (_put(1, epsilon=10**400), "entry 2 gives for epsilon a number that is not between"),
        (_put(1, shift_squared=-1.0), "entry 2 gives for shift_squared a number that is not"),
        (_put(1, shift_squared=0.0), "entry 2 gives 0 for shift_squared"),
        (_put(1, shift_squared=None), "entry 2 gives no number for shift_squared"),
        (_put(1, novel=2.0), "entry 2 gives for novel a number that is not between 0 and 1"),
        (_put(1, plan="{}"), "entry 2 has a plan that is none"),
        (_put(1, plan=json.loads(dpsu.plan(epsilon=2, delta=1e-6).to_json())), "another release"),
        (_put(1, epsilon=0.5), "entry 2 has the plan of another release"),
        (_put(1, mechanism="greedy"), "entry 2 has the plan of another release"),
        (_put(1, plan_hash="ab" * 32), "entry 2 has the plan of another release"),
        (_put(1, plan=None), "entry 2 has a plan that is none"),
        (_put(1, run=None), "entry 2 gives no name for its run"),
        *(
            (_put(1, unit=unit), "entry 2 does not say whom it protects")
            for unit in (
                None,
                "user",
                {"columns": ["user"]},
                {"columns": [], "ids_per_person": 1},
                {"columns": ["user"], "ids_per_person": 0},
                {"columns": "user", "ids_per_person": 1},
                {"columns": ["b", "a"], "ids_per_person": 1},
            )
        ),
        (_put(1, mechanism=""), "entry 2 gives no name for its mechanism"),
        (_put(1, mechanism="\x1b[2J"), "entry 2 gives no name for its mechanism"),
        (_put(1, dataset="else"), "entry 2 is about dataset 'else', which has no budget"),
        (_put(0, time="yesterday"), "entry 1 gives no time"),
        (_put(1, kind="refund"), "entry 2 is of kind 'refund', which there is not"),
        (_put(1, kind=None), "entry 2 does not say of which kind it is"),
        (_put(1, state="void"), "entry 2 has a field 'state'"),
        (_drop(1, "novel"), "entry 2 has no field 'novel'"),
        (_put(2, charge=1), "entry 3 says done of a release that is not open"),
        (_put(2, charge=True), "entry 3 does not say which release it closes"),
        (lambda e: e.append(e[2]), "entry 4 says done of a release that is not open"),
        (lambda e: e.append(e[2] | {"kind": "void", "reason": "Error"}), "entry 4 says void of"),
        (
            lambda e: e.__setitem__(slice(2, 3), [each | {"dataset": "other"} for each in e[::2]]),
            "entry 4 says done of a release that is not open",
        ),
        (lambda e: e.pop(0), "entry 1 is about dataset 'visits', which has no budget before it"),
        (lambda e: e.clear(), "its entries were removed"),
        (lambda e: e.__setitem__(1, 7), "entry 2 does not say of which kind it is"),
    ],
)
def test_what_no_release_wrote_is_refused(
    tmp_path: Path, run: Run, change: Callable[[list[dict[str, Any]]], object], words: str
) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    charge(ledger, **SURE)
    rewrite(ledger.path, lambda entries: None)
    assert len(ledger.account("visits").releases) == 1  # so far it fits
    rewrite(ledger.path, change)
    refused(ledger, run, words)


def test_an_entry_says_each_thing_once(ledger: Ledger) -> None:
    """People read the first of two numbers, and programs the last."""
    charge(ledger)
    book, entry = ledger.read(), content_of(BUDGET, "visits", epsilon=3.0, delta=1e-5)
    assert book.append(entry) == book.head
    with pytest.raises(dpsu.LedgerError, match="is not JSON"):
        book.append(entry.replace('"epsilon":3.0', '"epsilon":1.0,"epsilon":3.0'))


@every(
    ("statements", "words"), [
        (["delete from entries where number = 2"], "entry 2 is missing"),
        (["delete from entries where number = 1"], "entry 1 is missing"),
        (["delete from entries where number = 2", "update entries set number = 2 where number = 3",
          "update entries set number = 3 where number = 4"], "entry 2 says done of a release"),
        (["delete from entries where number = 3", "update entries set number = 3 where number = 4"],
         "entry 3 does not fit its hash"),
        (["update entries set content = replace(content, '1e-06', '1e-07') where number = 2"],
         "entry 2 does not fit its hash"),
        (["update entries set content = content || ' ' where number = 4"], "entry 4 does not fit"),
        (["update entries set hash = '' where number = 4"], "entry 4 does not fit its hash"),
        (["update entries set content = cast(content as blob)"], "entry 1 does not fit its hash"),
        (["update entries set content = 5 where number = 3"], "entry 3 does not say of which kind"),
        (["update entries set number = 9 where number = 3",
          "update entries set number = 3 where number = 4",
          "update entries set number = 4 where number = 9"], "entry 3 does not fit its hash"),
        (["insert into entries select 9, content, hash from entries where number = 1"],
         "entry 6 is missing"),
        (["insert into entries select 6, content, hash from entries where number = 1"],
         "entry 6 does not fit its hash"),
        (["insert or replace into entries select 4, content, hash from entries where number = 2"],
         "entry 4 does not fit its hash"),
    ],
)  # fmt: skip
def test_the_chain_shows_what_was_changed_removed_added_or_moved(
    tmp_path: Path, run: Run, statements: list[str], words: str
) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    charge(ledger)
    charge(ledger)  # entries: budget, charge, done, charge, done
    edit(ledger.path, *statements)
    refused(ledger, run, words)


def test_a_cheaper_entry_of_another_ledger_does_not_fit(
    ledger: Ledger, run: Run, tmp_path: Path
) -> None:
    """As a copy that was put together from two would have it: each entry fits where it was."""
    other = Ledger(tmp_path / "other.db")
    with other.dataset("visits", budget=(2, 1e-5)) as open_:
        open_.charge(dpsu.plan(epsilon=0.1, delta=1e-6), run=RUN)
    charge(ledger)
    edit(
        ledger.path,
        f"attach '{other.path}' as other",
        "delete from entries where number = 2",
        "insert into entries select * from other.entries where number = 2",
    )
    refused(ledger, run, "entry 2 does not fit its hash")


@every(
    ("statement", "words"),
    [
        ("drop table entries", "is damaged: 'entries'"),
        ("drop trigger entries_stay", "is damaged: 'entries_stay'"),
        ("alter table entries drop column hash", "'entries'"),
        ("alter table entries add column note text", "is damaged: 'entries'"),
        (
            "create trigger t after insert on entries begin delete from entries; end",
            "is damaged: 't'",
        ),
        ("create table notes (n int)", "is damaged: 'notes'"),
        ("pragma user_version = 4", "has format 4, and this dpsu knows 5; look up what is left"),
        ("pragma user_version = 6", "has format 6, and this dpsu knows 5"),
        ("pragma application_id = 1", "is not a ledger of dpsu"),
    ],
)
def test_tables_that_are_not_those_of_a_ledger(
    tmp_path: Path, run: Run, statement: str, words: str
) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    charge(ledger)
    execute(ledger.path, statement)
    refused(ledger, run, words)


def test_housekeeping_of_sqlite_does_no_harm(ledger: Ledger) -> None:
    charge(ledger)
    before = ledger.head
    execute(ledger.path, "analyze", "vacuum", "pragma journal_mode = wal")
    assert ledger.head == before
    charge(ledger)
    assert len(ledger.account("visits").releases) == 2


def test_missing_newest_entries_are_shown_by_a_head_kept_elsewhere(
    ledger: Ledger, run: Run
) -> None:
    charge(ledger)
    old = ledger.head
    assert len(old) == 64
    charge(ledger)
    kept = ledger.head
    code, out, _ = run("ledger", ledger.path)
    assert (code, f"head, of 5 entries: {kept}\n" in out) == (0, True)
    assert json.loads(run("ledger", ledger.path, "--json")[1])["head"] == kept
    assert "unchanged; 0 came since" in run("ledger", ledger.path, "--expect-head", kept)[1]
    assert "unchanged; 2 came since" in run("ledger", ledger.path, "--expect-head", old)[1]
    edit(ledger.path, "delete from entries where number > 3")
    assert len(ledger.account("visits").releases) == 1  # the file alone does not tell
    budget = ("--dataset", "visits", "--set-budget", "9,1e-5")
    for more in ((), ("--json",), budget):
        code, out, err = run("ledger", ledger.path, "--expect-head", kept, *more)
        assert (code, out) == (1, "")
        assert "never had the expected head" in err
    with pytest.raises(dpsu.LedgerError, match="never had the expected head"):
        ledger.read(expected_head=kept)
    assert ledger.head == old == ledger.read(expected_head=old).head


def test_every_fact_of_an_entry_is_in_the_chain(ledger: Ledger) -> None:
    """The recipe of the guide, from outside: previous hash, number and content, a line each."""
    charge(ledger, **SURE)
    rows = execute(ledger.path, "select number, content, hash from entries order by number")
    previous = ""
    for number, content, found in rows:
        previous = hashlib.sha256(f"{previous}\n{number}\n{content}".encode()).hexdigest()
        assert previous == found
    assert previous == ledger.head
    (entry,), plan = ledger.account("visits").releases, flat.plan(epsilon=1, delta=1e-6, **SURE)
    told = json.loads(rows[1][1])
    assert told.pop("plan") == json.loads(str(entry.plan))
    assert entry.cost.shift is not None
    assert told == {
        "kind": "charge", "dataset": "visits", "time": entry.started, "mechanism": entry.mechanism,
        "epsilon": 1.0, "delta": 1e-6, "shift_squared": entry.cost.shift.squared,
        "novel": entry.cost.shift.novel, "run": RUN, "plan_hash": entry.plan_hash,
        "unit": {"columns": ["user"], "ids_per_person": 1}, "name": None,
    }  # fmt: skip
    assert (entry.run, entry.plan_hash) == (RUN, plan.hash)
    assert dpsu.Plan.from_json(str(entry.plan)) == plan


# Void: what ended before it read anything.


class Unlucky(Exception):  # noqa: N818
    pass


def _fails(stage: str, number: int) -> None:
    raise Unlucky


def test_what_fails_before_the_first_row_is_void(ledger: Ledger, run: Run) -> None:
    touched: list[int] = []

    class Watched(dict[str, list[str]]):
        def items(self) -> Any:
            touched.append(1)
            return super().items()

    given: dict[str, Any] = {"ledger": ledger, "dataset": "visits", "budget": (3, 1e-5)}
    given |= {"epsilon": 3, "delta": 1e-6} | SURE
    with pytest.raises(Unlucky):
        flat.release(Watched(VISITS), progress=_fails, **given)
    assert not touched
    (entry,) = ledger.account("visits").releases
    assert (entry.state, entry.reason) == ("void", "Unlucky")
    assert ledger.account("visits").total.epsilon == 0
    assert entry.cost.privacy == Privacy(3.0, 1e-6)  # what it would have cost stays on record
    told = " ".join(run("ledger", ledger.path)[1].split())
    assert "void (Unlucky)" in told
    assert "1 void: it ended after the charge and before it began to read" in told
    assert "spent, sums: epsilon 0, delta 0; left: epsilon 3, delta 1e-05" in told
    # The budget is there for another one.
    assert len(flat.release(VISITS, **given)) == 2
    assert [e.state for e in ledger.account("visits").releases] == ["void", "done"]


def test_what_fails_after_the_first_row_is_not_void(ledger: Ledger) -> None:
    given: dict[str, Any] = {"ledger": ledger, "dataset": "visits", "budget": (9, 1e-5)}

    def later(stage: str, number: int) -> None:
        if number:
            raise Unlucky

    def unreadable() -> Any:
        yield "a", "b"
        raise Unlucky

    class Shut(dict[str, list[str]]):
        def items(self) -> Any:
            raise Unlucky

    trials: list[tuple[Any, dict[str, Any]]] = [
        (VISITS, {"progress": later}), (Shut(VISITS), {}), (unreadable(), {}),
        ([("a", "b"), ("a", 0.5)], {"strict": True}),
    ]  # fmt: skip
    for data, options in trials:
        with pytest.raises((Unlucky, dpsu.DataError)):
            flat.release(data, epsilon=1, delta=1e-6, **given, **options)
    with contextlib.suppress(ZeroDivisionError), ledger.dataset("visits") as open_:
        dpsu.release(VISITS, epsilon=1, delta=1e-6, ledger=open_)
        _ = 1 / 0
    assert [e.state for e in ledger.account("visits").releases] == ["pending"] * 5
    assert ledger.account("visits").total.epsilon == 5


def test_an_interrupt_before_the_first_row_is_void(ledger: Ledger) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    with ledger.dataset("visits", budget=(3, 1e-5)) as open_:
        open_.charge(plan, run=RUN)
        with pytest.raises(KeyboardInterrupt), open_.charged(plan, run=RUN):
            raise KeyboardInterrupt
    states = [(e.state, e.reason) for e in ledger.account("visits").releases]
    assert states == [("done", None), ("void", "KeyboardInterrupt")]


def test_a_ledger_that_is_gone_is_not_made_anew_by_a_mark(ledger: Ledger) -> None:
    open_ = ledger.dataset("visits", budget=(3, 1e-5))
    open_.charge(dpsu.plan(epsilon=1, delta=1e-6), run=RUN)
    ledger.path.unlink()
    with pytest.warns(dpsu.DataWarning, match="as done, and counts in full: there is no ledger"):
        open_.done()
    with pytest.raises(dpsu.LedgerError, match="there is no ledger"):
        ledger.set_budget("visits", (3, 1e-5))
    assert not ledger.path.exists()


def test_nothing_that_ended_can_end_again(ledger: Ledger) -> None:
    charge(ledger)
    (entry,) = ledger.account("visits").releases
    for kind, facts in (("void", {"reason": "Error"}), ("done", {})):
        with pytest.raises(dpsu.LedgerError, match="has no open release"):
            ledger._close(entry.number, kind, **facts)


def test_what_no_run_of_a_name_writes_is_refused(ledger: Ledger) -> None:
    """Also if something else than dpsu appends it."""
    plan, second = dpsu.plan(epsilon=1, delta=1e-6), "2" * 32
    open_ = ledger.dataset("visits", budget=(9, 1e-4))
    unnamed = open_.charge(plan, run=RUN)
    first = open_.charge(plan, run=RUN, name="monday")
    again = open_.charge(plan, run=second, name="monday")
    assert unnamed is not None
    assert first is not None
    assert again is not None
    assert (again.number, again.run, again.runs) == (first.number, second, 2)

    def refused(words: str, kind: str, **facts: Any) -> None:
        with (
            pytest.raises(dpsu.LedgerError, match=words),
            ledger._transaction(write=True) as (connection, book),
        ):
            append(connection, book, content_of(kind, "visits", **facts))

    refused("void of a release that ran more", "void", charge=first.number, reason="Error")
    refused("publishes another run than", "publishing", charge=first.number, run=RUN)
    refused("publishes another run than", "publishing", charge=unnamed.number, run=RUN)
    refused("resumes a release that has no name", "resumed", charge=unnamed.number, run=second)
    (_, entry) = ledger.account("visits").releases
    facts = facts_of(entry.cost, RUN, plan, None, "monday")
    refused("charges a name that was charged before", "charge", **facts)
    ledger.publishing(first.number, second)
    refused("resumed of a release that is not open", "resumed", charge=first.number, run=RUN)
    refused("void of a release that is not open", "void", charge=first.number, reason="Error")
    assert [each.state for each in ledger.account("visits").releases] == ["pending", "publishing"]


# What the accounts take for granted is said wherever they are shown.


def test_the_promise_of_the_gaussian_account_is_printed(ledger: Ledger, run: Run) -> None:
    charge(ledger)
    promise = (
        "epsilon, delta and mechanism of a release were chosen by what earlier releases showed"
    )
    for told in (str(ledger.account("visits")), run("ledger", ledger.path)[1]):
        plain = " ".join(told.split())
        assert promise in plain
        assert "count three times the delta of the budget" in plain
    (facts,) = json.loads(run("ledger", ledger.path, "--json")[1])["datasets"]
    assert any(promise in told for told in facts["promises"])
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    release = dpsu.release(VISITS, epsilon=1, delta=1e-6)
    for told in (str(plan), release.report(), release.report_json()):
        assert "if a ledger counts Gaussian releases as one: epsilon, delta and mechanism" in told


# The shell.


def test_the_shell_charges_shows_and_refuses(run: Run, tmp_path: Path) -> None:
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
    assert (code, stdout, out.exists()) == (3, "", False)
    assert "Nothing was read or charged" in err
    code, stdout, _ = run("ledger", book)
    assert code == 0
    assert "policy-laplace" in stdout
    assert "spent, sums: epsilon 2, delta 1e-06; left: epsilon 1, delta 9e-06" in stdout
    assert "pending" not in stdout
    code, stdout, _ = run("ledger", book, "--dataset", "visits", "--json")
    (facts,) = json.loads(stdout)["datasets"]
    assert facts["budget"] == {"epsilon": 3.0, "delta": 1e-05}
    assert [r["state"] for r in facts["releases"]] == ["done"]
    assert dpsu.Plan.from_json(json.dumps(facts["releases"][0]["plan"])).name == "policy-laplace"
    code, stdout, _ = run("ledger", book, "--dataset", "visits", "--set-budget", "5,1e-5")
    assert "budget: epsilon 5" in stdout
    (tmp_path / "mixed.jsonl").write_text('{"user": 1, "item": 1}\n{"user": 0.5, "item": 1}\n')
    assert run("release", tmp_path / "mixed.jsonl", "--strict", *spend, *named[:2])[0] == 2
    told = " ".join(run("ledger", book)[1].split())
    assert "1 done: the result is where it was asked for" in told
    assert "1 pending: charged, and not known to have ended: it is running, failed or" in told
    assert "void" not in told
    assert run("ledger", book, "--dataset", "vists")[0] == 2
    assert run("ledger", book, "--set-budget", "5,1e-5")[0] == 2
    assert run("ledger", tmp_path / "nowhere.db")[0] == 2


# Many at once, and kills.


def _charge_some(path: Path, times: int, allowed: Any) -> None:
    for _ in range(times):
        try:
            with Ledger(path).dataset("visits", budget=(1.0, 1e-5)) as open_:
                open_.charge(dpsu.plan(epsilon=0.1, delta=1e-7, mechanism="greedy"), run=RUN)
            with allowed.get_lock():
                allowed.value += 1
        except dpsu.BudgetError:
            pass


@pytest.mark.slow
def test_processes_charge_one_after_the_other(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    allowed = spawn.Value("i", 0)
    path = tmp_path / "ledger.db"
    workers = [spawn.Process(target=_charge_some, args=(path, 5, allowed)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
        assert worker.exitcode == 0
    assert allowed.value == 10
    assert len(Ledger(path).account("visits").releases) == 10


@pytest.mark.slow
def test_no_kill_loses_a_charge(tmp_path: Path) -> None:
    """Kills at every statement of the protocol, and at random instants."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kill_harness", str(tmp_path), "7", "180"],
        capture_output=True, check=False, text=True, cwd=ROOT, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    killed, charged, visible = map(int, done.stdout.split())
    assert killed >= 180
    assert charged > visible >= 2  # two at least were left alone


def test_a_charge_is_synced_with_the_removal_of_its_journal(ledger: Ledger) -> None:
    """Otherwise a loss of power right behind it could take it back, when rows were read."""
    charge(ledger)
    with ledger._transaction(write=True) as (connection, _):
        assert connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)


def test_a_locked_ledger_is_waited_for_and_then_told(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    charge(ledger)
    monkeypatch.setattr("dpsu.ledger.ledger.SECONDS_TO_WAIT", 0.2)
    connection = sqlite3.connect(ledger.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(dpsu.LedgerError, match=r"kept it locked for 0\.2 seconds"):
        charge(ledger)
    assert len(ledger.account("visits").releases) == 1  # reading goes on
    connection.execute("ROLLBACK")
    connection.close()
    charge(ledger)


@pytest.mark.thorough
def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = ROOT / "docs" / "guides" / "ledger.md"
    rows = "".join(f"p{u},{i}\n" for u in range(300) for i in ("bread", "milk"))
    (tmp_path / "visits.csv").write_text(f"user,item\n{rows}")
    script, several, once, elsewhere, check = blocks(guide, "sh")

    shell(several, tmp_path)
    one = dpsu.Plan.read(tmp_path / "one-of-four.json")
    assert f"epsilon {one.privacy.epsilon:g}\nand delta 1.75e-6" in guide.read_text()
    assert one.privacy.delta == 1.75e-6
    told = shell(script, tmp_path)
    (shown,) = blocks(guide, "text")
    # All of it but the times.
    for line in shown.splitlines()[-5:]:
        assert line in told
    (head,) = re.findall("[0-9a-f]{64}", told)
    assert "unchanged; 0 came since" in shell(re.sub("[0-9a-f]{64}", head, check), tmp_path)
    shell(once, tmp_path)
    shell(once, tmp_path)
    assert len(Ledger(tmp_path / "ledger.db").account("visits").releases) == 3
    assert (tmp_path / "week-10.txt").read_text() == "bread\nmilk\n"
    assert "elsewhere" in shell(elsewhere, tmp_path)
    (tmp_path / "ledger.db").unlink()
    monkeypatch.chdir(tmp_path)
    python(blocks(guide, "python"), guide.name)
    assert (tmp_path / "items.txt").exists()
    assert [e.state for e in Ledger("ledger.db").account("visits").releases] == ["done"] * 2


def test_doors_charge_before_they_read_and_never_void_what_they_read(ledger: Ledger) -> None:
    class Shut(dict[str, Any]):
        def items(self) -> Any:
            states.append([each.state for each in ledger.account("visits").releases])
            raise Unlucky

    states: list[list[str]] = []
    given: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "ledger": ledger, "dataset": "visits"}
    doors: list[Callable[[], object]] = [
        lambda: flat.release(Shut(VISITS), budget=(9, 1e-5), **given),
        lambda: flat.select(Shut(VISITS), [{}], **given),
        lambda: flat.ngrams(Shut(VISITS), text="post", **given),
    ]
    for number, door in enumerate(doors, 1):
        with pytest.raises(Unlucky):
            door()
        assert states[-1] == ["pending"] * number
    assert [each.state for each in ledger.account("visits").releases] == ["pending"] * 3


def test_names_of_datasets_are_one_in_both_forms_of_unicode(ledger: Ledger) -> None:
    for name in ("cafe\u0301", "caf\u00e9"):
        with ledger.dataset(name, budget=(3, 1e-5)) as open_:
            open_.charge(dpsu.plan(epsilon=1, delta=1e-6), run=RUN)
    assert ledger.datasets() == ["caf\u00e9"]
    assert ledger.account("cafe\u0301").total.epsilon == 2
