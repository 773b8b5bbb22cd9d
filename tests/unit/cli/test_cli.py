"""The command line: golden runs, exit codes, where things are written, and what is imported."""

from __future__ import annotations

import array
import fcntl
import json
import os
import re
import resource
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.cli import main
from dpsu.plans.mechanisms import MECHANISMS
from tests.support.children import hear_signals
from tests.support.databases import OF_PAIRS

ROWS = [(f"u{u}", f"item {i}") for u in range(300) for i in (1, 2, 3, 1000 + u)]
Run = Callable[..., tuple[int, str, str]]
# Weights without a cutoff grow far beyond the threshold, and what one user holds stays far below:
# less than one in a billion of these runs has another outcome.
PRIVACY = ["--mechanism", "weighted-gaussian", "--epsilon", "2", "--delta", "1e-13"]


@pytest.fixture(scope="module")
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
        # Whether kernels were compiled before depends on which tests ran before.
        return code, out, re.sub(r"^compiling .*\n", "", err)

    return call


COLUMNS = ["--user", "who", "--item", "what"]


def test_items_on_stdout_words_on_stderr(run: Run, data: Path) -> None:
    code, out, err = run("release", data, *COLUMNS, *PRIVACY)
    assert code == 0
    assert out == "item 1\nitem 2\nitem 3\n"
    assert err.startswith("3 items released by weighted-gaussian. (2, 1e-13)-differential privacy")
    assert err.count("\n") == 1
    assert "\x1b[" not in err  # no progress bar where nobody watches


def test_quiet_is_quiet(run: Run, data: Path) -> None:
    assert run("release", data, *COLUMNS, *PRIVACY, "--quiet") == (
        0, "item 1\nitem 2\nitem 3\n", "",
    )  # fmt: skip


def test_every_mechanism(run: Run, data: Path) -> None:
    for mechanism in OF_PAIRS:
        arguments = ["--mechanism", mechanism, "--insecure-seed", "3"]
        arguments += ["--epsilon", "3", "--delta", "1e-4"]
        if mechanism not in ("greedy", "bits", "auto"):
            arguments += ["--max-items", "4"]
        code, out, err = run("release", data, *COLUMNS, *arguments)
        assert code == 0, mechanism
        assert set(out.split("\n")[:-1]) <= {"item 1", "item 2", "item 3"}, mechanism
        assert "warning: insecure_seed" in err, mechanism
        assert "NO GUARANTEE" in err, mechanism


def test_output_and_report_files(run: Run, data: Path, tmp_path: Path) -> None:
    for name in ("items.txt", "items.csv", "items.parquet", "items.json"):
        report = tmp_path / f"{name}.report.json"
        code, out, _ = run(
            "release", data, *COLUMNS, *PRIVACY, "--output", tmp_path / name, "--report", report
        )
        assert (code, out) == (0, "")
        facts = json.loads(report.read_text("utf-8"))
        assert facts["released"] == 3
        assert facts["plan"]["user"]["columns"] == "who"
    assert json.loads((tmp_path / "items.json").read_text()) == ["item 1", "item 2", "item 3"]
    assert pa.parquet.read_table(tmp_path / "items.parquet").column_names == ["what"]
    run("release", data, *COLUMNS, *PRIVACY, "--quiet", "--report", tmp_path / "words.txt")
    assert "items released" in (tmp_path / "words.txt").read_text("utf-8")


def test_options_reach_the_library(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "prior.csv").write_text("item,holders\nitem 1,9\nitem 2,8\n")
    (tmp_path / "known.txt").write_text("item 3\nelsewhere\n")
    report = tmp_path / "report.json"
    code, out, _ = run(
        "release", data, *COLUMNS, *PRIVACY, "--mechanism", "greedy", "--order", "scarce",
        "--prior", tmp_path / "prior.csv", "--expected-users", "250", "--cutoff", "7.5",
        "--passes", "2", "--public-items", tmp_path / "known.txt", "--report", report,
    )  # fmt: skip
    assert code == 0
    plan = dpsu.Plan.from_json(json.dumps(json.loads(report.read_text())["plan"]))
    assert (plan.order, plan.expected_users, plan.cutoff) == ("scarce", 250, 7.5)
    assert plan.policy.passes == 2  # type: ignore[attr-defined]
    assert plan.prior is not None
    assert plan.prior.entries == 2
    assert {"elsewhere", "item 3"} <= set(out.split("\n"))


def test_plan_needs_no_data(run: Run) -> None:
    given = ("plan", "--epsilon", "3", "--delta", "4.5399929762e-05")
    code, out, err = run(*given, "--mechanism", "policy-gaussian")
    assert (code, err) == (0, "")
    assert "threshold       6.397" in out
    assert "0.5   at weight 6.397: 7 users who hold nothing else" in out
    code, out, _ = run("plan", *PRIVACY, "--json", "--mechanism", "policy-laplace")
    assert dpsu.Plan.from_json(out) == dpsu.plan(epsilon=2, delta=1e-13, mechanism="policy-laplace")


