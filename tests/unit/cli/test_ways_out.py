"""Usage errors of the command line name the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpsu
from tests.unit.cli.test_cli import Run, run  # noqa: F401

PROMISE = ("--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    file.write_text("user,item\n" + "".join(f"u{n},a\nu{n},b\n" for n in range(50)), "utf-8")
    return file


def test_what_was_meant_is_named(run: Run, rows: Path) -> None:  # noqa: F811
    cases: list[tuple[tuple[str, ...], str]] = [
        (("release", "ROWS", "--mechanism", "greddy"), "did you mean 'greedy'?"),
        (("release", "ROWS", "--mechanism", "weighted_gaussian"), "'weighted-gaussian'?"),
        (("release", "ROWS", "--format", "cvs"), "did you mean 'csv'?"),
        (("release", "ROWS", "--mechanism", "ngrams"), "name their column with --text"),
        (("release", "visits.xlsx"), "no file 'visits.xlsx'; formats: .parquet, .csv, .tsv"),
        (("compare", "ROWS", "--mechanisms", "greddy"), "--mechanisms greddy is not one of"),
        (
            ("compare", "ROWS", "--mechanisms", "greddy", "--max-items", "3"),
            "--mechanisms greddy is not one of",
        ),
        (("plan", "--output", "plan.json"), "dpsu plan ... --json > plan.json"),
        (("plan", "--mechanism", "ngrams"), "name their column with --text"),
    ]
    for arguments, words in cases:
        typed = [str(rows) if part == "ROWS" else part for part in arguments]
        code, out, err = run(*typed, *PROMISE)
        assert (code, out) == (2, ""), arguments
        assert words in err, arguments


def test_a_column_of_a_plan_is_not_typed_anew(run: Run, rows: Path, tmp_path: Path) -> None:  # noqa: F811
    file = tmp_path / "plan.json"
    dpsu.plan(epsilon=1, delta=1e-6, user="person").write(file)
    code, out, err = run("release", rows, "--plan", file)
    assert (code, out) == (2, "")
    assert "the plan names it; make a plan with the right --user" in err
    assert "rename the column" in err


def test_help_tells_what_item_names_beside_texts(run: Run) -> None:  # noqa: F811
    _, out, _ = run("release", "--help")
    told = " ".join(out.split())
    assert "With --text, the name of the column of the result" in told
    assert "count-gaussian and weighted-gaussian use the published curve" in told
