"""How many items of a user are still open in the rounds of bits, and what not knowing it loses.

    python -m benchmarks.bits

All users are made up, as those on which the constants of sieve were chosen. `rounds.bits` takes its
rule for public numbers from here. The columns: the mean number of open items at the beginning of
each round, of users who have any, as a part of the mean of the first; how many items are released
with the caps of these means; and as a part of it, how many are with caps from estimates that are
paid for, and with caps from the first mean by several rules.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np

import dpsu
from benchmarks.choosing import made_up
from benchmarks.yields import interned
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.engines.local_rounds import LocalRounds
from dpsu.randomness.coins import flip_words
from dpsu.randomness.keys import Key
from dpsu.rounds import BitsRounds
from dpsu.rounds.bits import STILL_OPEN, nearest_cap
from dpsu.yields.made_up import reddit_like

RULES = {
    "rule": STILL_OPEN,
    "mean": (1.0, 1.0, 1.0, 1.0),
    "two thirds": (1.0, 0.67, 0.67, 0.67),
    "half": (1.0, 0.5, 0.5, 0.5),
    "falling": (1.0, 0.5, 0.4, 0.35),
    "third": (1.0, 0.35, 0.35, 0.35),
    "falling below": (1.0, 0.35, 0.25, 0.2),
}
PRIVACY = ((3.0, math.exp(-10)), (1.0, 1e-5))
UNIT = 1 << 20


def made_up_sets() -> dict[str, Pairs]:
    """The sets on which the constants of sieve were chosen, and one of many items per user."""
    return {
        "Reddit-shaped": interned(reddit_like(60_000, seed=5)),
        "12 items": made_up(50_000, 8, 0.9, 1.05),
        "40 items": made_up(50_000, 27, 0.9, 1.05),
        "120 items": made_up(30_000, 80, 0.9, 1.05),
        "400 items": made_up(8_000, 270, 0.9, 1.05),
    }


def released(bits: BitsRounds, pairs: Pairs, plan: dpsu.Plan, seed: int) -> int:
    """Number of items, by these rounds."""
    changed = replace(plan, design=replace(plan.design, selection=bits))
    return len(local.select_items(changed, pairs, Key.from_insecure_seed(seed))[1])


def true_means(
    bits: BitsRounds, pairs: Pairs, plan: dpsu.Plan, seed: int
) -> tuple[list[float], int]:
    """Mean numbers of open items, each used for the cap of its round, and what is released."""
    key = Key.from_insecure_seed(seed)
    users, items, held = local.group_as_planned(plan, pairs, key)
    engine, out, means = LocalRounds(held, users, items, key), np.zeros(len(items), bool), []
    for round_ in range(len(bits.shares)):
        having, total = engine.add_open(out, (1, UNIT), (1, UNIT)).tolist()
        means.append(total / max(1, having))
        curve = bits.curve(round_, nearest_cap(max(1.0, means[-1])))
        weights = engine.give_units(out, curve.prices, curve.budget, round_)
        out |= flip_words(curve.chances, weights, items, key, round_)
    return means, int(out.sum())


def main() -> None:
    """Print one line for every shape of users and every guarantee."""
    warnings.simplefilter("ignore")
    head = ["set", "items", "epsilon", "open", "known", "paid", *RULES]
    print("| " + " | ".join(head) + " |\n" + "|---:" * len(head) + "|")
    for name, pairs in made_up_sets().items():
        size = len(pairs) / len(pairs.users)
        for epsilon, delta in PRIVACY:
            plan = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=dpsu.Bits(items_per_user=size))
            paid = dpsu.plan(epsilon=epsilon, delta=delta, mechanism=dpsu.Bits())
            bits = plan.selection
            assert isinstance(bits, BitsRounds)
            means, best = true_means(bits, pairs, plan, 1)
            found = [len(local.select_items(paid, pairs, Key.from_insecure_seed(1))[1])]
            for rule in RULES.values():
                caps = tuple(nearest_cap(max(1.0, size * part)) for part in rule)
                found.append(released(replace(bits, caps=caps), pairs, plan, 1))
            parts = ", ".join(f"{each / means[0]:.2f}" for each in means)
            shares = " | ".join(f"{each / max(1, best):.3f}" for each in found)
            shape = f"| {name} | {size:.3g} | {epsilon:g} |"
            print(f"{shape} {parts} | {best:,} | {shares} |", flush=True)


if __name__ == "__main__":
    main()
