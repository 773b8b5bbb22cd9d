"""How much the public constants of sieve matter, on made-up data.

    python benchmarks/steering.py

Each line changes some constants of the default and prints the change in size, over four made-up
sets and two budgets. The defaults were chosen by this script, never on data that are reported.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.bits import made_up_sets
from dpsu.contributions import order
from dpsu.contributions.grouped import Contributions, arrange
from dpsu.contributions.ids import Ids
from dpsu.contributions.pairs import Pairs
from dpsu.engines.local_rounds import LocalRounds
from dpsu.randomness.keys import Key
from dpsu.rounds.sieve import Steering, design_sieve

CHANGES: dict[str, dict[str, Any]] = {
    "first version": {
        "growth": 0.7, "cap": 0.2,
        "rounds": 14,
        "steering": Steering(
            gain=1.15, extra=0.25, open_above=0.4, open_below=0.3, memory=0.9, doubt=0.0, late=0.0
        ),
    },
    "no doubt": {"steering": Steering(doubt=0.0)},
    "let common items wait": {"steering": Steering(late=0.0)},
    "steer more softly": {"steering": Steering(open_above=0.4, open_below=0.6)},
    "steer more sharply": {"steering": Steering(open_above=0.8, open_below=1.2)},
    "forget nothing": {"steering": Steering(memory=1.0)},
    "forget faster": {"steering": Steering(memory=0.85)},
    "expect more of the rest": {"steering": Steering(gain=1.2)},
    "higher caps": {"cap": 0.2},
    "even shares": {"growth": 0.3},
    "steeper shares": {"growth": 1.2},
    "sets of 100": {"max_items": 100},
    "sets of 1000": {"max_items": 1000},
    "6 rounds": {"rounds": 6},
    "14 rounds": {"rounds": 14},
    "28 rounds": {"rounds": 28},
    "no scouting": {"scout_items": 0},
}  # fmt: skip
Held = tuple[Ids, Ids, Contributions]


def ordered(pairs: Pairs) -> Held:
    """Users, items and who holds what, in orders that do not matter to sieve."""
    by_user, by_item = order.hash_order(pairs.users, 1), order.hash_order(pairs.items, 2)
    held = arrange(pairs, by_user, by_item, with_repeats=False)
    return pairs.users.take(by_user), pairs.items.take(by_item), held


def sizes(sets: list[Held], steering: Steering | None = None, **changed: Any) -> np.ndarray:
    """Mean size over two keys, for every set and budget."""
    options = {"rounds": 20, "max_items": 300, "scout_items": 3000} | changed
    found = []
    for users, items, held in sets:
        for epsilon, delta in ((3.0, math.exp(-10)), (1.0, 1e-5)):
            sieve, _ = design_sieve(epsilon, delta, **options)
            if steering is not None:
                sieve = replace(sieve, steering=steering)
            released = []
            for seed in (7, 8):
                key = Key.from_insecure_seed(seed)
                fresh = replace(held, items=held.items.copy(), stop=held.stop.copy())
                shown = sieve.run(LocalRounds(fresh, users, items, key), items, key)
                released.append(int(shown.sum()))
            found.append(float(np.mean(released)))
    return np.array(found)


def main() -> None:
    """Print what each change does."""
    warnings.simplefilter("ignore")
    sets = [ordered(pairs) for name, pairs in made_up_sets().items() if name != "400 items"]
    base = sizes(sets)
    print(f"default: {', '.join(f'{size:,.0f}' for size in base)}")
    for name, change in CHANGES.items():
        ratio = sizes(sets, **change) / base
        mean = math.exp(float(np.log(ratio).mean()))
        print(f"{name}: {mean - 1:+.1%} ({', '.join(f'{r - 1:+.1%}' for r in ratio)})", flush=True)


if __name__ == "__main__":
    main()
