"""The attacks of `make soak` run, and what judges them sees what is wrong."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tools.soak import promises
from tools.soak.attacks import ATTACKS
from tools.soak.cases import Room
from tools.soak.data import COMMON, SECRET_MARK
from tools.soak.promises import LEDGER, Reference, Task
from tools.soak.running import Ended

import dpsu

ROOT = Path(__file__).resolve().parents[3]
TASK = Task(output="items.txt", report="report.json", ledger=LEDGER)
PACKAGE = Path(dpsu.__file__).parent
TRACEBACK = f'Traceback (most recent call last):\n  File "{PACKAGE}/y.py", line 3, in f\nKeyError'
ITEMS, REPORT = b"bread\nmilk\n", b"{}\n"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(promises, "reference", lambda task, room: Reference(ITEMS, REPORT))
    (tmp_path / TASK.source).write_bytes(b"")
    return Room(tmp_path)


def charge(ledger: Path, *, done: bool) -> None:
    spending = dpsu.Ledger(ledger).dataset("visits", budget=(50, 0.1))
    spending.charge(dpsu.plan(epsilon=1, delta=1e-9, mechanism="policy-laplace"), run="a run")
    if done:
        spending.done()


def test_a_run_that_was_killed_before_it_wrote_is_not_bad(room: Room) -> None:
    charge(room.folder / LEDGER, done=False)
    (room.folder / ".items.txt.1234.partial").write_bytes(b"br")
    ended = Ended(-signal.SIGKILL, b"", "")
    assert promises.judge(TASK, room.folder, ended, room, sent=signal.SIGKILL) == []
    (trouble,) = promises.judge(TASK, room.folder, Ended(1, b"", "ended"), room)
    assert "left behind: .items.txt.1234.partial" in trouble


def test_every_broken_promise_is_bad(room: Room) -> None:
    no = Ended(1, b"", "no")
    cases: list[tuple[bytes | None, bytes | None, bool | None, Ended, str]] = [
        (ITEMS, REPORT, True, Ended(0, b"", ""), ""),  # nothing is broken
        (None, REPORT, None, no, "report without items"),
        (ITEMS[:3], None, None, no, "items are neither"),
        (ITEMS, REPORT[:1], None, no, "report is neither"),
        (ITEMS, None, None, Ended(1, b"", "no output was written"), "says that no output was"),
        (ITEMS, REPORT, None, Ended(0, b"", ""), "nothing was charged"),
        (None, None, True, no, "it says done"),
        (None, None, False, Ended(0, b"", ""), "ended with 0"),
        (None, None, False, Ended(-11, b"", ""), "ended with -11"),
        (None, None, False, Ended(1, b"", ""), "without a word"),
        (None, None, False, Ended(1, b"", COMMON[0]), "private value"),
        (None, None, False, Ended(1, b"", f"cannot read {SECRET_MARK[2:8]!r}"), "private value"),
        (None, None, False, Ended(1, b"", "this is a defect"), "defective"),
        (None, None, False, Ended(1, TRACEBACK.encode(), "no"), "a traceback: KeyError (y.py:3 f)"),
    ]
    for place, (items, report, done, ended, words) in enumerate(cases):
        folder = room.folder / str(place)
        folder.mkdir()
        (folder / TASK.source).write_bytes(b"")
        for name, content in (("items.txt", items), ("report.json", report)):
            if content is not None:
                (folder / name).write_bytes(content)
        if done is not None:
            charge(folder / LEDGER, done=done)
        judged = promises.judge(TASK, folder, ended, room)
        assert words in "; ".join(judged) if words else judged == [], words


@pytest.mark.thorough
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and file systems of Linux")
def test_each_attack_runs(tmp_path: Path) -> None:
    """A handful of cases; what they find is for `make soak` to tell."""
    path = tmp_path / "soak.json"
    done = subprocess.run(
        [sys.executable, "-m", "tools.soak", "--cases", "4", "--jobs", "1", "--seed", "1", "--minutes", "10",
         "--results", str(path)],
        cwd=ROOT, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    known = json.loads(path.read_text("utf-8"))
    assert not known["earlier"]["attacks"]
    entry = known["newest"]
    assert list(entry["attacks"]) == [attack.name for attack in ATTACKS]
    assert all(sums["tried"] >= 4 for sums in entry["attacks"].values())
    assert "Traceback" not in done.stderr
