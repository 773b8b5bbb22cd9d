"""Orders that privacy allows: of users by a salted hash, of items by hash or public knowledge.

Every order here is a function of the ids being ordered, of salts and of public data. None depends
on how many others there are, in which rows they came or what they hold. Equal hashes are ordered by
the raw bytes of the ids, so that each order is total and never depends on interned codes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.grouped import Contributions
from dpsu.contributions.ids import Ids
from dpsu.kernels import grouping
from dpsu.runtime.threads import in_even_ranges

if TYPE_CHECKING:
    from dpsu.inputs.public import Prior


def hash_order(ids: Ids, salt: int) -> NDArray[np.int64]:
    """Codes in the order of the salted hashes of their ids, then of their bytes."""
    return _by_keys_then_hash(ids, salt, [])


def popular_order(items: Ids, salt: int, prior: Prior) -> NDArray[np.int64]:
    """Most popular in the prior first; unknown items rank with what is held once (GW-KT)."""
    return _by_keys_then_hash(items, salt, [-prior.popularity(items)])


def scarce_order(
    items: Ids, salt: int, prior: Prior, expected_users: int, cutoff: int
) -> NDArray[np.int64]:
    """Scarce items first: the others fill up anyway. See `Prior.expected_holders`.

    Candidates are the items that `expected_users` users could fill (the first users/cutoff of the
    prior) and that at least twice the cutoff of them should hold. They come first, scarcest first;
    then the rest of the prior, most popular first; then unknown items.
    """
    holders, known = prior.expected_holders(items, expected_users)
    reachable = prior.among_first(items, expected_users // cutoff)
    candidate = known & reachable & (holders >= 2 * cutoff)
    group = np.where(candidate, 0, np.where(known, 1, 2))
    within = np.where(candidate, holders, np.where(known, -holders, 0.0))
    return _by_keys_then_hash(items, salt, [group, within])


def by_repeats(contributions: Contributions) -> Contributions:
    """Order each user's items by its own repeats, largest first; ties keep the order of items.

    Do not use `contributions` afterwards: its items are overwritten.
    """
    assert contributions.repeats is not None
    repeats, items = contributions.repeats, contributions.items
    in_even_ranges(
        lambda first, last: grouping.sort_by_repeats(
            contributions.start, contributions.stop, items, repeats, first, last
        ),
        contributions.start,
    )
    return replace(contributions, items=items, repeats=None)


def _by_keys_then_hash(ids: Ids, salt: int, keys: list[NDArray[Any]]) -> NDArray[np.int64]:
    """Order by the keys, most important first, then by salted hash, then by bytes."""
    columns = [*keys, ids.hashes(salt)]
    order = np.lexsort(columns[::-1]) if keys else grouping.order_by_hash(columns[0])
    tied = np.ones(max(0, len(order) - 1), bool)
    for column in columns:
        tied &= column[order[1:]] == column[order[:-1]]
    done = 0
    for at in np.flatnonzero(tied).tolist():
        if at >= done:
            done = _sort_tied_run(order, columns, at, ids)
    return order


def _sort_tied_run(order: NDArray[np.int64], columns: list[NDArray[Any]], at: int, ids: Ids) -> int:
    """Sort the ids that agree with that at position `at` in every column by their bytes.

    Returns the position behind them.
    """
    low, high = at, at + 1

    def same(position: int) -> bool:
        return all(column[order[position]] == column[order[at]] for column in columns)

    while low > 0 and same(low - 1):
        low -= 1
    while high < len(order) and same(high):
        high += 1
    text = ids.text()
    order[low:high] = sorted(order[low:high].tolist(), key=lambda code: text[code].as_py().encode())
    return high
