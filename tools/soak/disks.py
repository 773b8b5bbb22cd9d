"""Full disks: a small file system, or a limit on the size of files, runs full on the way.

Output, report, ledger, standard output and temporary files are tried one by one and together. A
release fails with a message about room, or succeeds; files are whole, and the ledger says no more
than what is in place.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.soak import promises, running
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.kills import random_task
from tools.soak.promises import FULL, LEDGER, TEMPORARY, Task

SIZE = 1 << 20
PAGE = 4096
ENOUGH = 40 * PAGE  # for the rows, in temporary files
WHERE = ("output", "report", "ledger", "stdout", "temporary", "everything", "limit")
CLEAR = re.compile(r"space|disk|full|room|large|quota", re.IGNORECASE)


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return [Verdict(seed, 1, _case(random.Random(seed), room)) for seed in seeds]


def _case(rng: random.Random, room: Room) -> list[str]:
    disk = _disk(room)
    where = rng.choice(WHERE) if disk is not None else "limit"
    task = _task(where, rng)
    promises.reference(task, room)
    folder = room.fresh()
    (folder / TEMPORARY).mkdir()
    free = PAGE * rng.choice((rng.randint(0, 8), rng.randint(0, 60)))
    if disk is None or where == "limit":
        (folder / FULL).mkdir()
        promises.prepare(task, folder, room)
        before: Callable[[], None] | None = _limit(free // 2 + 2048)
    else:
        for path in disk.iterdir():
            path.unlink()
        (folder / FULL).symlink_to(disk, target_is_directory=True)
        promises.prepare(task, folder, room)
        _fill(disk, free)
        before = None
    ended = running.run_to_the_end(
        task.arguments(),
        folder,
        before=before,
        stdout_in=disk if where in ("stdout", "everything") else None,
        temporary=folder / (FULL if where in ("temporary", "everything") else TEMPORARY),
    )
    troubles = promises.judge(task, folder, ended, room)
    if ended.code and where == "temporary" and free >= ENOUGH:
        troubles.append("the rows did not go to a folder that has room for them")
    if ended.code in promises.FAILED and not CLEAR.search(ended.stderr):
        troubles.append(f"it does not say what is full: {ended.stderr.strip()[-200:]}")
    told = f"{where}, {free} bytes free"
    return [f"{told}: {trouble} [{' '.join(task.arguments())}]" for trouble in troubles]


def _task(where: str, rng: random.Random) -> Task:
    task = replace(random_task(rng), charged_before=rng.random() < 0.5)
    everything = where == "everything"
    if where == "temporary":
        return replace(task, words=("--memory-limit", "0"))
    if where in ("output", "everything"):
        task = replace(task, output=f"{FULL}/{task.output or 'items.txt'}")
    if where == "stdout" or (everything and rng.random() < 0.2):
        task = replace(task, output=None, public=rng.random() < 0.7)
    if where in ("report", "everything"):
        task = replace(task, report=f"{FULL}/{task.report or 'report.json'}")
    if where in ("ledger", "everything"):
        task = replace(task, ledger=f"{FULL}/{LEDGER}")
    return task


def _limit(size: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _fill(disk: Path, free: int) -> None:
    """Leave so many bytes."""
    size = max(0, shutil.disk_usage(disk).free - free)
    with (disk / "filler").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(size, 1))


def _disk(room: Room) -> Path | None:
    """A small file system of this worker's own, if it may mount one."""
    if "disk" not in room.memory:
        disk = room.folder / "disk"
        disk.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "dpsu-soak", str(disk)]
        mounted = (
            shutil.which("mount")
            and not subprocess.run(command, check=False, capture_output=True).returncode
        )
        room.memory["disk"] = disk if mounted else None
    found = room.memory["disk"]
    return found if isinstance(found, Path) else None


DISKS = Attack(
    "disks", 0.08, 5, "full disks",
    "what is on the full disk (output, report, ledger, stdout, temporary files), bytes left",
    _run,
)  # fmt: skip
