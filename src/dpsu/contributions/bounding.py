"""Keep at most `max_items` items of each user, whatever other users hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.grouped import Contributions
from dpsu.kernels import grouping
from dpsu.runtime.threads import in_even_ranges


def sample(
    contributions: Contributions,
    max_items: int,
    user_hash: NDArray[np.uint64],
    item_hash: NDArray[np.uint64],
) -> Contributions:
    """Keep the `max_items` items of each user with the smallest salted hash of (user, item).

    Removing a user leaves everyone else's sample as it was. Hashes are given per user and per item,
    in the order of `contributions`. Do not use `contributions` afterwards: its items are
    overwritten.
    """
    if contributions.sizes.max(initial=0) <= max_items:
        return contributions
    stop, items = contributions.stop.copy(), contributions.items
    in_even_ranges(
        lambda first, last: grouping.keep_sample(
            contributions.start, stop, items, max_items, user_hash, item_hash, first, last
        ),
        contributions.start,
    )
    return replace(contributions, stop=stop, items=items, repeats=None)


def first(contributions: Contributions, max_items: int) -> Contributions:
    """Keep the first `max_items` items of each user in the user's own order."""
    stop = np.minimum(contributions.stop, contributions.start + max_items)
    return replace(contributions, stop=stop, repeats=None)
