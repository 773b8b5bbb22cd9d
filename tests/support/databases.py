"""Small databases, random and hand-made, and the shortest way from them to weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

import dpsu
from dpsu.contributions.grouped import Contributions
from dpsu.contributions.id_columns import Column
from dpsu.contributions.pairs import Rows
from dpsu.engines import local
from dpsu.inputs import public
from dpsu.inputs.columns import DEFAULT_ITEM, ONE_PER_ENTRY
from dpsu.inputs.reading import Source
from dpsu.options import options_of
from dpsu.plans.mechanisms import MECHANISMS, Design, by_name
from dpsu.plans.mechanisms.base import CALIBRATIONS
from dpsu.plans.plan import Plan
from dpsu.policies import Policy
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key

Users = list[list[int]]

# Mechanisms that weigh pairs of a user and an item; ngrams reads texts.
OF_PAIRS = [name for name, kind in MECHANISMS.items() if not kind.by_length]
UNPUBLISHED = [name for name in OF_PAIRS if "calibration" not in options_of(MECHANISMS[name])]
CALIBRATED = [
    (name, calibration)
    for name in OF_PAIRS
    for calibration in CALIBRATIONS
    if calibration == "tight" or name not in UNPUBLISHED
]
ONE_SHOT = [pair for pair in CALIBRATED if pair[0] not in ("sips", "sieve", "bits", "auto")]


# Of lists in a list, each of another person.
LISTED = Column(ONE_PER_ENTRY, "user"), Column(DEFAULT_ITEM, "item")


def listed_users(rows: Rows) -> list[str]:
    """The user of each row of what was read in one part."""
    (part,) = rows.parts
    return [str(user) for user in part()[0].to_pylist()]


def limited(name: str, size: int | None) -> dict[str, int | None]:
    """The option for so many items of a user, if the mechanism has it."""
    return {"max_items": size} if "max_items" in options_of(MECHANISMS[name]) else {}


def design_of(name: str, calibration: str, privacy: Privacy, max_items: int | None) -> Design:
    """What a mechanism decides."""
    options: dict[str, Any] = dict(limited(name, max_items))
    if name not in UNPUBLISHED:
        options["calibration"] = calibration
    if name == "greedy":
        options["allow_unproven"] = True
    return by_name(name, **options).design(privacy)


def random_users(
    rng: np.random.Generator, max_users: int = 8, n_items: int = 6, max_size: int = 6
) -> Users:
    """Users with distinct items in an order of their own; popular items come up more often."""
    popularity = 1.0 / np.arange(1, n_items + 1) ** rng.choice([0.0, 1.0])
    popularity /= popularity.sum()
    return [
        rng.choice(
            n_items, size=rng.integers(0, min(max_size, n_items) + 1), replace=False, p=popularity
        ).tolist()
        for _ in range(rng.integers(1, max_users + 1))
    ]


def contributions(users: Sequence[Sequence[int]], n_items: int) -> Contributions:
    start = np.concatenate([[0], np.cumsum([len(items) for items in users])]).astype(np.int64)
    items = np.array([item for held in users for item in held], np.int32)
    return Contributions(start[:-1].copy(), start[1:].copy(), items, None, n_items)


def policy_weights(policy: Policy, users: Sequence[Sequence[int]], n_items: int) -> np.ndarray:
    return policy.weights(contributions(users, n_items))


def types_of(data: Mapping[Any, Any]) -> tuple[str | None, str | None]:
    """Integers where all are: untyped data would be text otherwise."""
    items = [item for held in data.values() for item in held]
    users, items_too = (all(isinstance(x, int) for x in ids) for ids in (data, items))
    return "integer" if users else None, "integer" if items_too else None


def weights_of(
    plan: Plan,
    data: Mapping[Any, Any],
    key: Key,
    prior: Any = None,
    public_items: Any = None,
) -> dict[Any, Fraction]:
    """Weight of every item with positive weight, through the whole local engine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        of_users, of_items = types_of(data)
        user, item = dpsu.Users(type=of_users), dpsu.Items(type=of_items)
        source = Source(data, user, item)
        pairs = source.pairs(key, with_repeats=plan.order == "repeats")
    items, given = local.shares(
        plan,
        pairs,
        key,
        prior=None if prior is None else public.read_prior(prior),
        public=None if public_items is None else public.read_public_items(public_items),
    )
    unit, weights = 1 << plan.policy.fraction_bits, local.above_min_users(plan, given)
    return {
        item: Fraction(int(weight), unit)
        for item, weight in zip(items.values.to_pylist(), weights, strict=True)
        if weight > 0
    }