def test_mechanisms_are_listed(run: Run) -> None:
    code, out, _ = run("mechanisms")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == list(MECHANISMS)


def test_demo_shows_a_table(run: Run) -> None:
    code, out, err = run("demo", "--users", "3000")
    assert code == 0
    for name in OF_PAIRS:
        assert name in out
    assert "not private" in out
    assert err == ""


USAGE = [
    (["--epsilon", "0", "--delta", "1e-5"], "--epsilon 0.0 is out of range; it must lie between 0.0001 and 50"),
    (["--epsilon", "1"], "Missing option '--delta'"),
    (["--epsilon", "1", "--delta", "1e-5", "--mechanism", "none"], "Invalid value for '--mechanism'"),
    (["--epsilon", "1", "--delta", "1e-5", "--passes", "2", "--mechanism", "count-gaussian"], "count-gaussian has no option --passes, which policy-laplace"),
    (["--epsilon", "1", "--delta", "1e-5", "--item", "whta"], "did you mean 'what'"),
    (["--epsilon", "1", "--delta", "1e-5", "--output", "items.xyz"], "must end in .txt"),
]  # fmt: skip


def test_usage_errors_exit_with_2(run: Run, data: Path) -> None:
    for arguments, words in USAGE:
        columns = COLUMNS[:2] if "--item" in arguments else COLUMNS
        code, out, err = run("release", data, *columns, *arguments)
        assert (code, out) == (2, ""), arguments
        assert words in err, arguments
        assert "Traceback" not in err, arguments


def test_other_errors_exit_with_1(run: Run, data: Path, tmp_path: Path) -> None:
    (tmp_path / "not.parquet").write_text("who,what\n")
    code, out, err = run("release", tmp_path / "not.parquet", *COLUMNS, *PRIVACY)
    assert (code, out) == (1, "")
    assert "not a Parquet file" in err
    # Found before the work: the data is not even looked at.
    code, _, err = run(
        "release", "nowhere.parquet", *COLUMNS, *PRIVACY, "--output", tmp_path / "no" / "x.txt"
    )
    assert code == 1
    assert "there is no folder" in err


def test_null_rows_are_told_or_refused(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("user,item\n" + "".join(f"u{u},a\nu{u},b\n" for u in range(100)) + ",a\nu1,\n")
    code, out, err = run("release", path, *PRIVACY)
    assert (code, out) == (0, "a\nb\n")
    assert "warning: some rows have no 'user' or no 'item'" in err
    code, out, err = run("release", path, *PRIVACY, "--strict")
    assert (code, out) == (1, "")


def command(*arguments: object, given: bytes) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "dpsu", *map(str, arguments)],
        capture_output=True,
        check=False,
        input=given,
    )


def test_standard_input(data: Path) -> None:
    text = "who,what\n" + "".join(f"{u},{i}\n" for u, i in ROWS)
    expected = b"item 1\nitem 2\nitem 3\n"
    done = command("release", "-", *COLUMNS, *PRIVACY, given=text.encode())
    assert (done.returncode, done.stdout) == (0, expected)
    lines = "".join(json.dumps({"who": u, "what": i}) + "\n" for u, i in ROWS)
    done = command("release", "-", "--format", "jsonl", *COLUMNS, *PRIVACY, given=lines.encode())
    assert (done.returncode, done.stdout) == (0, expected)
    done = command(
        "release", "-", "--format", "parquet", *COLUMNS, *PRIVACY, given=data.read_bytes()
    )
    assert (done.returncode, done.stdout) == (0, expected)


