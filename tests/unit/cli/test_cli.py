"""The command line: golden runs, exit codes, where things are written, and what is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.cli import main
from dpsu.plans.mechanisms import MECHANISMS
from tests.support.databases import OF_PAIRS

ROWS = [(f"u{u}", f"item {i}") for u in range(300) for i in (1, 2, 3, 1000 + u)]
Run = Callable[..., tuple[int, str, str]]
# Weights without a cutoff grow far beyond the threshold, and what one user holds stays far below:
# less than one in a billion of these runs has another outcome.
PRIVACY = ["--mechanism", "weighted-gaussian", "--epsilon", "2", "--delta", "1e-13"]
COLUMNS = ["--user", "who", "--item", "what"]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "rows.parquet"
    table = pa.table({"who": [u for u, _ in ROWS], "what": [i for _, i in ROWS]})
    pa.parquet.write_table(table, path)
    return path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    def call(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dpsu", *map(str, arguments)])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        out, err = capfd.readouterr()
        return code, out, err

    return call


def test_items_on_stdout_words_on_stderr(run: Run, data: Path) -> None:
    given = ("release", data, *COLUMNS, *PRIVACY)
    items = "item 1\nitem 2\nitem 3\n"
    code, out, err = run(*given)
    assert (code, out) == (0, items)
    assert err.startswith("3 items released by weighted-gaussian. (2, 1e-13)-differential privacy")
    assert err.count("\n") == 1
    assert "\x1b[" not in err  # no progress bar where nobody watches
    assert run(*given, "--quiet") == (0, items, "")
    assert run(*given, "--output", "-")[:2] == (0, items)
    _, _, err = run(*given, "--verbose")
    assert "You promise that" in err
    assert "An item is released with probability" in err
    # That nothing is private is not hidden.
    _, _, err = run(*given, "--quiet", "--insecure-seed", "1")
    assert err == "warning: NO GUARANTEE: made with an insecure seed, for tests only.\n"


def test_plan_needs_no_data(run: Run) -> None:
    given = ("plan", "--epsilon", "3", "--delta", "4.5399929762e-05")
    code, out, err = run(*given, "--mechanism", "policy-gaussian")
    assert (code, err) == (0, "")
    assert "threshold       6.397" in out
    assert "0.5   at weight 6.397: 7 users who hold nothing else" in out
    code, out, _ = run("plan", *PRIVACY, "--json", "--mechanism", "policy-laplace")
    assert dpsu.Plan.from_json(out) == dpsu.plan(epsilon=2, delta=1e-13, mechanism="policy-laplace")


def test_mechanisms_are_listed_and_shown_at_work(run: Run) -> None:
    code, out, _ = run("mechanisms")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(MECHANISMS)
    code, out, err = run("demo", "--users", "1000")
    assert (code, err) == (0, "")
    assert all(name in out for name in (*OF_PAIRS, "not private"))


def test_errors_before_and_after_the_charge_name_the_data(run: Run, tmp_path: Path) -> None:
    bad, nulls, lost = tmp_path / "not.parquet", tmp_path / "nulls.csv", tmp_path / "no" / "x.txt"
    bad.write_text("who,what\n")
    nulls.write_text("who,what\n" + "".join(f"u{u},a\nu{u},b\n" for u in range(100)) + ",a\nu1,\n")
    for typed, words in (
        ((bad,), "not a Parquet file"),
        # Found before the work: the data is not even looked at.
        (("nowhere.parquet", "--output", lost), "there is no folder"),
        ((nulls, "--strict"), "some rows have no 'who' or no 'what'"),
    ):
        code, out, err = run("release", *typed, *COLUMNS, *PRIVACY)
        assert (code, out) == (2, ""), typed
        assert words in err, typed
    code, out, err = run("release", nulls, *COLUMNS, *PRIVACY)
    assert (code, out) == (0, "a\nb\n")
    assert "warning: some rows have no 'who' or no 'what'" in err


def test_standard_input(data: Path) -> None:
    text = "who,what\n" + "".join(f"{u},{i}\n" for u, i in ROWS)
    lines = "".join(json.dumps({"who": u, "what": i}) + "\n" for u, i in ROWS)
    given = {"csv": text.encode(), "jsonl": lines.encode(), "parquet": data.read_bytes()}
    for name, rows in given.items():
        typed = ["release", "-", *COLUMNS, *PRIVACY, *(["--format", name] if name != "csv" else [])]
        done = subprocess.run(
            [sys.executable, "-m", "dpsu", *typed], capture_output=True, check=False, input=rows
        )
        assert (done.returncode, done.stdout) == (0, b"item 1\nitem 2\nitem 3\n"), name


def test_counts_and_choices_from_the_shell(run: Run, data: Path) -> None:
    code, out, _ = run("release", data, *COLUMNS, *PRIVACY, "--counts", "--counts-items", "3")
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["item 1", "item 2", "item 3"]
    assert all(line.split("\t")[1].lstrip("-").isdigit() for line in out.splitlines())
    # Who pays for estimates, or states them, wants a choice.
    for typed, words in (
        (("--mechanism", "auto", "--auto-budget", "0.3"), "auto: "),
        (("--auto-budget", "0.3"), "auto: "),
        (("--expected-items-per-user", "4"), "4 different items each on average, as expected"),
    ):
        given = ("release", data, *COLUMNS, "--epsilon", "5", "--delta", "1e-4", "--verbose")
        code, _, err = run(*given, *typed)
        assert code == 0, typed
        assert words in err, typed


HEAVY = {
    "IPython",
    "duckdb",
    "mpmath",
    "narwhals",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rich",
}


def test_help_and_import_load_nothing_heavy() -> None:
    shell = "import sys; sys.argv = ['dpsu', {}]\nfrom dpsu.cli import main\nmain()"
    for code in [
        "import dpsu, dpsu.spark, dpsu.dask, dpsu.showing.progress, dpsu.showing.markup",
        shell.format("'--help'"),
        shell.format("'release', '--help'"),
        shell.format("'plan', '--epsilon', '1', '--delta', '1e-5'"),
        shell.format("'proofs', 'sieve'"),
    ]:
        watched = f"import atexit, sys\natexit.register(lambda: print('loaded', sorted({HEAVY!r} & set(sys.modules))))\n"
        done = subprocess.run(
            [sys.executable, "-c", watched + code], capture_output=True, check=True, text=True
        )
        assert done.stdout.endswith("loaded []\n"), code


def test_bad_streams_do_not_lose_items_silently(data: Path) -> None:
    release = f"{sys.executable} -m dpsu release {data} {' '.join(COLUMNS + PRIVACY)}"
    without_err, without_out = (
        subprocess.run(["bash", "-c", release + closed], capture_output=True, check=False)
        for closed in (" 2>&-", " >&-")
    )
    assert (without_err.returncode, without_err.stdout) == (0, b"item 1\nitem 2\nitem 3\n")
    assert without_out.returncode == 1
    assert b"cannot write standard output" in without_out.stderr


def test_an_audit_from_the_shell(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "audit.md"
    code, out, _ = run(
        "audit", "--mechanism", "greedy", "--trials", "4000", "--markdown", page,
    )  # fmt: skip
    assert code == 0
    assert "greedy, tight: pass" in out
    assert "| canary, 1 item | delta |" in page.read_text()


@pytest.fixture(scope="module")
def posts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("posts") / "posts.csv"
    rows = "".join(f'w{u},"Thanks for all the fish, secret{u}!"\n' for u in range(400))
    path.write_text(f"writer,body\n{rows}")
    return path


def test_words_of_texts(run: Run, posts: Path) -> None:
    for typed, items in (
        ((), ["all", "fish", "for", "thanks", "the"]),
        (("--ngrams", "2"), ["all the", "for all", "thanks for", "the fish"]),
        (("--tokenizer", "regex:[A-Z][a-z]+"), ["Thanks"]),
    ):
        given = ("release", posts, "--user", "writer", "--text", "body", *typed)
        code, out, err = run(*given, *PRIVACY)
        assert (code, out.splitlines()) == (0, items), typed
        assert f"{len(items)} item" in err, typed


def test_ngrams_length_by_length(run: Run, posts: Path, tmp_path: Path) -> None:
    given = (posts, "--user", "writer", "--text", "body", "--epsilon", "3", "--delta", "1e-13")
    report = tmp_path / "r.json"
    for command in (("ngrams",), ("release", "--mechanism", "ngrams")):
        code, out, err = run(*command, *given, "--longest", "2", "--report", report)
        assert code == 0
        assert {"fish", "thanks for", "all the"} <= set(out.splitlines())
        assert "secret" not in out
        assert "items released by ngrams" in err
        assert json.loads(report.read_text())["plan"]["mechanism"]["name"] == "ngrams"
    code, out, err = run("ngrams", *given, "--dry-run", "--shares", "1,1,1")
    assert (code, err) == (0, "")
    assert "length 3        share 0.3333" in out
