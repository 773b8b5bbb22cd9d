"""Which mechanism releases most, by users, set sizes, skew and epsilon, on made-up data.

    python -m benchmarks.choosing [--cells 12] [--pairs 3000000]

Popularity follows a power law, set sizes are log-normal about their median. `dpsu.Auto` takes its
bounds from here, and from nothing else. Each row shows what every candidate releases as a part of
the best, which one auto takes, and what it releases as a part of the best fixed choice.
"""

from __future__ import annotations

import argparse
import itertools
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
    "votes": dpsu.Greedy(order="hash", cutoff=10_000),
    "policy-laplace": dpsu.PolicyLaplace(alpha=7.0),
    "sieve": dpsu.Sieve(),
    "sieve 1000": dpsu.Sieve(max_items=1000),
    "bits": dpsu.Bits(),
}
PRIVACY = ((4.0, 1e-5), (3.0, math.exp(-10)), (1.0, 1e-5), (0.5, 1e-6))
USERS = (1_000, 5_000, 20_000, 100_000, 500_000)
MEDIANS = (1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 10.0, 20.0, 50.0, 150.0, 400.0, 1000.0)
SPREADS = (0.4, 1.0, 1.8)
EXPONENTS = (1.05, 0.75)
WORTH_IT = 200


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
    return intern(rows_of(users_column, items_column, None, ("user", "item", None)))


def main() -> None:
    """Print a row for each cell and guarantee, and the worst of what auto releases."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--pairs", type=float, default=3e6, help="leave out larger cells")
    parser.add_argument("--every", type=int, default=1, help="take every n-th cell only")
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    head = ["users", "median", "spread", "exponent", "epsilon", *CANDIDATES, "best", "auto", "part"]
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|", flush=True)
    cells = [
        (users, median, spread, exponent)
        for users, median, spread, exponent in itertools.product(USERS, MEDIANS, SPREADS, EXPONENTS)
        if users * median * math.exp(spread**2 / 2) <= options.pairs
        and (median > 1 or spread == SPREADS[0])
    ]
    worst: dict[float, float] = {}
    for users, median, spread, exponent in cells[options.first :: options.every]:
        pairs = made_up(users, median, spread, exponent)
        for epsilon, delta in PRIVACY:
            plans = {
                name: dpsu.plan(epsilon=epsilon, delta=delta, mechanism=mechanism)
                for name, mechanism in CANDIDATES.items()
            }
            key = Key.from_insecure_seed(1)
            sizes = {
                name: len(local.select_items(plan, pairs, key)[1]) for name, plan in plans.items()
            }
            best = max(sizes.values())
            if best < WORTH_IT:
                continue
            taken, items = local.select_items(dpsu.plan(epsilon=epsilon, delta=delta), pairs, key)
            part = len(items) / best
            worst[epsilon] = min(part, worst.get(epsilon, 1.0))
            assert taken.hints is not None
            size = taken.hints.expected_items_per_user
            named = f"{taken.name} ({'?' if size is None else f'{size:.2g}'})"
            cells_ = [f"{each / best:.3f}" for each in sizes.values()]
            row = [f"{users:,}", f"{median:g}", f"{spread:g}", f"{exponent:g}", f"{epsilon:g}"]
            print("| " + " | ".join([*row, *cells_, f"{best:,}", named, f"{part:.3f}"]) + " |",
                  flush=True)  # fmt: skip
    print("worst part, by epsilon:", {epsilon: round(part, 3) for epsilon, part in worst.items()})


if __name__ == "__main__":
    main()
