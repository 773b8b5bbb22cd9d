"""Every table and figure of Gopi et al. 2020, Differentially Private Set Union (arXiv 2002.09745).

    python -m benchmarks.gopi2020                 the made-up corpus
    python -m benchmarks.gopi2020 --data FOLDER   and whatever FOLDER holds, see `paper_corpora`

Results go to benchmarks/results/gopi2020.json; docs/figures/papers.md shows them beside what was
published.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.paper_corpora import SEED, Corpus
from benchmarks.paper_numbers import (
    EPSILONS,
    FIGURE_LIMIT,
    GOPI_ALPHA,
    GOPI_ALPHAS,
    GOPI_TABLE_2,
    GOPI_TABLE_3,
    LIMITS,
    PASSES_ALPHA,
    SET_SIZES,
)
from benchmarks.paper_runs import RESULTS, Runs, measured, paper, parsed, reproduce
from benchmarks.yields import interned
from dpsu.yields.made_up import reddit_like

OUTPUT = RESULTS / "gopi2020.json"
MECHANISMS = tuple(GOPI_TABLE_2)
POLICIES = ("policy-laplace", "policy-gaussian")
TABLES = ("1", "2", "3", "4")
# Figure 5 draws Table 2, and has no numbers of its own.
FIGURES = ("1", "4", "5", "6")
SHOWN_RANKS = 120


def experiments(runs: Runs) -> dict[str, Any]:
    """All tables and figures on one corpus."""
    corpus = runs.corpus
    table_2 = {name: _by_limit(runs, name) for name in MECHANISMS}
    return {
        "tables": {
            "1": {str(t): 100 * float((corpus.set_sizes <= t).mean()) for t in SET_SIZES},
            "2": table_2,
            "3": coverage(corpus, table_2),
            "4": {name: _by_passes(runs, name) for name in POLICIES},
        },
        "figures": {
            "1": {name: _by_epsilon(runs, name) for name in MECHANISMS},
            "4": [*zip(*ranks(corpus), strict=True)],
            "6": {name: _by_alpha(runs, name) for name in POLICIES},
        },
        "top_users": [int(s) for s in np.sort(corpus.set_sizes)[::-1][:10][[0, -1]]],
        "zipf": zipf(corpus),
        **({"statistics_only": statistics_only(corpus)} if corpus.name == "synthetic" else {}),
    }


def statistics_only(corpus: Corpus) -> dict[str, Any]:
    """Table 2, one key, on a corpus that is not fitted to any result of the paper.

    It tells what fitting to the sizes of the count mechanisms did to those of all others.
    """
    plain = interned(reddit_like(len(corpus.pairs.users), seed=SEED))
    runs = Runs(Corpus("synthetic", plain), keys=1, figure_keys=1)
    return {
        name: {
            str(limit): runs.figure(**_options(name, GOPI_ALPHA), max_items=limit)
            for limit in LIMITS
        }
        for name in MECHANISMS
    }


def _options(name: str, alpha: float) -> dict[str, Any]:
    return paper(name, **({"alpha": alpha} if name in POLICIES else {}))


def _by_limit(runs: Runs, name: str) -> dict[str, Any]:
    chosen = _options(name, GOPI_ALPHA)
    return {str(limit): runs.table(**chosen, max_items=limit) for limit in LIMITS}


def _by_passes(runs: Runs, name: str) -> dict[str, Any]:
    found = {}
    for limit in LIMITS:
        chosen = paper(name, alpha=PASSES_ALPHA, max_items=limit)
        one, two = (runs.sizes(**chosen, passes=passes) for passes in (1, 2))
        found[str(limit)] = {"1": measured(one), "2": measured(two), "p": p_value(one, two)}
    return found


def _by_epsilon(runs: Runs, name: str) -> dict[str, Any]:
    chosen = _options(name, GOPI_ALPHA)
    return {str(e): runs.figure(**chosen, max_items=FIGURE_LIMIT, epsilon=e) for e in EPSILONS}


def _by_alpha(runs: Runs, name: str) -> dict[str, Any]:
    return {
        str(a): runs.figure(**paper(name, max_items=FIGURE_LIMIT, alpha=a)) for a in GOPI_ALPHAS
    }


def coverage(corpus: Corpus, table_2: dict[str, Any]) -> dict[str, Any]:
    """Items of at least k users, and the policies' sizes as a percentage of their number."""
    found = {}
    for k in GOPI_TABLE_3:
        held = int((corpus.holders >= k).sum())
        shares = {
            name: 100 * table_2[name][str(FIGURE_LIMIT)]["size"] / max(held, 1) for name in POLICIES
        }
        found[str(k)] = {"held": held, **shares}
    return found


def ranks(corpus: Corpus) -> list[list[int]]:
    """Rank and number of holders, at ranks that are evenly spaced on a logarithmic axis."""
    falling = np.sort(corpus.holders[corpus.holders > 0])[::-1]
    shown = np.unique(np.geomspace(1, len(falling), SHOWN_RANKS).astype(np.int64))
    return [[int(rank), int(falling[rank - 1])] for rank in shown]


def zipf(corpus: Corpus) -> float:
    """The slope of Figure 4: a straight line through its points, all of the axis alike."""
    points = np.log(np.array(ranks(corpus), np.float64))
    return -float(np.polyfit(points[:, 0], points[:, 1], 1)[0])


def p_value(one: Sequence[int], two: Sequence[int]) -> float | None:
    """Two-sided independent t-test, as in the paper; None where there is no spread."""
    if min(len(one), len(two)) < 2 or np.std([*one]) + np.std([*two]) == 0:
        return None
    from scipy import stats

    return float(stats.ttest_ind(one, two).pvalue)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    chosen = parsed("The experiments of Gopi et al. 2020.", arguments)
    return reproduce("Gopi et al. 2020", experiments, chosen, OUTPUT)


if __name__ == "__main__":
    sys.exit(main())
