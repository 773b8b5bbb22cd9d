"""What a plan would release of a database, on average: no coins are tossed, and nothing is private.

For one-shot mechanisms the chances of all items are added up, which averages over coins
exactly; orders of users and samples of items are averaged over a few keys. Mechanisms in rounds
have no chance that could be written down, so whole runs are averaged over the same keys.

On confidential data everything here is confidential. On made-up data it is a forecast.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.contributions.grouped import Contributions, arrange
from dpsu.contributions.ids import Ids
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.engines.estimates import histogram
from dpsu.engines.local_rounds import LocalRounds
from dpsu.inputs.reading import Source
from dpsu.plans.mechanisms import Choice, OneShot
from dpsu.plans.plan import Plan
from dpsu.policies import Count
from dpsu.privacy.curves import Optimal
from dpsu.randomness.coins import probabilities
from dpsu.randomness.keys import Key
from dpsu.rounds import NGramRounds

# Keys are fixed, so that equal questions get equal answers; they never meet a release.
FIRST_KEY = 7_215_000_000
KEPT = 4
SMALL, LARGE = 50_000, 500_000
Floats = NDArray[np.float64]
Grouped = tuple[Ids, Ids, Contributions]


def usual_runs(rows: int, fewest: int) -> int:
    """How many keys to average over: small data vary more, and cost less."""
    if rows <= SMALL:
        return max(8, fewest)
    return max(3, fewest) if rows <= LARGE else fewest


@dataclass(frozen=True)
class Expected:
    """What a plan would release on average.

    Attributes
    ----------
    released : float
        Number of items.
    error : float or None
        Standard error of that over keys; None with a single one.
    missing : float
        Holders of items that stay back, as a part of all pairs of a user and an item.
    needs : int or None
        The number of holders that separates best what comes out from what does not; None where
        nothing is more likely to come out than not.
    covered, by_band : tuple of float
        How many items come out of those held by at least this many users, and of those between two
        numbers of holders.
    """

    released: float
    error: float | None
    missing: float
    needs: int | None
    covered: tuple[float, ...]
    by_band: tuple[float, ...]


def expect(
    pairs: Pairs,
    plans: Sequence[Plan],
    runs: int,
    *,
    levels: tuple[int, ...] = (),
    bands: tuple[int, ...] = (1,),
    progress: Callable[[], None] = lambda: None,
) -> list[Expected]:
    """What each plan would release on average, over `runs` keys.

    `levels` are numbers of holders at which coverage is asked for, `bands` the smallest numbers of
    holders of bands. `progress` is called after each plan and key.
    """
    found: list[list[Expected]] = [[] for _ in plans]
    for number in range(runs):
        run = Run(pairs, Key.from_insecure_seed(FIRST_KEY + number))
        for plan, results in zip(plans, found, strict=True):
            results.append(_summed(run.chances(plan), run.held_by(plan), levels, bands))
            progress()
    return [_averaged(results) for results in found]


@dataclass(frozen=True)
class HeldBy:
    """Different numbers of holders, ascending, how many items have each, and which item has which.

    An item's chance matters only by its number of holders, and there are far fewer of those.
    """

    numbers: NDArray[np.int64]
    items: NDArray[np.int64]
    place: NDArray[np.int64]

    def added_up(self, chances: Floats) -> Floats:
        """Expected number of released items for each number of holders."""
        # With no items at all NumPy counts in integers.
        return np.bincount(self.place, chances, minlength=len(self.numbers)).astype(np.float64)


def held_by(holders: NDArray[np.int64]) -> HeldBy:
    """Sort items by their numbers of holders."""
    numbers, place, items = np.unique(holders, return_inverse=True, return_counts=True)
    return HeldBy(numbers, items, place)


class Run:
    """A database under one key, grouped and bounded no more often than plans ask for it."""

    def __init__(self, pairs: Pairs, key: Key) -> None:
        self._pairs, self._key = pairs, key
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._groups: dict[bool, Grouped] = {}
        self._held_by: HeldBy | None = None

    def held_by(self, plan: Plan) -> HeldBy:
        """Numbers of users who hold each item, items in the order of this run."""
        if self._held_by is None:
            self._held_by = held_by(Count().weights(self._grouped(plan)[2]))
        return self._held_by

    def chances(self, plan: Plan) -> Floats:
        """Chance of each item to be released, items in the order of this run; 0 or 1 in rounds."""
        plan = local.chosen(plan, self._grouped(plan)[2], self._key)
        if isinstance(plan.selection, OneShot):
            weights = local.above_min_users(plan, self._weights(plan))
            return probabilities(plan.curve, weights, plan.policy.fraction_bits)
        selection = plan.selection
        assert not isinstance(selection, (NGramRounds, Choice)), "these are not compared"
        users, items, held = self._grouped(plan)
        engine = LocalRounds(_copied(held), users, items, self._key)
        return selection.run(engine, items, self._key).astype(np.float64)

    def _grouped(self, plan: Plan) -> Grouped:
        counted = plan.order == "repeats"
        if counted not in self._groups:
            self._groups[counted] = local.group_as_planned(plan, self._pairs, self._key)
        return self._groups[counted]

    def _weights(self, plan: Plan) -> NDArray[np.int64]:
        # Without a cutoff weights are the same for every epsilon.
        bounded = (plan.order, plan.bounded_by, plan.max_items)
        weights: NDArray[np.int64] = self._once(
            (plan.policy, *bounded),
            lambda: plan.policy.weights(self._once(bounded, lambda: self._bounded(plan))),
        )
        return weights

    def _bounded(self, plan: Plan) -> Contributions:
        users, items, held = self._grouped(plan)
        return local.bound_as_planned(plan, _copied(held), users, items, self._key)

    def _once(self, name: Hashable, make: Callable[[], Any]) -> Any:
        """What was made for this name among the last few, or made now."""
        if name not in self._kept:
            self._kept[name] = make()
            # Each of them may be as large as the rows.
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(name)
        return self._kept[name]


@dataclass(frozen=True)
class Sets:
    """How many users hold sets of which class, how many pairs there are, and how many items."""

    classes: NDArray[np.int64]
    pairs: int
    items: int


def counted(pairs: Pairs) -> Sets:
    """Count sets by their classes, as an estimate would."""
    held = _by_codes(pairs)
    items = int(np.count_nonzero(Count().weights(held)))
    return Sets(histogram(held.sizes), int(held.sizes.sum()), items)


def holders_of(pairs: Pairs) -> NDArray[np.int64]:
    """Number of users who hold each item, in the order of their codes."""
    return Count().weights(_by_codes(pairs))


def _by_codes(pairs: Pairs) -> Contributions:
    orders = np.arange(len(pairs.users)), np.arange(len(pairs.items))
    return arrange(pairs, *orders, with_repeats=False)


def _summed(
    chances: Floats, held: HeldBy, levels: tuple[int, ...], bands: tuple[int, ...]
) -> Expected:
    out, numbers = held.added_up(chances), held.numbers
    pairs = float((numbers * held.items).sum())
    # Items that nobody holds have no chance, whichever band they fall in.
    band = np.maximum(np.searchsorted(bands, numbers, side="right") - 1, 0)
    return Expected(
        float(out.sum()),
        None,
        1.0 - float((out * numbers).sum()) / pairs if pairs else 0.0,
        typical_need(numbers, out, held.items),
        tuple(float(out[numbers >= level].sum()) for level in levels),
        tuple(np.bincount(band, out, minlength=len(bands)).tolist()),
    )


def _averaged(runs: list[Expected]) -> Expected:
    sizes = [found.released for found in runs]
    needs = [found.needs for found in runs if found.needs is not None]
    error = float(np.std(sizes, ddof=1) / math.sqrt(len(runs))) if len(runs) > 1 else None
    return Expected(
        float(np.mean(sizes)),
        error,
        float(np.mean([found.missing for found in runs])),
        round(float(np.median(needs))) if 2 * len(needs) > len(runs) else None,
        tuple(np.mean([found.covered for found in runs], axis=0).tolist()),
        tuple(np.mean([found.by_band for found in runs], axis=0).tolist()),
    )


def universal_bound(held: HeldBy, epsilon: float, delta: float) -> float:
    """Most items that any private mechanism could release on average, of those that are held."""
    best = Optimal(epsilon, delta)
    chances = [min(1.0, best.probability(float(number))) for number in held.numbers]
    return float((held.items * np.array(chances)).sum())


def typical_need(
    numbers: NDArray[np.int64], released: Floats, items: NDArray[np.int64]
) -> int | None:
    """What an item needs, for a forecast: the number of holders that separates best what comes out.

    Releasing all items from that number on, and no others, errs least.
    """
    # Wrong below a number is what comes out, wrong from it on is what stays back.
    below = np.concatenate([[0.0], np.cumsum(released)])
    above = np.concatenate([np.cumsum((items - released)[::-1])[::-1], [0.0]])
    best = int(np.argmin(below + above))
    return int(numbers[best]) if best < len(numbers) else None


def pairs_to_try(source: Source) -> Pairs:
    """Read rows as a release would, with how often users hold items."""
    return source.pairs(Key.from_insecure_seed(FIRST_KEY), with_repeats=True)


def _copied(held: Contributions) -> Contributions:
    """Contributions that may be used up."""
    counts = None if held.repeats is None else held.repeats.copy()
    return replace(held, items=held.items.copy(), repeats=counts)
