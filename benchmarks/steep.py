"""Where popularity is steep or items are few: what each mechanism releases, and what it misses.

    python -m benchmarks.steep [--keys 10]    (ten minutes)

People are made up (`made_up.zipf_like`). Results are kept in benchmarks/results/steep.json.
"""

from __future__ import annotations

import argparse
import itertools
import json
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import dpsu
from benchmarks.kept import keep
from benchmarks.yields import facts_of, interned
from dpsu.engines import local
from dpsu.randomness.keys import Key
from dpsu.yields.made_up import zipf_like

RESULTS = Path(__file__).resolve().parent / "results" / "steep.json"
NAMES = ("sieve", "greedy", "policy-laplace", "bits", "weighted-gaussian", "auto")
PEOPLE, EPSILON, DELTA = 20_000, 1.0, 1e-6
# What one person in a hundred holds.
COMMON = PEOPLE // 100
VOCABULARIES, SIZES, EXPONENTS = (100_000, 1_000), (3, 6, 10, 20), (1.0, 1.3, 1.6)
SPREADS = {1.0: "all hold equally many", 1.8: "some hold far more than others"}
# More people and a larger epsilon, for the smallest sets of equal size.
MORE_PEOPLE, LARGER_EPSILON = 300_000, 3.0

ABOUT = f"""\
## Steep popularity, and few different items

Made by `python -m benchmarks.steep`: {PEOPLE:,} made-up people, epsilon {EPSILON:g}, delta
{DELTA:.0e}, {{keys}} keys. The item of rank r is drawn in proportion to r to the power of minus the
exponent. The sets have a spread (mean by median) of 1, where all hold equally many items, or 1.8.
A cell has the mean number of released items and, in brackets, how many *common* items are missed on
average: items that {COMMON} people or more hold. The largest number of a row is bold."""


