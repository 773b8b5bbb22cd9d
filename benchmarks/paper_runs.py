"""Running the papers' experiments: sizes over keys, each configuration once, and how it is shown.

Sizes here come from many runs on the same data with options compared afterwards. That is how
mechanisms are studied; it is not how data may be released.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import dpsu
from benchmarks import paper_corpora
from benchmarks.kept import keep
from benchmarks.paper_corpora import Corpus
from benchmarks.paper_numbers import DELTA, EPSILON
from dpsu.cli.streams import somebody_watches, to_stderr
from dpsu.engines import local
from dpsu.errors import DpsuError
from dpsu.randomness.keys import Key
from dpsu.yields.made_up import REDDIT_USERS

RESULTS = Path(__file__).resolve().parent / "results"
FIRST_SEED = 2020
# The papers shuffle users 5 times. Errors bars of figures are too small to be seen with 2 runs, and
# sets without a published number need no fifth digit.
KEYS, FIGURE_KEYS, SHARED_KEYS = 5, 2, 3
Shown = Callable[[str], None]


class Runs:
    """Sizes of releases of one corpus. A configuration that several tables ask for runs once.

    Parameters
    ----------
    corpus
        What to run on.
    keys, figure_keys
        Number of runs for an entry of a table and for a point of a figure.
    shown
        Is told of every configuration that was run.
    """

    def __init__(
        self, corpus: Corpus, *, keys: int, figure_keys: int, shown: Shown = lambda label: None
    ) -> None:
        self.corpus = corpus
        self.keys = keys
        self.figure_keys = min(keys, figure_keys)
        self._shown = shown
        self._sizes: dict[str, list[int]] = {}

    def table(self, mechanism: str, **options: Any) -> dict[str, Any]:
        """Mean and standard error, for an entry of a table."""
        return measured(self.sizes(mechanism, **options))

    def figure(self, mechanism: str, **options: Any) -> float:
        """The mean, for a point of a figure, from fewer runs unless a table has made more."""
        return float(np.mean(self._run(self.figure_keys, mechanism, options)))

    def sizes(self, mechanism: str, **options: Any) -> list[int]:
        """All sizes of which an entry of a table is the mean."""
        return self._run(self.keys, mechanism, options)

    def _run(self, keys: int, mechanism: str, options: dict[str, Any]) -> list[int]:
        name = options.pop("prior", None)
        options = {"epsilon": EPSILON, "delta": DELTA, **options}
        label = repr((mechanism, name, sorted(options.items())))
        sizes = self._sizes.setdefault(label, [])
        if len(sizes) < keys:
            self._shown(f"{paper_corpora.TITLES[self.corpus.name]}: {mechanism}")
            prior = None if name is None else self.corpus.priors[name]
            # A t-test of two passes against one wants other keys for each.
            first = FIRST_SEED + 1000 * (options.get("passes", 1) - 1)
            plan = planned(mechanism, **options | ({} if prior is None else {"prior": prior}))
            for seed in range(first + len(sizes), first + keys):
                key = Key.from_insecure_seed(seed)
                sizes.append(len(local.select_items(plan, self.corpus.pairs, key, prior=prior)[1]))
        return sizes


def planned(mechanism: str, *, epsilon: float, delta: float, **options: Any) -> dpsu.Plan:
    """A plan of a mechanism by its name, with its own options."""
    chosen = dpsu.mechanism(mechanism, **options)
    return dpsu.plan(epsilon=epsilon, delta=delta, mechanism=chosen)


def measured(sizes: Sequence[int]) -> dict[str, Any]:
    """Mean size with its standard error."""
    deviation = float(np.std(sizes, ddof=1)) if len(sizes) > 1 else 0.0
    return {"size": float(np.mean(sizes)), "error": deviation / math.sqrt(len(sizes))}


def paper(mechanism: str, **options: Any) -> dict[str, Any]:
    """The options of a mechanism as it was published."""
    unproven = {"allow_unproven": True} if mechanism == "greedy" else {}
    return {"mechanism": mechanism, "calibration": "paper", **unproven, **options}


@contextmanager
def progress(title: str) -> Iterator[Shown]:
    """A bar of configurations on stderr if that is a terminal."""
    if not somebody_watches():
        yield lambda label: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(f"{title}: reading", total=None)
        yield lambda label: bar.update(task, advance=1, description=f"{title}: {label}")


def parsed(description: str, arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options that both papers' scripts have."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="folder of the shared or the original files")
    parser.add_argument("--sets", nargs="+", choices=list(paper_corpora.TITLES), default=[])
    parser.add_argument("--keys", type=int, default=KEYS)
    parser.add_argument("--figure-keys", type=int, default=FIGURE_KEYS)
    parser.add_argument("--shared-keys", type=int, default=SHARED_KEYS)
    parser.add_argument("--users", type=int, default=REDDIT_USERS, help="of the made-up corpus")
    parser.add_argument("--output", type=Path)
    return parser.parse_args(arguments)


def reproduce(
    title: str, experiments: Callable[[Runs], dict[str, Any]], chosen: argparse.Namespace,
    output: Path,
) -> int:  # fmt: skip
    """Run one paper's experiments on every corpus and write them; the exit code."""
    path = chosen.output or output
    # Sets that are not run now keep what was measured before, each with its own date.
    sets: dict[str, Any] = json.loads(path.read_text("utf-8"))["sets"] if path.exists() else {}
    try:
        with warnings.catch_warnings(), progress(title) as shown:
            warnings.simplefilter("ignore")
            for corpus in paper_corpora.corpora(chosen.data, users=chosen.users, only=chosen.sets):
                published = bool(corpus.stands_for)
                keys = chosen.keys if published else min(chosen.keys, chosen.shared_keys)
                runs = Runs(corpus, keys=keys, figure_keys=chosen.figure_keys, shown=shown)
                began = time.perf_counter()
                sets[corpus.name] = {
                    **described(corpus), "keys": keys, "figure_keys": runs.figure_keys,
                    **experiments(runs), "seconds": round(time.perf_counter() - began, 1),
                }  # fmt: skip
                _write(path, sets)
    except DpsuError as error:
        to_stderr(f"error: {error}")
        return 2
    return 0


def _write(path: Path, sets: dict[str, Any]) -> None:
    ordered = {"sets": {name: sets[name] for name in paper_corpora.TITLES if name in sets}}
    keep(path, ordered)


def described(corpus: Corpus) -> dict[str, Any]:
    """What a corpus is and what ran it, for the results."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "dpsu": dpsu.__version__,
        "cores": os.cpu_count(),
        "stands_for": corpus.stands_for,
        "users": len(corpus.pairs.users),
        "vocabulary": int((corpus.holders > 0).sum()),
        "observations": corpus.observations,
    }
