"""Where results are written: nothing lost, nothing misreported. Real processes, files and pipes."""

from __future__ import annotations

import contextlib
import csv
import fcntl
import json
import os
import pty
import resource
import select
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
import termios
import time
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.runtime import writing
from tests.support.children import hear_signals
from tests.unit.cli.test_cli import Run

PRIVACY = ("--mechanism", "weighted-gaussian", "--epsilon", "2", "--delta", "1e-6")
MANY = [f"{n * 7919 % 10**9:09d}" for n in range(30_000)]
DPSU = [sys.executable, "-m", "dpsu"]
LONGEST = 600
HEADER = b"user,item\n"


class Case:
    """A folder with rows, a ledger and 30,000 public items: 300 kB of output that is known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.rows, self.known = folder / "rows.csv", folder / "known.txt"
        self.book, self.out = folder / "b.db", folder / "out"
        self.out.mkdir()
        self.rows.write_text(HEADER.decode() + "".join(f"u{u},a\nu{u},b\n" for u in range(200)))
        self.known.write_text("".join(f"{item}\n" for item in MANY))
        self.items = "".join(f"{item}\n" for item in sorted([*MANY, "a", "b"])).encode()
        self.patches = folder / "patches"
        self.patches.mkdir()

    def command(self, *arguments: object, rows: str | None = None) -> list[str]:
        given = ["release", rows or str(self.rows), *PRIVACY, "--public-items", str(self.known),
                 "--ledger", str(self.book), "--dataset", "visits", "--budget", "40,0.01"]  # fmt: skip
        return [*DPSU, *given, *map(str, arguments)]

    def environment(self, **more: str) -> dict[str, str]:
        paths = [str(self.patches), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))} | more

    def run(self, *arguments: object, **more: Any) -> subprocess.CompletedProcess[bytes]:
        settings: dict[str, Any] = {"stdout": subprocess.PIPE, "env": self.environment()} | more
        return subprocess.run(
            self.command(*arguments), check=False, stderr=subprocess.PIPE, timeout=LONGEST, **settings
        )  # fmt: skip

    def started(self, *arguments: object, rows: str | None = None, **more: Any) -> Any:
        settings: dict[str, Any] = {"env": self.environment(), "preexec_fn": hear_signals} | more
        process = subprocess.Popen(
            self.command(*arguments, rows=rows), stderr=subprocess.PIPE, **settings
        )
        if rows == "-" and process.stdin is not None:
            # Nothing is charged before a pipe has brought its header.
            process.stdin.write(HEADER)
            process.stdin.flush()
        return process

    def patch(self, code: str) -> None:
        """Let processes of this case run some code before anything else."""
        (self.patches / "sitecustomize.py").write_text(code)

    def states(self) -> list[str]:
        return [entry.state for entry in dpsu.Ledger(self.book).account("visits").releases]

    def charged(self, releases: int = 1) -> bool:
        """Whether so many are on record; a ledger that is being made has none."""
        try:
            return self.states() == ["pending"] * releases
        except dpsu.DpsuError:
            return False

    def written(self) -> list[str]:
        return sorted(path.name for path in self.out.iterdir())


@pytest.fixture
def case(tmp_path: Path) -> Case:
    return Case(tmp_path)


def wait_for(true: Any, process: Any) -> None:
    deadline = time.monotonic() + LONGEST
    while not true():
        assert process.poll() is None, process.stderr and process.stderr.read()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ended(process: Any) -> tuple[int, str]:
    _, said = process.communicate(timeout=LONGEST)
    # After Ctrl-C a line begins anew, as terminals show ^C.
    return process.returncode, said.decode().lstrip("\n")


def limited(size: int = 100_000) -> Any:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


# Standard output: all of it, or an error.


def test_a_full_disk_is_told_and_leaves_what_was_there(case: Case) -> None:
    """A limit on the size of files stands for the full disk."""
    case.run("--quiet")  # make the ledger, without limits
    report = case.out / "report.txt"
    for unbuffered in ("1", ""):
        with (case.out / "items").open("wb") as file:
            done = case.run(
                "--report", report,
                stdout=file, env=case.environment(PYTHONUNBUFFERED=unbuffered), preexec_fn=limited(),
            )  # fmt: skip
        assert done.returncode == 1
        assert b"cannot write standard output: File too large" in done.stderr
        assert (
            b"perhaps in part: the items on standard output; not written: the report" in done.stderr
        )
        assert b"the ledger keeps the charge" in done.stderr
        assert b"items released" not in done.stderr
        assert b"Traceback" not in done.stderr
        assert case.written() == ["items"]
    (case.out / "items").unlink()
    for suffix in ("txt", "csv", "parquet", "json"):
        output = case.out / f"items.{suffix}"
        output.write_text("what was there before")
        done = case.run("--output", output, "--report", report, preexec_fn=limited())
        assert done.returncode == 1, suffix
        assert f"cannot write '{output}'".encode() in done.stderr, suffix
        assert b"Traceback" not in done.stderr, suffix
        assert case.written() == [output.name], suffix
        assert output.read_text() == "what was there before", suffix
        output.unlink()
    assert case.states() == ["done", *["pending"] * 6]


def test_readers_who_stop_early_are_told_of(case: Case) -> None:
    for unbuffered in ("1", ""):
        process = case.started(
            stdout=subprocess.PIPE, env=case.environment(PYTHONUNBUFFERED=unbuffered)
        )
        assert process.stdout.readline() == f"{min(MANY)}\n".encode()
        process.stdout.close()
        said = process.stderr.read().decode()
        assert process.wait(LONGEST) == 1
        process.stderr.close()
        assert "cannot write standard output: who was reading it stopped before the end" in said
        assert "Traceback" not in said
    assert case.states() == ["pending", "pending"]


@pytest.mark.slow
def test_pipes_that_do_not_block_are_waited_for(case: Case) -> None:
    for unbuffered in ("1", ""):
        reading, writing_ = os.pipe()
        os.set_blocking(writing_, False)
        process = case.started(stdout=writing_, env=case.environment(PYTHONUNBUFFERED=unbuffered))
        os.close(writing_)
        select.select([reading], [], [])
        with os.fdopen(reading, "rb") as file:
            assert file.read() == case.items
        code, said = ended(process)
        assert code == 0
        assert "30,002 items released" in said
    assert case.states() == ["done", "done"]


def test_other_output_is_whole_too(tmp_path: Path) -> None:
    for arguments in (["mechanisms"], ["plan", *PRIVACY, "--json"]):
        with (tmp_path / "out").open("wb") as file:
            done = subprocess.run(
                [*DPSU, *arguments],
                stdout=file, stderr=subprocess.PIPE, check=False, timeout=LONGEST,
                env=os.environ | {"PYTHONUNBUFFERED": "1"}, preexec_fn=limited(500),
            )  # fmt: skip
        assert done.returncode == 1
        assert b"cannot write standard output: File too large" in done.stderr


# The order of things.

WATCH = """
import os, sys
log = os.open(os.environ["LOG"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
fsync = os.fsync
def watched(descriptor):
    fsync(descriptor)
    where = os.readlink(f"/proc/self/fd/{descriptor}")
    if "/out" in where:
        os.write(log, f"disk {where}\\n".encode())
def heard(event, given):
    if event in ("os.rename", "sqlite3.connect"):
        os.write(log, f"{event} {given[0]}\\n".encode())
os.fsync = watched
sys.addaudithook(heard)
"""


def watched(case: Case, *arguments: object, **more: Any) -> list[tuple[str, str]]:
    """What a run brings to the disk, renames and connects to, with the names of files."""
    case.patch(WATCH)
    log = case.folder / "log"
    done = case.run(*arguments, env=case.environment(LOG=str(log)), **more)
    assert done.returncode == 0
    events = [line.split(" ") for line in log.read_text().splitlines()]
    return [(what, Path(where).name) for what, where in events]


def test_items_and_report_are_on_the_disk_before_they_are_renamed_and_marked(case: Case) -> None:
    events = watched(case, "--output", case.out / "items.csv", "--report", case.out / "report.json")
    # Partial files have a random part.
    steps = [(what, name.rsplit(".", 2)[0]) for what, name in events]
    first = steps.index(("os.rename", ".items.csv"))
    assert max(steps.index(("disk", ".items.csv")), steps.index(("disk", ".report.json"))) < first
    # Nothing between the renames, and the ledger after everything.
    assert steps[first + 1] == ("os.rename", ".report.json")
    folder = [n for n, event in enumerate(events) if event == ("disk", "out")]
    marked = [n for n, (what, _) in enumerate(events) if what == "sqlite3.connect"]
    assert first + 1 < folder[-1] < marked[-1]


def test_standard_output_in_a_file_is_on_the_disk_before_the_mark(case: Case) -> None:
    with (case.out / "items").open("wb") as file:
        events = [what for what, _ in watched(case, stdout=file)]
    # The ledger is opened to charge the release, and once more after the items are on the disk.
    assert events[0] == "sqlite3.connect"
    assert "sqlite3.connect" in events[events.index("disk") :]
    assert (case.out / "items").read_bytes() == case.items


def test_release_write_brings_files_to_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    fsync = os.fsync

    def seen_too(descriptor: int) -> None:
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().suffix)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", seen_too)
    released(["a"]).write(tmp_path / "items.txt")
    assert seen == [".partial", tmp_path.suffix]


@pytest.mark.slow
def test_what_killed_runs_leave_is_explained(case: Case) -> None:
    output = case.out / "items.txt"
    case.patch(
        "import os, signal\nos.replace = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert case.run("--output", output).returncode == -signal.SIGKILL
    (left,) = case.out.iterdir()
    assert left.name.startswith(".items.txt.")
    others = [".items.txt.0123abcd.part", ".items.txt.0123abc.partial", ".items.txt.0123ABCD.partial",
              ".other.txt.0123abcd.partial", "items.txt.0123abcd.partial"]  # fmt: skip
    for name in others:
        (case.out / name).write_text("somebody else's")
    live = case.out / ".items.txt.00000000.partial"
    empty = case.out / ".items.txt.00000001.partial"
    live.write_text("being written")
    empty.touch()
    (case.patches / "sitecustomize.py").unlink()
    with live.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        done = case.run("--output", output)
        quiet = case.run("--output", output, "--quiet")
    assert done.returncode == quiet.returncode == 0
    told = [line for line in done.stderr.decode().splitlines() if "partial" in line]
    assert told == [
        f"warning: '{left}' is the unfinished output of a run that was ended; no run is writing it, "
        "and it may be deleted"
    ]
    assert quiet.stderr == b""
    # Nothing is deleted: whose it is, people know better.
    assert case.written() == sorted([*others, live.name, empty.name, left.name, "items.txt"])


# Signals: the truth at each stage, and nothing left behind.

# The process stops and waits where a temporary file is brought to the disk.
STOP = """
import os, signal
fsync = os.fsync
def stopped(descriptor):
    fsync(descriptor)
    if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".partial"):
        open(os.environ["LOG"], "w").close()
        while True:
            signal.pause()
os.fsync = stopped
"""


@pytest.mark.slow
def test_signals_leave_nothing(case: Case) -> None:
    """While it reads what never ends, and while it writes."""
    case.patch(STOP)
    output = case.out / "items.txt"
    output.write_text("what was there before")
    cases = (
        (signal.SIGINT, None),
        (signal.SIGINT, "-"),
        (signal.SIGTERM, None),
        (signal.SIGHUP, "-"),
    )
    for runs, (number, rows) in enumerate(cases, 1):
        log = case.folder / f"log {runs}"
        process = case.started(
            "--output", output, rows=rows, env=case.environment(LOG=str(log)), stdin=subprocess.PIPE
        )
        wait_for(log.exists if rows is None else partial(case.charged, runs), process)
        process.send_signal(number)
        assert process.wait(LONGEST) == 128 + number
        kept = "the ledger keeps the charge"
        assert ended(process)[1] == f"dpsu: interrupted; no output was written; {kept}\n", number
        assert case.written() == ["items.txt"]
        assert output.read_text() == "what was there before"
    assert case.charged(len(cases))


@pytest.mark.slow
def test_a_signal_ends_a_query_that_does_not_return(case: Case) -> None:
    """The main thread is in DuckDB, where Python runs no handlers."""
    query = (
        "select a.range as user, sum(sqrt(a.range * b.range))::varchar as item "
        "from range(1000000) a, range(1000000) b group by a.range"
    )
    duckdb.connect(case.folder / "shop.db").close()
    process = subprocess.Popen(
        [
            *DPSU, "release", "--source", f"duckdb:{case.folder / 'shop.db'}", "--query", query,
            "--epsilon", "1", "--delta", "1e-6", "--ledger", case.book, "--dataset", "visits",
            "--budget", "9,1e-4", "--mechanism", "sieve",
        ],
        env=case.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=hear_signals,  # noqa: PLW1509
    )  # fmt: skip
    wait_for(case.charged, process)
    process.send_signal(signal.SIGTERM)
    said = "no output was written; the ledger keeps the charge"
    assert ended(process) == (128 + signal.SIGTERM, f"dpsu: interrupted; {said}\n")


def with_terminal() -> None:
    hear_signals()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@pytest.mark.slow
def test_a_terminal_that_closes_leaves_nothing(case: Case) -> None:
    case.patch(STOP)
    log, output = case.folder / "log", case.out / "items.txt"
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        case.command("--output", output, "--quiet"),
        stdin=theirs, stdout=theirs, stderr=theirs, env=case.environment(LOG=str(log)),
        start_new_session=True, preexec_fn=with_terminal,  # noqa: PLW1509
    )  # fmt: skip
    os.close(theirs)
    wait_for(log.exists, process)
    os.close(ours)
    assert process.wait(LONGEST) == 128 + signal.SIGHUP
    assert case.written() == []


@pytest.mark.slow
def test_what_is_ignored_stays_ignored(case: Case) -> None:
    """As `nohup` wants it."""
    process = case.started(
        "--output", case.out / "items.txt", rows="-",
        stdin=subprocess.PIPE, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )  # fmt: skip
    wait_for(case.charged, process)
    process.send_signal(signal.SIGHUP)
    process.stdin.write(case.rows.read_bytes().removeprefix(HEADER))
    code, _ = ended(process)
    assert code == 0
    assert case.states() == ["done"]


def test_signals_after_the_renames_tell_what_is_there(case: Case) -> None:
    """Somebody else has the ledger locked, so that the run waits with its files in place."""
    output, report = case.out / "items.txt", case.out / "report.json"
    process = case.started("--output", output, "--report", report, rows="-", stdin=subprocess.PIPE)
    wait_for(case.charged, process)
    locked = sqlite3.connect(case.book, isolation_level=None)
    locked.execute("BEGIN IMMEDIATE")
    process.stdin.write(case.rows.read_bytes().removeprefix(HEADER))
    process.stdin.close()
    process.stdin = None
    wait_for(report.exists, process)
    process.send_signal(signal.SIGTERM)
    locked.execute("ROLLBACK")
    locked.close()
    complete = f"complete: the items in '{output}', the report in '{report}'"
    # All is in place, and a scheduler need not start it again.
    assert ended(process) == (0, f"dpsu: interrupted; {complete}\n")
    assert case.states() == ["done"]
    assert output.read_bytes() == case.items
    assert json.loads(report.read_text())["released"] == 30_002


@pytest.mark.slow
def test_items_cut_short_on_standard_output(case: Case) -> None:
    report = case.out / "report.json"
    process = case.started("--report", report, stdout=subprocess.PIPE)
    select.select([process.stdout], [], [])
    process.send_signal(signal.SIGTERM)
    # Nothing is read until it has ended: the rest would arrive, and all would be complete.
    assert process.wait(LONGEST) == 128 + signal.SIGTERM
    _, said = ended(process)
    assert said == (
        f"dpsu: interrupted; perhaps in part: the items on standard output; not written: the report "
        f"in '{report}'; the ledger keeps the charge\n"
    )
    assert case.written() == []


def test_importing_the_library_changes_no_signals() -> None:
    code = "import dpsu, dpsu.cli, signal; print(signal.getsignal(signal.SIGINT).__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout == "default_int_handler\n"


# Devices, pipes, links, modes and owners.


def test_other_than_file_is_refused(tmp_path: Path) -> None:
    pipe, folder, link = tmp_path / "pipe.txt", tmp_path / "folder.txt", tmp_path / "stdout.txt"
    os.mkfifo(pipe)
    folder.mkdir()
    # Not /dev/stdout itself, which no test should ever touch.
    link.symlink_to("/proc/self/fd/1")
    with (
        socket.socket(socket.AF_UNIX) as bound,
        (tmp_path / "gone.txt").open("w") as gone,
    ):
        bound.bind(str(tmp_path / "socket.txt"))
        Path(gone.name).unlink()
        refused = {
            pipe: "it is a pipe",
            folder: "it is a folder",
            tmp_path / "socket.txt": "it is a socket",
            Path(f"/proc/self/fd/{gone.fileno()}"): "it is a deleted file",
            link: "it is ",
            Path("/dev/null"): "it is a device",
        }
        before = {path: path.stat() for path in refused}
        for path, words in refused.items():
            with pytest.raises(
                dpsu.OutputError, match=f"cannot write '{path}': {words}.*; name a file"
            ):
                released(["a"]).write(path)
            assert os.path.samestat(path.stat(), before[path])
    assert link.is_symlink()


def test_other_than_file_is_refused_before_anything_is_charged(run: Run, case: Case) -> None:
    pipe, both = case.out / "items.txt", case.out / "both"
    os.mkfifo(pipe)
    aside = "leave out --output to print to standard output, or name a file"
    for typed, words in (
        (("--output", pipe), f"cannot write '{pipe}': it is a pipe; {aside}"),
        (
            ("--output", case.out / "some.txt", "--report", "/dev/null"),
            "cannot write '/dev/null': it is a device; name a file",
        ),
    ):
        code, out, err = run(*case.command(*typed)[len(DPSU) :])
        assert (code, out, err) == (2, "", f"dpsu: {words}\n")
    with both.open("wb") as file:
        done = case.run("--report", both, stdout=file)
    assert done.returncode == 2
    assert b"it is the standard output or error of this process; name a file" in done.stderr
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert case.written() == ["both", "items.txt"]
    assert not case.book.exists()


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "items.txt"
    target.write_text("what was there before")
    for name, leads_to in (("there.txt", target), ("dangling.txt", tmp_path / "real" / "new.txt")):
        link = tmp_path / name
        link.symlink_to(leads_to)
        released(["a", "b"]).write(link)
        assert link.is_symlink()
        assert leads_to.read_text() == "a\nb\n"
    assert sorted(p.name for p in (tmp_path / "real").iterdir()) == ["items.txt", "new.txt"]


def test_a_replaced_file_hands_on_its_mode_and_owner(tmp_path: Path) -> None:
    output, new = tmp_path / "items.txt", tmp_path / "new.txt"
    output.write_text("")
    output.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(output, 12345, 23456)
    before = output.stat()
    for path in (output, new):
        released(["a"]).write(path)
    after = output.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (
        before.st_mode,
        before.st_uid,
        before.st_gid,
    )
    assert after.st_ino != before.st_ino
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(new.stat().st_mode) == 0o666 & ~mask


def test_comparisons_are_for_their_owner_alone(run: Run, case: Case) -> None:
    numbers, page = case.out / "numbers.json", case.out / "page.html"
    page.write_text("an old page")
    page.chmod(0o644)
    code, _, err = run(
        "compare", case.rows, "--epsilon", "1", "--delta", "1e-6", "--mechanisms", "count-laplace",
        "--max-items", "2", "--json", numbers, "--html", page,
    )  # fmt: skip
    assert code == 0, err
    assert "NOT PRIVATE" in json.loads(numbers.read_text())
    assert "an old page" not in page.read_text()
    found = dpsu.compare(case.rows, epsilon=1, delta=1e-6, mechanisms=["policy-laplace"])
    found.write_html(case.out / "other.html")
    written = (numbers, page, case.out / "other.html")
    assert {stat.S_IMODE(path.stat().st_mode) for path in written} == {0o600}


def test_what_is_read_is_not_replaced(case: Case) -> None:
    before = case.rows.read_bytes()
    with case.rows.open("rb") as given:
        process = case.started("--output", case.rows, rows="-", stdin=given)
        code, said = ended(process)
    assert code == 2
    assert "is also read" in said
    assert case.rows.read_bytes() == before


# Items that would do something to whoever looks at them.


def released(items: list[str]) -> dpsu.Release:
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="weighted-gaussian")
    return dpsu.Release(plan, pa.array(items))


NASTY = ["\x1b[2Jclear", "\x9b31mred", "\u202eevil", "bell\x07", "\u2028line", "ta\tb", "back\\slash",
         "na\u200dme", "ünïcode", "\U000e0041tag"]  # fmt: skip
HARMLESS = ["\\x1b[2Jclear", "\\x9b31mred", "\\u202eevil", "bell\\x07", "\\u2028line", "ta\\x09b",
            "back\\\\slash", "na\u200dme", "ünïcode", "\\U000e0041tag"]  # fmt: skip


@pytest.mark.slow
def test_terminals_are_shown_escapes_and_others_get_the_items(case: Case) -> None:
    rows = "user,item\n" + "".join(f'u{u},"{item}"\n' for u in range(400) for item in NASTY)
    case.rows.write_text(rows)
    case.known.write_text("a\n")
    piped = case.run()
    expected = {item.replace("\\", "\\\\") for item in NASTY}
    # An item of a line feed's kin is one line all the same: only line feeds end lines.
    assert set(piped.stdout.decode().split("\n")[:-1]) == expected | {"a"}
    ours, theirs = pty.openpty()
    process = case.started(stdout=theirs)
    os.close(theirs)
    got = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while piece := os.read(ours, 1 << 16):
            got += piece
    os.close(ours)
    assert ended(process)[0] == 0
    assert set(got.decode().split("\r\n")[:-1]) == {*HARMLESS, "a"}
    assert b"\x1b" not in got


FORMULAS = ["=1+1", "+1", "-1", "@x", "\tx", "\rx", "'quoted", "plain", "a=b", "\uff1d1"]


def test_cells_that_spreadsheets_would_run(run: Run, case: Case) -> None:
    def cells(path: Path) -> list[list[str]]:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.reader(file))

    case.known.write_text("".join(f"{item}\n" for item in FORMULAS if "\r" not in item))
    output = case.out / "items.csv"
    typed = case.command("--output", output, "--csv-safe", "--counts", "--quiet")
    assert run(*typed[len(DPSU) :]) == (0, "", "")
    head, *rows = cells(output)
    assert head == ["item", "noisy_users"]
    safe = {"'=1+1", "'+1", "'-1", "'@x", "'\tx", "''quoted", "plain", "a=b", "'\uff1d1"}
    assert safe <= {row[0] for row in rows}
    # Numbers are numbers, whatever their sign.
    assert all(row[1].lstrip("-").isdigit() for row in rows)
    # It can be taken back.
    released(FORMULAS).write(output, csv_safe=True)
    first = [row[0] for row in cells(output)[1:]]
    assert not any(cell[0] in "=+-@\t\r\uff1d" for cell in first)
    assert [cell[1:] if cell.startswith("'") else cell for cell in first] == FORMULAS
    released(FORMULAS).write(output)
    assert [row[0] for row in cells(output)[1:]] == FORMULAS
    with pytest.raises(dpsu.ParameterError, match="csv_safe is for"):
        released(FORMULAS).write(case.out / "items.txt", csv_safe=True)


def test_partial_files_are_locked_while_they_are_written(tmp_path: Path) -> None:
    seen: list[list[Path]] = []
    target = tmp_path / "items.txt"

    def write(file: Any) -> None:
        file.write(b"half")
        file.flush()
        (partial,) = tmp_path.iterdir()
        seen.append([partial] if writing._abandoned(partial) else [])

    writing.write_whole(target, write)
    assert seen == [[]]
    assert writing.leftovers(target) == []


# No items, and what they needed.


def test_no_items_are_explained(run: Run, tmp_path: Path) -> None:
    rows, report = tmp_path / "rows.csv", tmp_path / "report.txt"
    rows.write_text("user,item\nu1,a\nu2,b\n")
    code, _, err = run(
        "release", rows, "--mechanism", "count-laplace", "--max-items", "1", "--epsilon", "1",
        "--delta", "1e-6", "--report", report,
    )  # fmt: skip
    assert code == 0
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.CountLaplace(max_items=1))
    weight = plan.needed[0.5]
    assert weight is not None
    needs = f"An item needs {-int(-weight // 1):,} users who hold it, to be released with "
    for told in (err, report.read_text()):
        assert "0 items released" in told
        assert f"{needs}probability 0.5; docs/guides/nothing-came-out.md says what" in told
    assert (Path(__file__).parents[3] / "docs" / "guides" / "nothing-came-out.md").exists()
    assert "nothing-came-out" not in released(["a"]).report()


def test_what_is_read_is_never_written(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    data, base, book = folder / "d.csv", tmp_path / "q.duckdb", tmp_path / "ledger.db"
    data.write_text("user,item\n" + "".join(f"u{u},a\n" for u in range(50)))
    with duckdb.connect(str(base)) as connection:
        connection.execute("create table t as select 'u' as user, 'i' as item")
    privacy = ["--epsilon", "1", "--delta", "1e-6"]
    plan = tmp_path / "plan.json"
    dpsu.plan(epsilon=1, delta=1e-6).write(plan)
    query: list[object] = ["--source", f"duckdb:{base}", "--query", "select * from t", *privacy]
    charged = ["--ledger", book, "--dataset", "x", "--budget", "9,1e-3"]
    cases: list[tuple[list[object], Path]] = [
        ([data, *privacy], data),
        ([folder, *privacy], data),
        ([f"{folder}/*.csv", *privacy], data),
        ([data, *privacy, "--engine", "spark"], data),
        ([data, "--plan", plan], plan),
        (query, base),
        ([data, *privacy, *charged], Path(f"{book}-journal")),
    ]
    for option in ("--output", "--report"):
        for read, target in cases:
            before = target.read_bytes() if target.exists() else None
            code, _, said = run("release", *read, option, target)
            assert code == 2, read
            assert "is also read" in said or "must end in" in said, read
            assert (target.read_bytes() if target.exists() else None) == before
            assert not book.exists()
    both = tmp_path / "both.txt"
    assert run("release", data, *privacy, "--output", both, "--report", both)[0] == 2
    assert not both.exists()
