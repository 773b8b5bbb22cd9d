"""Bits: in every round one exact coin for each item, and no noise; there are four rounds, or one.

Users give whole units to their items that are not released yet, and pay for them by a list of
prices. The chance of an item is read from a table by its sum of units. Tables and prices are made
together and certified (`dpsu.privacy.bits`). Which of them a round uses depends on how many open
items users have: a public number, or an estimate that a part of the budget pays for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from dpsu.errors import ParameterError
from dpsu.privacy.bits import (
    CAPS,
    WORD,
    BitsAccount,
    CoinTable,
    bits_account,
    round_curve,
    usable_caps,
)
from dpsu.privacy.calibration import ROUND_UP
from dpsu.privacy.last_bits import last_curve

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.ids import Ids
    from dpsu.randomness.keys import Key
    from dpsu.randomness.noise import Noise
    from dpsu.rounds.protocols import RoundEngine

# What each round takes, by the number of rounds. Those of four were chosen on research data; any
# shares that add up to 1 are safe.
SHARES = {1: (1.0,), 4: (0.04, 0.08, 0.18, 0.70)}
USUAL_ROUNDS = 4
# What all estimates together take of the rate, where they are paid for.
PAID = 0.01
# Numbers of open items are summed up to these limits; the first counts users who have any. A user
# who reaches a limit adds so many units: the larger a limit, the more its noise would matter.
LIMITS = (1, 20, 400)
UNITS = (400, 400, 850)
PURPOSE = "open items"
# With fewer users than this many standard errors nothing is known of them.
FEW = 5.0
# A mean near its limit says that the limit cut it off.
NEARLY = 0.75
# A standard error of so much of the mean is good enough: caps are farther apart than that.
CLOSE = 0.2
# So many standard errors between two means are no accident.
APART = 2.0
USUAL_ITEMS = 10.0
# Which part of the items of a user is taken to be open in each round, where nobody estimates it.
# The rule loses least on made-up users (benchmarks/bits.py).
STILL_OPEN = (1.0, 0.5, 0.4, 0.35)


@dataclass(frozen=True)
class BitsRounds:
    """Rounds with their shares of the account, and what is known of the users.

    Attributes
    ----------
    account : BitsAccount
        What all rounds and estimates may take together.
    shares : tuple of float
        What each round takes of it.
    caps : tuple of float
        The soft cap of each round; empty where it is estimated.
    choices : tuple of float
        The soft caps among which estimates choose.
    noise : float
        Standard deviation of the estimates, in units; 0 where nothing is estimated.
    """

    account: BitsAccount
    shares: tuple[float, ...]
    caps: tuple[float, ...]
    choices: tuple[float, ...]
    noise: float
    kind: ClassVar[str] = "bits"

    @property
    def rests_on(self) -> tuple[str, ...]:
        """The proof pages of what rounds draw and hash; there is noise in estimates only."""
        return ("orders", "coins") if self.caps else ("orders", "coins", "noise")

    def curve(self, round_: int, cap: float) -> CoinTable:
        """Prices and chances of a round with this cap; nothing adapts to those of the last."""
        make = last_curve if round_ + 1 == len(self.shares) else round_curve
        return make(self.account, self.shares[round_], cap)

    @property
    def deciding_curve(self) -> CoinTable:
        """The curve of the last round; where caps are estimated, that for users of one item."""
        return self.curve(len(self.shares) - 1, (self.caps or self.choices)[-1])

    def weight_needed(self, probability: float) -> float:
        """Users of one open item that suffice in the last round with this probability."""
        curve = self.deciding_curve
        goal = probability * 2.0**WORD
        above = next(n for n, chance in enumerate(curve.chances) if chance >= goal)
        low, high = curve.chances[above - 1], curve.chances[above]
        return (above - 1 + (goal - low) / (high - low)) / (len(curve.prices) - 1)

    def run(self, engine: RoundEngine, items: Ids, key: Key) -> NDArray[np.bool_]:
        """Which items are released, from an engine that knows the users."""
        import numpy as np

        from dpsu.randomness.coins import flip_words

        released, noise = np.zeros(len(items), bool), open_noise(key)
        for round_ in range(len(self.shares)):
            if self.caps:
                cap = self.caps[round_]
            else:
                cap = self.estimated_cap(engine.add_open(released, LIMITS, UNITS), noise, round_)
            curve = self.curve(round_, cap)
            weights = engine.give_units(released, curve.prices, curve.budget, round_)
            released |= flip_words(curve.chances, weights, items, key, round_)
        return released

    def estimated_cap(self, sums: NDArray[np.int64], noise: Noise, round_: int) -> float:
        """The cap of a round, from sums over all users of parts of the limits, in units.

        The noise is exact and rounded; what is made of the noisy sums is post-processing.
        """
        noisy = sums + noise.rounded(round_, self.noise)
        return nearest_cap(mean_open(noisy.tolist(), self.noise), self.choices)


def open_noise(key: Key) -> Noise:
    """The noise of the estimates of all rounds, one number for each limit."""
    import pyarrow as pa

    from dpsu.contributions.ids import Ids
    from dpsu.randomness.noise import Noise

    places = Ids(pa.array([f"{limit}" for limit in LIMITS], pa.large_string()))
    return Noise(key, places, PURPOSE)


def mean_open(noisy: list[int], noise: float) -> float:
    """About how many open items a user has that has any, from noisy sums in units."""
    users = noisy[0] / UNITS[0]
    if users < FEW * noise / UNITS[0]:
        return USUAL_ITEMS
    short, long = (
        max(1.0, limit * total / unit / users)
        for limit, total, unit in zip(LIMITS[1:], noisy[1:], UNITS[1:], strict=True)
    )
    # The larger limit cuts off less, and is noisier.
    error = LIMITS[2] * noise / UNITS[2] / users
    cut_off = short >= NEARLY * LIMITS[1] or long - short > APART * error
    return long if cut_off or error <= CLOSE * long else short


def nearest_cap(items: float, choices: tuple[float, ...] = CAPS) -> float:
    """The soft cap for users of so many open items: about what each of these could get."""
    wanted = math.log(min(1.0, 1.0 / math.sqrt(items)))
    return min(choices, key=lambda cap: abs(math.log(cap) - wanted))


def design_bits(
    epsilon: float,
    delta: float,
    *,
    items_per_user: float | None,
    rounds: int = USUAL_ROUNDS,
    ids: int = 1,
) -> tuple[BitsRounds, dict[str, float]]:
    """Shares of the account, and caps from a public number or the noise of paid estimates."""
    account = bits_account(epsilon, delta, ids)
    split = {"bits": delta - account.sure, "novel and certain items": account.sure}
    # Rounded down: together with the estimates they take at most the whole account.
    left = (1.0 if items_per_user is not None else 1.0 - PAID) * (1.0 - 1e-14)
    shares = tuple(share * left for share in SHARES[rounds])
    choices = usable_caps(account, shares)
    if not choices:
        raise ParameterError(
            "bits has no coins that are fine enough for this guarantee; raise {epsilon} or "
            "{delta}, or choose sieve"
            if ids == 1
            else "bits takes too long for so many {ids_per_person} at this guarantee; choose sieve",
            epsilon=...,
            delta=...,
            ids_per_person=ids,
        )
    if items_per_user is None:
        noise = estimate_noise(account, len(shares))
        return BitsRounds(account, shares, (), choices, noise), split
    parts = STILL_OPEN[: len(shares)]
    caps = tuple(nearest_cap(max(1.0, items_per_user * part), choices) for part in parts)
    return BitsRounds(account, shares, caps, (), 0.0), split


def estimate_noise(account: BitsAccount, rounds: int) -> float:
    """Standard deviation of every noisy sum, in units, so that all estimates take their part.

    There is one estimate in every round. Each id adds at most `UNITS` to its sums, and a Gaussian
    look of shift mu, in standard deviations, costs ``order * mu**2 / 2`` of the rate.
    """
    squared = 2.0 * PAID * account.rate / (rounds * account.order)
    return account.ids * ROUND_UP * math.sqrt(sum(unit**2 for unit in UNITS) / squared)
