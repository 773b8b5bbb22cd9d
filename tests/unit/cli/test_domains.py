"""`dpsu domains`: values of columns in files and on standard output, and errors as they are typed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.unit.cli.test_cli import Run

PRIVACY = ["--mechanism", "weighted-gaussian", "--epsilon", "2", "--delta", "1e-6", "--user", "id"]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "people.csv"
    rows = [
        (at, "fm"[at % 2], "" if at % 5 == 0 else "smith", at % 3, ("fr", "de")[at % 2], "a,b")
        for at in range(600)
    ]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "sex", "job", "age", "country", "odd,name"], *rows])
    return path


def test_values_go_to_standard_output_as_json(run: Run, people: Path) -> None:
    code, out, err = run("domains", people, "--columns", "sex,job", *PRIVACY)
    assert code == 0
    assert json.loads(out) == {"sex": ["f", "m"], "job": ["smith"]}
    assert err.startswith("3 items released by weighted-gaussian. (2, 1e-06)-differential privacy")


def test_levels_types_and_files(run: Run, people: Path, tmp_path: Path) -> None:
    output, report = tmp_path / "domain.json", tmp_path / "report.json"
    chosen = ["--columns", "sex", "--columns", 'job,"odd,name"', "--levels", "country,age"]
    more = ["--types", "age=integer", "--output", output, "--report", report, "--quiet"]
    assert run("domains", people, *chosen, *more, *PRIVACY) == (0, "", "")
    assert json.loads(output.read_text()) == {
        "sex": ["f", "m"],
        "job": ["smith"],
        "odd,name": ["a,b"],
        "country": ["de", "fr"],
        "age": [0, 1, 2],
        "country > age": {"de": [0, 1, 2], "fr": [0, 1, 2]},
    }
    assert json.loads(report.read_text())["plan"]["item"]["levels"] == [["country", "age"]]
    assert run("domains", people, *chosen, "--output", tmp_path / "d.csv", *PRIVACY)[0] == 0
    assert (tmp_path / "d.csv").read_text().splitlines()[:2] == [
        '"column","value","country"',
        '"sex","f",""',
    ]


def test_a_plan_is_made_approved_and_run(run: Run, people: Path, tmp_path: Path) -> None:
    code, out, _ = run("plan", "--columns", "sex", "--levels", "country,age", *PRIVACY, "--json")
    assert code == 0
    plan = tmp_path / "plan.json"
    plan.write_text(out)
    code, out, _ = run("domains", people, "--plan", plan)
    assert code == 0
    assert json.loads(out)["country > age"]["de"] == ["0", "1", "2"]
    code, _, err = run("domains", people, "--plan", plan, "--columns", "sex")
    assert (code, "--plan decides --columns" in err) == (2, True)
    # `release` runs it, too, with a column for each.
    code, out, _ = run("release", people, "--plan", plan)
    assert out.splitlines()[:2] == ["f\t\t", "m\t\t"]
    plan.write_text(run("plan", "--item", "sex", *PRIVACY, "--json")[1])
    code, _, err = run("domains", people, "--plan", plan)
    assert (code, "releases items of 'sex'" in err) == (2, True)
    code, out, _ = run("plan", "--columns", "sex", *PRIVACY)
    assert "values of the column sex" in out
    code, _, err = run("plan", "--columns", "sex", "--item", "job", *PRIVACY)
    assert code == 2
    assert "--item is for items of one kind, and --columns or --levels for values" in err


def test_errors_name_what_was_typed(run: Run, people: Path) -> None:
    cases: list[tuple[list[str], str]] = [
        ([], "Missing option '--columns' (or '--levels')"),
        (["--columns", "sex,jop"], "name the right one with --columns"),
        (["--levels", "country,citty"], "no column 'citty' in 'people.csv'"),
        (["--columns", "sex,sex"], "--columns names 'sex' twice"),
        (["--columns", "sex", "--columns", "sex"], "--columns names 'sex' twice"),
        (["--columns", "sex,id"], "--columns has 'id', which is the person to protect"),
        (["--columns", "sex,"], "--columns 'sex,' has an empty name"),
        (["--columns", 'sex,"a'], "is no list of columns"),
        (["--levels", "country"], "--levels needs two columns or more"),
        (["--columns", "sex", "--types", "sex"], "is not like age=integer,zip=text"),
        (["--columns", "sex", "--types", "age=integer"], "--types has 'age', which is not among"),
        (["--columns", "sex", "--output", "x.txt"], "must end in .json, .csv, .parquet"),
        (["--columns", "sex", "--csv-safe"], "--csv-safe is for --output FILE.csv"),
    ]
    for typed, told in cases:
        code, out, err = run("domains", people, *typed, *PRIVACY)
        assert (code, out) == (2, ""), typed
        assert told in err, typed
