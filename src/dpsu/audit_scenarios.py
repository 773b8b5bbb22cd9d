"""The small databases of an audit, with and without one person, and the large ones made of copies.

Many copies of a small database, with users and items of their own, make one large one: they do not
interact, so that a single release gives thousands of independent trials.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

COPIES = 2000
ITEMS_PER_COPY = 64


@dataclass(frozen=True)
class Scenario:
    """A small database: users as lists of small item numbers; the first is the person in doubt.

    That person is the first `ids` users. Items from `first_novel` on are held by nobody else.
    """

    name: str
    users: tuple[tuple[int, ...], ...]
    first_novel: int
    ids: int = 1


def scenarios_of(chosen: Plan) -> list[Scenario]:
    """Canaries, an item near the threshold, one user with everything, and displaced budgets."""
    limit, ids = min(chosen.max_items or 12, 12), chosen.user.ids_per_person
    found = [
        Scenario(f"canary, {t} item{'s' * (t > 1)}", _with_own_items(ids, t), 0, ids)
        for t in sorted({1, 2, limit, 12})
    ]
    # Beyond the cutoff a further holder changes nothing.
    most = 400 if chosen.cutoff is None else min(400, math.ceil(chosen.cutoff) + 1)
    holders = [h for h in range(2, most) if 0.02 < _shown(chosen, h) < 0.98]
    for h in sorted({holders[0], holders[len(holders) // 2], holders[-1]}) if holders else []:
        held = max(h, ids + 1)
        found.append(Scenario(f"an item of {held} users", ((0,),) * held, 1, ids))
    middle = holders[len(holders) // 2] if holders else 2
    shared = max(1, limit // 2)
    others = tuple((item,) for item in range(shared) for _ in range(max(1, middle - ids)))
    all_items = (tuple(range(limit)),) * ids
    found.append(Scenario(f"one user, {limit} items", (*all_items, *others), shared, ids))
    full = max(2, math.ceil(chosen.cutoff or middle))
    chain = tuple((0, 1 + follower) for follower in range(full + 2))
    chain = chain[: ITEMS_PER_COPY - 2]
    found.append(Scenario("displaced budgets", (*((0,),) * ids, *chain), 63, ids))
    return found


def _with_own_items(ids: int, size: int) -> tuple[tuple[int, ...], ...]:
    """The ids of a person, each with items of its own as far as a copy has so many."""
    room = ITEMS_PER_COPY - 1
    return tuple(
        tuple(sorted({place % room for place in range(each * size, (each + 1) * size)}))
        for each in range(ids)
    )


def _shown(chosen: Plan, holders: int) -> float:
    """Probability of an item that this many users hold, and nothing else."""
    if chosen.rounds is not None:
        # Where the last look alone would decide with this probability: near enough to find holders.
        needed = chosen.rounds.weight_needed(0.5)
        return 0.5 if 0.5 * needed <= holders <= 1.2 * needed else 0.0
    weight = min(float(holders), chosen.cutoff or math.inf) - chosen.shift
    return chosen.curve.probability(weight)


def copies(scenario: Scenario) -> tuple[pa.Table, pa.Table]:
    """Many copies of a scenario with its first person, and as many without."""
    return _table(scenario.users, 0), _table(scenario.users, scenario.ids)


def _table(users: tuple[tuple[int, ...], ...], skipped: int) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    kept = list(enumerate(users))[skipped:]
    user = np.array([u for u, items in kept for _ in items], np.int64)
    item = np.array([i for _, items in kept for i in items], np.int64)
    copy = np.repeat(np.arange(COPIES), len(user))
    return pa.table(
        {
            "user": copy * len(users) + np.tile(user, COPIES),
            "item": copy * ITEMS_PER_COPY + np.tile(item, COPIES),
        }
    )


def audit_prior() -> Any:
    """A prior that knows two thirds of the items of every copy, and ranks them differently."""
    from dpsu.inputs.public import read_prior

    items = range(COPIES * ITEMS_PER_COPY)
    return read_prior({item: 1 + item * 7 % ITEMS_PER_COPY for item in items if item % 3})
