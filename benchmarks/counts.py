"""How far noisy counts are off on real data: by noise, and by users who count in part.

    python -m benchmarks.counts --data FOLDER

FOLDER is that of `benchmarks.yields`. Items are released by `sieve` at the usual share of counts,
with one key. What users count for them comes from the engine; a sample of each user's items, which
would have the same noise, is computed beside it. The result goes to
benchmarks/results/counts.json, and from there to the documentation.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

import dpsu
from benchmarks.kept import keep
from benchmarks.yields import NAMES, PRIVACY, interned, rows_of
from dpsu.contributions.grouped import arrange
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.kernels import weights
from dpsu.plans.counts import FRACTION_BITS, Counts
from dpsu.randomness.keys import Key

RESULTS = Path(__file__).resolve().parent / "results" / "counts.json"
SIZES = (10, 30, 100, 300, 1000)
COMMON = 100
EXPLANATION = f"""\
`counts=True` gives 20 % of the budget to noisy numbers of users. Each has the same noise, whose
standard error grows with the root of `Counts(max_items=)`, {Counts().max_items} by default. Users
of more released items than that count for each of them in part. *Too low* is the mean bias over all
pairs of a user and an item; in brackets what it would be if such users counted for a sample of
their items instead, with the same noise. *Off* is the root mean square error, of noise and bias
together, divided by the true number: for the median of the released items, and on average for the
{COMMON} most common ones.

Most released items have few holders, and for these a count is mostly noise; the plan says below how
many users that is so. A larger epsilon reduces the noise, and releases rarer items too, so that the
median item is not always counted better. Counts are good where an item has many more holders than
the standard error: in the larger sets the common items, and in a small one (Steam) not even those.
Which `max_items` is best depends on the data; choose it by what you know of such data, as about
three times the items per user.
Made by `python -m benchmarks.counts`; items were released by `sieve`."""


def measure(pairs: Pairs, privacy: tuple[float, float]) -> dict[str, Any]:
    """Noise, bias and error of the counts of one release, by `max_items`."""
    key, rows = Key.from_insecure_seed(0), list[dict[str, float]]()
    for size in SIZES:
        plan = dpsu.plan(
            epsilon=privacy[0], delta=privacy[1], mechanism="sieve", counts=Counts(max_items=size)
        )
        assert plan.noisy_counts is not None
        if not rows:
            # The selection has the same share of the budget each time.
            _, released = local.select_items(plan, pairs, key)
            true, sampled = _facts(pairs, released)
        sums = local.counted(plan, pairs, released)
        counted = np.ldexp(sums.astype(np.float64), -FRACTION_BITS)
        error = plan.noisy_counts.standard_error
        off = np.sqrt((counted - true) ** 2 + error**2) / true
        rows.append(
            {
                "max_items": size,
                "error": error,
                "low": 1.0 - float(counted.sum() / true.sum()),
                "low_sampled": 1.0 - float(sampled(size) / true.sum()),
                "median": float(np.median(off)),
                "common": float(off[np.argsort(-true)[:COMMON]].mean()),
            }
        )
    return {"released": len(released), "median_holders": float(np.median(true)), "rows": rows}


def _facts(pairs: Pairs, released: pa.Array) -> tuple[NDArray[np.float64], Any]:
    """True holders of released items, and how many pairs samples of some size would count."""
    codes = pc.index_in(released, value_set=pairs.items.values).to_numpy().astype(np.int64)
    held = arrange(pairs, np.arange(len(pairs.users)), codes, with_repeats=False)
    true, sizes = np.zeros(held.n_items, np.int64), held.sizes
    weights.count(held.start, held.stop, held.items, true)
    return true.astype(np.float64), lambda most: float(np.minimum(sizes, most).sum())


def tables(found: dict[str, Any]) -> str:
    """One Markdown table for every set."""
    parts = []
    for name, title in NAMES.items():
        for privacy in PRIVACY:
            at = found[name][privacy]
            parts += [
                "",
                f"## {title}, ({privacy})",
                "",
                f"{at['released']:,} released items, half of them with fewer than "
                f"{at['median_holders']:,.0f} holders.",
                "",
                "| max_items | standard error | too low | off: median | off: common |",
                "|---:|---:|---:|---:|---:|",
            ]
            parts += [
                f"| {row['max_items']:,} | {row['error']:.1f} | {row['low']:.1%} "
                f"({row['low_sampled']:.1%}) | {row['median']:.0%} | {row['common']:.1%} |"
                for row in at["rows"]
            ]
    parts += ["", f"{found['date']}, dpsu {found['dpsu']}."]
    return "\n".join(parts)


def main() -> None:
    """Measure all sets."""
    parser = argparse.ArgumentParser(description="Errors of noisy counts on real data.")
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    for name in NAMES:
        print(name, file=sys.stderr)
        pairs = interned(rows_of(name, folder))
        found[name] = {label: measure(pairs, privacy) for label, privacy in PRIVACY.items()}
    found |= {"date": datetime.now(UTC).date().isoformat(), "dpsu": dpsu.__version__}
    keep(RESULTS, found)


if __name__ == "__main__":
    main()
