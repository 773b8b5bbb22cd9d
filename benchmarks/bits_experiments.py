"""Four changes to bits that were tried, and what they release.

    python -m benchmarks.bits_experiments                   on made-up data
    python -m benchmarks.bits_experiments --shared FOLDER   and on the sets of benchmarks/yields.py

A public prior that tells users which of their items are hopeless; fewer and more rounds than four;
a single round, beside other mechanisms of one round; and a round of bits after sieve. The result
goes to benchmarks/results/bits_experiments.json, and from there to docs/explanation. Rows that are
marked "not private" look at what nobody may look at, or spend what no proof allows: they say what
could be gained at most. Shares of rounds were chosen on made-up data, the constants of the
simulation after sieve on 50,000 made-up users and on Steam games.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

import dpsu
from benchmarks.bits_changes import Data, Floats, Whole, after_sieve, bits_of, run
from benchmarks.choosing import made_up
from benchmarks.yields import PRIVACY, TEXTS, rows_of
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.inputs.public import Prior, read_prior
from dpsu.inputs.reading import read
from dpsu.plans.mechanisms import Mechanism
from dpsu.privacy.bits import BitsAccount, bits_account, rate_at_least
from dpsu.randomness.keys import Key
from dpsu.rounds import BitsRounds
from dpsu.rounds.bits import USUAL_ROUNDS, nearest_cap
from dpsu.yields.made_up import reddit_like

RESULTS = Path(__file__).resolve().parent / "results" / "bits_experiments.json"
WORDS = "public_wordfreq_en.parquet"
KEYS = 5
SHARED = {
    "airbnb_reviews": "Airbnb", "acl_first_author": "ACL", "steam_200k": "Steam",
    "fimi_retail": "FIMI",
}  # fmt: skip
# Made-up users: how many, items of each in the middle, and how steep popularity is.
SHAPES = {
    "1 item": (100_000, 1.0), "12 items": (50_000, 8.0), "40 items": (50_000, 27.0),
    "400 items": (8_000, 270.0),
}  # fmt: skip
SPREAD, ZIPF = 0.9, 1.05
# What a made-up prior was made from: so many draws of items whose popularity differs from that
# among the users by a log-normal factor. It knows what was drawn three times.
DRAWS, DIFFERENCE, DRAWN = 1_000_000, 1.0, 3
RANK, POWER, HALF = 20_000, 0.25, 0.5
FEW_HOLDERS = 5
ROUNDS = {
    "2 rounds": (0.07, 0.93),
    "3 rounds": (0.04, 0.12, 0.84),
    "4 rounds, other shares": (0.02, 0.04, 0.10, 0.84),
    "6 rounds": (0.005, 0.01, 0.02, 0.05, 0.12, 0.795),
}
ONE_ROUND: dict[str, Callable[[int], Mechanism]] = {
    "count-gaussian": lambda size: dpsu.CountGaussian(max_items=size),
    "weighted-laplace": lambda size: dpsu.WeightedLaplace(max_items=size),
    "weighted-gaussian": lambda size: dpsu.WeightedGaussian(max_items=size),
}
SIZES = (3, 10, 30, 100, 300)
Sizes = dict[str, list[int]]


def data_of(pairs: Pairs, prior: Prior | None) -> Data:
    """Users and items in the orders of a plan, which do not matter to bits."""
    plan = dpsu.plan(epsilon=1.0, delta=1e-5, mechanism=dpsu.Bits())
    users, items, held = local.group_as_planned(plan, pairs, Key.from_insecure_seed(0))
    ranks = None
    if prior is not None:
        places = pc.index_in(items.text(), value_set=prior.items).fill_null(-1)
        ranks = places.to_numpy(zero_copy_only=False).astype(np.int64) + 1
    return Data(pairs, users, items, held, ranks)


def made_up_prior(n_items: int = 200_000) -> Prior:
    """The prior of somebody who drew from other people's items."""
    rng = np.random.default_rng(2)
    popularity = 1.0 / np.arange(1, n_items + 1) ** ZIPF * rng.lognormal(0.0, DIFFERENCE, n_items)
    drawn = rng.poisson(DRAWS * popularity / popularity.sum())
    return read_prior({int(at): int(drawn[at]) for at in np.flatnonzero(drawn >= DRAWN)})


