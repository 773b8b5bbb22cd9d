"""Releases that have a name, or are a period of a series, killed at any step and asked for again.

A step is a call of the operating system that changes a file, or a statement of a ledger. Whatever
the steps at which runs are killed: what came out, if anything, is one result, it is charged, and
the next run that is not killed ends with it, or with the first result, under the same charge.

    python -m tools.soak.retries FOLDER KILLS [--spark]   at random steps
    python -m tools.soak.retries FOLDER every             at every step, without a mechanism
"""

from __future__ import annotations

import functools
import importlib
import mmap
import os
import random
import secrets
import signal
import sqlite3
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dpsu
from tools.soak import data, promises, running
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.running import Ended

FILE, STDOUT, PYTHON, SERIES = "output file", "standard output", "Python", "series"
DOORS = (FILE, STDOUT, PYTHON, SERIES)
TWICE, UNCHARGED, LOST = "published twice", "published and not charged", "a charge was lost"
CALLS = ("open", "fsync", "fdopen", "mkdir", "rename", "replace", "link", "unlink", "write")
MECHANISM = "weighted-laplace"
BOOK = ("--ledger", promises.LEDGER, "--dataset", promises.DATASET, "--budget", promises.BUDGET)
OUTPUT, STEPS, FOLDER = "items.txt", "steps", "v.series"


class Deadly:
    """Kills this process at a step; the file at `count` says how many there were."""

    def __init__(self, count: Path, dies_at: int) -> None:
        count.write_bytes(bytes(8))
        self._count, self._dies_at = count, dies_at

    def __call__(self) -> None:
        """Begin to count."""
        with self._count.open("r+b") as file:
            shared = mmap.mmap(file.fileno(), 8)

        def step() -> None:
            number = int.from_bytes(shared[:8], "little") + 1
            shared[:8] = number.to_bytes(8, "little")
            if number == self._dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

        def around(call: Callable[..., Any]) -> Callable[..., Any]:
            def stepping(*args: Any, **kwargs: Any) -> Any:
                # What is true after a call is true before the next one.
                step()
                return call(*args, **kwargs)

            return stepping

        class Connection(sqlite3.Connection):
            execute = around(sqlite3.Connection.execute)

        connect = sqlite3.connect
        sqlite3.connect = lambda *a, **k: connect(*a, **k, factory=Connection)  # type: ignore[assignment]
        for name in CALLS:
            setattr(os, name, around(getattr(os, name)))


@dataclass(frozen=True)
class Door:
    """A way to ask for the release, where it is run, and whether its counts have noise."""

    name: str
    engine: str = "local"
    counts: bool = True

    def prepare(self, folder: Path) -> None:
        """What is there before the first run."""
        (folder / "rows.csv").write_bytes(data.as_csv(300))
        if self.name == SERIES:
            dpsu.Series.create(
                folder / FOLDER, periods=2, epsilon=8, delta=1e-8, counts=self.counts,
                mechanism=MECHANISM,
            )  # fmt: skip

    def arguments(self) -> list[str]:
        """What is typed behind `dpsu`."""
        typed = ["release", "rows.csv", "--epsilon", f"{data.EPSILON:g}", "--delta", "1e-8"]
        typed += ["--mechanism", MECHANISM, "--once", "monday"]
        typed += ["--counts"] if self.counts else []
        if self.name == SERIES:
            typed = ["series", "next", FOLDER, "rows.csv", "--period", "1"]
        typed += ["--output", OUTPUT] if self.name in (FILE, SERIES) else []
        return [*typed, *BOOK]

    def ask(self, folder: Path, dies_at: int = 0) -> Ended:
        """Ask for the release, in a process that dies at a step."""
        deadly = Deadly(folder / STEPS, dies_at)

        def call() -> None:
            write = os.write
            deadly()
            write(1, self._called().encode())
            os._exit(0)

        called = self.name == PYTHON or self.engine == "spark"
        before = call if called else deadly
        return running.run_to_the_end(self.arguments(), folder, before=before)

    def _called(self) -> str:
        epsilon, delta = promises.BUDGET.split(",")
        visits = dpsu.Ledger(promises.LEDGER).dataset(
            promises.DATASET, budget=(float(epsilon), float(delta)),
            once=None if self.name == SERIES else "monday",
        )  # fmt: skip
        options: dict[str, Any] = {"epsilon": data.EPSILON, "delta": 1e-8, "mechanism": MECHANISM}
        options |= {"counts": self.counts, "ledger": visits}
        if self.engine == "local":
            found = dpsu.release("rows.csv", **options)
        elif self.name == SERIES:
            found = dpsu.Series(FOLDER).release(_frame(), period=1, ledger=visits)
        else:
            with visits:
                found = dpsu.spark.release(_frame(), partitions=1, **options).released
                if self.name == FILE:
                    found.write(OUTPUT)
        return repr((found.items, found.counts and found.counts.to_pylist()))

    def seen(self, folder: Path, ended: Ended) -> bytes:
        """What came out of a run."""
        if self.name in (STDOUT, PYTHON) or (self.engine == "spark" and self.name == SERIES):
            return ended.stdout
        output = folder / OUTPUT
        content = output.read_bytes() if output.exists() else b""
        output.unlink(missing_ok=True)
        return content


