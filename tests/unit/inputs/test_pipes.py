"""Pipes are read like files, once; what can be seen to be wrong with them costs nothing."""

from __future__ import annotations

import gzip
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.inputs.pipes import is_pipe
from tests.support import flat

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such pipes")
PRIVACY: dict[str, Any] = {"epsilon": 3, "delta": 1e-5, "mechanism": "weighted-laplace"}
TYPED = ("--epsilon", "3", "--delta", "1e-5", "--mechanism", "weighted-laplace",
         "--dataset", "visits", "--budget", "9,0.1", "--ledger", "book.db")  # fmt: skip
ROWS = [(f"user {n}", item) for n in range(200) for item in ("bread", "milk", f"own {n}")]
CSV = b"user,item\n" + b"".join(f"{user},{item}\n".encode() for user, item in ROWS)


def as_parquet(rows: list[tuple[str, str]]) -> bytes:
    sink = pa.BufferOutputStream()
    users, items = zip(*rows, strict=True)
    pa.parquet.write_table(pa.table({"user": users, "item": items}), sink)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def pipe(path: Path, content: bytes) -> Path:
    """A pipe with a name, and a thread that writes to it."""
    os.mkfifo(path)

    def write() -> None:
        with path.open("wb") as stream:
            stream.write(content)

    threading.Thread(target=write, daemon=True).start()
    return path


def test_pipes_with_names_are_read_like_files(tmp_path: Path) -> None:
    long = b"user,item\n" + b"".join(f"u{n},bread\nu{n},milk\n".encode() for n in range(20_000))
    contents = {
        "a": CSV,
        "b.csv": long,
        "c.csv.gz": gzip.compress(long),
        "d.parquet": as_parquet(ROWS),
    }
    for name, content in contents.items():
        found = dpsu.release(pipe(tmp_path / name, content), **PRIVACY)
        assert found.items == ("bread", "milk"), name
    halves = [pipe(tmp_path / "one", CSV), pipe(tmp_path / "two.tsv", CSV.replace(b",", b"\t"))]
    assert flat.release(halves, insecure_seed=5, **PRIVACY).items == ("bread", "milk")


def command(
    folder: Path, name: str, content: bytes | None, *more: str
) -> subprocess.CompletedProcess[bytes]:
    """Run the command with content in standard input, or with that closed."""
    (folder / "book.db").unlink(missing_ok=True)
    return subprocess.run(
        [sys.executable, "-m", "dpsu", "release", name, *TYPED, *more],
        input=content, preexec_fn=partial(os.close, 0) if content is None else None,
        capture_output=True, check=False, cwd=folder, timeout=600,
    )  # fmt: skip


def charged(folder: Path) -> int:
    book = folder / "book.db"
    return len(dpsu.Ledger(book).account("visits").releases) if book.exists() else 0


def test_what_a_pipe_begins_with_is_looked_at_before_the_charge(tmp_path: Path) -> None:
    for name in ("-", "/dev/stdin"):
        done = command(tmp_path, name, CSV)
        assert (done.returncode, done.stdout) == (0, b"bread\nmilk\n"), done.stderr
        assert charged(tmp_path) == 1
    no_rows: list[tuple[str, bytes | None, tuple[str, ...], bytes]] = [
        ("-", None, (), b"standard input is closed, or was replaced"),
        ("-", b"", (), b"standard input is empty"),
        ("-", b"a,b\n1,2\n", (), b"there is no column 'user' in standard input"),
        ("-", gzip.compress(CSV), (), b"looks compressed"),
        ("-", CSV, ("--format", "parquet"), b"is not a Parquet file"),
        (
            "/dev/null",
            b"",
            ("--format", "csv"),
            b"'/dev/null' is no file; write the rows to a file",
        ),
        ("socket.csv", b"", (), b"'socket.csv' is no file"),
        ("broken.csv", b"", (), b"'broken.csv' is no file"),
    ]
    (tmp_path / "broken.csv").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "socket.csv"))
        for name, content, more, words in no_rows:
            done = command(tmp_path, name, content, *more)
            assert done.returncode in (1, 2), words
            assert words in done.stderr, (words, done.stderr)
            assert charged(tmp_path) == 0, words


def test_public_data_are_no_pipe(tmp_path: Path) -> None:
    path = tmp_path / "known.txt"
    os.mkfifo(path)
    assert is_pipe(path)
    with pytest.raises(dpsu.ParameterError, match="is a pipe; write public data to a file first"):
        dpsu.plan(epsilon=1, delta=1e-6, public_items=path)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_no_file_gets_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    """What libraries print would be written into it."""

    def close_all() -> None:
        for number in (0, 1, 2):
            os.close(number)

    os.mkfifo(tmp_path / "rows.csv")
    running = subprocess.Popen(
        [sys.executable, "-m", "dpsu", "release", "rows.csv", *TYPED, "--output", "items.txt"],
        preexec_fn=close_all, cwd=tmp_path,  # noqa: PLW1509
    )  # fmt: skip
    with (tmp_path / "rows.csv").open("wb") as stream:
        # The other end is open, and waits.
        for number in (0, 1, 2):
            assert str(Path(f"/proc/{running.pid}/fd/{number}").readlink()) == os.devnull
        stream.write(CSV)
    assert running.wait(600) == 0
    assert (tmp_path / "items.txt").read_text() == "bread\nmilk\n"


def test_what_cannot_be_printed_is_not_charged(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(CSV)
    close: Callable[[], None] = partial(os.close, 1)
    done = subprocess.run(
        [sys.executable, "-m", "dpsu", "release", "rows.csv", *TYPED],
        preexec_fn=close, stderr=subprocess.PIPE, check=False, cwd=tmp_path, timeout=600,
    )  # fmt: skip
    assert done.returncode == 1
    assert b"cannot write standard output: it is closed" in done.stderr
    assert charged(tmp_path) == 0