def test_interrupted_runs_leave_nothing(tmp_path: Path) -> None:
    output = tmp_path / "items.txt"
    output.write_text("what was there before")
    for kill in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process = subprocess.Popen(
            [sys.executable, "-m", "dpsu", "release", "-", *PRIVACY, "--output", str(output)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=hear_signals,  # noqa: PLW1509
        )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(b"user,item\nu1,a\n")
        process.stdin.flush()
        # The run is in the middle of reading once the pipe is empty.
        waiting = array.array("i", [1])
        deadline = time.monotonic() + 60
        while waiting[0] and time.monotonic() < deadline:
            fcntl.ioctl(process.stdin.fileno(), termios.FIONREAD, waiting)
            time.sleep(0.05)
        began = time.monotonic()
        process.send_signal(kill)
        while process.poll() is None and time.monotonic() < began + 30:
            time.sleep(0.05)
        assert time.monotonic() - began < 5, kill
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1
        assert b"interrupted; no output was written" in err
        assert [p.name for p in tmp_path.iterdir()] == ["items.txt"]
        assert output.read_text() == "what was there before"


def test_counts_and_choices_from_the_shell(run: Run, data: Path) -> None:
    code, out, _ = run("release", data, *COLUMNS, *PRIVACY, "--counts", "--counts-items", "3")
    assert code == 0
    assert [line.split("\t")[0] for line in out.splitlines()] == ["item 1", "item 2", "item 3"]
    assert all(line.split("\t")[1].lstrip("-").isdigit() for line in out.splitlines())
    given = ("--epsilon", "5", "--delta", "1e-4", "--verbose")
    code, _, err = run(
        "release", data, *COLUMNS, *given, "--mechanism", "auto", "--auto-budget", "0.3"
    )
    assert code == 0
    assert "auto: " in err
    # Who pays for estimates, or states them, wants a choice.
    code, _, err = run("release", data, *COLUMNS, *given, "--auto-budget", "0.3")
    assert code == 0
    assert "auto: " in err
    code, _, err = run("release", data, *COLUMNS, *given, "--expected-items-per-user", "4")
    assert code == 0
    assert "4 different items each on average, as expected" in err
    code, _, err = run(
        "release", data, *COLUMNS, *given, "--mechanism", "sieve", "--auto-budget", "0.3"
    )
    assert code == 2
    assert "sieve has no option --auto-budget, which auto has" in err
    code, _, err = run("release", data, *COLUMNS, *given, "--memory-limit", "much")
    assert code == 2
    assert "--memory-limit much is not a size" in err


def test_a_full_disk_leaves_what_was_there(data: Path, tmp_path: Path) -> None:
    """A limit on the size of files stands for the full disk; the old output is as it was."""
    known = tmp_path / "known.txt"
    known.write_text("".join(f"{n * 7919 % 10**9:09d}\n" for n in range(30_000)))
    for suffix in ["txt", "csv", "parquet", "json"]:
        folder = tmp_path / suffix
        folder.mkdir()
        output = folder / f"items.{suffix}"
        output.write_text("what was there before")
        done = subprocess.run(
            [sys.executable, "-m", "dpsu", "release", str(data), *COLUMNS, *PRIVACY,
             "--public-items", str(known), "--output", str(output)],
            capture_output=True, check=False, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000)),
        )  # fmt: skip
        assert done.returncode == 1, suffix
        assert f"cannot write '{output}'" in done.stderr, suffix
        assert "Traceback" not in done.stderr, suffix
        assert [p.name for p in folder.iterdir()] == [output.name], suffix
        assert output.read_text() == "what was there before", suffix


