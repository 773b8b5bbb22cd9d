"""Processes that spend from one ledger and are killed, hundreds of times.

    python -m tests.support.kill_harness FOLDER SEED KILLS

A small process of its own, so that forks are cheap and safe: the package is imported once, and every
child charges a ledger, puts an output in place and marks it as done, or fails before it would have
read anything and makes its charge void, as a release does, until it is killed. What must hold afterwards is checked by :func:`check`, here and in the tests.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import dpsu
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.records import DONE, VOID
from dpsu.runtime.writing import write_text

DATASET, BUDGET = "visits", (50.0, 0.01)
Act = Callable[[Path, Path], None]
RUN = "5e" * 16
PLAN = dpsu.plan(epsilon=0.001, delta=1e-9, mechanism="policy-laplace")


def spend(ledger: Path, outputs: Path) -> None:
    """One release without the release."""
    with Ledger(ledger).dataset(DATASET, budget=BUDGET) as spending:
        spending.charge(PLAN, run=RUN)
        write_text(outputs / f"{spending._open[-1]}.txt", "an item\n")


def fail(ledger: Path, outputs: Path) -> None:
    """One release that ends after the charge and before it reads anything."""
    with suppress(ZeroDivisionError), Ledger(ledger).dataset(DATASET, budget=BUDGET) as spending:
        with spending.charged(PLAN, run=RUN):
            raise ZeroDivisionError
        write_text(outputs / "never.txt", "an item\n")


ACTS = (spend, fail)


class Deadly(sqlite3.Connection):
    """Kills its process before, or after, the statement whose turn it is."""

    left = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        self._step()
        cursor = super().execute(*arguments)
        self._step()
        return cursor

    def _step(self) -> None:
        Deadly.left -= 1
        if Deadly.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def forked(ledger: Path, outputs: Path, act: Act, *, dies_at: int | None, endless: bool) -> int:
    """Start a child; it dies at a statement, or goes on until somebody kills it."""
    child = os.fork()
    if child:
        return child
    if dies_at is not None:
        connect = sqlite3.connect
        Deadly.left = dies_at
        sqlite3.connect = lambda *a, **k: connect(*a, **k, factory=Deadly)  # type: ignore[assignment]
    try:
        act(ledger, outputs)
        while endless:
            spend(ledger, outputs)
            fail(ledger, outputs)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def reaped(child: int) -> int:
    """How a child ended: 0, or minus the signal."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL), code
    return code


def check(ledger: Path, outputs: Path) -> tuple[int, int]:
    """What must hold at any time while nobody is alive; returns numbers of charges and outputs."""
    with sqlite3.connect(ledger) as connection:
        (verdict,) = connection.execute("PRAGMA integrity_check").fetchone()
    connection.close()
    assert verdict == "ok", verdict
    visible = {int(path.stem) for path in outputs.iterdir() if path.suffix == ".txt"
               and not path.name.startswith(".")}  # fmt: skip
    if not ledger.stat().st_size:
        assert not visible
        return 0, 0
    entries = Ledger(ledger).account(DATASET).releases
    charged = {entry.number for entry in entries}
    assert visible <= charged, "an output that nobody paid for"
    assert {e.number for e in entries if e.state == DONE} <= visible, "done before it was out"
    void = {entry.number for entry in entries if entry.state == VOID}
    assert not void & visible, "an output of a charge that is void"
    spent = float(Ledger(ledger).account(DATASET).total.epsilon)
    counted = (len(charged) - len(void)) * PLAN.privacy.epsilon
    assert abs(spent - counted) <= 1e-9 * counted, "a charge that is void counts, or another not"
    assert spent >= len(visible) * PLAN.privacy.epsilon * (1 - 1e-9)
    return len(charged), len(visible)


def main() -> None:
    """Kill, and check after every kill."""
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = random.Random(seed)
    killed = 0
    # At every statement, on a ledger that does not exist yet and on one that does.
    for begun, act in itertools.product((False, True), ACTS):
        dies_at, code = 0, -signal.SIGKILL
        while code == -signal.SIGKILL:
            dies_at += 1
            ledger = folder / f"{'old' if begun else 'new'}-{act.__name__}-{dies_at}.db"
            outputs = ledger.with_suffix(".out")
            outputs.mkdir()
            if begun:
                spend(ledger, outputs)
            code = reaped(forked(ledger, outputs, act, dies_at=dies_at, endless=False))
            killed += code != 0
            if ledger.exists():
                check(ledger, outputs)
            if code == 0:
                ended = Ledger(ledger).account(DATASET).releases[-1].state
                assert ended == (DONE if act is spend else VOID), ended
            spend(ledger, outputs)  # and later runs work
            fail(ledger, outputs)
            check(ledger, outputs)
    # At any instant, with two at work on one ledger.
    ledger, outputs = folder / "shared.db", folder / "shared.out"
    outputs.mkdir()
    spend(ledger, outputs)
    while killed < kills:
        children = [forked(ledger, outputs, act, dies_at=None, endless=True) for act in ACTS]
        for child in children:
            time.sleep(rng.uniform(0.0, 0.06))
            os.kill(child, signal.SIGKILL)
            killed += reaped(child) != 0
        charged, visible = check(ledger, outputs)
    spend(ledger, outputs)
    fail(ledger, outputs)
    charged, visible = check(ledger, outputs)
    print(killed, charged, visible)


if __name__ == "__main__":
    main()