def measured(
    vocabulary: int,
    spread: float,
    size: int,
    exponent: float,
    keys: int,
    people: int = PEOPLE,
    epsilon: float = EPSILON,
) -> dict[str, Any]:
    """What every mechanism releases and misses of one set."""
    rows = zipf_like(
        people, items_per_user=size, zipf=exponent, vocabulary=vocabulary, spread=spread, seed=1
    )
    # Held or not: how often a person drew an item would order the votes of greedy by popularity.
    pairs = interned(rows.set_column(2, "count", pa.array(np.ones(len(rows), np.int64))))
    holders = facts_of(pairs)[0]
    common = set(
        pairs.items.values.take(pa.array(np.flatnonzero(holders >= people // 100))).to_pylist()
    )
    found: dict[str, Any] = {
        "people": people, "epsilon": epsilon, "vocabulary": vocabulary, "spread": spread,
        "items": size, "exponent": exponent, "keys": keys, "common": len(common),
    }  # fmt: skip
    for name in NAMES:
        plan = dpsu.plan(epsilon=epsilon, delta=DELTA, mechanism=name)
        sizes, missed = [], []
        for seed in range(keys):
            out = local.select_items(plan, pairs, Key.from_insecure_seed(1000 + seed))[1]
            sizes.append(len(out))
            missed.append(len(common.difference(out.to_pylist())))
        found[name] = [float(np.mean(sizes)), float(np.mean(missed))]
    return found


def ahead(row: dict[str, Any]) -> float:
    """Items released by greedy, divided by items released by sieve."""
    return float(row["greedy"][0] / row["sieve"][0])


def most(rows: Iterable[dict[str, Any]]) -> str:
    """The largest such ratio, in words."""
    return f"{max(map(ahead, rows)):.1f} times"


def missed(rows: Iterable[dict[str, Any]], name: str) -> str:
    """The part of the common items that a mechanism misses where greedy is ahead."""
    won = [row for row in rows if ahead(row) > 1.0]
    return f"{sum(row[name][1] for row in won) / sum(row['common'] for row in won):.0%}"


def worst(rows: Iterable[dict[str, Any]]) -> str:
    """The smallest ratio of auto to the best of the others, which have all of epsilon."""
    return f"{min(r['auto'][0] / max(r[name][0] for name in NAMES[:-1]) for r in rows):.0%}"


def summary(rows: list[dict[str, Any]]) -> str:
    """A table of these ratios for all sets, and what follows from it."""
    lines = ["| different items | items per user |" + "".join(f" {e:g} |" for e in EXPONENTS)]
    lines.append("|---:|---:" + "|---:" * len(EXPONENTS) + "|")
    parts = {(r["vocabulary"], r["items"], r["exponent"], r["spread"]): ahead(r) for r in rows}
    for vocabulary, size in itertools.product(VOCABULARIES, SIZES):
        cells = [
            " / ".join(f"{parts[vocabulary, size, exponent, spread]:.2f}" for spread in SPREADS)
            for exponent in EXPONENTS
        ]
        lines.append(f"| {vocabulary:,} | {size} | {' | '.join(cells)} |")
    alike, apart = SPREADS.values()
    return "\n".join([
        f"Items released by `greedy`, divided by items released by `sieve`, among {PEOPLE:,} "
        f"made-up people at epsilon {EPSILON:g}, for exponents 1, 1.3 and 1.6 of Zipf's law (the "
        f"larger, the steeper is popularity). The first number is for sets where {alike}, the "
        f"second for sets where {apart}:", "", *lines, "",
        f"`greedy` releases up to {most(rows)} as many items as `sieve`, and up to "
        f"{most(row for row in rows if row['items'] >= SIZES[1])} as many if users hold {SIZES[1]} "
        "items or more. In the sets where it releases more, it misses "
        f"{missed(rows, 'greedy')} of "
        "the items that one person in a hundred holds; `policy-laplace` misses "
        f"{missed(rows, 'policy-laplace')}, `sieve` {missed(rows, 'sieve')} and `bits` "
        f"{missed(rows, 'bits')}. `auto` releases at least {worst(rows)} of what the best of them "
        f"releases. Among {MORE_PEOPLE:,} people at epsilon {LARGER_EPSILON:g}, with {SIZES[0]} "
        f"items each of {VOCABULARIES[0]:,}, the first numbers are "
        f"{', '.join(f'{ahead(row):.2f}' for row in kept(more=True))}. "
        "Made by `python -m benchmarks.steep`; [all "
        "numbers](../figures/yields.md#steep-popularity-and-few-different-items).",
    ])  # fmt: skip


def section(rows: list[dict[str, Any]]) -> str:
    """The page's section: a table for each number of items and spread."""
    parts = [ABOUT.format(keys=rows[0]["keys"])]
    for vocabulary, (spread, told) in itertools.product(VOCABULARIES, SPREADS.items()):
        parts += ["", f"{vocabulary:,} different items, {told}:", ""]
        parts.append(f"| items per user | exponent | common | {' | '.join(NAMES)} |")
        parts.append("|---:" * (3 + len(NAMES)) + "|")
        for row in rows:
            if (row["vocabulary"], row["spread"]) != (vocabulary, spread):
                continue
            largest = max(row[name][0] for name in NAMES)
            cells = [f"{row[name][0]:,.0f}" for name in NAMES]
            cells = [
                f"{f'**{cell}**' if row[name][0] == largest else cell} ({row[name][1]:.1f})"
                for name, cell in zip(NAMES, cells, strict=True)
            ]
            parts.append(
                f"| {row['items']} | {row['exponent']:g} | {row['common']} | {' | '.join(cells)} |"
            )
    return "\n".join(parts)


def kept(*, more: bool = False) -> list[dict[str, Any]]:
    """What was last measured, of the people of the table or of more."""
    found: list[dict[str, Any]] = json.loads(RESULTS.read_text("utf-8"))
    return [row for row in found if (row["people"] == MORE_PEOPLE) == more]


def main() -> None:
    """Measure every set, and keep what was found."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--keys", type=int, default=10)
    keys = parser.parse_args().keys
    warnings.simplefilter("ignore")
    rows = []
    for cell in itertools.product(VOCABULARIES, SPREADS, SIZES, EXPONENTS):
        rows.append(measured(*cell, keys))
        print(cell, f"{ahead(rows[-1]):.2f}", flush=True)
    first = VOCABULARIES[0], min(SPREADS), SIZES[0]
    for exponent in EXPONENTS:
        rows.append(measured(*first, exponent, keys, MORE_PEOPLE, LARGER_EPSILON))
    keep(RESULTS, rows)
    print(summary(kept()))


if __name__ == "__main__":
    main()
