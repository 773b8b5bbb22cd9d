"""Sets to hold forecasts against: made up by other laws than a forecast's own, and real ones.

Whether a set was looked at when the range of forecasts was chosen is said with each. Real sets are
read from a folder that is named on the command line; nothing of them is kept.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

import dpsu
from dpsu.contributions.order import hash_order
from dpsu.contributions.pairs import Pairs
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.reading import Source
from dpsu.yields.expected import pairs_to_try
from dpsu.yields.made_up import reddit_like

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
SEED = 11


@dataclass(frozen=True)
class Set:
    """Users with their items, and whether the range was chosen with a view to them.

    `catalogue` is the number of items that exist, where a curator would know it.
    """

    name: str
    calibrated: bool
    real: bool
    pairs: Callable[[], Pairs]
    catalogue: int | None = None


def ranks(last: int) -> Floats:
    """1, 2, 3 and so on."""
    return np.arange(1, last + 1, dtype=np.float64)


def drawn(rng: np.random.Generator, popularity: Floats, number: int) -> Whole:
    """Items drawn by their popularity."""
    steps = np.cumsum(popularity)
    return np.searchsorted(steps / steps[-1], rng.random(number)).astype(np.int64)


def log_normal(rng: np.random.Generator, users: int, mean: float, sigma: float) -> Whole:
    """Set sizes, repeated draws included."""
    sizes = rng.lognormal(math.log(mean) - sigma**2 / 2, sigma, users)
    return np.maximum(1, np.rint(sizes)).astype(np.int64)


def together(sizes: Whole, items: Whole) -> Pairs:
    """Users with so many draws each, and what was drawn."""
    user = np.repeat(np.arange(len(sizes)), sizes)
    return _read(pa.table({"user": user, "item": items}), Items())


def _read(table: Any, item: Any) -> Pairs:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        return pairs_to_try(Source(table, Users(), item))


def flat() -> Pairs:
    """A catalogue of which everything is nearly equally popular."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 20_000, 8, 0.5)
    return together(sizes, drawn(rng, ranks(3_000) ** -0.3, sizes.sum()))


def steep() -> Pairs:
    """Popularity falls fast."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 20_000, 12, 0.8)
    return together(sizes, drawn(rng, ranks(500_000) ** -1.5, sizes.sum()))


def few() -> Pairs:
    """One or two items per user."""
    rng = np.random.default_rng(SEED)
    sizes = 1 + rng.poisson(0.8, 60_000)
    return together(sizes, drawn(rng, ranks(50_000) ** -0.9, sizes.sum()))


def many() -> Pairs:
    """Few users with hundreds of items each."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 1_500, 300, 0.6)
    return together(sizes, drawn(rng, (ranks(300_000) + 3) ** -1.15, sizes.sum()))


def _groups(users: int, mean: float, groups: int, own: float, items: int, power: float) -> Pairs:
    """Users of a group share favourites that others do not know."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, users, mean, 0.9)
    item = drawn(rng, (ranks(items) + 5) ** -power, sizes.sum())
    group = np.repeat(rng.integers(0, groups, users), sizes)
    # Every group has the same law over an order of its own.
    favourite = (item * 7_919 + group * 104_729) % items
    return together(sizes, np.where(rng.random(len(item)) < own, favourite, item))


def clustered() -> Pairs:
    """Forty groups of interests."""
    return _groups(15_000, 20, 40, 0.6, 60_000, 1.2)


def communities() -> Pairs:
    """Two hundred groups of interests."""
    return _groups(25_000, 10, 200, 0.7, 80_000, 1.0)


def log_normal_items() -> Pairs:
    """Popularity is log-normal instead of a power of the rank."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 8_000, 60, 0.7)
    return together(sizes, drawn(rng, np.exp(rng.normal(0, 2.5, 100_000)), sizes.sum()))