@pytest.mark.slow
def test_the_first_run_says_that_it_compiles(data: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dpsu", "release", str(data), *COLUMNS, *PRIVACY]
    said = []
    for _ in range(2):
        done = subprocess.run(
            command, capture_output=True, check=True, text=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        )  # fmt: skip
        said.append(done.stderr)
    assert said[0].count("compiling for this machine, once") == 1
    assert "compiling" not in said[1]


HEAVY = {"duckdb", "mpmath", "narwhals", "numba", "numpy", "pandas", "polars", "pyarrow", "rich"}


def test_help_and_import_load_nothing_heavy() -> None:
    cases: list[str] = [
        "import dpsu",
        "import sys; sys.argv = ['dpsu', '--help']\nfrom dpsu.cli import main\nmain()",
        "import sys; sys.argv = ['dpsu', 'release', '--help']\nfrom dpsu.cli import main\nmain()",
        "import sys; sys.argv = ['dpsu', 'plan', '--epsilon', '1', '--delta', '1e-5']\n"
        "from dpsu.cli import main\nmain()",
    ]
    for code in cases:
        watched = f"import atexit, sys\natexit.register(lambda: print('loaded', sorted({HEAVY!r} & set(sys.modules))))\n"
        done = subprocess.run(
            [sys.executable, "-c", watched + code], capture_output=True, check=True, text=True
        )
        assert done.stdout.endswith("loaded []\n"), code


def test_verbose_prints_the_report(run: Run, data: Path) -> None:
    code, _, err = run("release", data, *COLUMNS, *PRIVACY, "--verbose")
    assert code == 0
    assert "You promise that" in err
    assert "An item is released with probability" in err


def test_quiet_does_not_hide_that_nothing_is_private(run: Run, data: Path) -> None:
    _, _, err = run("release", data, *COLUMNS, *PRIVACY, "--quiet", "--insecure-seed", "1")
    assert err == "warning: NO GUARANTEE: made with an insecure seed, for tests only.\n"


def test_inputs_are_not_overwritten(run: Run, data: Path, tmp_path: Path) -> None:
    before = data.read_bytes()
    code, _, err = run("release", data, *COLUMNS, *PRIVACY, "--output", data)
    assert code == 2
    assert "also read" in err
    assert data.read_bytes() == before
    both = tmp_path / "x.csv"
    code, _, _ = run("release", data, *COLUMNS, *PRIVACY, "--output", both, "--report", both)
    assert code == 2
    assert not both.exists()


def test_output_to_standard_output(run: Run, data: Path) -> None:
    code, out, _ = run("release", data, *COLUMNS, *PRIVACY, "--output", "-")
    assert (code, out) == (0, "item 1\nitem 2\nitem 3\n")


def test_messages_speak_the_language_of_the_shell(run: Run, data: Path) -> None:
    _, _, err = run("release", data, *COLUMNS, *PRIVACY, "--mechanism", "count-laplace")
    assert "needs --max-items" in err
    _, _, err = run("plan", *PRIVACY, "--mechanism", "greedy", "--calibration", "paper")
    assert "--allow-unproven" in err
    code, _, err = run("release", "-", "-", *PRIVACY)
    assert code == 2
    assert "given twice" in err


def shell(line: str, data: Path) -> subprocess.CompletedProcess[bytes]:
    release = f"{sys.executable} -m dpsu release {data} {' '.join(COLUMNS + PRIVACY)}"
    return subprocess.run(
        ["bash", "-c", line.replace("RELEASE", release)], capture_output=True, check=False
    )


def test_bad_streams_do_not_lose_items_silently(data: Path) -> None:
    done = shell("RELEASE 2>&-", data)
    assert (done.returncode, done.stdout) == (0, b"item 1\nitem 2\nitem 3\n")
    done = shell("RELEASE >&-", data)
    assert done.returncode == 1
    assert b"cannot write standard output" in done.stderr
    done = shell("RELEASE >/dev/full", data)
    assert done.returncode == 1
    assert b"cannot write standard output: No space left" in done.stderr
    assert b"Traceback" not in done.stderr
    done = shell("RELEASE | head -n 1", data)
    assert done.stdout == b"item 1\n"
    assert b"Traceback" not in done.stderr


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
    code, out, err = run("release", posts, "--user", "writer", "--text", "body", *PRIVACY)
    assert (code, out.split()) == (0, ["all", "fish", "for", "thanks", "the"])
    assert "5 items released" in err
    code, out, err = run(
        "release", posts, "--user", "writer", "--text", "body", "--ngrams", "2", *PRIVACY
    )
    assert out.splitlines() == ["all the", "for all", "thanks for", "the fish"]
    code, out, err = run(
        "release", posts, "--user", "writer", "--text", "body", "--tokenizer", "regex:[A-Z][a-z]+",
        *PRIVACY,
    )  # fmt: skip
    assert out.splitlines() == ["Thanks"]


def test_ngrams_length_by_length(run: Run, posts: Path, tmp_path: Path) -> None:
    budget = ["--epsilon", "3", "--delta", "1e-13"]
    columns = ["--user", "writer", "--text", "body"]
    code, out, err = run(
        "ngrams", posts, *columns, *budget, "--longest", "2", "--report", tmp_path / "r.json"
    )
    assert code == 0
    assert {"fish", "thanks for", "all the"} <= set(out.splitlines())
    assert "secret" not in out
    assert "items released by ngrams" in err
    assert json.loads((tmp_path / "r.json").read_text())["plan"]["mechanism"]["name"] == "ngrams"
    same = ["--mechanism", "ngrams", "--longest", "2"]
    code, out, err = run("release", posts, *columns, *budget, *same)
    assert code == 0
    assert {"fish", "thanks for", "all the"} <= set(out.splitlines())
    assert "items released by ngrams" in err
    code, out, err = run("ngrams", posts, *columns, *budget, "--dry-run", "--shares", "1,1,1")
    assert (code, err) == (0, "")
    assert "length 3        share 0.3333" in out


def test_wrong_options_of_text(run: Run, posts: Path) -> None:
    cases: list[tuple[list[str], str]] = [
        (["release", "--text", "body", "--ngrams", "3-1"], "begins above its end"),
        (["release", "--text", "bdy"], "name the right one with --text"),
        (
            ["release", "--tokenizer", "words"],
            "--tokenizer is for texts: name their column with --text",
        ),
        (["ngrams", "--text", "body", "--shares", "x"], "is not a list of numbers"),
        (["ngrams", "--text", "body", "--shares", "1,2"], "one for each length up to 3"),
        (["ngrams", "--text", "body", "--tokenizer", "lines"], "makes no n-grams"),
    ]
    for options, told in cases:
        command, *rest = options
        code, out, err = run(
            command, posts, "--user", "writer", *rest, "--epsilon", "1", "--delta", "1e-6"
        )
        assert (code, out) == (2, ""), options
        assert told in err, options
