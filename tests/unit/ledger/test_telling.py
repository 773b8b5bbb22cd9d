"""What a ledger tells: in the shell, as JSON, in a notebook, and when it refuses."""

# ruff: noqa: F811
from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import dpsu
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401

RUNS = ("5e" * 16, "6f" * 16)


@pytest.fixture
def ledger(tmp_path: Path) -> dpsu.Ledger:
    """A ledger with two releases of one dataset."""
    made = dpsu.Ledger(tmp_path / "ledger.db")
    with made.dataset("visits", budget=(3, 1e-5)) as spending:
        for each, mechanism in zip(RUNS, ("greedy", "sieve"), strict=True):
            spending.charge(dpsu.plan(epsilon=1, delta=1e-6, mechanism=mechanism), run=each)
    return made


def facts(ledger: dpsu.Ledger, run: Run) -> Any:
    code, out, _ = run("ledger", ledger.path, "--json")
    assert code == 0
    (told,) = json.loads(out)["datasets"]
    return told


def test_json_has_no_infinity(tmp_path: Path, run: Run) -> None:
    made = dpsu.Ledger(tmp_path / "ledger.db")
    with made.dataset("visits", budget=(3, 1e-6)) as spending:
        spending.charge(dpsu.plan(epsilon=1, delta=1e-6, mechanism="greedy"), run=RUNS[0])
    made.set_budget("visits", (3, 1e-9))
    assert made.account("visits").spent.gaussian.epsilon == float("inf")
    assert facts(made, run)["spent"]["gaussian"]["epsilon"] is None


def test_json_tells_what_python_tells(ledger: dpsu.Ledger, run: Run) -> None:
    account, all_told = ledger.account("visits"), facts(ledger, run)
    for name in ("spent", "left"):
        balance = getattr(account, name)
        assert all_told[name] == {"sums": vars(balance.sums), "gaussian": vars(balance.gaussian)}
    assert all_told["spent"]["sums"]["epsilon"] == 2
    told, kept = all_told["releases"], account.releases
    assert [each["run"] for each in told] == list(RUNS)
    assert [each["plan_hash"] for each in told] == [each.plan_hash for each in kept]
    assert all(each["plan_hash"] == each["plan"]["hash"] for each in told)
    _, out, _ = run("ledger", ledger.path)
    assert all(each[:8] in out for each in RUNS)


@every("more", [[], ["--json"]])
def test_a_reader_who_stops_early_is_no_error(ledger: dpsu.Ledger, more: list[str]) -> None:
    command = [sys.executable, "-m", "dpsu", "ledger", str(ledger.path), *more]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        # Nobody reads any more before the first byte is written.
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
