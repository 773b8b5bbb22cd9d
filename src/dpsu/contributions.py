"""Who holds what: rows interned, grouped by user, duplicates merged into local counts.

Everything here is private; the classes have no repr, so that no traceback prints their values.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.errors import DataError, DataWarning
from dpsu.ids import Ids, encode, type_name
from dpsu.kernels import grouping
from dpsu.kernels.threads import in_even_ranges


@dataclass(frozen=True, repr=False)
class Rows:
    """Columns as they were read, before anything is known about their values.

    `names` are the columns as the caller typed them, for messages; `shared_users` says that user
    ids came with the rows, so that one id per row is suspicious.
    """

    user: pa.ChunkedArray
    item: pa.ChunkedArray
    count: pa.ChunkedArray | None
    names: tuple[str, str, str | None]
    shared_users: bool = True


@dataclass(frozen=True, repr=False)
class Pairs:
    """Interned rows: distinct users, distinct items, and one code of each per row."""

    users: Ids
    items: Ids
    user_codes: NDArray[np.int32]
    item_codes: NDArray[np.int32]
    counts: NDArray[np.int32] | None

    def without_items(self, known: pa.Array) -> Pairs:
        """Drop rows whose item is already known."""
        is_known = pc.is_in(self.items.values, value_set=known).to_numpy(zero_copy_only=False)
        keep = ~is_known[self.item_codes]
        counts = None if self.counts is None else self.counts[keep]
        return Pairs(self.users, self.items, self.user_codes[keep], self.item_codes[keep], counts)


@dataclass(frozen=True, repr=False)
class Contributions:
    """Users in processing order, each with distinct items: user u holds items[start[u]:stop[u]].

    Items are positions in the item order of the release, ascending unless the user has an order of
    its own; `counts` is None where local counts do not matter.
    """

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    items: NDArray[np.int32]
    counts: NDArray[np.int32] | None
    n_items: int

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items of each user."""
        return self.stop - self.start[:-1]


def intern(rows: Rows, *, strict: bool = False) -> Pairs:
    """Intern rows; rows without a user, an item or a positive count are dropped.

    Dropping is the private answer: refusing would let one user's row abort the release. `strict`
    refuses all the same, for curators who would rather repair their data.
    """
    user_name, item_name, count_name = rows.names
    users, user_codes = encode(user_name, rows.user)
    items, item_codes = encode(item_name, rows.item)
    counts = None if rows.count is None else _counts(str(count_name), rows.count)
    if len({len(column) for column in (user_codes, item_codes, counts) if column is not None}) > 1:
        raise DataError(f"columns {user_name!r} and {item_name!r} have different lengths")
    lowest = [column.min(initial=0) for column in (user_codes, item_codes)]
    lowest += [] if counts is None else [counts.min(initial=1) - 1]
    if min(lowest) < 0:
        keep = (user_codes >= 0) & (item_codes >= 0)
        if counts is not None:
            keep &= counts > 0
        told = f"some rows have no {user_name!r} or no {item_name!r}"
        if counts is not None:
            told += f" or no positive {count_name!r}"
        if strict:
            raise DataError(f"{told}; drop or repair them, or do without strict")
        warnings.warn(f"{told}; they were ignored", DataWarning, stacklevel=3)
        user_codes, item_codes = user_codes[keep], item_codes[keep]
        counts = None if counts is None else counts[keep]
    if len(user_codes) == 0:
        # The empty database is a neighbor of every database of one user: its release is the empty
        # set, not an error that would tell the two apart.
        told = f"no row has both {user_name!r} and {item_name!r}"
        if strict:
            raise DataError(f"{told}; check what was read")
        warnings.warn(f"{told}; nothing can be released", DataWarning, stacklevel=3)
    if rows.shared_users and 1 < len(user_codes) <= len(users) and _all_differ(user_codes):
        warnings.warn(
            f"every row has its own {user_name!r}: is this column really the person to protect, "
            "and not a number of the row?",
            DataWarning,
            stacklevel=3,
        )
    return Pairs(users, items, user_codes, item_codes, counts)


def arrange(
    pairs: Pairs,
    user_order: NDArray[np.int64],
    item_order: NDArray[np.int64],
    *,
    counted: bool,
) -> Contributions:
    """Group rows by user, users and items in the given orders (codes, first to last).

    `counted` asks for local counts: given ones added up, or repeated rows counted.
    """
    user_position, item_position = _inverse(user_order), _inverse(item_order)
    rows = len(pairs.user_codes)
    given = np.empty(0, np.int32) if pairs.counts is None or not counted else pairs.counts
    item_start = grouping.places(pairs.item_codes, item_position)
    sorted_users, sorted_counts = np.empty(rows, np.int32), np.empty(len(given), np.int32)
    in_even_ranges(
        lambda first, last: grouping.by_item(
            pairs.user_codes,
            pairs.item_codes,
            given,
            user_position,
            item_position,
            item_start,
            first,
            last,
            sorted_users,
            sorted_counts,
        ),
        item_start,
    )
    start = grouping.places(pairs.user_codes, user_position)
    stop, items = np.empty(len(user_order), np.int64), np.empty(rows, np.int32)
    counts = np.empty(rows if counted else 0, np.int32)
    in_even_ranges(
        lambda first, last: grouping.by_user(
            item_start, sorted_users, sorted_counts, start, stop, items, counts, first, last
        ),
        start,
    )
    return Contributions(start, stop, items, counts if counted else None, len(item_order))


def _all_differ(codes: NDArray[np.int32]) -> bool:
    return len(codes) == np.count_nonzero(np.bincount(codes))


def _inverse(order: NDArray[np.int64]) -> NDArray[np.int32]:
    position = np.empty(len(order), np.int32)
    position[order] = np.arange(len(order), dtype=np.int32)
    return position


def _counts(name: str, column: pa.ChunkedArray) -> NDArray[np.int32]:
    if pa.types.is_string(column.type):
        # CSV has no numbers. What is not one is missing: one user's cell must not stop the run.
        whole = pc.match_substring_regex(column, r"^[0-9]{1,18}$")
        column = pc.if_else(whole, column, pa.scalar(None, column.type)).cast(pa.int64())
    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise DataError(
            f"column {name!r} has type {type_name(column.type)}; local counts must be integers: "
            "convert it"
        )
    counts: NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(0).to_numpy()
    return np.clip(counts, 0, grouping.LARGEST_COUNT).astype(np.int32)
