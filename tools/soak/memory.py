"""Too little memory: releases under a limit that may be met anywhere, even by the first import."""

from __future__ import annotations

import random
import re
import resource
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.soak import promises, running
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.data import CERTAIN
from tools.soak.promises import LEDGER, Task

GB = 1 << 30
FRESH = 0.3
CLEAR = re.compile(r"memory", re.IGNORECASE)


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return [Verdict(seed, 1, _case(random.Random(seed), room)) for seed in seeds]


def _case(rng: random.Random, room: Room) -> list[str]:
    task = Task(
        mechanism=rng.choice(sorted(CERTAIN)),
        source=rng.choice(("rows.csv", "rows.jsonl")),
        users=rng.choice((300, 3000, 30_000)),
        output=rng.choice(("items.csv", "items.parquet", None)),
        report=rng.choice((None, "report.json")),
        ledger=LEDGER,
        public=rng.random() < 0.3,
    )
    promises.reference(task, room)
    folder = room.fresh()
    promises.prepare(task, folder, room)
    fresh = rng.random() < FRESH
    # A forked process begins with what its parent has mapped already.
    limit = int(rng.uniform(1, 4) * GB) if fresh else _mapped() + int(rng.uniform(0, 1.5) * GB)
    ended = running.run_to_the_end(task.arguments(), folder, fresh=fresh, before=_limit(limit))
    troubles = promises.judge(task, folder, ended, room)
    if ended.code == 1 and not CLEAR.search(ended.stderr):
        troubles.append(f"it does not say that memory is short: {ended.stderr.strip()[-200:]}")
    told = f"{limit / GB:.2f} GB{', fresh' if fresh else ''}"
    return [f"{told}: {trouble} [{' '.join(task.arguments())}]" for trouble in troubles]


def _limit(limit: int) -> Callable[[], None]:
    def set_limits() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    return set_limits


def _mapped() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()


MEMORY = Attack(
    "memory", 0.08, 3, "limits",
    "limit (1 to 4 GB for fresh processes, from nothing to 1.5 GB more for forked ones), users",
    _run,
)  # fmt: skip
