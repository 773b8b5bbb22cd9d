"""The trial of a forecast: plans on made-up users, and how yields grow with the number of users.

Real data are not those that were made up. On data of other shapes plans release what they would
release of made-up users who are up to `RANGE` times fewer or more, in most cases: this is the
range of a forecast. Where the users are too many to be made up, the same growth is carried on.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from dpsu.errors import ParameterError
from dpsu.options import options_of
from dpsu.plans.mechanisms import Choice, Mechanism
from dpsu.plans.mechanisms.auto import Hints
from dpsu.plans.plan import Plan
from dpsu.privacy.guarantee import LARGEST_EPSILON, SMALLEST_EPSILON, Privacy
from dpsu.showing.progress import Steps, ticking
from dpsu.yields.forecasted import Point
from dpsu.yields.profiles import RANGE, Population, Profile

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.pairs import Pairs
    from dpsu.yields.expected import Expected

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
SIZES = (3, 10, 30, 100, 300)
# Twice as many users release at most 2 ** STEEPEST times as many items, once there are some; a few
# items at the beginning say nothing about that.
STEEPEST = 1.3
LEAST = 1e-3

Points = tuple[Point, ...]
Groups = list[dict[tuple[str, float, int | None], Plan]]


@dataclass(frozen=True)
class Growth:
    """A number that was found for some numbers of users, ascending, and what it is for others.

    Straight lines between logarithms; beyond both ends, the line through both, as far as it is
    neither steeper than `steepest` nor the wrong way.
    """

    users: tuple[int, ...]
    values: tuple[float, ...]
    steepest: float

    def at(self, users: float) -> float:
        """The number for so many users."""
        if users in self.users:
            return self.values[self.users.index(users)]
        places = [math.log(each) for each in self.users]
        values = [math.log(max(each, LEAST)) for each in self.values]
        place, slope = math.log(users), 0.0
        if len(places) > 1:
            slope = (values[-1] - values[0]) / (places[-1] - places[0])
        slope = min(max(slope, min(0.0, self.steepest)), max(0.0, self.steepest))
        for end in (0, -1):
            if (place - places[end]) * (1 if end else -1) >= 0.0:
                return self.values[end] * math.exp(slope * (place - places[end]))
        after = next(at for at, each in enumerate(places) if each > place)
        part = (place - places[after - 1]) / (places[after] - places[after - 1])
        return math.exp(values[after - 1] + part * (values[after] - values[after - 1]))


class Trial:
    """The plans of a forecast: what was asked for, and beside it all else.

    Without `sweeps` there are no points by epsilon and by max_items.
    """

    def __init__(
        self,
        asked: Plan,
        mechanisms: list[Mechanism],
        population: Population,
        *,
        sweeps: bool = True,
    ) -> None:
        self._asked, self._mechanisms, self._population = asked, mechanisms, population
        self._sweeps = sweeps

    def run(self, tell: Steps) -> tuple[Profile, tuple[Points, Points, Points], int]:
        """The profile, points by mechanism, by epsilon and by max_items, and the number of keys."""
        import numpy as np

        from dpsu.yields.expected import counted, usual_runs

        groups = self._groups()
        users, limit = self._population.users, self._population.limit
        used = min(users, limit)
        pairs = self._population.pairs(used)
        sets = counted(pairs)
        profile = self._population.profile(used, sets.pairs, sets.items)
        # The same plan may stand in several places; it is tried once.
        plans = list(dict.fromkeys(plan for group in groups for plan in group.values()))
        classes = np.rint(sets.classes * (users / used)).astype(np.int64)
        tried = {plan: settled(plan, classes) for plan in plans}
        everything = list(dict.fromkeys(tried.values()))
        wanted = dict.fromkeys(
            other_sizes(users, limit), self._ranged(groups, tried) if users <= limit else everything
        )
        runs = usual_runs(sets.pairs, 1)
        found = self._found(pairs, {used: everything} | wanted, runs, tell)
        first, second, third = (
            tuple(self._point(name, plan, tried[plan], found[tried[plan]])
                  for (name, _, _), plan in group.items())
            for group in groups
        )  # fmt: skip
        return profile, (first, second, third), runs

    def _found(
        self, pairs: Pairs | None, wanted: dict[int, list[Plan]], runs: int, tell: Steps
    ) -> dict[Plan, dict[int, Expected]]:
        """What plans yield by numbers of users; `pairs` are those of the first number."""
        from dpsu.yields.expected import expect

        tick = ticking(tell, runs * sum(map(len, wanted.values())))
        found: dict[Plan, dict[int, Expected]] = {}
        for users, plans in wanted.items():
            users_pairs = self._population.pairs(users) if pairs is None else pairs
            for plan, each in zip(
                plans, expect(users_pairs, plans, runs, progress=tick), strict=True
            ):
                found.setdefault(plan, {})[users] = each
            pairs = None
        return found

    def _groups(self) -> Groups:
        epsilon = self._asked.privacy.epsilon
        epsilons = sorted(
            {min(LARGEST_EPSILON, max(SMALLEST_EPSILON, f * epsilon)) for f in FACTORS}
        )
        groups: Groups = [{}, {}, {}]
        for each in self._mechanisms:
            self._add(groups[0], each, epsilon, None)
            if not self._sweeps:
                continue
            for other in epsilons:
                self._add(groups[1], each, other, None)
            for size in SIZES if "max_items" in options_of(type(each)) else ():
                self._add(groups[2], each, epsilon, size)
        return groups

    def _ranged(self, groups: Groups, tried: dict[Plan, Plan]) -> list[Plan]:
        """What has a range: all mechanisms as planned, and the planned one with other settings."""
        own = [
            plan
            for group in groups[1:]
            for (name, _, _), plan in group.items()
            if name == self._asked.name
        ]
        return list(dict.fromkeys(tried[plan] for plan in (*groups[0].values(), *own)))

    def _add(
        self,
        group: dict[tuple[str, float, int | None], Plan],
        tried: Mechanism,
        epsilon: float,
        size: int | None,
    ) -> None:
        try:
            chosen = tried if size is None else replace(tried, max_items=size)  # type: ignore[call-arg]
            privacy = Privacy(epsilon, self._asked.privacy.delta)
            plan = self._asked.with_mechanism(chosen, privacy=privacy)
        except ParameterError:
            # Options that are fine as typed may not fit another epsilon or size.
            return
        group[tried.name, epsilon, size] = plan

    def _point(self, name: str, plan: Plan, tried: Plan, found: dict[int, Expected]) -> Point:
        users = self._population.users
        sizes = tuple(sorted(found))
        growth = Growth(sizes, tuple(found[size].released for size in sizes), STEEPEST)
        # By Zipf's law what is missing falls by equal steps, and not by equal parts.
        stays = Growth(sizes, tuple(math.exp(found[size].missing) for size in sizes), -STEEPEST)

        def released(number: float) -> float:
            return min(growth.at(number), self._population.existing(math.ceil(number)))

        middle = released(users)
        # With few keys a yield may be below that of fewer users.
        low, high = (
            (None, None)
            if len(sizes) == 1
            else (min(middle, released(users / RANGE)), max(middle, released(users * RANGE)))
        )
        nearest = found.get(users) or found[sizes[-1]]
        return Point(
            name,
            plan.privacy.epsilon,
            tried.max_items,
            middle,
            low,
            high,
            nearest.error if users in found else None,
            max(0.0, math.log(stays.at(users))),
            nearest.needs,
            name == self._asked.name,
            tried.name if tried is not plan else None,
        )


def settled(plan: Plan, classes: NDArray[np.int64]) -> Plan:
    """The plan itself, or the one that auto would choose if its estimates were free of noise.

    `classes` are numbers of users by the size of their sets, as estimates count them.
    """
    from dpsu.engines.estimates import PARTS, average

    if not isinstance(plan.selection, Choice):
        return plan
    epsilon = plan.selection.epsilon
    share = math.floor(epsilon / plan.privacy.ids_per_person * PARTS) / PARTS
    return plan.chosen(average(classes, share, epsilon) if share else Hints(epsilon=epsilon))


def other_sizes(users: int, limit: int) -> list[int]:
    """Numbers of users to be tried besides `users`, or besides the limit if they are more."""
    if users > limit:
        sizes = [round(limit / RANGE**2)]
    else:
        sizes = [round(users / RANGE), min(limit, math.ceil(users * RANGE))]
    return sorted({max(1, size) for size in sizes} - {min(users, limit)})
