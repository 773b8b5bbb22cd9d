"""What a scheduler sees: an exit code for each failure, and the same number on the error."""

from __future__ import annotations

import errno
import inspect
import json
import logging
import os
import pickle
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.errors import FAILED, INPUT, REFUSED, TRY_AGAIN, exit_code_of
from dpsu.ledger import ledger as ledgers
from dpsu.runtime.writing import claim
from tests.support import servers
from tests.unit.cli.test_cli import Run, run  # noqa: F401
from tests.unit.inputs.test_sql import execute

CODES: dict[type[dpsu.DpsuError], int] = {
    dpsu.DpsuError: FAILED,
    dpsu.ParameterError: INPUT,
    dpsu.DataError: INPUT,
    dpsu.MissingLibraryError: INPUT,
    dpsu.BudgetError: REFUSED,
    dpsu.LedgerError: FAILED,
    dpsu.OutputError: FAILED,
    dpsu.ResourceError: TRY_AGAIN,
    dpsu.JobLostError: TRY_AGAIN,
}
SURE = ("--epsilon", "2", "--delta", "1e-6", "--mechanism", "weighted-gaussian")
GIVEN: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "mechanism": "weighted-gaussian"}


def test_every_error_has_its_code() -> None:
    assert (1, 2, 3, getattr(os, "EX_TEMPFAIL", 75)) == (FAILED, INPUT, REFUSED, TRY_AGAIN)
    public = [getattr(dpsu, name) for name in dpsu.__all__]
    errors = {each for each in public if inspect.isclass(each) and issubclass(each, BaseException)}
    assert errors - {dpsu.DataWarning} == set(CODES)
    for kind, code in CODES.items():
        assert kind.exit_code == kind("what is wrong").exit_code == code, kind
        # One error may differ from its class.
        assert kind("what is wrong", exit_code=9).exit_code == 9
    # Workers send errors home; these two are made in ways of their own.
    for other in (
        dpsu.ParameterError("{delta} is wrong", exit_code=9, delta=...),
        dpsu.LedgerError("delta is wrong", exit_code=9),
    ):
        same = pickle.loads(pickle.dumps(other))
        assert (same.exit_code, str(same), type(same)) == (9, "delta is wrong", type(other))


