"""How the made-up corpus of the papers' experiments was fitted; prints segments and the fit.

    python -m benchmarks.paper_fit

Words are drawn independently, with the set sizes of Gopi's Table 1. What is fitted is how the
probability of a word falls with its rank: to the words of at least k users (Table 3), to the
vocabulary, and to the sizes of count-laplace and count-gaussian (Table 2), which depend on nothing
but how many users hold each word. (Without count-gaussian the fit left that one up to 16 % too
large.) Everything is an expectation, so no corpus is drawn. The rounded
result is `paper_corpora.SEGMENTS`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dpsu
from benchmarks import paper_numbers as published
from benchmarks.paper_corpora import SEGMENTS
from benchmarks.paper_runs import paper, planned
from dpsu.yields.made_up import REDDIT_USERS, reddit_like

Floats = NDArray[np.float64]
# The head is held at Zipf's 1, as the paper says; the last segment is flat.
ENDS = (100, 650, 2_200, 5_000, 11_000, 25_000)
START = (1.1, 1.3, 1.35, 1.4, 1.7, 2.0, math.log(80_000), math.log(260_000))
# Facts about the data count more than results, which carry noise and the papers' own code.
FACTS_WEIGHT, SMOOTHNESS = 4.0, 0.05
MOST_POISSON = 60.0


class Model:
    """Expected numbers of holders of words, for any segments."""

    def __init__(self) -> None:
        users = np.asarray(reddit_like(seed=1)["user"])
        sizes, self.users = np.unique(np.bincount(users), return_counts=True)
        self.sizes = sizes.astype(np.float64)
        assert self.users.sum() == REDDIT_USERS
        self.plans = {
            (name, limit): planned(
                epsilon=published.EPSILON, delta=published.DELTA, **paper(name, max_items=limit)
            )
            for name in ("count-laplace", "count-gaussian")
            for limit in published.LIMITS
        }  # fmt: skip

    def expected(self, segments: Any) -> dict[Any, float]:
        """What a corpus of such words would have, by the names of `targets`."""
        from scipy import stats

        words, chances = grouped(segments)
        # A user who draws until it has s distinct words makes about so many draws.
        draws = np.exp(np.linspace(-1, 12, 260))
        distinct = [float(np.sum(words * -np.expm1(-chances * n))) for n in draws]
        made = np.exp(np.interp(np.log(self.sizes), np.log(distinct), np.log(draws)))
        held = -np.expm1(-np.outer(chances, made))
        holders = held @ self.users
        found: dict[Any, float] = {
            k: float(np.sum(words * stats.poisson.sf(k - 1, holders)))
            for k in published.GOPI_TABLE_3
        }
        found["words"] = float(np.sum(words * -np.expm1(-holders)))
        for (name, limit), plan in self.plans.items():
            kept = held @ (self.users * np.minimum(1.0, limit / self.sizes))
            found[name, limit] = float(np.sum(words * released(name, plan, kept)))
        return found


def grouped(segments: Any) -> tuple[Floats, Floats]:
    """Words in groups of near ranks: how many, and the probability of each."""
    ends, exponents = np.array(segments, np.float64).T
    last = int(ends[-1])
    ranks = np.concatenate([np.arange(1, 200), np.geomspace(200, last, 450)])
    first = np.unique(np.round(ranks).astype(np.int64))
    words = np.diff(np.append(first, last + 1)).astype(np.float64)
    keep = words > 0
    first, words = first[keep], words[keep]
    knots = np.log(np.concatenate(([1.0], ends)))
    falls = np.concatenate(([0.0], np.cumsum(-exponents * np.diff(knots))))
    middle = np.log(np.sqrt(first * (first + words - 1.0)))
    weights = np.exp(np.interp(middle, knots, falls))
    return words, weights / np.sum(words * weights)


def released(name: str, plan: dpsu.Plan, holders: Floats) -> Floats:
    """Probability of release where the number of holders is Poisson with these means."""
    from scipy import stats

    assert plan.threshold is not None
    assert plan.noise_scale is not None
    noise = stats.laplace if name == "count-laplace" else stats.norm

    def curve(count: Floats) -> Floats:
        chance: Floats = noise.sf(plan.threshold, count, plan.noise_scale)
        return np.where(count > 0, chance, 0.0)

    chances = np.empty_like(holders)
    few = holders < MOST_POISSON
    counts = np.arange(3 * MOST_POISSON)
    chances[few] = stats.poisson.pmf(counts, holders[few][:, None]) @ curve(counts)
    nodes, weights = np.polynomial.hermite_e.hermegauss(7)
    many = holders[~few][:, None]
    chances[~few] = curve(many + np.sqrt(many) * nodes) @ weights / weights.sum()
    return chances


def targets() -> dict[Any, float]:
    """What was published, by k, "words", or mechanism and limit."""
    found: dict[Any, float] = {k: float(row[0]) for k, row in published.GOPI_TABLE_3.items()}
    found["words"] = float(published.VOCABULARY)
    for name in ("count-laplace", "count-gaussian"):
        row = published.GOPI_TABLE_2[name]
        for limit, (size, _) in zip(published.LIMITS, row, strict=True):
            found[name, limit] = float(size)
    return found


def unpacked(numbers: Floats) -> list[tuple[float, float]]:
    """Segments from what the fit varies: exponents, and the ends of the last two."""
    ends = [*ENDS, math.exp(numbers[-2]), math.exp(numbers[-1])]
    return list(zip(ends, [1.0, *numbers[:-2].tolist(), 0.0], strict=True))


def fit(model: Model, evaluations: int = 60) -> list[tuple[float, float]]:
    """Segments by least squares on logarithms."""
    from scipy import optimize

    wanted = targets()
    weights = [1.0 if isinstance(name, tuple) else FACTS_WEIGHT for name in wanted]

    def residuals(numbers: Floats) -> list[float]:
        found = model.expected(unpacked(numbers))
        errors = [
            weight * math.log(found[name] / wanted[name])
            for name, weight in zip(wanted, weights, strict=True)
        ]
        return [*errors, *(SMOOTHNESS * np.diff(numbers[:-2]))]

    found = optimize.least_squares(residuals, START, diff_step=1e-3, max_nfev=evaluations)
    return unpacked(found.x)


def main() -> None:
    """Print what the fit gives, and what the rounded segments in use give."""
    model = Model()
    for end, exponent in fit(model):
        print(f"({end:,.0f}, {exponent:.3f})")
    found = model.expected(SEGMENTS)
    for name, wanted in targets().items():
        print(f"{name}: published {wanted:,.0f}, in use {found[name] / wanted:.3f} of it")


if __name__ == "__main__":
    main()
