"""Which mechanism releases most, by users, set sizes, skew and epsilon, on made-up data.

    python -m benchmarks.choosing [--cells 51] [--pairs 600000]    (six minutes)

Popularity follows a power law, set sizes are log-normal about their median. `dpsu.Auto` takes its
bounds from here, and from nothing else. A cell is one such set. For each cell and guarantee, what
every candidate and auto release is kept in benchmarks/results/choosing.json, for users who may act
one after the other ("all") and for users who may not ("parallel"). Cells come in an order that was
shuffled once, so that the first of them are a fair sample of all.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dpsu
from benchmarks.kept import keep
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs, Rows
from dpsu.engines import local
from dpsu.plans.mechanisms import Mechanism
from dpsu.randomness.keys import Key

RESULTS = Path(__file__).resolve().parent / "results" / "choosing.json"
CANDIDATES: dict[str, Mechanism] = {
    "greedy": dpsu.Greedy(order="hash", cutoff=10_000),
    "policy-laplace": dpsu.PolicyLaplace(alpha=7.0),
    "count-laplace 1": dpsu.CountLaplace(max_items=1),
    "sieve 300": dpsu.Sieve(),
    "sieve 1000": dpsu.Sieve(max_items=1000),
    "bits": dpsu.Bits(),
}
AMONG = ("all", "parallel")
PRIVACY = ((4.0, 1e-5), (3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 1e-6))
USERS = (1_000, 5_000, 20_000, 100_000, 500_000)
MEDIANS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, 150.0, 400.0, 1000.0)
SPREADS = (0.4, 1.0, 1.8)
EXPONENTS = (1.05, 0.75)
# Fewer items than that are a matter of luck.
WORTH_IT = 200
NEAR = 0.97
ITEMS = ((0.0, 1.1), (1.1, 2.0), (2.0, 6.0), (6.0, 40.0), (40.0, 200.0), (200.0, math.inf))
EXPLANATION = """\
## What the choice of `auto` costs, on made-up data

Made by `python -m benchmarks.choosing`: made-up sets of 1,000 to {users:,} users, which differ in
how many items users hold, in how far these numbers spread, and in how skewed popularity is. The
ratio compares what `auto` releases, which pays for its estimate, with the best of its candidates,
which has all of epsilon and releases {worth_it} items at least. Which is best is known only after
the fact. The bounds of `auto` were chosen on such data; the sets above had no part in it. Each case
has one key, so that differences of 1 % or 2 % are luck."""
TOLD = {
    "all": "On one machine, among `greedy`, `policy-laplace`, `sieve` and `bits`:",
    "parallel": "Among those that run on Spark: `count-laplace` with one item, `sieve` and `bits`:",
}


def made_up(
    users: int, median: float, spread: float, exponent: float, n_items: int = 200_000
) -> Pairs:
    """Users whose sets have this size in the middle, repetitions included."""
    rng = np.random.default_rng(1)
    popularity = np.cumsum(1.0 / np.arange(1, n_items + 1) ** exponent)
    popularity /= popularity[-1]
    drawn = np.clip(rng.lognormal(math.log(median), spread, users), 1, 5000)
    sizes = np.rint(drawn).astype(np.int64) if median > 1 else np.ones(users, np.int64)
    user = np.repeat(np.arange(users), sizes)
    item = np.searchsorted(popularity, rng.random(len(user)))
    users_column, items_column = (pa.chunked_array([pa.array(column)]) for column in (user, item))
    return intern(Rows([lambda: (users_column, items_column, None)], ("user", "item", None)))


def all_cells(pairs: float) -> list[tuple[int, float, float, float]]:
    """Users, median, spread and exponent of all cells of at most so many pairs, shuffled."""
    found = [
        (users, median, spread, exponent)
        for users, median, spread, exponent in itertools.product(USERS, MEDIANS, SPREADS, EXPONENTS)
        if users * median * math.exp(spread**2 / 2) <= pairs
        and (median > 1 or spread == SPREADS[0])
    ]
    random.Random(1).shuffle(found)
    return found


def measured(cell: tuple[int, float, float, float]) -> list[dict[str, Any]]:
    """What every candidate and auto release from a cell, for every guarantee worth it."""
    users, _, spread, exponent = cell
    pairs, key = made_up(*cell), Key.from_insecure_seed(1)
    found = []
    for epsilon, delta in PRIVACY:

        def released(
            mechanism: Mechanism, epsilon: float = epsilon, delta: float = delta
        ) -> tuple[dpsu.Plan, int]:
            plan = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=mechanism)
            made, items = local.select_items(plan, pairs, key)
            return made, len(items)

        sizes = {name: released(mechanism)[1] for name, mechanism in CANDIDATES.items()}
        if max(sizes.values()) < WORTH_IT:
            continue
        chosen = {}
        for among in AMONG:
            plan, items = released(dpsu.Auto(among=among))
            limit = "" if plan.max_items is None else f" {plan.max_items}"
            assert plan.hints is not None
            estimated = plan.hints.expected_items_per_user
            unseen = " (too few users to tell)" if estimated is None else ""
            chosen[among] = {"took": plan.name + limit + unseen, "items": items}
        found.append({
            "users": users, "spread": spread, "exponent": exponent,
            "items_per_user": len(pairs) / users, "epsilon": epsilon,
            "sizes": sizes, "auto": chosen,
        })  # fmt: skip
    return found


def offered(among: str) -> list[str]:
    """The candidates that auto may choose from."""
    if among == "parallel":
        return [name for name, mechanism in CANDIDATES.items() if mechanism.parallel]
    return [name for name in CANDIDATES if name != "count-laplace 1"]


def ratio(row: dict[str, Any], among: str) -> float:
    """What auto releases by the best of its candidates."""
    part: float = row["auto"][among]["items"] / max(row["sizes"][each] for each in offered(among))
    return part


def section(rows: list[dict[str, Any]]) -> str:
    """The page's section: medians and worst ratios, and every case that is not near the best."""
    most = max(row["users"] for row in rows)
    parts = [EXPLANATION.format(worth_it=WORTH_IT, users=most)]
    for among in AMONG:
        kept = [row for row in rows if max(row["sizes"][e] for e in offered(among)) >= WORTH_IT]
        far = sorted((row for row in kept if ratio(row, among) < NEAR), key=_place)
        parts += ["", TOLD[among], "", *_summary(kept, among), ""]
        near = len(kept) - len(far)
        parts.append(f"Of {len(kept)} cases, {near} are at {NEAR:.0%} or more. The others:")
        parts += ["", *_far(far, among)] if far else []
    return "\n".join(parts)


