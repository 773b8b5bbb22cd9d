"""Who holds what, user by user: rows are grouped, and duplicates are counted as repeats.

Everything here is private; the class has no repr, so that no traceback prints its values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.pairs import Block, Pairs
from dpsu.kernels import grouping
from dpsu.runtime.memory import Memory
from dpsu.runtime.threads import side_by_side

# The rows of a bucket are sorted in the cache of one core. Rows are scattered to all buckets at
# once, which is slow for more buckets than this.
ROWS_IN_BUCKET = 1 << 17
MOST_BUCKETS = 1 << 10
# Progress is reported every 2^21 rows.
ROWS_PER_REPORT = 1 << 21


@dataclass(frozen=True, repr=False)
class Contributions:
    """Users in processing order, each with distinct items: user u holds items[start[u]:stop[u]].

    Items are positions in the item order of the release, ascending unless the user has an order of
    its own. `repeats` says how often the user holds each item; it is None where that does not
    matter. There may be gaps between users.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    items: NDArray[np.int32]
    repeats: NDArray[np.int32] | None
    n_items: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items of each user."""
        return self.stop - self.start

    def chunks(
        self, progress: Callable[[int], None]
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """`start` and `stop` of some users at a time, in order; reports how many are done."""
        rows = int(self.start[-1]) if len(self.start) else 0
        bounds = np.searchsorted(self.start, np.arange(0, rows, ROWS_PER_REPORT))[1:].tolist()
        for first, last in zip([0, *bounds], [*bounds, len(self.start)], strict=True):
            yield self.start[first:last], self.stop[first:last]
            progress(last)


def arrange(
    pairs: Pairs,
    user_order: NDArray[np.int64],
    item_order: NDArray[np.int64],
    *,
    with_repeats: bool,
    memory: Memory | None = None,
) -> Contributions:
    """Group rows by user, users and items in the given orders (codes, first to last).

    Items that the order leaves out are dropped. `with_repeats` asks for repeats: those that came
    with the rows are added up; otherwise repeated rows are counted.
    """
    memory = Memory() if memory is None else memory
    n_users, n_items, rows = len(user_order), len(item_order), len(pairs)
    user_position = _positions(user_order, len(pairs.users))
    item_position = _positions(item_order, len(pairs.items))
    shift = _bucket_shift(n_users, rows)
    n_buckets = -(-n_users >> shift) if n_users else 0
    blocks = pairs.blocks
    sizes = np.zeros((len(blocks), n_buckets), np.int64)
    side_by_side(
        lambda b: grouping.bucket_sizes(blocks[b].users, user_position, shift, sizes[b]),
        len(blocks),
    )
    bucket_start = np.concatenate([[0], np.cumsum(sizes.sum(axis=0))])
    cursors = bucket_start[:-1] + np.cumsum(sizes, axis=0) - sizes
    users, items = memory.empty(rows), memory.empty(rows)
    repeats = memory.empty(rows if with_repeats else 0)
    none = np.empty(0, np.int32)

    def scatter(b: int) -> None:
        block: Block = blocks[b]
        given = none if block.repeats is None else block.repeats
        grouping.scatter(
            block.users, block.items, given, user_position, item_position, shift, cursors[b],
            users, items, repeats,
        )  # fmt: skip

    side_by_side(scatter, len(blocks))
    start, stop = np.empty(n_users, np.int64), np.empty(n_users, np.int64)
    item_bits = max(1, int(n_items).bit_length())

    def sort(bucket: int) -> None:
        first, last = bucket << shift, min((bucket + 1) << shift, n_users)
        low, high = bucket_start[bucket], bucket_start[bucket + 1]
        grouping.sort_bucket(
            users[low:high], items[low:high], repeats[low:high] if with_repeats else none, first,
            item_bits, item_bits + shift, start[first:last], stop[first:last],
        )  # fmt: skip
        start[first:last] += low
        stop[first:last] += low

    side_by_side(sort, n_buckets)
    return Contributions(start, stop, items, repeats if with_repeats else None, n_items)


def _bucket_shift(n_users: int, rows: int) -> int:
    """Buckets hold 2^shift users, enough to fill a bucket on average and to limit their number."""
    shift = 0
    while n_users >> (shift + 1) and (
        (rows << shift) // n_users < ROWS_IN_BUCKET or n_users >> shift > MOST_BUCKETS
    ):
        shift += 1
    return shift


def _positions(order: NDArray[np.int64], n: int) -> NDArray[np.int32]:
    position = np.full(n, -1, np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return position
