"""What hands keys to other libraries, without any of these libraries."""

from __future__ import annotations

import ast
import hashlib
import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools.peers import asking, environments, made_up, runner, scoring, tables
from tools.peers.environments import LIBRARIES

NAMES = [library.name for library in LIBRARIES]
FOLDER = Path(tables.__file__).resolve().parent
PRODUCTS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 1000), min_size=1)
FOUND = st.dictionaries(st.sampled_from("abcdefghij"), st.integers(-1000, 1000))


def test_made_up_purchases_are_the_same_everywhere() -> None:
    rows = made_up.purchases(people=300, products=50)
    told = hashlib.sha256(repr(rows).encode()).hexdigest()
    assert told == "ede5e65f170e6e61f7ee14989dabfde68b7d8eb5b33eb14b197c17fd21c75084"
    assert rows != made_up.purchases(people=300, products=50, seed=1)


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


@given(true=PRODUCTS, found=FOUND)
def test_scores_are_what_they_say(true: dict[str, int], found: dict[str, int]) -> None:
    """Against a transcription that walks over all names, one by one."""
    told = scoring.score(true, found)
    names = sorted(set(true) | set(found))
    off = sum(abs(true.get(name, 0) - found.get(name, 0)) for name in names)
    total = sum(true[name] for name in true)
    assert told["groups"] == len(found)
    assert told["off"] == pytest.approx(off / total)
    assert told["covered"] == pytest.approx(
        sum(true[name] for name in true if name in found) / total
    )
    errors = sorted(abs(true[name] - found.get(name, 0)) for name in true)
    assert told["mean"] == pytest.approx(sum(errors) / len(errors))
    half, odd = divmod(len(errors), 2)
    assert told["median"] == (errors[half] if odd else (errors[half - 1] + errors[half]) / 2)


def test_mean_errors_are_over_the_largest_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scoring, "COMMON", 2)
    told = scoring.score({"a": 10, "b": 20, "c": 30}, {"a": 1000, "b": 19})
    assert told["mean"] == (1 + 30) / 2
    assert told["off"] == (990 + 1 + 30) / 60


def test_the_largest_purchase_is_one_row_for_each_person() -> None:
    rows = [(1, "a", 5), (1, "b", 7), (2, "a", 3), (2, "c", 3), (2, "b", 3)]
    assert scoring.largest_purchases(rows) == [(1, "b", 7), (2, "c", 3)]
    assert scoring.true_sums(rows) == {"a": 8, "b": 10, "c": 3}


def test_means_leave_out_what_is_no_number() -> None:
    answers = [{"version": "1", "keys": None, "mean": 1}, {"version": "1", "keys": None, "mean": 4}]
    assert scoring.mean_of(answers) == {"mean": 2.5}


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
    kinds = [" ".join(command) for command in run.commands]
    assert [bool(re.search(r"dpsu release .*--budget 2,1e-06", each)) for each in kinds[:2]] == [
        True
    ] * 2
    assert [bool(re.search(r"dpsu ledger .*--cost 1.5,0$", each)) for each in kinds[2:4]] == [
        True
    ] * 2
    assert "tools.peers.libraries.opendp" in kinds[4]
    assert kinds[4].endswith("--cost 1.5,0 --max-rows 3")
    assert len(kinds) == 5
    # Keys at one price are released once for all libraries, and nobody pays twice.
    run.given(LIBRARIES[1], 0.25)
    assert not any("release" in command for command in run.commands[5:])
    run.clean()
    assert not run.work.exists()


def test_a_library_that_cannot_be_installed_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(command: list[str]) -> None:
        raise environments.NotInstalledError("ERROR: no matching distribution")

    monkeypatch.setattr(environments, "_run", refuse)
    run = Recorded(tmp_path)
    entry = runner.tried(LIBRARIES[0], run, run)
    assert entry["failed"] == "not installed: ERROR: no matching distribution"
    assert set(entry) == {"date", "failed"}
    found = {"libraries": {LIBRARIES[0].name: entry}}
    first = tables.last_run(found).splitlines()[2]
    assert first == f"| OpenDP | | {entry['date']} | | {entry['failed']} |"
    assert "| never |" in tables.last_run(found)
    assert "OpenDP" not in tables.benchmark(found)


def test_an_environment_that_is_up_to_date_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(environments, "_run", ran.append)
    (tmp_path / "opendp").mkdir()
    for _ in range(2):
        python = environments.python_of(LIBRARIES[0], tmp_path)
    assert python == str(tmp_path / "opendp" / "bin" / "python")
    assert [command[2] for command in ran] == ["venv", "pip"]
    (tmp_path / "opendp" / "installed.txt").write_text("opendp==0.1")
    environments.python_of(LIBRARIES[0], tmp_path)
    assert len(ran) == 4
    assert environments.python_of(LIBRARIES[-1], tmp_path) == sys.executable


def test_reasons_name_no_addresses_and_no_folders() -> None:
    errors = "Looking in indexes: https://a.example/simple\nERROR: no wheel at https://a.example/x in /home/me/x\n\n"
    assert environments.last_line(errors) == "ERROR: no wheel at ... in ..."
    assert environments.last_line("  \n") == "no reason was given"
    assert environments.last_line("numpy 1.26/2.0 clash") == "numpy 1.26/2.0 clash"


def test_a_library_is_imported_only_when_it_is_asked() -> None:
    """Every other environment lacks it, and so does that of the tests."""
    for name in NAMES:
        module = importlib.import_module(f"tools.peers.libraries.{name}")
        assert callable(module.given), name
        tree = ast.parse((FOLDER / "libraries" / f"{name}.py").read_text("utf-8"))
        above = {node.module for node in tree.body if isinstance(node, ast.ImportFrom)}
        above |= {
            each.name for node in tree.body if isinstance(node, ast.Import) for each in node.names
        }
        assert {str(each).split(".")[0] for each in above} <= {"__future__", "tools"} | set(
            sys.stdlib_module_names
        ), name
        library = LIBRARIES[NAMES.index(name)]
        assert hasattr(module, "own") == library.selects, name


def test_requirements_are_pinned_and_name_no_place() -> None:
    for library in [e for e in LIBRARIES if not e.here]:
        text = (environments.REQUIREMENTS / f"{library.name}.txt").read_text("utf-8")
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in text.splitlines()), library
        # Keys are handed over as Parquet.
        assert "pyarrow==" in text, library


def test_answers_are_lines_of_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up.write([(1, "a", 4), (2, "b", 6)], tmp_path / "purchases.parquet")
    pq.write_table(
        pq.read_table(tmp_path / "purchases.parquet", columns=["product"]), tmp_path / "keys"
    )
    asked: list[asking.Ask] = []

    def chatty(ask: asking.Ask) -> dict[str, float]:
        print("hello")
        asked.append(ask)
        return {"a": 5.0} if ask.keys else {}

    files = [str(tmp_path / "purchases.parquet"), "--keys", str(tmp_path / "keys")]
    monkeypatch.setattr(
        sys, "argv", ["x", *files, "--own", "1", "--cost", "1,0", "--max-rows", "2"]
    )
    asking.answer("pyarrow", chatty, chatty)
    first, second = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["keys"], first["groups"], first["off"]) == (2, 1, 0.7)
    assert (second["keys"], second["groups"], second["off"]) == (None, 0, 1.0)
    assert [(ask.epsilon, ask.delta, ask.max_rows) for ask in asked] == [(1.0, 0.0, 2)] * 2


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
