"""Draw synthetic users and their items from a counter-based generator."""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.primitives import (
    ConstDouble,
    ConstInt32,
    ConstInt64,
    Double,
    Int32,
    Int64,
    Size,
    Word,
)

GOLDEN = cython.declare(cython.const[Word], 0x9E3779B97F4A7C15)
MIX_1 = cython.declare(cython.const[Word], 0xBF58476D1CE4E5B9)
MIX_2 = cython.declare(cython.const[Word], 0x94D049BB133111EB)
# About 1.4 draws per distinct item are needed; the cap only guarantees termination.
MOST_DRAWS_PER_ITEM = cython.declare(cython.const[cython.int], 64)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _uniform(key: Word, position: Word) -> Double:
    """The splitmix64 output at `position` of the stream `key`, scaled to [0, 1)."""
    mixed = key + position * GOLDEN
    mixed = (mixed ^ (mixed >> 30)) * MIX_1
    mixed = (mixed ^ (mixed >> 27)) * MIX_2
    mixed ^= mixed >> 31
    return cython.cast(Double, mixed >> 11) * 2.0**-53


def uniforms(key: Word, length: Size) -> object:
    """Outputs at positions 1 to `length` of the stream `key`, each in [0, 1)."""
    drawn = np.empty(length)
    found: Double[::1] = drawn
    with cython.nogil:
        for k in range(length):
            found[k] = _uniform(key, k + 1)
    return drawn


def draw_rows(
    sizes: ConstInt64[::1],
    cumulative: ConstDouble[::1],
    guide: ConstInt32[::1],
    key: Word,
    position: Word,
) -> tuple:
    """Draw items with replacement for each user until it holds its number of distinct items.

    Returns the user, the zero-based item rank and the repeats of each row. `guide` says for equal
    slots of [0, 1) where `cumulative`, which ends at 1, passes them. `position` is the last
    position of the stream `key` that was used already.
    """
    if len(guide) == 0 or len(cumulative) == 0 or not cumulative[len(cumulative) - 1] >= 1.0:
        raise ValueError("cumulative chances end at 1, and the guide has slots")
    row_limit = int(np.sum(sizes))
    all_users = np.empty(row_limit, np.int64)
    all_ranks = np.empty(row_limit, np.int32)
    all_counts = np.empty(row_limit, np.int32)
    users: Int64[::1] = all_users
    ranks: Int32[::1] = all_ranks
    counts: Int32[::1] = all_counts
    # A row before the first row of the current user belongs to an earlier user, so this one
    # array serves as the seen-stamp of an item and as the place of its count.
    latest_row: Int64[::1] = np.full(len(cumulative), -1, np.int64)
    slots: Double = len(guide)
    filled: Int64 = 0
    rank: Size
    with cython.nogil:
        for user in range(len(sizes)):
            first_row = filled
            full_at = filled + sizes[user]
            for _ in range(sizes[user] * MOST_DRAWS_PER_ITEM):
                position += 1
                point = _uniform(key, position)
                rank = guide[cython.cast(Size, point * slots)]
                while cumulative[rank] <= point:
                    rank += 1
                row = latest_row[rank]
                if row >= first_row:
                    counts[row] += 1
                    continue
                latest_row[rank] = filled
                users[filled] = user
                ranks[filled] = rank
                counts[filled] = 1
                filled += 1
                if filled == full_at:
                    break
    return all_users[:filled], all_ranks[:filled], all_counts[:filled]
