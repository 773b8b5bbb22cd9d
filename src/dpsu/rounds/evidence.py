"""The evidence for every item so far, and how much attention users should pay to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels import steering as kernels
from dpsu.runtime.threads import in_ranges

if TYPE_CHECKING:
    from dpsu.rounds.sieve import Round, SieveRounds

Floats = NDArray[np.float64]
Tables = tuple[Floats, Floats, Floats, Floats, Floats]

LEVELS = 14
ESTIMATES = 512
RATES = 120
# Levels of error reach from the best that all rounds together give to this many times the first.
WORST = 60.0


class Evidence:
    """Evidence of items, item by item. It is noisy, but it is never published.

    An item's evidence is the total of its noisy sums in this phase: it decides. Signal and
    precision reach back further and tell the rate at which evidence comes in: they steer only.
    `tables` are those of :func:`steering_tables`; an engine with partitions makes them once.
    """

    def __init__(self, sieve: SieveRounds, n_items: int, tables: Tables | None = None) -> None:
        self._sieve = sieve
        self._tables = steering_tables(sieve) if tables is None else tables
        self._signal = np.zeros(n_items)
        self._precision = np.zeros(n_items)
        self._total = np.zeros(n_items)
        self._present = np.zeros(n_items, bool)
        self.released = np.zeros(n_items, bool)

    def state(self) -> dict[str, NDArray[Any]]:
        """The whole state, one value per item in each array; :meth:`resume` continues from it."""
        return {
            "signal": self._signal, "precision": self._precision, "total": self._total,
            "present": self._present, "released": self.released,
        }  # fmt: skip

    def resume(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Continue from the state of the same items."""
        self._signal, self._precision = state["signal"], state["precision"]
        self._total, self._present = state["total"], state["present"]
        self.released = state["released"]

    def begin(self, present: NDArray[np.bool_]) -> None:
        """Begin a phase: its evidence starts at 0; `present` are the items in users' sets."""
        self._total[:] = 0.0
        self._present = present

    def attention(self, this_round: Round) -> NDArray[np.float64]:
        """How much users should attend to each item: 0 if released, else positive."""
        if this_round.number == 0:
            return np.ones(len(self.released))
        sieve, constants = self._sieve, self._sieve.steering
        last = sieve.phases[-1]
        deciding = this_round.phase is last
        remaining = last.share - math.fsum(last.shares[: this_round.place] if deciding else ())
        # Evidence of the scouting phase steers, but it does not count towards the last boundary.
        total = self._total if deciding and this_round.place > 0 else np.zeros(len(self.released))
        margin, common = 0.0, math.inf
        if deciding and remaining <= constants.late * last.share:
            # Later rounds can make up for the noise of this one, and nothing for that of the last.
            now = this_round.phase.shares[this_round.place] / remaining
            margin = constants.margin * now * sieve.sigma * math.sqrt(remaining)
            common = constants.ample * sieve.last_boundary / last.share
        attention = np.empty(len(self.released))
        in_ranges(
            lambda first, last: kernels.steer(
                self._signal, self._precision, total, self.released, sieve.last_boundary,
                remaining, constants.gain, sieve.sigma, constants.extra * sieve.sigma,
                constants.open_above, constants.open_below, constants.doubt, margin, common,
                *self._tables, first, last, attention,
            ),
            len(attention),
        )  # fmt: skip
        return attention

    def update(
        self, this_round: Round, noisy_sums: NDArray[np.int64], attention: NDArray[np.float64]
    ) -> None:
        """Add the noisy sums of one round, in units; release items that cross the boundary."""
        sieve, constants = self._sieve, self._sieve.steering
        values = np.ldexp(noisy_sums.astype(np.float64), -sieve.fraction_bits)
        in_ranges(
            lambda first, last: kernels.add_evidence(
                values, this_round.phase.shares[this_round.place], sieve.sigma, constants.memory,
                constants.least, this_round.phase.boundary[this_round.place], attention,
                self._present, self._signal, self._precision, self._total, self.released,
                first, last,
            ),
            len(values),
        )  # fmt: skip


@lru_cache(maxsize=16)
def steering_tables(sieve: SieveRounds) -> Tables:
    """Posterior mean and deviation of an item's rate, by standard error and estimate; made once.

    The prior of a rate h is proportional to 1/h between two public bounds. Made from the plan
    alone: levels of log error, lowest estimate and step of each level, means and deviations.
    """
    memory, precisions, known = sieve.steering.memory, [], 0.0
    for this_round in sieve.rounds():
        known = memory * known + this_round.phase.shares[this_round.place] / sieve.sigma**2
        precisions.append(known)
    levels = np.linspace(
        -0.5 * math.log(max(precisions)), -0.5 * math.log(precisions[0]) + math.log(WORST), LEVELS
    )
    largest = 6.0 * sieve.last_boundary / sieve.phases[-1].share
    rates = np.exp(np.linspace(math.log(sieve.steering.smallest_rate), math.log(largest), RATES))
    lowest, step = np.empty(LEVELS), np.empty(LEVELS)
    means, deviations = np.empty((LEVELS, ESTIMATES)), np.empty((LEVELS, ESTIMATES))
    for q, level in enumerate(levels):
        error = math.exp(level)
        estimates = np.linspace(-6.0 * error, max(largest, 6.0 * error), ESTIMATES)
        lowest[q], step[q] = estimates[0], estimates[1] - estimates[0]
        logs = -((estimates[:, None] - rates[None, :]) ** 2) / (2.0 * error * error)
        # Rates are spaced evenly in their logarithm, where the prior 1/h is flat.
        chances = np.exp(logs - logs.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        # Sums, not products of matrices: those would depend on how many threads make them.
        means[q] = (chances * rates).sum(axis=1)
        squares = (chances * rates**2).sum(axis=1)
        deviations[q] = np.sqrt(np.maximum(squares - means[q] ** 2, 0.0))
    return levels, lowest, step, means, deviations
