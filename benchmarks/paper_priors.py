"""Public vocabularies beside private ones: overlap, correlation, and made-up public counts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.inputs.public import Prior, read_prior

Floats = NDArray[np.float64]


def overlap_and_correlation(
    items: pa.Array, holders: NDArray[np.int64], prior: Prior
) -> tuple[float, float]:
    """Share of private items that the prior knows, and Pearson's correlation of their counts.

    Both counts are numbers of holders, as in the published code. The result is private; for
    benchmarks only.
    """
    at = pc.index_in(items.cast(prior.items.type), value_set=prior.items).fill_null(-1).to_numpy()
    known = at >= 0
    if known.sum() < 2:
        return float(known.mean()), 0.0
    both = np.corrcoef(holders[known], prior.numbers[at[known]])
    return float(known.mean()), float(both[0, 1])


def made_up_prior(
    items: pa.Array, rates: Floats, *, overlap: float, correlation: float, seed: int
) -> Prior:
    """Public counts of a corpus that uses the same words at other rates.

    A word's public rate is its private rate times a lognormal factor, and its public count is
    Poisson at that rate; words that come out as 0 are unknown. The size of the public corpus is
    chosen to give the overlap, and the spread of the factor to come near the correlation.

    Parameters
    ----------
    items, rates
        The private items and how often each is held.
    overlap
        Share of the items that the public corpus should know.
    correlation
        Pearson's correlation of the counts of those.
    seed
        Equal seeds give equal priors.
    """
    generator = np.random.Generator(np.random.PCG64(seed))
    factors = generator.standard_normal(len(rates))
    uniforms = generator.random(len(rates))
    best: tuple[float, Floats] | None = None
    for spread in np.arange(0.2, 4.01, 0.1):
        drifted = rates * np.exp(spread * factors)
        counts = _counts(drifted, uniforms, overlap)
        known = counts > 0
        found = float(np.corrcoef(rates[known], counts[known])[0, 1])
        if best is None or abs(found - correlation) < best[0]:
            best = abs(found - correlation), counts
    assert best is not None
    counts = best[1]
    at = np.flatnonzero(counts > 0)
    return read_prior(pa.table({"item": items.take(pa.array(at)), "holders": counts[at]}))


def _counts(rates: Floats, uniforms: Floats, overlap: float) -> Floats:
    """Counts with the wanted share above 0, by bisection over the size of the corpus."""
    low, high = -30.0, 30.0
    for _ in range(60):
        middle = (low + high) / 2
        known = float(-np.expm1(-rates * np.exp(middle)).mean())
        low, high = (middle, high) if known < overlap else (low, middle)
    expected = rates * np.exp((low + high) / 2)
    # One uniform per word serves all spreads; rounding is enough where a count is large.
    known = uniforms < -np.expm1(-expected)
    return np.where(known, np.maximum(1.0, np.round(expected)), 0.0)
