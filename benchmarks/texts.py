"""How fast texts become items, and what comes out as n-grams, length by length and all at once.

    python -m benchmarks.texts speed --data FOLDER
    python -m benchmarks.texts ngrams --data FOLDER --keys 5

FOLDER holds airbnb_reviews and acl_first_author as Parquet files with the columns user and text.
Results go to benchmarks/results/texts-speed.json and texts-ngrams.json.

Sizes here come from many runs on the same data. That is how mechanisms are studied; it is not how
data may be released.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

import dpsu
from benchmarks.kept import keep
from benchmarks.paper_runs import measured
from dpsu.plans.mechanisms import Mechanism

T = TypeVar("T")

FOLDER = Path(__file__).resolve().parent / "results"
SETS = ("airbnb_reviews", "acl_first_author")
PRIVACY = {"3, e^-10": (3.0, math.exp(-10)), "1, 1e-5": (1.0, 1e-5)}
LONGEST = 3
TOKENIZERS: dict[str, dict[str, Any]] = {
    "words": {},
    "words, 1- to 3-grams": {"ngrams": "1-3"},
    "sentences": {"tokenizer": "sentences"},
    "lines": {"tokenizer": "lines"},
    "regex:[a-z0-9']+": {"tokenizer": "regex:[a-z0-9']+"},
    "a function (str.split)": {"tokenizer": str.split},
    "paper (nltk)": {"tokenizer": "paper"},
}
# What reads and interns every item and then does next to nothing with it.
CHEAPEST: dict[str, Any] = {"mechanism": "weighted-laplace", "epsilon": 1, "delta": 1e-6}
MECHANISMS: dict[str, Mechanism] = {
    "plain union, weighted-gaussian": dpsu.WeightedGaussian(max_items=300),
    "plain union, sieve": dpsu.Sieve(),
    "length by length (dpsu ngrams)": dpsu.NGrams(longest=LONGEST),
}
EXPLANATION = """How fast texts become items, and what comes out as n-grams.

Rates are megabytes of UTF-8 text for a second of processor time, from reading Parquet to the
released items, with the mechanism that costs least (weighted-laplace), so that nearly all of it is
tokenizing and interning. With several cores the work runs side by side. Made by
`python -m benchmarks.texts speed`.

"""
EXPLANATION_OF_NGRAMS = """
## N-grams of lengths 1 to 3

`dpsu release --ngrams 1-3` releases one union over the n-grams of all lengths; `dpsu ngrams` goes
length by length, over public domains (Kim et al. 2021), and a part of what it releases beyond
length 1 is held by nobody: `spurious`. Means over keys with their standard errors; all of epsilon
and delta for all lengths together. Made by `python -m benchmarks.texts ngrams`. The shares 1, 2, 2
of `dpsu ngrams` were chosen on airbnb_reviews among six tried.
"""
HEAD_OF_NGRAMS = (
    "| texts | epsilon, delta | | all | 1 | 2 | 3 | spurious |",
    "|---|---|---|---:|---:|---:|---:|---:|",
)


def speed(folder: Path) -> dict[str, Any]:
    """Megabytes a second of processor time, for every tokenizer."""
    rows = {}
    for name in SETS:
        path = folder / f"{name}.parquet"
        texts = pa.parquet.read_table(path)["text"]
        megabytes = pc.sum(pc.binary_length(texts)).as_py() / 1e6
        del texts
        for tokenizer, options in TOKENIZERS.items():
            run = partial(dpsu.release, path, item=dpsu.Tokens("text", **options), **CHEAPEST)
            _quietly(run)
            began = _processor_seconds()
            _quietly(run)
            spent = _processor_seconds() - began
            rows[f"{name} / {tokenizer}"] = {
                "megabytes": megabytes,
                "processor_seconds": spent,
            }
            print(
                f"{name} {tokenizer}: {megabytes / spent:.1f} MB per processor second",
                file=sys.stderr,
            )
    return {"rows": rows}


def ngrams(folder: Path, keys: int) -> dict[str, Any]:
    """Released n-grams by length, for every mechanism."""
    rows = {}
    for name in SETS:
        table = pa.parquet.read_table(folder / f"{name}.parquet")
        held = _held(table)
        for label, (epsilon, delta) in PRIVACY.items():
            for name_of_it, mechanism in MECHANISMS.items():
                found = [
                    _lengths(_released(table, mechanism, epsilon, delta, key), held)
                    for key in range(keys)
                ]
                row = {length: measured([run[length] for run in found]) for length in found[0]}
                rows[f"{name} / {label} / {name_of_it}"] = row
                print(name, label, name_of_it, row, file=sys.stderr)
    return {"rows": rows, "keys": keys}


def _released(
    table: pa.Table, mechanism: Mechanism, epsilon: float, delta: float, key: int
) -> dpsu.Release:
    lengths = 1 if mechanism.by_length else (1, LONGEST)
    plan = dpsu.plan(
        epsilon=epsilon, delta=delta, mechanism=mechanism,
        item=dpsu.Tokens("text", ngrams=lengths), insecure_seed=key,
    )  # fmt: skip
    return _quietly(lambda: dpsu.release(table, plan))


def _held(table: pa.Table) -> set[str]:
    """All n-grams that anybody holds."""
    from dpsu.inputs.reading import Source
    from dpsu.randomness.keys import Key

    source = Source(table, dpsu.Users(), dpsu.Tokens("text", ngrams=(1, LONGEST)))
    pairs = _quietly(lambda: source.pairs(Key.from_os(), with_repeats=False))
    return set(pairs.items.values.to_pylist())


def _lengths(release: dpsu.Release, held: set[str]) -> dict[str, int]:
    lengths = Counter(str(item).count(" ") + 1 for item in release.items)
    spurious = sum(str(item) not in held for item in release.items)
    return {
        "all": len(release),
        **{str(n): lengths[n] for n in range(1, LONGEST + 1)},
        "spurious": spurious,
    }


def _quietly(call: Callable[[], T]) -> T:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        return call()


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def tables(rates: dict[str, Any], sizes: dict[str, Any]) -> str:
    """Both results as Markdown."""
    lines = [
        EXPLANATION.strip(),
        "",
        "| texts | tokenizer | MB per processor second |",
        "|---|---|---:|",
    ]
    for name, row in rates["rows"].items():
        where, tokenizer = name.split(" / ")
        rate = row["megabytes"] / row["processor_seconds"]
        lines.append(f"| {where} ({row['megabytes']:.0f} MB) | {tokenizer} | {rate:.1f} |")
    lines += ["", f"{rates['date']}, {rates['cores']} cores.", EXPLANATION_OF_NGRAMS]
    lines += HEAD_OF_NGRAMS
    for name, row in sizes["rows"].items():
        where, privacy, mechanism = name.split(" / ")
        cells = [f"{m['size']:,.0f} ± {m['error']:.0f}" if m["size"] else "0" for m in row.values()]
        lines.append(f"| {where} | {privacy} | {mechanism} | {' | '.join(cells)} |")
    lines += ["", f"{sizes['keys']} keys, {sizes['date']}."]
    return "\n".join(lines)


def main() -> None:
    """Measure and keep the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("part", choices=["speed", "ngrams"])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--keys", type=int, default=5)
    given = parser.parse_args()
    found = speed(given.data) if given.part == "speed" else ngrams(given.data, given.keys)
    found |= {"date": datetime.now(UTC).date().isoformat(), "cores": os.cpu_count()}
    keep(FOLDER / f"texts-{given.part}.json", found)


if __name__ == "__main__":
    main()
