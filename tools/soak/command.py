"""The command: workers attack in proportion, and what they find is added up."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.soak import results
from tools.soak.cases import Attack, Room

# A batch that is under way at the end may take so long before its worker is stopped.
GRACE = 600.0


def main(arguments: Sequence[str] | None = None) -> None:
    """Attack, print a table, add to the results; exit code 1 if anything was bad."""
    typed = _parser().parse_args(arguments)
    if not hasattr(os, "pidfd_open"):
        sys.exit("the attacks need Linux: its signals, limits, file systems and /proc")
    # Threads that numerical libraries start when they are imported would not survive a fork.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # Whether streams have buffers is decided case by case.
    os.environ.pop("PYTHONUNBUFFERED", None)
    seed = secrets.randbits(48) if typed.seed is None else typed.seed
    names = [name for name in typed.only.split(",") if name]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dpsu-soak-") as folder:
        found = _attack(typed, seed, names, Path(folder))
    minutes = (time.monotonic() - begun) / 60
    print(results.summary(found), flush=True)
    if typed.results is not None:
        results.add(typed.results, found, minutes)
    sys.exit(any(row["bad"] for row in found.values()))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--only", default="", help="attacks by name, with commas between them")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--cases", type=int, help="at most so many cases of each attack and job")
    parser.add_argument("--results", type=Path, help="JSON file to which the figures are added")
    return parser


def _attack(
    typed: argparse.Namespace, seed: int, names: list[str], folder: Path
) -> dict[str, dict[str, Any]]:
    """Start the workers and hear them; returns tried, bad and examples by attack."""
    attacks = _chosen(names)
    print(f"seed {seed}: {', '.join(attack.name for attack in attacks)}", flush=True)
    found: dict[str, dict[str, Any]] = {
        attack.name: {
            "tried": 0,
            "bad": 0,
            "unit": attack.unit,
            "varied": attack.varied,
            "cases": [],
        }
        for attack in attacks
    }
    streams: dict[int, int] = {}
    deadline = time.monotonic() + 60 * typed.minutes
    for job in range(typed.jobs):
        read, write = os.pipe()
        worker = os.fork()
        if not worker:
            os.close(read)
            _work(attacks, seed + job * 10**9, deadline, typed.cases, folder / str(job), write)
        os.close(write)
        streams[read] = worker
    try:
        _hear(streams, found, deadline + GRACE)
    finally:
        for worker in streams.values():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(worker, signal.SIGKILL)
        for disk in folder.glob("*/disk"):
            subprocess.run(["umount", str(disk)], check=False, capture_output=True)
    return found


def _chosen(names: list[str]) -> list[Attack]:
    from tools.soak.attacks import ATTACKS

    unknown = set(names) - {attack.name for attack in ATTACKS}
    if unknown:
        known = ", ".join(attack.name for attack in ATTACKS)
        sys.exit(f"no attack {', '.join(sorted(unknown))}; there are {known}")
    return [attack for attack in ATTACKS if not names or attack.name in names]


def _work(
    attacks: list[Attack], seed: int, deadline: float, cases: int | None, folder: Path, write: int
) -> None:
    """Attack until the time is over: always with what has had the least of its share."""
    code = 1
    try:
        # A group of its own, so that whatever it started can be ended with it.
        os.setpgid(0, 0)
        from tools.soak.running import warm_up

        folder.mkdir()
        warm_up()
        room = Room(folder)
        spent = dict.fromkeys((attack.name for attack in attacks), 0.0)
        made = dict.fromkeys(spent, 0)
        while True:
            open_ = [a for a in attacks if cases is None or made[a.name] < cases]
            if not open_ or time.monotonic() > deadline:
                break
            attack = min(open_, key=lambda a: spent[a.name] / a.share)
            size = attack.batch if cases is None else min(attack.batch, cases - made[attack.name])
            first, begun = seed + made[attack.name], time.monotonic()
            verdicts = attack.run(range(first, first + size), room)
            made[attack.name] += size
            spent[attack.name] += time.monotonic() - begun
            told = [[v.seed, v.tried, list(v.troubles)] for v in verdicts]
            os.write(write, (json.dumps([attack.name, told]) + "\n").encode())
            _clear(room)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _clear(room: Room) -> None:
    import shutil

    for path in room.folder.glob("case-*"):
        shutil.rmtree(path, ignore_errors=True)


def _hear(streams: dict[int, int], found: dict[str, dict[str, Any]], deadline: float) -> None:
    """Add up what the workers tell; whoever is far too late is stopped, and that is bad too."""
    heard = dict.fromkeys(streams, b"")
    while heard:
        ready, _, _ = select.select(list(heard), [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            break
        for stream in ready:
            chunk = os.read(stream, 1 << 16)
            *lines, rest = (heard[stream] + chunk).split(b"\n")
            heard[stream] = rest
            for line in lines:
                _count(json.loads(line), found)
            if not chunk:
                del heard[stream]
    for stream, worker in streams.items():
        if stream in heard:
            os.killpg(worker, signal.SIGKILL)
        if os.waitpid(worker, 0)[1]:
            raise SystemExit("a worker of the soak itself failed, or had to be stopped")


def _count(told: Any, found: dict[str, dict[str, Any]]) -> None:
    name, verdicts = told
    for seed, tried, troubles in verdicts:
        found[name]["tried"] += tried
        found[name]["bad"] += bool(troubles)
        for trouble in troubles:
            print(f"{name} {seed}: {trouble}", flush=True)
        if troubles:
            found[name]["cases"].append({"seed": seed, "troubles": troubles})
