"""What hands keys to other libraries, without any of these libraries."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tools.peers import asking, environments, made_up, runner, scoring, tables
from tools.peers.environments import LIBRARIES
from tools.peers.spark_versions import VERSIONS

NAMES = [library.name for library in LIBRARIES]
FOLDER = Path(tables.__file__).resolve().parent


def test_made_up_purchases_keep_their_bounds(tmp_path: Path) -> None:
    rows = made_up.purchases(people=2000, products=100)
    assert len({(person, product) for person, product, _ in rows}) == len(rows)
    assert {person for person, _, _ in rows} == set(range(2000))
    assert all(1 <= amount <= made_up.LARGEST_AMOUNT == asking.MAX_AMOUNT for *_, amount in rows)
    assert 3 < len(rows) / 2000 < made_up.MEAN_BASKET
    single = made_up.purchases(1.0, people=2000, products=100)
    assert [person for person, *_ in single] == list(range(2000))
    made_up.write(rows, tmp_path / "purchases.parquet")
    assert asking.read_rows(str(tmp_path / "purchases.parquet")) == rows
    assert asking.count_keys(str(tmp_path / "purchases.parquet")) == len(rows)


def test_scores_are_of_the_largest_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "COMMON", 2)
    told = scoring.score({"a": 10, "b": 20, "c": 30}, {"a": 1000, "b": 19})
    assert (told["groups"], told["mean"]) == (2, (1 + 30) / 2)
    assert told["off"] == (990 + 1 + 30) / 60
    rows = [(1, "a", 5), (1, "b", 7), (2, "a", 3), (2, "c", 3), (2, "b", 3)]
    assert scoring.largest_purchases(rows) == [(1, "b", 7), (2, "c", 3)]
    assert scoring.true_sums(rows) == {"a": 8, "b": 10, "c": 3}


def test_keys_and_sums_cost_the_budget_together() -> None:
    for library in LIBRARIES:
        for share in runner.SHARES:
            keys, sums = runner.prices(library, share)
            assert (keys[0] + sums[0], keys[1] + sums[1]) == runner.BUDGET, (share, library)
            assert (sums[1] > 0) == library.needs_delta, (share, library)
            # The command line gets all digits.
            assert tuple(map(float, runner.spelled(keys).split(","))) == keys, (share, library)


class Recorded(runner.Run):
    """A run whose commands are kept, and not run."""

    def __init__(self, folder: Path) -> None:
        self.commands: list[list[str]] = []
        super().__init__(folder, runner.Purchases("few", 2.0, 3), 2, sys.executable)

    def _out(self, command: Any, **variables: str) -> str:
        self.commands.append(list(command))
        if "release" in self.commands[-1]:
            place = self.commands[-1].index("--output") + 1
            keys = Path(self.commands[-1][place])
            keys.touch()
            keys.with_suffix(".db").touch()
        line = json.dumps({"version": "1.0", "groups": 7, "keys": 7, "mean": 1.0})
        return f"{line}\n{line}\n"


def test_sums_are_charged_before_they_are_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "python_of", lambda *_: "python")
    run = Recorded(tmp_path)
    told = run.given(LIBRARIES[0], 0.25)
    assert told["cost_of_keys"] == (0.5, 1e-6)
    assert told["cost_of_sums"] == (1.5, 0.0)
    assert (told["version"], told["groups"]) == ("1.0", 7)
    release, charge = r"dpsu release .*--budget 2,1e-06", r"dpsu ledger .*--cost 1.5,0$"
    compute = r"tools\.peers\.libraries\.opendp.*--cost 1.5,0 --max-rows 3$"
    wanted = (release, release, charge, charge, compute)
    for pattern, command in zip(wanted, run.commands, strict=True):
        assert re.search(pattern, " ".join(command))
    # Keys at one price are released once for all libraries, and nobody pays twice.
    run.given(LIBRARIES[1], 0.25)
    assert not any("release" in command for command in run.commands[5:])
    run.clean()
    assert not run.work.exists()


def test_requirements_are_pinned() -> None:
    for one in [e for e in (*LIBRARIES, *VERSIONS) if not e.here]:
        text = (environments.REQUIREMENTS / f"{one.name}.txt").read_text("utf-8")
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in text.splitlines()), one


def test_a_library_is_imported_only_when_it_is_asked() -> None:
    """Every other environment lacks it, and so does that of the tests."""
    for library in LIBRARIES:
        module = importlib.import_module(f"tools.peers.libraries.{library.name}")
        assert callable(module.given), library
        assert hasattr(module, "own") == library.selects, library


def test_every_library_has_a_result() -> None:
    """What is committed is of the data and the budget that the code has today."""
    found = json.loads(runner.RESULTS.read_text("utf-8"))
    assert found["setting"] == runner.setting(runner.REPEATS)
    assert list(found["libraries"]) == NAMES
    for entry in found["libraries"].values():
        assert "failed" in entry or entry["given"]["groups"] > 0
    lines = tables.last_run(found).splitlines()
    assert len(lines) == 2 + len(LIBRARIES)
    for made in tables.measured(found).values():
        widths = {line.count("|") for line in made.splitlines() if line.startswith("|")}
        assert len(widths) == 1
    for version in VERSIONS:
        assert all(found["versions"][version.name]["equal"].values())
        assert len(found["versions"][version.name]["equal"]) == 5
