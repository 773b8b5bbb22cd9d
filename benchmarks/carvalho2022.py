"""Every table and figure of Carvalho et al. 2022, Incorporating Item Frequency for DP Set Union.

    python -m benchmarks.carvalho2022                 the made-up corpus
    python -m benchmarks.carvalho2022 --data FOLDER   and whatever FOLDER holds, see `paper_corpora`

The paper's greedy mechanisms (GW, and GW-KT with a public prior) are not private as published; they
are run with `allow_unproven=True` beside the repaired ones. Results go to
benchmarks/results/carvalho2022.json; docs/figures/papers.md shows them beside what was published.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.paper_corpora import Corpus
from benchmarks.paper_numbers import (
    CARVALHO_ALPHA,
    CARVALHO_ALPHAS,
    CARVALHO_LIMITS,
    DELTA,
    EPSILONS,
    FIGURE_LIMIT,
)
from benchmarks.paper_priors import overlap_and_correlation
from benchmarks.paper_runs import RESULTS, Runs, paper, parsed, planned, reproduce

OUTPUT = RESULTS / "carvalho2022.json"
POLICIES = ("policy-laplace", "policy-gaussian")
TABLES = ("2", "3", "4")
FIGURES = ("2", "3")
BEST_PRIOR = ("wiki", "reddit posts")


def experiments(runs: Runs) -> dict[str, Any]:
    """All tables and figures on one corpus."""
    corpus = runs.corpus
    policies = {name: _by_limit(runs, name) for name in POLICIES}
    best = {
        name: max(sizes, key=lambda at: float(sizes[at]["size"]))
        for name, sizes in policies.items()
    }
    prior = next((name for name in BEST_PRIOR if name in corpus.priors), None)
    return {
        "tables": {
            "2": {
                "users": len(corpus.pairs.users), "observations": corpus.observations,
                "vocabulary": int((corpus.holders > 0).sum()),
            },
            "3": overlaps(corpus),
            "4": {
                **{n: {**policies[n][best[n]], "max_items": int(best[n])} for n in POLICIES},
                **_greedy(runs),
            },
        },
        "figures": {
            "2": thresholds(),
            "3": {
                "prior": prior,
                "alpha": _swept(runs, best, prior, "alpha", CARVALHO_ALPHAS),
                "epsilon": _swept(runs, best, prior, "epsilon", EPSILONS),
            },
        },
    }  # fmt: skip


def _by_limit(runs: Runs, name: str) -> dict[str, Any]:
    chosen = paper(name, alpha=CARVALHO_ALPHA)
    return {str(limit): runs.table(**chosen, max_items=limit) for limit in CARVALHO_LIMITS}


def _greedy(runs: Runs) -> dict[str, Any]:
    """GW and GW-KT as published, the same repaired, and what is released by default."""
    found = {
        "GW": runs.table(**paper("greedy", alpha=CARVALHO_ALPHA)),
        "greedy": runs.table("greedy"),
        "sieve": runs.table("sieve"),
    }
    for name in runs.corpus.priors:
        found[f"GW-KT {name}"] = runs.table(**paper("greedy", alpha=CARVALHO_ALPHA, prior=name))
        found[f"popular {name}"] = runs.table("greedy", prior=name)
    return found


def overlaps(corpus: Corpus) -> dict[str, Any]:
    """Public vocabularies beside the private one."""
    found = {}
    for name, prior in corpus.priors.items():
        share, correlation = overlap_and_correlation(
            corpus.pairs.items.values, corpus.holders, prior
        )
        found[name] = {
            "vocabulary": len(prior), "overlap": 100 * share, "correlation": correlation,
        }  # fmt: skip
    return found


def thresholds() -> dict[str, dict[str, float]]:
    """What an item's noisy weight must exceed; no data are needed."""
    mechanisms = {
        "GW": paper("greedy"),
        **{name: paper(name, max_items=FIGURE_LIMIT) for name in POLICIES},
    }
    found: dict[str, dict[str, float]] = {}
    for name, chosen in mechanisms.items():
        for epsilon in EPSILONS:
            threshold = planned(epsilon=epsilon, delta=DELTA, **chosen).threshold
            assert threshold is not None
            found.setdefault(name, {})[str(epsilon)] = threshold
    return found


def _swept(
    runs: Runs, best: dict[str, str], prior: str | None, axis: str, values: Sequence[float]
) -> dict[str, Any]:
    """Sizes along one axis of Figure 3; policies keep the limit that is best at the base values."""
    base: dict[str, dict[str, Any]] = {
        **{name: paper(name, max_items=int(best[name])) for name in POLICIES},
        "GW": paper("greedy"),
        **({"GW-KT": paper("greedy", prior=prior)} if prior else {}),
    }
    return {
        name: {
            str(value): runs.figure(**{"alpha": CARVALHO_ALPHA, **chosen, axis: value})
            for value in values
        }
        for name, chosen in base.items()
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run everything; the exit code."""
    chosen = parsed("The experiments of Carvalho et al. 2022.", arguments)
    return reproduce("Carvalho et al. 2022", experiments, chosen, OUTPUT)


if __name__ == "__main__":
    sys.exit(main())
