"""Pipes: readers that leave early, sleep or are gone, and streams that do not block.

All items arrive, or the exit code is 1 and the ledger does not say done.
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

from tools.soak import promises, running
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.kills import random_task
from tools.soak.running import LONGEST, Ended

FRESH = 0.06
WAYS = ("all", "slow", "head", "head", "non-blocking", "non-blocking", "closed", "full")


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return [Verdict(seed, 1, _case(random.Random(seed), room)) for seed in seeds]


def _case(rng: random.Random, room: Room) -> list[str]:
    task = replace(random_task(rng), output=None, public=rng.random() < 0.8)
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
    with tempfile.TemporaryFile() as words:
        child = begin(
            task.arguments(),
            folder,
            stdout=full if way == "full" else write,
            stderr=words.fileno(),
            unbuffered=unbuffered,
            before=_in_child(read, stdout=way != "closed", fresh=fresh),
        )
        os.close(write)
        os.close(full)
        most = rng.randrange(len(expected)) if way == "head" else sys.maxsize
        came = _read(read, most, rng, slow=way in ("slow", "non-blocking"))
        code = running.wait(child)
        words.seek(0)
        ended = Ended(code, came, words.read().decode(errors="replace"))
    if way == "head" and code == 0 and len(expected) <= len(came) + size:
        # The pipe took all of it before its reader left.
        ended = Ended(code, expected, ended.stderr)
    troubles = promises.judge(task, folder, ended, room, silently=way == "head")
    told = f"{way}{', unbuffered' if unbuffered else ''}{', fresh' if fresh else ''}"
    return [f"{told}: {trouble} [{' '.join(task.arguments())}]" for trouble in troubles]


def _in_child(read: int, *, stdout: bool, fresh: bool) -> Callable[[], None]:
    def close() -> None:
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
    "when the reader leaves or sleeps, streams that do not block, have no buffer or are closed",
    _run,
)  # fmt: skip
