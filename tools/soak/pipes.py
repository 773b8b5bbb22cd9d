"""Pipes: readers that leave early, sleep or are gone, streams that do not block, rows from a pipe.

All items arrive, or the exit code is not 0 and the ledger does not say done. What a pipe of rows
begins with is looked at before the charge.
"""

from __future__ import annotations

import fcntl
import os
import random
import select
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.soak import promises, running
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.kills import random_task
from tools.soak.running import LONGEST, Ended

FRESH, PAGE = 0.06, 4096
# Where rows come from.
NO_ROWS = ("closed", "empty", "other rows")
GIVEN = ("file", "-", "/dev/stdin", *NO_ROWS)
WAYS = ("all", "slow", "head", "head", "non-blocking", "non-blocking", "closed", "full")


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return [Verdict(seed, 1, _case(random.Random(seed), room)) for seed in seeds]


def _case(rng: random.Random, room: Room) -> list[str]:
    given = rng.choice(GIVEN)
    task = replace(random_task(rng), output=None, public=rng.random() < 0.8)
    if given != "file":
        source = "rows.csv" if given in NO_ROWS else task.source
        task = replace(task, source=source, typed="-" if given in NO_ROWS else given)
    expected = promises.reference(task, room).items
    folder = room.fresh()
    promises.prepare(task, folder, room)
    way, unbuffered = rng.choice(WAYS), rng.random() < 0.5
    fresh = rng.random() < FRESH
    begin = running.start_fresh if fresh else running.start
    read, write = os.pipe()
    full = os.open("/dev/full", os.O_WRONLY)
    size = fcntl.fcntl(read, fcntl.F_GETPIPE_SZ)
    if way == "non-blocking":
        os.set_blocking(write, False)
    rows = _rows_in_a_pipe(given, folder / task.source)
    with tempfile.TemporaryFile() as words:
        child = begin(
            task.arguments(),
            folder,
            stdout=full if way == "full" else write,
            stderr=words.fileno(),
            unbuffered=unbuffered,
            before=_in_child(
                read, rows, stdin=given != "closed", stdout=way != "closed", fresh=fresh
            ),
        )
        for used in (write, full, *([] if rows is None else [rows])):
            os.close(used)
        most = rng.randrange(len(expected)) if way == "head" else sys.maxsize
        came = _read(read, most, rng, slow=way in ("slow", "non-blocking"))
        code = running.wait(child)
        words.seek(0)
        ended = Ended(code, came, words.read().decode(errors="replace"))
    if way == "head" and code == 0 and len(expected) <= len(came) + size:
        # The pipe took all of it before its reader left.
        ended = Ended(code, expected, ended.stderr)
    troubles = promises.judge(task, folder, ended, room, silently=way == "head")
    if given in NO_ROWS:
        troubles += ["it does not refuse a pipe without rows"] * (ended.code == 0)
        charges = len(promises.entries(folder / task.ledger)) if task.ledger else 0
        troubles += ["a pipe without rows is charged"] * (charges > task.charged_before)
    how = [way, f"rows from {given}", *["unbuffered"] * unbuffered, *["fresh"] * fresh]
    return [f"{', '.join(how)}: {trouble} [{' '.join(task.arguments())}]" for trouble in troubles]


def _rows_in_a_pipe(given: str, source: Path) -> int | None:
    """The reading end of a pipe that holds what is given; None if there is none."""
    if given in ("file", "closed"):
        return None
    read, write = os.pipe()
    content = {"empty": b"", "other rows": b"a,b\n1,2\n"}.get(given, source.read_bytes())
    fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, max(len(content), PAGE))
    with os.fdopen(write, "wb") as stream:
        stream.write(content)
    return read


def _in_child(
    read: int, rows: int | None, *, stdin: bool, stdout: bool, fresh: bool
) -> Callable[[], None]:
    def close() -> None:
        if rows is not None:
            os.dup2(rows, 0)
        elif not stdin:
            os.close(0)
            if not fresh:
                sys.stdin = None
        # Who holds the other end too never learns that the reader has left.
        os.close(read)
        if not stdout:
            os.close(1)
            if not fresh:
                sys.stdout = None

    return close


def _read(read: int, most: int, rng: random.Random, *, slow: bool) -> bytes:
    came = bytearray()
    while len(came) < most:
        ready, _, _ = select.select([read], [], [], LONGEST)
        if slow:
            time.sleep(rng.choice((0.0, 0.0005, 0.005)))
        chunk = (
            os.read(read, min(most - len(came), rng.choice((512, 4096, 65536)))) if ready else b""
        )
        if not chunk:
            break
        came += chunk
    os.close(read)
    return bytes(came)


PIPES = Attack(
    "pipes", 0.05, 5, "pipes",
    "when the reader leaves or sleeps, streams that do not block, have no buffer or are closed; "
    "rows from standard input, which is closed, empty or something else",
    _run,
)  # fmt: skip
