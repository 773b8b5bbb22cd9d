"""Clopper-Pearson bounds: what a number of hits proves about a probability."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def lower_bound(hits: int, trials: int, error: float) -> float:
    """The probability is above this, but for a chance of `error`."""
    if hits == 0:
        return 0.0
    numbers = np.arange(hits, trials + 1)
    terms = _log_binomials(trials)[hits:]
    low, high = 0.0, hits / trials
    for _ in range(50):
        p = (low + high) / 2.0
        logs = terms + numbers * np.log(p) + (trials - numbers) * np.log1p(-p)
        if np.exp(logs).sum() <= error:
            low = p
        else:
            high = p
    return low


def upper_bound(hits: int, trials: int, error: float) -> float:
    """The probability is below this, but for a chance of `error`."""
    return 1.0 - lower_bound(trials - hits, trials, error)


def _log_binomials(trials: int) -> NDArray[np.float64]:
    numbers = np.arange(trials)
    steps = np.log(trials - numbers) - np.log(numbers + 1.0)
    return np.concatenate([[0.0], np.cumsum(steps)])
