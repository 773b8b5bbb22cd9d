"""Kills: releases that are ended at any moment by SIGKILL, SIGTERM, SIGINT or SIGHUP.

Some by a clock, some at a line of the package (which can be repeated), some twice in a row, some
while a fresh process still imports its modules. Whatever the moment: files are whole, a report has
its items, the ledger was charged, words are true, and a run afterwards works.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tools.soak import promises, running
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.data import CERTAIN
from tools.soak.promises import Task
from tools.soak.running import Ended, Steps

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FRESH = 0.05
# Where a release is charged, written and ended: most moments that matter are in these files.
ENDS = ("cli/", "writing.py", "spending.py", "ledger.py", "releases.py")


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return [Verdict(seed, 1, _case(random.Random(seed), room)) for seed in seeds]


def _case(rng: random.Random, room: Room) -> list[str]:
    task = random_task(rng)
    task = replace(task, once=task.ledger is not None and rng.random() < 0.5)
    promises.reference(task, room)
    folder = room.fresh()
    promises.prepare(task, folder, room)
    sent = rng.choice(SIGNALS)
    way = rng.random()
    if way < FRESH:
        ended, how = _by_clock(task, folder, rng, sent, room, fresh=True)
    elif way < 0.45:
        ended, how = _by_clock(task, folder, rng, sent, room, fresh=False)
    else:
        ended, how = _by_line(task, folder, rng, sent, room)
    troubles = promises.judge(task, folder, ended, room, sent=sent)
    troubles += _afterwards(task, folder, room)
    name = signal.Signals(sent).name
    return [f"{name} {how}: {trouble} [{' '.join(task.arguments())}]" for trouble in troubles]


def random_task(rng: random.Random) -> Task:
    """Any way to write: suffixes, a report, a ledger, things that are replaced."""
    output = rng.choice(("items.txt", "items.csv", "items.parquet", "items.json", None))
    return Task(
        mechanism=rng.choice(sorted(CERTAIN)),
        source=rng.choice(("rows.csv", "rows.jsonl")),
        output=output,
        report=rng.choice((None, "report.json", "report.txt")),
        ledger=promises.LEDGER if rng.random() < 0.7 else None,
        charged_before=rng.random() < 0.5,
        replaces=rng.random() < 0.5,
        public=rng.random() < 0.3,
        words=rng.choice(((), ("--quiet",), ("--verbose",))),
    )


def _by_clock(
    task: Task, folder: Path, rng: random.Random, sent: int, room: Room, *, fresh: bool
) -> tuple[Ended, str]:
    usual = _usual_seconds(task, room, fresh=fresh)
    moment = rng.uniform(0.0, 1.1 * usual)
    second = rng.uniform(0.0, 0.02) if rng.random() < 0.15 else None

    def disturb(child: int) -> None:
        for seconds in (moment, second):
            if seconds is not None and not running.ended_within(child, seconds):
                os.kill(child, sent)

    ended = running.run_to_the_end(task.arguments(), folder, fresh=fresh, disturb=disturb)
    again = " and again" if second is not None else ""
    return ended, f"after {moment:.3f} s{again}{' of a fresh process' if fresh else ''}"


def _by_line(
    task: Task, folder: Path, rng: random.Random, sent: int, room: Room
) -> tuple[Ended, str]:
    import dpsu

    package = Path(dpsu.__file__).parent
    ends = rng.random() < 0.8
    watched = [str(package / name) for name in ENDS] if ends else [str(package)]
    line = rng.randint(1, _usual_lines(task, watched, room))
    signals = [(line, sent)]
    if rng.random() < 0.15:
        signals.append((line + rng.randint(1, 60), sent))
    steps = Steps(watched, signals)
    ended = running.run_to_the_end(task.arguments(), folder, before=steps)
    return ended, f"at lines {[number for number, _ in signals]} of {'the ends' if ends else 'all'}"


def _usual_seconds(task: Task, room: Room, *, fresh: bool) -> float:
    def measure(folder: Path) -> float:
        begun = time.monotonic()
        running.run_to_the_end(task.arguments(), folder, fresh=fresh)
        return time.monotonic() - begun

    return float(_once(("seconds", fresh, task.public), task, room, measure))


def _usual_lines(task: Task, watched: list[str], room: Room) -> int:
    def measure(folder: Path) -> float:
        steps = Steps(watched)
        running.run_to_the_end(task.arguments(), folder, before=steps)
        return steps.count

    # The mechanism and the words change the number by little, and it need not be exact.
    kind = replace(task, mechanism="weighted-laplace", words=(), source="rows.csv")
    return int(_once(("lines", len(watched), kind), task, room, measure))


def _once(key: object, task: Task, room: Room, measure: Callable[[Path], float]) -> float:
    known = room.memory.get(key)
    if not isinstance(known, (int, float)):
        folder = room.fresh()
        promises.prepare(task, folder, room)
        known = room.memory[key] = measure(folder)
    return known


def _afterwards(task: Task, folder: Path, room: Room) -> list[str]:
    """A run afterwards must work, whatever was left behind, and under a name it costs nothing."""
    before = promises.entries(folder / task.ledger) if task.ledger else []
    again = replace(task, charged_before=bool(before))
    ended = running.run_to_the_end(again.arguments(), folder)
    if ended.code:
        return [f"a run afterwards failed: {ended.stderr.strip()[-200:]}"]
    troubles = promises.breakdowns(ended.stderr)
    # An empty one may be about to be written by another process, so that no run touches it.
    for left in (each for each in folder.rglob("*.partial") if each.stat().st_size):
        if left.parent != folder or not (left.name in ended.stderr or "--quiet" in task.words):
            troubles.append(f"left behind without a word: {left.relative_to(folder)}")
    charges = len(promises.entries(folder / task.ledger)) if task.ledger else 0
    if task.once and charges != 1 + task.charged_before:
        troubles.append(f"a name has {charges - task.charged_before} charges")
    expected = promises.reference(task, room)
    items = ended.stdout if task.output is None else promises.content_of(folder / task.output)
    if items != expected.items:
        troubles.append(f"a run afterwards wrote something else: {(items or b'')[:200]!r}")
    return troubles


KILLS = Attack(
    "kills", 0.3, 5, "kills",
    "signal, moment (clock, line of code, during imports, twice), format of output, report, ledger",
    _run,
)  # fmt: skip
