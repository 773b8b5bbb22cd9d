"""What other software spends on the same people."""

# ruff: noqa: F811
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dpsu
from dpsu.ledger.ledger import Ledger
from dpsu.privacy.guarantee import SMALLEST_DELTA
from tests.support import flat
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401

VISITS = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(500)}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger.db")


def test_keys_and_sums_share_one_budget(ledger: Ledger) -> None:
    budget = (2.0, 1e-5)
    ledger.add("visits", "OpenDP: sums per key", (1.25, 0), budget=budget)
    flat.release(
        VISITS, epsilon=0.5, delta=1e-6, mechanism="sieve", ledger=ledger, dataset="visits"
    )
    account = ledger.account("visits")
    assert [each.state for each in account.releases] == ["done", "done"]
    assert [each.elsewhere for each in account.releases] == [True, False]
    assert account.releases[0].plan is None
    assert account.spent.sums.epsilon == 1.75
    assert account.spent.sums.delta == pytest.approx(1e-6)
    with pytest.raises(dpsu.BudgetError, match=r"costs \(0\.5") as refused:
        ledger.add("visits", "more sums", (0.5, 1e-6))
    assert "sieve" not in str(refused.value)  # the price of other software has no mechanism
    with pytest.raises(dpsu.BudgetError):
        flat.release(VISITS, epsilon=1.5, delta=1e-6, ledger=ledger, dataset="visits")
    assert ledger.account("visits") == account


@every("cost", [(1.0, 1e-7), (0.25, 1e-12), (2.0, 0.4), (1, 0)])
def test_it_is_charged_as_it_was_stated(tmp_path: Path, cost: tuple[float, float]) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    ledger.add("visits", "sums", cost, budget=(3, 0.5))
    account = ledger.account("visits")
    (entry,) = account.releases
    assert entry.cost.privacy == dpsu.Privacy(cost[0], cost[1] or SMALLEST_DELTA)
    assert entry.cost.shift is None
    assert account.spent.gaussian.epsilon >= cost[0]
    assert account.spent.gaussian.delta >= cost[1]
    assert entry.mechanism == "elsewhere: sums"


@every(
    ("what", "cost"), [
        ("", (1, 0)), ("a\nb", (1, 0)), ("x" * 101, (1, 0)), (7, (1, 0)), ("sums", (0, 1e-6)),
        ("sums", (-1, 1e-6)), ("sums", (float("nan"), 1e-6)), ("sums", (1, 0.7)),
        ("sums", (1, -1e-9)), ("sums", 1), ("sums", (1,)), ("sums", (1, 0, 0)), ("sums", ("1", 0)),
        ("sums", (1, False)), ("sums", (1, np.array([0]))),
    ],
)  # fmt: skip
def test_what_is_no_price_is_refused(tmp_path: Path, what: Any, cost: Any) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(dpsu.ParameterError, match=r"add|cost"):
        ledger.add("visits", what, cost, budget=(2, 1e-5))
    assert not ledger.path.exists()


def test_the_command_line_adds_and_shows(run: Run, tmp_path: Path) -> None:
    file = str(tmp_path / "ledger.db")
    added = ["--dataset", "visits", "--add", "OpenDP: sums", "--cost", "0.5,0"]
    code, out, err = run("ledger", file, *added, "--budget", "2,1e-5")
    assert code == 0, err
    assert "OpenDP: sums" in out
    told = json.loads(run("ledger", file, *added, "--json")[1])
    assert told["datasets"][0]["spent"]["sums"]["epsilon"] == 1.0
    for wrong in (added[:4], added[2:], ["--cost", "1,0"], ["--budget", "1,1e-5"]):
        assert run("ledger", file, *wrong)[0] == 2, wrong
    code, out, err = run("ledger", file, "--dataset", "visits", "--add", "more", "--cost", "3,0")
    assert code == 3
    assert "Nothing was read or charged" in err
