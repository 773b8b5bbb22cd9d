"""Whether a series pays: what it finds beside one release, where new items come up and where not.

    python -m benchmarks.series

Made-up mailing lists of 12 months. The result goes to benchmarks/results/series.json, and from
there to the guide.
"""

from __future__ import annotations

import json
import random
import tempfile
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import dpsu

RESULTS = Path(__file__).resolve().parent / "results" / "series.json"
MONTHS, PEOPLE = 12, 2500
COMMON, COMMON_WORDS, TOPICS, TOPIC_WORDS = 30, 3000, 10, 300
BUDGET = (3.0, 1e-5)
Month = dict[str, list[str]]


def made_up(topics: bool, seed: int = 5) -> list[Month]:
    """What each person wrote in each month: common words, and perhaps words of its topics."""
    rng = random.Random(seed)
    falling = {size: [1.0 / (rank + 3) for rank in range(size)] for size in (3000, 300)}
    months = []
    for month in range(MONTHS):
        written: Month = {}
        for person in range(PEOPLE):
            drawn = rng.choices(range(COMMON_WORDS), falling[COMMON_WORDS], k=COMMON)
            held = [f"word {each}" for each in drawn]
            if topics:
                new = rng.choices(range(TOPIC_WORDS), falling[TOPIC_WORDS], k=TOPICS)
                held += [f"topic {month}.{each}" for each in new]
            written[f"person {person}"] = held
        months.append(written)
    return months


def votes(seed: int = 5) -> list[Month]:
    """One word of the month's topics for each person."""
    rng = random.Random(seed)
    falling = [1.0 / (rank + 3) for rank in range(TOPIC_WORDS)]
    return [
        {
            f"person {person}": [f"topic {month}.{rng.choices(range(TOPIC_WORDS), falling)[0]}"]
            for person in range(PEOPLE)
        }
        for month in range(MONTHS)
    ]


def found_by(months: list[Month], **options: Any) -> int:
    """How many items a series finds."""
    epsilon, delta = BUDGET
    with tempfile.TemporaryDirectory() as folder:
        series = dpsu.Series.create(
            Path(folder) / "series", periods=MONTHS, epsilon=epsilon, delta=delta, **options
        )
        for month in months:
            series.release(month)
        return len(series.items)


def measure(months: list[Month]) -> dict[str, int]:
    """Numbers of different items that are known in the end."""
    epsilon, delta = BUDGET
    whole: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "mechanism": "sieve"}
    each = dpsu.split_budget(BUDGET, releases=MONTHS)
    pooled: Month = {}
    for month in months:
        for person, held in month.items():
            pooled.setdefault(person, []).extend(held)
    alone: set[Any] = set()
    for month in months:
        made = dpsu.release(month, epsilon=each.epsilon, delta=each.delta, mechanism="sieve")
        alone |= set(made.items)
    return {
        f"a series of {MONTHS} periods": found_by(months),
        f"{MONTHS} releases by the same plan, without leaving out what is known": len(alone),
        "the first month only, with the whole budget": len(dpsu.release(months[0], **whole)),
        f"all {MONTHS} months at once, at the end, with the whole budget": len(
            dpsu.release(pooled, **whole)
        ),
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    lines = [
        "| | items, with new topics every month | items, if all months are alike |",
        "|---|---:|---:|",
    ]
    for name, found in result["topics"].items():
        lines.append(f"| {name} | {found:,} | {result['alike'][name]:,} |")
    told = [f"{found:,} by `{name}`" for name, found in result["votes"].items()]
    lines += [
        "",
        f"Of people with one new word a month each, a series finds {', '.join(told)} items.",
    ]
    lines += ["", f"One run each. Made by `python -m benchmarks.series`, {result['date']}."]
    return "\n".join(lines)


def main() -> None:
    """Measure both kinds of months."""
    warnings.simplefilter("ignore", dpsu.DataWarning)
    found: dict[str, Any] = {"topics": measure(made_up(True)), "alike": measure(made_up(False))}
    found["votes"] = {
        each.name: found_by(votes(), mechanism=each)
        for each in (dpsu.Sieve(), dpsu.CountGaussian(max_items=1), dpsu.CountLaplace(max_items=1))
    }
    found["date"] = datetime.now(UTC).date().isoformat()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
