"""The users of one machine give weights in every round: see `dpsu.rounds.protocols`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions import bounding
from dpsu.contributions.grouped import Contributions
from dpsu.contributions.ids import Ids
from dpsu.kernels import rounds as kernels
from dpsu.kernels import weights
from dpsu.policies.passes import Progress, no_progress
from dpsu.randomness.keys import Key
from dpsu.rounds.account import Limits
from dpsu.runtime.threads import in_even_ranges


class LocalRounds:
    """All contributions in memory, users and items in the order of the release.

    `classes` are those that were fixed in an earlier round, where users went through other engines.
    """

    def __init__(
        self,
        contributions: Contributions,
        users: Ids,
        items: Ids,
        key: Key,
        progress: Progress = no_progress,
        *,
        classes: NDArray[np.uint16] | None = None,
    ) -> None:
        self._held = contributions
        self._users, self._items, self._key = users, items, key
        self._progress = progress
        self._classes = classes
        self._user_hash = users.hashes(key.salt("sample by user"))
        self._item_hash = items.hashes(key.salt("sample by item"))

    @property
    def held(self) -> Contributions:
        """The sets that users chose last."""
        return self._held

    @property
    def classes(self) -> NDArray[np.uint16] | None:
        """The class of every user, also of those whose set is empty by now; None without any."""
        return self._classes

    def choose(self, max_items: int, attention: NDArray[np.float64] | None) -> NDArray[np.bool_]:
        """Choose every user's set: a sample by hash, or the best of its last set by attention."""
        held = self._held
        if attention is None:
            held = bounding.sample(held, max_items, self._user_hash, self._item_hash)
        else:
            stop = held.stop.copy()
            in_even_ranges(
                lambda first, last: kernels.keep_best(
                    held.start, stop, held.items, attention, max_items, self._user_hash,
                    self._item_hash, first, last,
                ),
                held.start,
            )  # fmt: skip
            start, stop = kernels.close_gaps(held.start, stop, held.items)
            held = replace(held, start=start, stop=stop)
        self._held = held
        present = np.zeros(held.n_items, bool)
        kernels.mark_present(held.start, held.stop, held.items, present)
        return present

    def classify(self, sizes: tuple[int, ...]) -> None:
        """Fix every user's class by the size of its set now; it is fixed only once."""
        if self._classes is not None:
            raise AssertionError("classes of users are fixed before there is noise, and stay")
        most = np.minimum(self._held.sizes, sizes[-1])
        self._classes = np.searchsorted(np.array(sizes), most).astype(np.uint16)

    def attend(
        self, attention: NDArray[np.float64], limits: Limits, shape: float, unit: float
    ) -> NDArray[np.int64]:
        """Sum over users of weights in proportion to attention, within their limits, in units."""
        held, classes = self._held, self._classes
        assert classes is not None, "classes are fixed in the first round"
        norms, allowed, caps, crossing = map(np.array, limits)

        def give(first: int, last: int, weights: NDArray[np.int64]) -> None:
            of_item = np.zeros(held.n_items, kernels.OF_ITEM)
            of_item["attention"] = attention
            kernels.attend(
                held.start, held.stop, held.items, classes, norms, allowed, caps, crossing, shape,
                unit, first, last, of_item,
            )  # fmt: skip
            weights[:] = of_item["weight"]

        return self._sum(give)

    def share(
        self, released: NDArray[np.bool_], max_items: int, shares: NDArray[np.int64], round_: int
    ) -> NDArray[np.int64]:
        """Sum over users of equal shares to a fresh sample of their unreleased items."""
        held = self._held
        user_hash = self._users.hashes(self._key.salt(f"sample by user, round {round_}"))
        item_hash = self._items.hashes(self._key.salt(f"sample by item, round {round_}"))
        return self._sum(
            lambda first, last, sums: weights.share_unreleased(
                held.start, held.stop, held.items, released, max_items, user_hash, item_hash,
                shares, first, last, sums,
            ),
        )  # fmt: skip

    def give_units(
        self, released: NDArray[np.bool_], prices: tuple[int, ...], budget: int, round_: int
    ) -> NDArray[np.int64]:
        """Sum over users of equal units to all of their unreleased items, within the budget."""
        held, costs = self._held, np.array(prices, np.int64)
        user_hash = self._users.hashes(self._key.salt(f"units by user, round {round_}"))
        item_hash = self._items.hashes(self._key.salt(f"units by item, round {round_}"))
        return self._sum(
            lambda first, last, sums: weights.give_units(
                held.start, held.stop, held.items, released, costs, budget, user_hash, item_hash,
                first, last, sums,
            ),
        )  # fmt: skip

    def add_open(
        self, released: NDArray[np.bool_], limits: tuple[int, ...], units: tuple[int, ...]
    ) -> NDArray[np.int64]:
        """Sums over users of their numbers of unreleased items as parts of limits, in units."""
        held, most, whole = self._held, np.array(limits, np.int64), np.array(units, np.int64)
        return self._sum(
            lambda first, last, sums: weights.add_open(
                held.start, held.stop, held.items, released, most, whole, first, last, sums
            ),
            len(limits),
        )

    def _sum(
        self, weigh: Callable[[int, int, NDArray[np.int64]], None], length: int | None = None
    ) -> NDArray[np.int64]:
        """Add up what ranges of users give; these are integers, so the ranges do not matter."""
        parts: list[NDArray[np.int64]] = []
        length = self._held.n_items if length is None else length

        def work(first: int, last: int) -> None:
            weights = np.zeros(length, np.int64)
            weigh(first, last, weights)
            parts.append(weights)

        in_even_ranges(work, self._held.start)
        self._progress(len(self._held.start))
        return sum(parts[1:], parts[0])
