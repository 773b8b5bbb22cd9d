"""Users as the public knows them: made up by Zipf's law, or those of a public corpus."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError, keep_warnings, option_error
from dpsu.inputs.columns import Items, Users
from dpsu.options import number, whole_number
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from dpsu.contributions.pairs import Pairs
    from dpsu.inputs.reading import Source

DEFAULT_ZIPF = 1.0
# Mean by median of set sizes: 1.8 for data like the papers' Reddit set, 1.2 to 1.4 for abstracts,
# baskets and reviews, 5.2 for games bought.
DEFAULT_SPREAD = 1.8
LARGEST_SPREAD = 100.0
LARGEST_VOCABULARY = 10_000_000
# Heaps' law: pairs of a user and an item ** GROWTH * FACTOR different items. Reviews, abstracts,
# posts, games and baskets of 29 thousand to 8 million pairs have 0.55 to 1.75 times as many.
HEAPS_FACTOR, HEAPS_GROWTH = 8.0, 0.6
# There is always something to choose from, also where few users hold thousands of items each.
FEWEST_TO_CHOOSE_FROM = 10.0
# Real users release what so many times fewer or more users of a profile would, in most cases.
# benchmarks/forecasts.py finds 1.67 for 80 % of the cases that it calibrates on.
RANGE = 1.7
# Seed of the made-up data: fixed, so that equal profiles give equal forecasts.
SEED = 20_200_209
MOST_PAIRS = 3_000_000


@dataclass(frozen=True)
class Profile:
    """Public knowledge of users: their number, their sets, and what the forecast used of it.

    Attributes
    ----------
    users, items_per_user : int, float
        As typed, or as found in the public corpus.
    spread, zipf, vocabulary : float or None, float or None, int or None
        Mean by median of set sizes, exponent of Zipf's law and number of different items of made-up
        data; None for a corpus.
    used_users, used_pairs, used_items : int
        Users, pairs of a user and an item and different items that the forecast was made with.
        Where fewer users were used than asked for, yields are extrapolated.
    """

    users: int
    items_per_user: float
    spread: float | None
    zipf: float | None
    vocabulary: int | None
    used_users: int
    used_pairs: int
    used_items: int

    def __str__(self) -> str:
        mean = self.used_pairs / self.used_users
        if self.zipf is None:
            text = f"{self.used_users:,} users with {mean:.3g} items each"
            return f"public corpus of {text}, {self.used_items:,} different ones"
        law = f"by Zipf's law with exponent {self.zipf:g} from {self.vocabulary:,} items"
        sizes = f"{mean:.3g} items each on average (spread {self.spread:g})"
        return f"{self.users:,} users with {sizes}, drawn {law}; all made up"


@dataclass(frozen=True)
class MadeUp:
    """Users who draw items by Zipf's law; a forecast is for `users`, and makes up to `limit`."""

    users: int
    items_per_user: float
    spread: float
    zipf: float
    vocabulary: int

    @property
    def limit(self) -> int:
        """As many as have `MOST_PAIRS` together."""
        return max(1, int(MOST_PAIRS / self.items_per_user))

    def pairs(self, users: int) -> Pairs:
        """Drawn anew for each number of users, by the same law."""
        from dpsu.inputs.reading import Source
        from dpsu.yields.expected import pairs_to_try
        from dpsu.yields.made_up import zipf_like

        table = zipf_like(
            users, items_per_user=self.items_per_user, zipf=self.zipf, spread=self.spread,
            vocabulary=self.vocabulary, seed=SEED,
        )  # fmt: skip
        # One item per user is what was asked for, not a mistaken column.
        with keep_warnings():
            return pairs_to_try(Source(table, Users(), Items(repeats="count")))

    def existing(self, users: int) -> float:
        """The vocabulary, however many users there are."""
        return float(self.vocabulary)

    def profile(self, used: int, pairs: int, items: int) -> Profile:
        """The laws as typed."""
        return Profile(
            self.users, self.items_per_user, self.spread, self.zipf, self.vocabulary, used, pairs,
            items,
        )  # fmt: skip


class Corpus:
    """Users of a public corpus, in an order that does not depend on what they hold."""

    def __init__(self, source: Source, users: int | None) -> None:
        from dpsu.contributions.order import hash_order
        from dpsu.yields.expected import holders_of, pairs_to_try

        self._pairs = pairs_to_try(source)
        if not len(self._pairs):
            raise option_error("profile", "has no rows with a user and an item to forecast from")
        self._order = hash_order(self._pairs.users, SEED)
        self._items = int((holders_of(self._pairs) > 0).sum())
        self.limit = len(self._pairs.users)
        self.users = self.limit if users is None else users

    def pairs(self, users: int) -> Pairs:
        """The first users in that order."""
        import numpy as np

        if users == self.limit:
            return self._pairs
        wanted = np.zeros(self.limit, bool)
        wanted[self._order[:users]] = True
        return self._pairs.of_users(wanted)

    def existing(self, users: int) -> float:
        """Those of the corpus, and by Heaps' law more if there are more users."""
        return float(self._items * max(1.0, users / self.limit) ** HEAPS_GROWTH)

    def profile(self, used: int, pairs: int, items: int) -> Profile:
        """What the users of the corpus hold."""
        return Profile(self.users, pairs / used, None, None, None, used, pairs, items)


# Users of whom any number up to their `limit` can be had.
Population = MadeUp | Corpus


def find_users(
    users: int | None,
    items_per_user: float | None,
    spread: float | None,
    zipf: float | None,
    vocabulary: int | None,
    profile: Any,
    plan: Plan,
) -> Population:
    """Users as they were described; a corpus has the columns of the plan."""
    if users is not None:
        users = whole_number("users", users, 1, 2**32)
    if profile is not None:
        given = {
            "items_per_user": items_per_user, "spread": spread, "zipf": zipf,
            "vocabulary": vocabulary,
        }  # fmt: skip
        for name, value in given.items():
            if value is not None:
                raise option_error(name, "is for made-up users; a profile has its own: drop it")
        from dpsu.inputs.reading import Source

        return Corpus(Source(profile, plan.user, plan.item), users)
    if users is None or items_per_user is None:
        raise ParameterError(
            "a forecast needs {users} and {items_per_user}, as somebody would know them who has "
            "not seen the data, or {profile}: a public corpus",
            **dict.fromkeys(("users", "items_per_user", "profile"), ...),
        )
    size = number("items_per_user", items_per_user, 1.0, 100_000.0)
    unequal = number("spread", DEFAULT_SPREAD if spread is None else spread, 1.0, LARGEST_SPREAD)
    exponent = number("zipf", DEFAULT_ZIPF if zipf is None else zipf, 0.0, 5.0)
    different = usual_vocabulary(users, size) if vocabulary is None else vocabulary
    different = whole_number("vocabulary", different, 1, LARGEST_VOCABULARY)
    if size > different:
        raise ParameterError(
            "{items_per_user} is above {vocabulary}: nobody can hold more different items than "
            "exist",
            items_per_user=items_per_user,
            vocabulary=different,
        )
    return MadeUp(users, size, unequal, exponent, different)


def usual_vocabulary(users: int, items_per_user: float) -> int:
    """Different items by Heaps' law, but no more than users can hold."""
    pairs = float(users * items_per_user)
    grown: float = max(HEAPS_FACTOR * pairs**HEAPS_GROWTH, FEWEST_TO_CHOOSE_FROM * items_per_user)
    # Rounded up, so that a single user finds enough.
    return min(LARGEST_VOCABULARY, math.ceil(min(pairs, grown)))
