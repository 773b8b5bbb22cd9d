"""Users as the public knows them: made up by Zipf's law, or those of a public corpus."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.errors import DataWarning, ParameterError
from dpsu.inputs.columns import Items, Users
from dpsu.options import number, whole_number
from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    from dpsu.contributions.pairs import Pairs
    from dpsu.inputs.reading import Source

DEFAULT_ZIPF = 1.0
DEFAULT_VOCABULARY = 200_000
# Seed of the made-up data: fixed, so that equal profiles give equal forecasts.
SEED = 20_200_209
MOST_PAIRS = 10_000_000


@dataclass(frozen=True)
class Profile:
    """Public knowledge of users: their number, their sets, and what the forecast used of it.

    Attributes
    ----------
    users, items_per_user : int, float
        As typed, or as found in the public corpus.
    zipf, vocabulary : float or None, int or None
        Exponent of Zipf's law and number of different items of made-up data; None for a corpus.
    used_users, used_pairs, used_items : int
        Users, pairs of a user and an item and different items that the forecast was made with.
    """

    users: int
    items_per_user: float
    zipf: float | None
    vocabulary: int | None
    used_users: int
    used_pairs: int
    used_items: int

    def __str__(self) -> str:
        text = f"{self.used_users:,} users with {self.used_pairs / self.used_users:.3g} items each"
        if self.zipf is None:
            return f"public corpus of {text}, {self.used_items:,} different ones"
        law = f"by Zipf's law with exponent {self.zipf:g} from {self.vocabulary:,} items"
        return f"{text} on average, drawn {law}; all made up"


def find_users(
    users: int | None,
    items_per_user: float | None,
    zipf: float | None,
    vocabulary: int | None,
    profile: Any,
    plan: Plan,
) -> tuple[Profile, Pairs]:
    """The profile, and a database that has it; a corpus has the columns of the plan."""
    if users is not None:
        whole_number("users", users, 1, 2**32)
    if profile is not None:
        given = {"items_per_user": items_per_user, "zipf": zipf, "vocabulary": vocabulary}
        for name, value in given.items():
            if value is not None:
                raise ParameterError(
                    f"{{{name}}} is for made-up users; a profile has its own: drop it",
                    **{name: ...},
                )
        from dpsu.inputs.reading import Source

        return _corpus(Source(profile, plan.user, plan.item), users)
    if users is None or items_per_user is None:
        raise ParameterError(
            "a forecast needs {users} and {items_per_user}, as somebody would know them who has "
            "not seen the data, or {profile}: a public corpus",
            users=...,
            items_per_user=...,
            profile=...,
        )
    number("items_per_user", items_per_user, 1.0, 100_000.0)
    exponent = number("zipf", DEFAULT_ZIPF if zipf is None else zipf, 0.0, 5.0)
    different = DEFAULT_VOCABULARY if vocabulary is None else vocabulary
    whole_number("vocabulary", different, 1, 10_000_000)
    if items_per_user > different:
        raise ParameterError(
            "{items_per_user} is above {vocabulary}: nobody can hold more different items than "
            "exist",
            items_per_user=items_per_user,
            vocabulary=different,
        )
    return _made_up(users, float(items_per_user), exponent, different)


def _made_up(users: int, size: float, zipf: float, vocabulary: int) -> tuple[Profile, Pairs]:
    from dpsu.inputs.reading import Source
    from dpsu.yields.expected import pairs_to_try
    from dpsu.yields.made_up import zipf_like

    used = min(users, max(1, int(MOST_PAIRS / size)))
    table = zipf_like(used, items_per_user=size, zipf=zipf, vocabulary=vocabulary, seed=SEED)
    with warnings.catch_warnings():
        # One item per user is what was asked for, not a mistaken column.
        warnings.simplefilter("ignore", DataWarning)
        pairs = pairs_to_try(Source(table, Users(), Items(repeats="count")))
    return Profile(users, size, zipf, vocabulary, used, len(pairs), len(pairs.items)), pairs


def _corpus(profile: Source, users: int | None) -> tuple[Profile, Pairs]:
    import numpy as np

    from dpsu.contributions.order import hash_order
    from dpsu.yields.expected import holders_of, pairs_to_try

    pairs = pairs_to_try(profile)
    if not len(pairs):
        raise ParameterError(
            "{profile} has no rows with a user and an item to forecast from", profile=...
        )
    there = len(pairs.users)
    if users is not None and users < there:
        wanted = np.zeros(there, bool)
        wanted[hash_order(pairs.users, SEED)[:users]] = True
        pairs = pairs.of_users(wanted)
    used = min(there, users or there)
    holders = holders_of(pairs)
    held, different = int(holders.sum()), int((holders > 0).sum())
    return Profile(users or there, held / used, None, None, used, held, different), pairs