def mandelbrot() -> Pairs:
    """Zipf-Mandelbrot: the most popular items are nearly equal, the others fall fast."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 15_000, 25, 1.0)
    return together(sizes, drawn(rng, (ranks(400_000) + 50) ** -1.6, sizes.sum()))


def heavy() -> Pairs:
    """Set sizes of a power law: a few users hold most pairs."""
    rng = np.random.default_rng(SEED)
    sizes = np.clip(np.rint(4 * rng.pareto(1.3, 30_000)), 1, 3_000).astype(np.int64)
    return together(sizes, drawn(rng, ranks(150_000) ** -1.0, sizes.sum()))


def catalogue() -> Pairs:
    """A shop with 4,000 products of log-normal popularity."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 40_000, 10, 1.0)
    return together(sizes, drawn(rng, np.exp(rng.normal(0, 1.6, 4_000)), sizes.sum()))


def songs() -> Pairs:
    """Two power laws, one for hits and a steeper one for the rest."""
    rng = np.random.default_rng(SEED)
    sizes = log_normal(rng, 12_000, 60, 1.4)
    rank = ranks(300_000)
    popularity = np.where(rank <= 1_000, rank**-0.6, 1_000**0.8 * rank**-1.4)
    return together(sizes, drawn(rng, popularity, sizes.sum()))


def diagnoses() -> Pairs:
    """1,500 codes whose popularity falls exponentially."""
    rng = np.random.default_rng(SEED)
    sizes = rng.geometric(0.25, 50_000)
    return together(sizes, drawn(rng, np.exp(-ranks(1_500) / 200), sizes.sum()))


def queries() -> Pairs:
    """A few items of a very long tail."""
    rng = np.random.default_rng(SEED)
    sizes = rng.geometric(1 / 3, 100_000)
    return together(sizes, drawn(rng, ranks(2_000_000) ** -1.1, sizes.sum()))


def posts() -> Pairs:
    """Shaped like the papers' Reddit set."""
    return _read(reddit_like(20_000, seed=3), Items(repeats="count"))


MADE_UP = (
    Set("flat catalogue", True, False, flat, 3_000),
    Set("steep", True, False, steep),
    Set("one or two items", True, False, few),
    Set("hundreds of items", True, False, many),
    Set("forty interests", True, False, clustered),
    Set("log-normal popularity", True, False, log_normal_items),
    Set("like the papers' Reddit", True, False, posts),
    Set("Zipf-Mandelbrot", False, False, mandelbrot),
    Set("heavy-tailed sizes", False, False, heavy),
    Set("shop catalogue", False, False, catalogue, 4_000),
    Set("songs", False, False, songs),
    Set("diagnoses", False, False, diagnoses, 1_500),
    Set("queries", False, False, queries),
    Set("two hundred interests", False, False, communities),
)

# The laws of forecasts were chosen after a look at all sets but these.
FRESH = ("songs", "diagnoses", "queries", "two hundred interests")

# Name, file, whether it is text, whether the range was chosen with a view to it, and the smaller
# part of its users that is a set of its own.
REAL = (
    ("games bought", "steam_200k", False, True, 3_000),
    ("abstracts", "acl_first_author", True, True, 5_000),
    ("baskets", "fimi_retail", False, False, 10_000),
    ("reviews", "airbnb_reviews", True, False, 10_000),
)


def real_sets(folder: Path) -> Iterator[Set]:
    """All users, and a part of them."""
    for name, file, text, calibrated, part in REAL:
        path = folder / f"{file}.parquet"
        item = dpsu.Tokens("text") if text else Items()
        yield Set(name, calibrated, True, partial(_read, path, item))
        yield Set(f"{name}, {part:,} users", calibrated, True, partial(_part, path, item, part))


def _part(path: Path, item: Any, users: int) -> Pairs:
    pairs = _read(path, item)
    wanted = np.zeros(len(pairs.users), bool)
    wanted[hash_order(pairs.users, SEED)[:users]] = True
    return pairs.of_users(wanted)
