"""Races: many processes charge one ledger at once, and some are killed while they do.

What was charged is exactly what is on record, and at no moment more than the budget.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

from tools.soak import data
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.running import HUNG, wait

DATASET = "visits"
COST = 0.25
CHARGED, REFUSED, OTHER = b"c", b"r", b"x"


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return [_case(seed, random.Random(seed), room) for seed in seeds]


def _case(seed: int, rng: random.Random, room: Room) -> Verdict:
    folder = room.fresh()
    ledger = folder / "ledger.db"
    processes, each = rng.randint(2, 8), rng.randint(2, 8)
    affordable = rng.randint(1, processes * each + 2)
    budget = (COST * affordable, 0.1)
    killed = rng.randrange(processes) if rng.random() < 0.3 else None
    whole = rng.random() < 0.3
    moment = time.monotonic() + 0.05
    read, write = os.pipe()
    children = [
        _forked(lambda tell: _spend(ledger, budget, each, moment, tell, whole=whole), write)
        for _ in range(processes)
    ]
    watcher = _forked(lambda tell: _watch(ledger, budget, tell), write)
    os.close(write)
    if killed is not None:
        time.sleep(0.05 + rng.uniform(0.0, 0.1))
        os.kill(children[killed], signal.SIGKILL)
    told = _all_of(read, children)
    codes = [wait(child) for child in children]
    os.kill(watcher, signal.SIGTERM)
    watched = wait(watcher)
    troubles = [f"a process ended with {code}" for code in codes if code not in (0, -9)]
    troubles += ["a reader saw more spent than the budget, or less than before"] * (watched == 3)
    troubles += ["a reader hung"] * (watched == HUNG)
    troubles += _account(ledger, budget, told, affordable, killed=killed is not None)
    how = f"{processes} processes, {each} charges each, {affordable} affordable, killed {killed}"
    return Verdict(seed, processes * each, [f"{how}: {trouble}" for trouble in troubles])


def _forked(work: Callable[[Callable[[bytes], object]], None], write: int) -> int:
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work(lambda told: os.write(write, told))
        code = 0
    finally:
        os._exit(code)


def _spend(
    ledger: Path, budget: tuple[float, float], each: int, moment: float,
    tell: Callable[[bytes], object], *, whole: bool,
) -> None:  # fmt: skip
    """Charge again and again; `whole` releases something each time too."""
    import dpsu
    from dpsu.results import new_run

    plan = dpsu.plan(epsilon=COST, delta=1e-9, mechanism="policy-laplace")
    pairs = data.rows(3)
    time.sleep(max(0.0, moment - time.monotonic()))
    for _ in range(each):
        account = dpsu.Ledger(ledger).dataset(DATASET, budget=budget)
        try:
            if whole:
                dpsu.release(pairs, plan, ledger=account)
            else:
                with account as spending:
                    spending.charge(plan, run=new_run(DATASET).id)
            tell(CHARGED)
        except dpsu.BudgetError:
            tell(REFUSED)
        except Exception:
            tell(OTHER)


def _watch(ledger: Path, budget: tuple[float, float], tell: Callable[[bytes], object]) -> None:
    """Look at the account all the time; leave with 3 if it is ever wrong."""
    import dpsu

    seen = Fraction(0)
    begun = time.monotonic()
    while time.monotonic() < begun + 120:
        try:
            spent = Fraction(dpsu.Ledger(ledger).account(DATASET).total.epsilon)
        except dpsu.DpsuError:
            continue  # It is not there yet.
        if spent > Fraction(budget[0]) or spent < seen:
            os._exit(3)
        seen = spent


def _all_of(read: int, children: list[int]) -> bytes:
    """What the children told; the watcher keeps the pipe open, so count on their ends."""
    for child in children:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    os.set_blocking(read, False)
    try:
        return os.read(read, 1 << 16)
    except BlockingIOError:
        return b""
    finally:
        os.close(read)


def _account(
    ledger: Path, budget: tuple[float, float], told: bytes, affordable: int, *, killed: bool
) -> list[str]:
    import dpsu

    charged, refused = told.count(CHARGED), told.count(REFUSED)
    troubles = ["something else than a refusal came out"] * bool(told.count(OTHER))
    try:
        account = dpsu.Ledger(ledger).account(DATASET)
    except dpsu.DpsuError as error:
        return [*troubles, f"the ledger cannot be read: {error}"] if charged else troubles
    entries = len(account.releases)
    # Who was killed may have charged without telling.
    if not charged <= entries <= charged + killed:
        troubles.append(f"{charged} charged, {entries} on record")
    if Fraction(account.total.epsilon) != entries * Fraction(COST):
        troubles.append("the total is not the sum of its entries")
    if Fraction(account.total.epsilon) > Fraction(budget[0]):
        troubles.append(f"{float(account.total.epsilon)} spent of {budget[0]}")
    if refused and entries < affordable:
        troubles.append(f"refused although {entries} of {affordable} affordable were charged")
    return troubles


RACES = Attack(
    "races", 0.05, 2, "charges",
    "processes, charges, budget, whether one is killed, whether the ledger is charged alone",
    _run,
)  # fmt: skip
