"""What is wrong with a file of the papers is told without a row of it, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from benchmarks.paper_sets import SCHEMA
from benchmarks.paper_texts import LOADERS, main

import dpsu
from tests.support.paper_files import REDDIT, REDDIT_ROWS, as_csv, load, zipped

ROOT = Path(__file__).resolve().parents[2]
SECRET = "zebra-4711"

BAD: dict[str, tuple[str, str, bytes, str]] = {
    "other columns": ("reddit", "x.csv", as_csv(["author", "body"], [["ann", SECRET]]), "'clean_text'"),
    "a column twice": ("finance", "x.csv", as_csv(["title", "title"], [[SECRET, "b"]]), "one column 'title'"),
    "bad encoding": ("reddit", "x.csv", b"author,clean_text\nann," + f"{SECRET} caf\xe9\n".encode("latin-1"), "not CSV in UTF-8"),
    "empty": ("songs", "x.csv", b"", "is empty"),
    "cut zip": ("reddit", "x.zip", zipped({"clean_askreddit.csv": REDDIT * 100})[:300], "damaged"),
    "zip of others": ("finance", "x.zip", zipped({"a.csv": SECRET.encode(), "b.csv": b"title\n"}), "exactly one"),
    "cut xml": ("wiki", "x.xml", f"<feed><doc><abstract>{SECRET}".encode(), "not XML"),
    "xml of pages": ("wiki", "x.xml", f"<mediawiki><page>{SECRET}</page></mediawiki>".encode(), "no elements <doc>"),
}  # fmt: skip


def test_errors_name_the_file_the_expectation_and_the_fix_but_no_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for case in BAD:
        name, file, content, reason = BAD[case]
        path = tmp_path / file
        path.write_bytes(content)
        assert main([name, str(path), "--output", str(tmp_path / "table.parquet")]) == 2, case
        said = capsys.readouterr()
        error = said.err
        assert (said.out, error.count("\n"), error.startswith("error: ")) == ("", 1, True), case
        assert SECRET not in error, case
        assert repr(str(path)) in error, case
        assert reason in error, case
        assert f"{name} expects {LOADERS[name].files[0]!r}" in error, case
        assert LOADERS[name].expected.source in error, case
        with pytest.raises(dpsu.DpsuError) as raised:
            load(name, path)
        # Nor does the chain of exceptions behind it hold a row.
        assert raised.value.__context__ is None, case
        path.unlink()
        assert list(tmp_path.iterdir()) == [], case


def test_the_command_writes_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clean_askreddit.csv").write_bytes(REDDIT)
    output = tmp_path / "table.parquet"
    assert main(["reddit", str(tmp_path / "clean_askreddit.csv"), "--output", str(output)]) == 0
    table = pa.parquet.read_table(output)
    assert table.schema == SCHEMA
    assert list(zip(*table.to_pydict().values(), strict=True)) == REDDIT_ROWS
    # No bar where nobody watches: one line, with what to compare the number with.
    told = capsys.readouterr().err
    assert told == f"{output}: 5 texts. Published: {LOADERS['reddit'].published}.\n"


def test_an_error_in_an_archive_ends_the_interpreter_in_order(tmp_path: Path) -> None:
    """Arrow reads ahead in threads, which abort everything if they call Python at its end."""
    rows = b"bob,the quick brown fox jumps over the lazy dog\n" * 2_000_000
    broken = f"author,clean_text\nann,b,{SECRET}\n".encode() + rows
    (tmp_path / "x.zip").write_bytes(zipped({"clean_askreddit.csv": broken}))
    given = ["reddit", str(tmp_path / "x.zip"), "--output", str(tmp_path / "table.parquet")]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.paper_texts", *given],
        cwd=ROOT, capture_output=True, check=False, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("error: ")