def _place(row: dict[str, Any]) -> tuple[float, ...]:
    return row["items_per_user"], row["users"], row["exponent"], -row["epsilon"]


def _summary(rows: list[dict[str, Any]], among: str) -> list[str]:
    """Median and worst ratio by items per user and epsilon."""
    epsilons = [epsilon for epsilon, _ in PRIVACY]
    lines = ["| items per user | " + " | ".join(f"epsilon {e:g}" for e in epsilons) + " |"]
    lines.append("|---" + "|---:" * len(epsilons) + "|")
    for low, high in ITEMS:
        cells = []
        for epsilon in epsilons:
            parts = [
                ratio(row, among)
                for row in rows
                if row["epsilon"] == epsilon and low <= row["items_per_user"] < high
            ]
            cells.append(_told(parts))
        name = f"below {high:g}" if low == 0 else f"{low:g} to {high:g}"
        lines.append(f"| {name if high < math.inf else f'from {low:g}'} | {' | '.join(cells)} |")
    return [*lines, "", "Each is the median, the worst, and the number of cases."]


def _told(parts: list[float]) -> str:
    if not parts:
        return "-"
    return f"{statistics.median(parts):.1%}, {min(parts):.1%} ({len(parts)})"


def _far(rows: Iterable[dict[str, Any]], among: str) -> list[str]:
    """A line for every case."""
    lines = [
        "| users | items per user | spread | skew | epsilon | best | items | `auto` took | ratio |",
        "|---:|---:|---:|---:|---:|---|---:|---|---:|",
    ]
    for row in rows:
        sizes = {name: row["sizes"][name] for name in offered(among)}
        best = max(sizes, key=lambda name: sizes[name])
        took = row["auto"][among]
        lines.append(
            f"| {row['users']:,} | {row['items_per_user']:.1f} | {row['spread']:g} | "
            f"{row['exponent']:g} | {row['epsilon']:g} | {best} | {sizes[best]:,} | "
            f"{took['took']} | {ratio(row, among):.1%} |"
        )
    return lines


def main() -> None:
    """Measure cells, keep them, and print the section of the page."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pairs", type=float, default=6e5, help="leave out larger cells")
    parser.add_argument("--cells", type=int, default=51, help="measure so many of the cells")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: list[dict[str, Any]] = []
    for at, cell in enumerate(all_cells(options.pairs)[: options.cells], 1):
        rows += measured(cell)
        # After every cell: what was measured stays if somebody stops it.
        keep(RESULTS, rows)
        print(at, cell, flush=True)
    print(section(rows))


if __name__ == "__main__":
    main()
