"""What hands keys to other libraries, without any of these libraries."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

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
