"""How many items of a user are still open in the rounds of bits, and what not knowing it loses.

    python -m benchmarks.bits

Popularity follows Zipf's law or that of Reddit, set sizes are log-normal or those of Reddit; all
users are made up. `rounds.bits` takes its rule for public numbers from here. The columns: the mean
number of open items at the beginning of each round, of users who have any, as a part of the mean of
the first; then items released with the caps of these means, with caps from estimates that are paid
for, and with caps from the first mean by several rules.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa

import dpsu
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.engines.local_rounds import LocalRounds
from dpsu.inputs.reading import read
from dpsu.randomness.coins import flip_words
from dpsu.randomness.keys import Key
from dpsu.rounds import BitsRounds
from dpsu.rounds.bits import STILL_OPEN, nearest_cap
from dpsu.yields.made_up import reddit_like, zipf_like

RULES = {
    "rule": STILL_OPEN,
    "mean": (1.0, 1.0, 1.0, 1.0),
    "half": (1.0, 0.5, 0.5, 0.5),
    "two thirds": (1.0, 0.67, 0.67, 0.67),
    "falling": (1.0, 0.7, 0.6, 0.5),
}
PRIVACY = ((3.0, math.exp(-10)), (1.0, 1e-5))
SHAPES = (
    (5_000, 10, 1.0), (50_000, 3, 1.0), (50_000, 10, 1.0), (50_000, 10, 1.4), (50_000, 30, 1.0),
    (20_000, 100, 1.0), (20_000, 100, 0.7), (200_000, 10, 1.0), (10_000, 300, 1.0),
)  # fmt: skip
UNIT = 1 << 20


def pairs_of(table: pa.Table) -> Pairs:
    """Rows as a release reads them."""
    key = Key.from_insecure_seed(0)
    return intern(read(table, user="user", item="item", count=None, with_repeats=False, key=key))


def released(bits: BitsRounds, pairs: Pairs, plan: dpsu.Plan, seed: int) -> int:
    """Number of items, by these rounds."""
    changed = replace(plan, design=replace(plan.design, selection=bits))
    return len(local.run(changed, pairs, Key.from_insecure_seed(seed)))


def true_means(
    bits: BitsRounds, pairs: Pairs, plan: dpsu.Plan, seed: int
) -> tuple[list[float], int]:
    """Mean numbers of open items, each used for the cap of its round, and what is released."""
    key = Key.from_insecure_seed(seed)
    users, items, held = local.group(plan, pairs, key)
    engine, out, means = LocalRounds(held, users, items, key), np.zeros(len(items), bool), []
    for round_ in range(len(bits.shares)):
        having, total = engine.add_open(out, (1, UNIT), UNIT).tolist()
        means.append(total / max(1, having / UNIT))
        curve = bits.curve(round_, nearest_cap(max(1.0, means[-1])))
        weights = engine.give_units(out, curve.prices, curve.budget, round_)
        out |= flip_words(curve.chances, weights, items, key, round_)
    return means, int(out.sum())


def main() -> None:
    """Print one line for every shape of users and every guarantee."""
    warnings.simplefilter("ignore")
    head = ["users", "items", "zipf", "epsilon", "open", "known", "paid", *RULES]
    print("| " + " | ".join(head) + " |\n" + "|---:" * len(head) + "|")
    for users, mean, zipf in (*SHAPES, (60_000, 0, 0)):
        made = reddit_like(users, seed=2)
        if mean:
            made = zipf_like(users, items_per_user=mean, zipf=zipf, vocabulary=200_000, seed=2)
        pairs = pairs_of(made)
        size = len(pairs) / len(pairs.users)
        for epsilon, delta in PRIVACY:
            plan = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=dpsu.Bits(items_per_user=size))
            paid = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=dpsu.Bits())
            bits = plan.selection
            assert isinstance(bits, BitsRounds)
            means, best = true_means(bits, pairs, plan, 1)
            found = [len(local.run(paid, pairs, Key.from_insecure_seed(1)))]
            for rule in RULES.values():
                caps = tuple(nearest_cap(max(1.0, size * part)) for part in rule)
                found.append(released(replace(bits, caps=caps), pairs, plan, 1))
            parts = ", ".join(f"{each / means[0]:.2f}" for each in means)
            shares = " | ".join(f"{each / max(1, best):.3f}" for each in found)
            print(
                f"| {users:,} | {size:.3g} | {zipf:g} | {epsilon:g} | {parts} | "
                f"{best:,} | {shares} |"
            )


if __name__ == "__main__":
    main()