def test_errors_of_others_mean_what_their_numbers_say(tmp_path: Path) -> None:
    for number, code in (
        (errno.ENOSPC, 75), (errno.EDQUOT, 75), (errno.ENOMEM, 75), (errno.ENOENT, 2),
        (errno.EACCES, 2), (errno.EROFS, 2), (errno.EIO, 1), (errno.EFBIG, 1), (None, 1),
    ):  # fmt: skip
        assert exit_code_of(OSError(number, "words")) == code, number
    for error in (MemoryError(), dpsu.BudgetError("spent")):
        assert exit_code_of(error) == (75 if isinstance(error, MemoryError) else 3)
    assert exit_code_of(ValueError("no space left on device")) == 1
    small, locked = tmp_path / "small.db", tmp_path / "locked.db"
    sqlite3.connect(locked, isolation_level=None).execute("create table t (x)")
    holding = sqlite3.connect(locked, isolation_level=None)
    holding.execute("begin immediate")
    full = "pragma max_page_count = 2; create table a (x); create table b (x)"
    (tmp_path / "no.db").write_text("this is a text" * 100)
    for file, script, code in (
        (small, full, 75),
        (locked, "begin immediate", 75),
        (tmp_path / "no" / "folder.db", "select 1", 2),
        (tmp_path / "no.db", "select * from sqlite_master", 2),
        (small, "select from", 1),
    ):
        with pytest.raises(sqlite3.Error) as caught:
            sqlite3.connect(file, timeout=0, isolation_level=None).executescript(script)
        assert exit_code_of(caught.value) == code, script
    holding.close()


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table in the folder that is current, a ledger that is spent, and an approved plan."""
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "rows.csv"
    file.write_text("user,item\n" + "".join(f"u{u},a\nu{u},b\n" for u in range(200)))
    return file


@pytest.mark.usefixtures("rows")
def test_failures_in_the_shell_end_with_their_code(run: Run) -> None:  # noqa: F811
    """What each names to people is tested elsewhere; a scheduler sees the number alone."""
    spend = ("--ledger", "ledger.db", "--dataset", "visits")
    for each in ({"epsilon": 1.0}, {"epsilon": 3.0}):
        plan = dpsu.plan(**{**GIVEN, **each})
        Path(f"plan-{each['epsilon']:g}.json").write_text(f"{plan.to_json()}\n")
    edited = json.loads(Path("plan-1.json").read_text())
    edited["privacy"]["epsilon"] = 8.0
    Path("edited.json").write_text(json.dumps(edited))
    Path("no.json").write_text("no JSON")
    Path("a.txt").write_text("a\n")
    Path("not.parquet").write_text("text")
    Path("damaged.db").write_bytes(b"")
    nothing = dpsu.Ledger("damaged.db").dataset("visits", budget=(9, 1e-4))
    dpsu.release("rows.csv", **GIVEN, ledger=nothing)
    with sqlite3.connect("damaged.db") as connection:
        connection.executescript("drop trigger entries_stay; delete from entries")
    cases: tuple[tuple[tuple[object, ...], int], ...] = (
        (("release", "rows.csv", *SURE, *spend, "--budget", "5,1e-5", "--once", "one"), 0),
        # The same name again, and then by another plan.
        (("release", "rows.csv", *SURE, *spend, "--once", "one"), 0),
        (("release", "rows.csv", "--plan", "plan-3.json", *spend, "--once", "one"), 3),
        (("release", "rows.csv", "--plan", "plan-1.json", "--output", "items.txt"), 0),
        # Usage and data.
        (("release", "rows.csv", *SURE, "--no-such-option"), 2),
        (("release", "rows.csv", "--epsilon", "much", "--delta", "1e-6"), 2),
        (("release", "rows.csv", "--epsilon", "-1", "--delta", "1e-6"), 2),
        (("release", "nowhere.csv", *SURE), 2),
        (("release", "not.parquet", *SURE), 2),
        (("release", "rows.csv", *SURE, "--item", "thing"), 2),
        (("release", "rows.csv", *SURE, "--output", "no/folder.txt"), 2),
        (("release", "rows.csv", "--plan", "no.json"), 2),
        (("release", "rows.csv", "--plan", "nowhere.json"), 2),
        (("release", "rows.csv", *SURE, "--ledger", "no/ledger.db", "--dataset", "visits",
          "--budget", "1,1e-5"), 2),
        (("ledger", "nowhere.db"), 2),
        (("ledger", "rows.csv"), 2),
        # Refused.
        (("release", "rows.csv", "--epsilon", "4", "--delta", "1e-6", *spend), 3),
        (("release", "rows.csv", "--plan", "edited.json"), 3),
        (("release", "rows.csv", "--plan", "plan-1.json", "--public-items", "a.txt"), 3),
        (("ledger", "ledger.db", "--dataset", "visits", "--add", "more", "--cost", "9,0"), 3),
        # Failed, and verdicts.
        (("ledger", "damaged.db"), 1),
        (("plan", "--epsilon", "0.01", "--delta", "1e-9", "--users", "10", "--items-per-user", "2"),
         1),
    )  # fmt: skip
    for typed, code in cases:
        ended, _, said = run(*typed)
        assert ended == code, (typed, said)
        assert "defect" not in said, typed


def test_what_may_pass_says_try_again(
    rows: Path,
    run: Run,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ledgers, "SECONDS_TO_WAIT", 0.0)
    folder = rows.parent
    visits = dpsu.Ledger("ledger.db").dataset("visits", budget=(9, 1e-4), once="one")
    dpsu.release(rows, **GIVEN, ledger=visits)
    (items,) = (folder / "ledger.db.once").glob("one-*-items.parquet")
    name = items.name.replace("one-", "two-").replace("items.parquet", "running.json")
    running = claim(items.with_name(name), "{}")
    spend = ("--ledger", "ledger.db", "--dataset", "visits")
    assert run("release", rows, *SURE, *spend, "--once", "two")[0] == 75
    running.close()
    with sqlite3.connect("ledger.db", isolation_level=None) as somebody:
        somebody.execute("begin immediate")
        assert run("release", rows, *SURE, *spend)[0] == 75
        with pytest.raises(dpsu.LedgerError) as locked:
            dpsu.release(rows, **GIVEN, ledger=dpsu.Ledger("ledger.db").dataset("visits"))
    assert locked.value.exit_code == 75
    # Standard output on a disk that is full.
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "dpsu", "release", str(rows), *SURE],
            stdout=full, stderr=subprocess.PIPE, check=False, timeout=300,
        )  # fmt: skip
    assert done.returncode == 75
    assert b"No space left" in done.stderr


def test_a_connection_that_is_lost_says_try_again(run: Run) -> None:  # noqa: F811
    """Of the same query that fails for a value, the code says that a person must mend it."""
    with servers.postgres() as uri:
        if uri is None:
            pytest.skip(servers.MISSING)
        execute(uri, "create table t as select i as user, 'x' as item from generate_series(1, 9) i")
        typed = ("--epsilon", "1", "--delta", "1e-6", "--source", uri, "--query")
        # A session that ends itself while its rows are read; the server stays.
        ending = "select pg_terminate_backend(pg_backend_pid())::text as user, item from t"
        for query, code in (
            (ending, 75),
            ("select (item || item)::int as user, item from t", 2),
            ("select * from nothing", 2),
        ):
            ended, _, said = run("release", *typed, query)
            assert ended == code, (query, said)
    assert run("release", *typed, "select * from t")[0] == 75


def test_runs_are_logged_without_numbers_of_the_data(
    rows: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dpsu")
    told: list[tuple[str, int]] = []
    visits = dpsu.Ledger("ledger.db").dataset("visits", budget=(9, 1e-4))
    released = dpsu.release(rows, **GIVEN, ledger=visits, progress=lambda *each: told.append(each))
    ours = [each for each in caplog.records if each.name == "dpsu"]
    assert {each.levelname for each in ours} == {"INFO"}
    said = [each.getMessage() for each in ours]
    stages = list(dict.fromkeys(stage for stage, _ in told))
    run_id = released.run.id
    assert [line for line in said if line in stages] == stages
    assert said[0] == f"run {run_id}: charged to 'visits' by entry 2: {released.plan!r}"
    assert said[-1] == f"run {run_id}: released 2 items"
    # How many rows or users there are is in none of them, and callbacks are told as before.
    assert ("reading", 400) in told
    assert len(said) == len(stages) + 2
