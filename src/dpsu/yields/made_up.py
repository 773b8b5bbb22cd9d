"""Seeded synthetic data: shaped like the Reddit data of Gopi et al. (2020), or by plain laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dpsu.kernels.synthetic import draw_rows, uniforms

REDDIT_USERS = 223_388

# Share of users holding at most this many distinct items. 1, 10, 50, 100 and 300 are Table 1 of
# the paper; 850 and 2000 are its "top 10 users contribute between 850 and 2000". 150 and 500 are
# not in the paper: without them the straight lines overstate the upper tail, and the total is
# 8.5 million (user, item) pairs rather than 8.0 million.
_SIZE_KNOTS = (
    (0.0278, 1),
    (0.2982, 10),
    (0.7916, 50),
    (0.9313, 100),
    (0.9730, 150),
    (0.9959, 300),
    (0.99935, 500),
    (1 - 9.5 / REDDIT_USERS, 850),
    (1 - 0.5 / REDDIT_USERS, 2000),
)

# Item probabilities fall as rank ** -exponent within each segment (last rank, exponent). Fitted
# to Table 3 of the paper (items held by at least 5, 10, 15, 18, 20 and 25 users) and to a
# vocabulary of 153,701 at the full number of users, with the first exponent held at Zipf's 1.
# The flat last segment stands for misspellings and one-off words: a plain power law that meets
# Table 3 at k = 10 to 25 needs 3 million ranks to reach that vocabulary and is 3 % off at k = 5.
_RANK_SEGMENTS = (
    (2_700, 1.0),
    (25_000, 1.75),
    (88_000, 2.07),
    (260_500, 0.0),
)

_GOLDEN_SECTION = (math.sqrt(5.0) - 1.0) / 2.0

# A power of two, so that scaling a uniform by it is exact; about one slot per rank keeps the
# expected scan after the lookup below two steps.
_GUIDE_SLOTS = 1 << 18

_Floats = npt.NDArray[np.float64]
_Integers = npt.NDArray[np.int64]
_SmallIntegers = npt.NDArray[np.int32]


def _user_sizes(drawn: _Floats) -> _Integers:
    """Return the number of distinct items each user should hold."""
    users = len(drawn)
    # Evenly spaced quantiles in random order, not independent ones: the 2.78 % of users with a
    # single item and the few largest users would otherwise vary too much from seed to seed.
    quantiles = (np.argsort(drawn, kind="stable") + 0.5) / max(users, 1)
    shares, knots = np.array(_SIZE_KNOTS, dtype=np.float64).T
    # Rounding up, because the share at T counts every user with at most T items.
    sizes: _Floats = np.ceil(np.exp(np.interp(quantiles, shares, np.log(knots))))
    return sizes.astype(np.int64)


def _weights(segments: Sequence[tuple[int, float]]) -> _Floats:
    """Return how likely items are by rank, each segment by its power law."""
    last_ranks, exponents = np.array(segments, dtype=np.float64).T
    log_knots = np.log(np.concatenate(([1.0], last_ranks)))
    log_weights = np.concatenate(([0.0], np.cumsum(-exponents * np.diff(log_knots))))
    log_ranks = np.log(np.arange(1, int(last_ranks[-1]) + 1))
    weights: _Floats = np.exp(np.interp(log_ranks, log_knots, log_weights))
    return weights


def _drawn(
    sizes: _Integers,
    weights: _Floats,
    key: np.uint64,
    items: Callable[[_SmallIntegers], pa.Array],
) -> pa.Table:
    """Return a table of users of these sizes; `items` makes a column of zero-based ranks."""
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]
    slot_starts = np.arange(_GUIDE_SLOTS) / _GUIDE_SLOTS
    guide = np.searchsorted(cumulative, slot_starts, side="right").astype(np.int32)
    user, ranks, counts = draw_rows(sizes, cumulative, guide, key, len(sizes))
    return pa.table({"user": pa.array(user), "item": items(ranks), "count": pa.array(counts)})


def _item_column(ranks: _SmallIntegers) -> pa.DictionaryArray[Any, Any]:
    """Return the items as a dictionary array whose dictionary holds only items in use."""
    used = np.zeros(int(ranks.max(initial=-1)) + 1, np.bool_)
    used[ranks] = True
    names = pa.array([f"w{rank + 1}" for rank in np.flatnonzero(used)], pa.string())
    codes = np.cumsum(used, dtype=np.int32) - np.int32(1)
    return pa.DictionaryArray.from_arrays(pa.array(codes[ranks]), names)


def reddit_like(
    users: int = REDDIT_USERS,
    *,
    seed: int = 0,
    segments: Sequence[tuple[int, float]] = _RANK_SEGMENTS,
) -> pa.Table:
    """Generate user-item data shaped like the Reddit data of Gopi et al. (2020).

    At the default size, the distribution of items per user (Table 1 of the paper), the number of
    items held by at least k users (Table 3) and the vocabulary of about 153,701 items are those
    of the paper to within 2 %; item frequencies follow Zipf's law. A smaller `users` keeps the
    distributions and draws fewer users from them.

    Parameters
    ----------
    users : int, default 223_388
        Number of users; each holds at least one item.
    seed : int, default 0
        Seed of the generator. Equal arguments give equal tables.
    segments : sequence of (int, float), optional
        How the probability of an item falls with its rank: pairs of the last rank of a segment and
        the exponent of its power law. The default is the fit described above.

    Returns
    -------
    pyarrow.Table
        One row per distinct pair of user and item, with the columns ``user`` (int64, 0 to
        ``users - 1``), ``item`` (dictionary of strings, ``"w1"`` being the most probable) and
        ``count`` (int32, how often the user used the item, at least 1).

    Raises
    ------
    ValueError
        If `users` is negative.

    Examples
    --------
    >>> from dpsu.yields.made_up import reddit_like
    >>> table = reddit_like(100, seed=1)
    >>> table.column_names
    ['user', 'item', 'count']
    >>> table.equals(reddit_like(100, seed=1))
    True
    """
    if users < 0:
        raise ValueError(f"users must not be negative, got {users}")
    key = np.uint64(seed % 2**64)
    return _drawn(_user_sizes(uniforms(key, users)), _weights(segments), key, _item_column)


def zipf_like(
    users: int,
    *,
    items_per_user: float,
    zipf: float,
    vocabulary: int,
    spread: float = 1.8,
    seed: int = 0,
) -> pa.Table:
    """Generate user-item data with popularity by Zipf's law and log-normal set sizes.

    Users draw from `vocabulary` items, the one of rank r in proportion to ``r ** -zipf``, until
    they hold their number of distinct items. Where the law leaves too little to draw from (a large
    exponent, many items per user) sets stay smaller than asked for.

    Parameters
    ----------
    users : int
        Number of users; each holds at least one item.
    items_per_user : float
        Mean number of distinct items of a user, at least 1.
    zipf : float
        Exponent of Zipf's law; 0 makes all items equally popular.
    vocabulary : int
        Number of different items that exist.
    spread : float, default 1.8
        Mean of the set sizes divided by their median, before they are rounded to whole numbers; 1
        if all users hold equally many.
    seed : int, default 0
        Seed of the generator. Equal arguments give equal tables.

    Returns
    -------
    pyarrow.Table
        One row per distinct pair, with the columns ``user`` (int64), ``item`` (int64, the rank of
        the item, from 1) and ``count`` (int32, how often the user drew it).

    Examples
    --------
    >>> from dpsu.yields.made_up import zipf_like
    >>> table = zipf_like(1000, items_per_user=5, zipf=1.0, vocabulary=10_000)
    >>> table.column_names, round(len(table) / 1000)
    (['user', 'item', 'count'], 5)
    """
    key = np.uint64(seed % 2**64)
    sizes = np.minimum(_log_normal_sizes(uniforms(key, users), items_per_user, spread), vocabulary)
    weights = np.arange(1, vocabulary + 1, dtype=np.float64) ** -zipf
    return _drawn(sizes, weights, key, lambda ranks: pa.array(ranks.astype(np.int64) + 1))


def _log_normal_sizes(drawn: _Floats, mean: float, spread: float) -> _Integers:
    """Sizes of at least 1 with this mean, as quantiles in random order: see `_user_sizes`."""
    from statistics import NormalDist

    users = len(drawn)
    # A normal quantile for every user would take longer than all the rest.
    places = np.linspace(0.0005, 0.9995, 1000)
    normal = np.array([NormalDist().inv_cdf(place) for place in places])
    quantiles = (np.argsort(drawn, kind="stable") + 0.5) / max(users, 1)
    # The mean of a log-normal law is exp(sigma^2 / 2) times its median.
    sigma = math.sqrt(2.0 * math.log(spread))
    relative = np.exp(sigma * np.interp(quantiles, places, normal))
    # Sizes are rounded up or down by turns, so that even equal ones have a mean of 2.5.
    rounding = np.arange(users) * _GOLDEN_SECTION % 1.0

    def sizes(scale: float) -> _Floats:
        rounded: _Floats = np.maximum(1.0, np.floor(scale * relative + rounding))
        return rounded

    low, high = 0.0, mean
    for _ in range(40):
        middle = (low + high) / 2.0
        low, high = (middle, high) if sizes(middle).mean() < mean else (low, middle)
    return sizes(high).astype(np.int64)