@functools.cache
def _session() -> Any:
    """One session for this process and its children, who talk to it by connections of their own."""
    from dpsu.engines.spark.session import open_session

    os.environ["PYSPARK_PIN_THREAD"] = "false"
    return open_session("local[1]", {})


def _frame() -> Any:
    """The rows of the current folder, in a child."""
    session = _session()
    session.sparkContext._gateway._gateway_client.deque.clear()
    return session.read.csv(str(Path("rows.csv").absolute()), header=True)


def judge(door: Door, folder: Path, kills: Sequence[int]) -> tuple[int, list[str]]:
    """Kill runs at these steps, then ask in peace: how many died, and what was wrong."""
    died, troubles, seen = 0, [], []
    for dies_at in (*kills, 0):
        ended = door.ask(folder, dies_at)
        died += ended.code == -signal.SIGKILL
        seen.append(door.seen(folder, ended))
        charges = promises.entries(folder / promises.LEDGER)
        if seen[-1] and len(charges) != 1:
            troubles.append(f"{UNCHARGED}: {charges}")
        if len(charges) > 1:
            troubles.append(f"{LOST}: {charges}")
        if ended.code not in (0, -signal.SIGKILL) or (dies_at == 0 and not seen[-1]):
            troubles.append(f"{LOST}: code {ended.code}, {ended.stderr.strip()[-200:]}")
    if any(not seen[-1].startswith(each) for each in seen):
        troubles.append(f"{TWICE}: {seen}")
    if promises.entries(folder / promises.LEDGER) != [promises.DONE]:
        troubles.append(f"{LOST}: {promises.entries(folder / promises.LEDGER)}")
    how = f"[{door.name}, steps {list(kills)}]"
    return died, [f"{trouble} {how}" for trouble in troubles]


def steps_of(door: Door, room: Room) -> int:
    """How many steps a run has that is not killed."""
    known = room.memory.get(door)
    if not isinstance(known, int):
        folder = room.fresh()
        door.prepare(folder)
        ended = door.ask(folder)
        if ended.code:
            raise RuntimeError(f"{door} fails by itself: {ended.stderr}")
        known = room.memory[door] = int.from_bytes((folder / STEPS).read_bytes(), "little")
    return known


def at_random(seed: int, room: Room, engine: str = "local") -> Verdict:
    """One door and one to three kills."""
    rng = random.Random(seed)
    door = Door(rng.choice(DOORS if engine == "local" else (FILE, STDOUT, SERIES)), engine)
    steps = steps_of(door, room)
    folder = room.fresh()
    door.prepare(folder)
    kills = [rng.randint(1, steps) for _ in range(rng.randint(1, 3))]
    return Verdict(seed, *judge(door, folder, kills))


def at_every_step(room: Room) -> list[Verdict]:
    """All doors, killed at every step, and the next run at another one."""
    verdicts = []
    for door in (Door(name, counts=False) for name in DOORS):
        steps = steps_of(door, room)
        for step in range(1, steps + 1):
            folder = room.fresh()
            door.prepare(folder)
            kills = [step, 7 * step % steps + 1] if step % 4 == 0 else [step]
            verdicts.append(Verdict(step, *judge(door, folder, kills)))
    return verdicts


def without_mechanism() -> None:
    """Let every run of this process and its children draw one item instead."""
    import pyarrow as pa

    from dpsu.engines.found import Found
    from dpsu.engines.local import OneMachine

    def run(machine: OneMachine, key: object) -> Found:
        return Found(machine._plan, pa.array([secrets.token_hex(8)]))

    OneMachine.run = run  # type: ignore[method-assign,assignment]
    # Children find loaded what a run loads.
    for name in ("cli.release", "cli.series", "ledger.ledger", "series.repeated", "series.places"):
        importlib.import_module(f"dpsu.{name}")
    dpsu.release([("a", "b")], epsilon=1, delta=1e-6, mechanism=MECHANISM)


def main(arguments: list[str]) -> None:
    """Kill, and print how often and what was wrong."""
    room = Room(Path(arguments[0]))
    if arguments[1] == "every":
        without_mechanism()
        verdicts = at_every_step(room)
    else:
        engine = "spark" if "--spark" in arguments else "local"
        running.warm_up()
        if engine == "spark":
            _session()
        verdicts = []
        while sum(each.tried for each in verdicts) < int(arguments[1]):
            verdicts.append(at_random(len(verdicts), room, engine))
    for verdict in verdicts:
        for trouble in verdict.troubles:
            print(f"seed {verdict.seed}: {trouble}", file=sys.stderr)
    bad = [trouble for verdict in verdicts for trouble in verdict.troubles]
    counts = [sum(each.startswith(kind) for each in bad) for kind in (TWICE, UNCHARGED, LOST)]
    print(sum(each.tried for each in verdicts), *counts)


RETRIES = Attack(
    "retries", 0.1, 5, "kills",
    "step that reaches the disk, one to three kills in a row, way out of the result",
    lambda seeds, room: [at_random(seed, room) for seed in seeds],
)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