def sets(shared: Path | None, part: float) -> Iterator[tuple[str, Data]]:
    """All sets with their names; of made-up users only this part."""
    key, prior = Key.from_insecure_seed(0), made_up_prior()
    options: dict[str, Any] = {"user": "user", "item": "item", "repeats": None, "key": key}
    if shared is not None:
        for name, short in SHARED.items():
            words = read_prior(shared / WORDS) if name in TEXTS else None
            rows = read(rows_of(name, shared), with_repeats=False, **options)
            yield short, data_of(intern(rows), words)
    table = reddit_like(int(60_000 * part), seed=5)
    yield "Reddit-shaped", data_of(intern(read(table, with_repeats=False, **options)), None)
    for name, (users, median) in SHAPES.items():
        pairs = made_up(int(users * part), median, SPREAD, ZIPF)
        # Whoever has one item has nothing to leave out for its sake.
        yield name, data_of(pairs, prior if median > 1.0 else None)


def by_prior(data: Data, ranks: Whole) -> dict[str, list[Floats]]:
    """Gains of every round, from ranks in a prior."""
    known = (ranks > 0).astype(np.float64)
    by_rank = np.where(ranks > 0, ranks, 10 * max(1, int(ranks.max(initial=0))))
    holders = np.bincount(data.held.items, minlength=len(data.items))
    rounds = USUAL_ROUNDS
    return {
        "prior: unknown items left out": [known] * rounds,
        "prior: unknown items left out until the last round": (
            [known] * (rounds - 1) + [np.ones(len(known))]
        ),
        "prior: half as much for unknown items": [np.maximum(known, HALF)] * rounds,
        "prior: less by rank": [np.minimum(1.0, (RANK / by_rank) ** POWER)] * rounds,
        f"items of fewer than {FEW_HOLDERS} users left out (not private)": (
            [(holders >= FEW_HOLDERS).astype(np.float64)] * rounds
        ),
    }


def one_round(data: Data, privacy: tuple[float, float], keys: list[Key]) -> Sizes:
    """Sizes with a single round; others have the best of several sizes, found by looking."""
    epsilon, delta = privacy
    account = bits_account(epsilon, delta)
    # As if novel items and all others could each have nearly all of delta.
    most = 0.98 * delta
    sharper = BitsAccount(account.order, rate_at_least(epsilon, most, account.order), most)
    cap, whole = nearest_cap(max(1.0, data.size)), 1.0 - 1e-14
    known, bound = (BitsRounds(each, (whole,), (cap,), (), 0.0) for each in (account, sharper))
    found = {
        "1 round, mean estimated": [
            int(run(bits_of(account, (1.0,)), data, k).sum()) for k in keys
        ],
        "1 round, mean known": [int(known.run(data.engine(k), data.items, k).sum()) for k in keys],
        "1 round, sharper account (not private)": [
            int(bound.run(data.engine(k), data.items, k).sum()) for k in keys
        ],
    }
    for name, mechanism in ONE_ROUND.items():
        plans = [dpsu.plan(epsilon=epsilon, delta=delta, mechanism=mechanism(n)) for n in SIZES]
        best = max(plans, key=lambda plan: len(local.select_items(plan, data.pairs, keys[0])[1]))
        found[name] = [len(local.select_items(best, data.pairs, k)[1]) for k in keys]
    return found


