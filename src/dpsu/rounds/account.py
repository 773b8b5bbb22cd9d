"""How delta is split between noise and crossings: user by user, by the size of its own first set.

A user with many items has more novel items that might cross the boundary, and one with few hardly
any. So each user has a class, fixed by its own set before there is any noise. The class says how
likely its novel items may cross, and by how much the user may then shift the noisy sums: its norm
is what the rest of delta pays for.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from dpsu.privacy.calibration import gaussian_scale
from dpsu.privacy.normal import hockey_stick_at_most, upper_quantile

FOR_SCOUTING = 0.015
# Sizes up to this have a class each. Larger ones share a class with others up to 1/64 larger, so
# that there are few enough for two bytes.
SMALL_SIZES = 512
NORM_STEPS = 1 << 30


class Limits(NamedTuple):
    """What users may give in the rounds of one phase.

    Attributes
    ----------
    norms, allowed : tuple of float
        By class: the largest l2 norm, and how likely any novel item of the user may cross.
    caps, crossing : tuple of float
        Caps, rising, and for each how likely one novel item of that weight crosses.
    """

    norms: tuple[float, ...]
    allowed: tuple[float, ...]
    caps: tuple[float, ...]
    crossing: tuple[float, ...]

    def cap(self, user_class: int, unreleased: int) -> float:
        """The largest cap that is safe for so many novel items; refused if there is none.

        The kernel `dpsu.kernels.rounds.largest_cap` says the same.
        """
        safe = bisect_right(self.crossing, self.allowed[user_class] / unreleased)
        if not safe:
            raise AssertionError("no cap is safe for this many items")
        return self.caps[safe - 1]


@dataclass(frozen=True)
class SizeAccount:
    """The split of one guarantee for users of every size.

    Attributes
    ----------
    epsilon, delta : float
        The guarantee of all rounds together.
    scouting : float
        Bound on the probability that a novel item crosses while scouting; 0 without scouting.
    crossing : float
        The same while deciding, for users of `max_items` items or more.
    exponent : float
        For users of fewer items, that bound falls with this power of their number. At most 1:
        otherwise small sets would have less for each item than a full one, and no safe cap.
    max_items : int
        Size of a user's set while deciding.
    """

    epsilon: float
    delta: float
    scouting: float
    crossing: float
    exponent: float
    max_items: int

    def __post_init__(self) -> None:
        if not 0.0 <= self.exponent <= 1.0:
            raise AssertionError(
                "what novel items may cross must not grow faster than their number"
            )
        if self.scouting < 0.0 or self.crossing <= 0.0 or self.novel >= self.delta:
            raise AssertionError("novel items must leave something of delta for noise")

    @property
    def novel(self) -> float:
        """Bound on the probability that a novel item of any user crosses, in any round."""
        return self.scouting + self.crossing

    def sizes(self) -> tuple[int, ...]:
        """The largest size of each class; the last is `max_items`."""
        sizes = list(range(1, min(self.max_items, SMALL_SIZES) + 1))
        while sizes[-1] < self.max_items:
            sizes.append(min(sizes[-1] + sizes[-1] // 64, self.max_items))
        return tuple(sizes)

    def allowed(self, size: int) -> float:
        """Bound on the probability that a novel item of such a user crosses while deciding."""
        return self.crossing * math.pow(size / self.max_items, self.exponent)

    def for_noise(self, size: int) -> float:
        """What a user of this class leaves of delta for noise, rounded down."""
        rest = Fraction(self.delta) - Fraction(self.scouting) - Fraction(self.allowed(size))
        return math.nextafter(float(rest), 0.0)

    def scale(self) -> float:
        """Noise for which a user of one item has norm 1."""
        return gaussian_scale(self.epsilon, self.for_noise(1))

    def norm(self, size: int, sigma: float) -> float:
        """The largest norm, in steps of 2^-30 and at most 1, that leaves everything within delta.

        What is returned has passed the check: the hockey-stick divergence of a shift by this norm,
        rounded up, and both bounds for novel items add up to at most delta.
        """
        rest = self.for_noise(size)
        low, high = 0, NORM_STEPS + 1
        while high - low > 1:
            # Norms hardly differ from 1: begin there.
            middle = high - 1 if high > NORM_STEPS else (low + high) // 2
            shift = middle / NORM_STEPS / sigma
            if hockey_stick_at_most(self.epsilon, shift) <= rest:
                low = middle
            else:
                high = middle
        return low / NORM_STEPS


def split_by_size(
    epsilon: float, delta: float, max_items: int, scouting: bool, ids: int = 1
) -> SizeAccount:
    """Choose how much of delta users of every size have for novel items.

    Any choice is private. This one weighs what norm and boundary cost: `steepness` compares the
    boundary, in standard deviations, with the noise that everybody has.
    """
    steepness = upper_quantile(delta / (2.0 * max_items)) / gaussian_scale(epsilon, delta)
    return SizeAccount(
        epsilon,
        delta,
        scouting=FOR_SCOUTING * delta if scouting else 0.0,
        crossing=min(0.75, 0.35 + 0.5 / steepness) * delta,
        # A person with several ids has no one size, so that no size may be worth a larger norm.
        exponent=min(0.6, 0.75 / steepness) if ids == 1 else 0.0,
        max_items=max_items,
    )
