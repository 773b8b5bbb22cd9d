"""Which mechanism releases most when users hold few items, on made-up data.

    python benchmarks/few_items.py

Popularity follows Zipf's law, set sizes are log-normal. `plans.auto` takes its bounds from here.
"""

from __future__ import annotations

import math
import warnings

import numpy as np
import pyarrow as pa

import dpsu
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs, rows_of
from dpsu.engines import local
from dpsu.plans.mechanisms import Mechanism
from dpsu.randomness.keys import Key

CANDIDATES: dict[str, Mechanism] = {
    "sieve": dpsu.Sieve(),
    "sieve 100": dpsu.Sieve(max_items=100),
    "sieve 1000": dpsu.Sieve(max_items=1000),
    "policy-gaussian": dpsu.PolicyGaussian(),
    "policy-laplace": dpsu.PolicyLaplace(),
    "greedy": dpsu.Greedy(order="hash"),
    "greedy, no cutoff": dpsu.Greedy(order="hash", cutoff=10_000),
}


def made_up(users: int, mean: float, seed: int = 1, n_items: int = 200_000) -> Pairs:
    """Users with this many items on average, repetitions included."""
    rng = np.random.default_rng(seed)
    popularity = np.cumsum(1.0 / np.arange(1, n_items + 1) ** 1.05)
    popularity /= popularity[-1]
    sizes = np.ones(users, np.int64)
    if mean > 1:
        drawn = rng.lognormal(math.log(mean) - 0.5 * 0.9**2, 0.9, users)
        sizes = np.clip(drawn, 1, 3000).astype(np.int64)
    user = np.repeat(np.arange(users), sizes)
    item = np.searchsorted(popularity, rng.random(len(user)))
    users_column, items_column = (pa.chunked_array([pa.array(c)]) for c in (user, item))
    return intern(rows_of(users_column, items_column, None, ("user", "item", None)))


def main() -> None:
    """Print each candidate's share of the best, for users, items per user and privacy."""
    warnings.simplefilter("ignore")
    print("| users | items | epsilon | " + " | ".join(CANDIDATES) + " | best |")
    print("|---:" * (len(CANDIDATES) + 4) + "|")
    for users in (5_000, 50_000, 400_000):
        for mean in (1, 1.5, 2, 3, 5, 10, 40):
            if users * mean > 4_000_000:
                continue
            pairs = made_up(users, mean)
            for epsilon, delta in ((3.0, math.exp(-10)), (1.0, 1e-5)):
                sizes = {
                    name: len(
                        local.run(
                            dpsu.plan(epsilon=epsilon, delta=delta, mechanism=mechanism),
                            pairs,
                            Key.from_insecure_seed(1),
                        )
                    )
                    for name, mechanism in CANDIDATES.items()
                }
                best = max(sizes.values())
                shares = " | ".join(f"{size / max(best, 1):.3f}" for size in sizes.values())
                print(f"| {users:,} | {mean:g} | {epsilon:g} | {shares} | {best:,} |", flush=True)


if __name__ == "__main__":
    main()