def rows(data: Data, privacy: tuple[float, float], keys: list[Key]) -> Iterator[tuple[str, Sizes]]:
    """What each experiment releases on one set, by the name of what it is compared with."""
    bits = bits_of(bits_account(*privacy))
    found = {"bits": [int(run(bits, data, key).sum()) for key in keys]}
    if data.ranks is not None:
        for name, gains in by_prior(data, data.ranks).items():
            found[name] = [int(run(bits, data, key, gains).sum()) for key in keys]
    for name, shares in ROUNDS.items():
        other = bits_of(bits.account, shares)
        found[name] = [int(run(other, data, key).sum()) for key in keys]
    yield "bits", found
    yield "weighted-gaussian", one_round(data, privacy, keys)
    each = [after_sieve(data, privacy, key) for key in keys]
    yield "sieve", {name: [sizes[name] for sizes in each] for name in each[0]}


def measure(shared: Path | None, part: float, n_keys: int) -> dict[str, Any]:
    """Sizes with standard errors, and gains in percent with those of paired differences."""
    keys = [Key.from_insecure_seed(1000 + seed) for seed in range(n_keys)]
    result: dict[str, Any] = {"sets": {}, "rows": {}, "keys": n_keys}
    for set_name, data in sets(shared, part):
        result["sets"][set_name] = {"users": len(data.users), "pairs": len(data.held.items)}
        for privacy_name, privacy in PRIVACY.items():
            print(f"{set_name} ({privacy_name})", file=sys.stderr)
            for base, found in rows(data, privacy, keys):
                for name in (base, *(name for name in found if name != base)):
                    row = result["rows"].setdefault(name, {"base": base, "sizes": {}})
                    at = row["sizes"].setdefault(set_name, {})
                    at[privacy_name] = _compared(np.array(found[name]), np.array(found[base]))
    return result | {"date": datetime.now(UTC).date().isoformat(), "dpsu": dpsu.__version__}


def _compared(sizes: Whole, base: Whole) -> dict[str, float]:
    mean = max(1.0, float(base.mean()))
    gains = 100.0 * (sizes - base) / mean
    root = math.sqrt(len(sizes))
    return {
        "size": float(sizes.mean()), "error": float(sizes.std(ddof=1) / root),
        "gain": float(gains.mean()), "gain_error": float(gains.std(ddof=1) / root),
    }  # fmt: skip


def table(result: dict[str, Any]) -> str:
    """The result as Markdown: numbers of items for what others are compared with, else percent."""
    names = list(result["sets"])
    lines = [f"| | {' | '.join(names)} | error |", "|---" + "|---:" * (len(names) + 1) + "|"]
    for name, row in result["rows"].items():
        cells, errors = [], []
        is_base = name == row["base"]
        for set_name in names:
            at = list(row["sizes"].get(set_name, {}).values())
            shown = (f"{m['size']:,.0f}" if is_base else f"{m['gain']:+.1f}" for m in at)
            cells.append(" / ".join(shown) or "-")
            errors += [m["error"] if is_base else m["gain_error"] for m in at]
        shown_name = f"**{name}**, items" if is_base else name
        lines.append(
            f"| {shown_name} | {' | '.join(cells)} | {max(errors):.{0 if is_base else 1}f} |"
        )
    users = "; ".join(
        f"{name}: {facts['users']:,} users, {facts['pairs']:,} pairs"
        for name, facts in result["sets"].items()
    )
    budgets = " and at ".join(f"({name})" for name in PRIVACY)
    told = (
        f"At {budgets}: rows in bold are numbers of items, those below them differences to these "
        f"in percent. Means over {result['keys']} keys; *error* is the largest standard error of "
        f"the row. {users}. Made by `python -m benchmarks.bits_experiments --shared FOLDER`, "
        f"{result['date']}."
    )
    return "\n".join([*lines, "", told])


def main(arguments: list[str] | None = None) -> None:
    """Measure, and write the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--shared", type=Path, help="folder of the real sets and of the prior")
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--part", type=float, default=1.0, help="so much of the made-up users")
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    result = measure(options.shared, options.part, options.keys)
    options.results.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(table(result))


if __name__ == "__main__":
    main()
