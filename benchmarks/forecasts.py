"""How far a forecast by Zipf's law is off on data that do not follow it.

    python -m benchmarks.forecasts

Forecasts for 50,000 users, beside what is released from as many users shaped like the papers'
Reddit set. The result goes to benchmarks/results/forecasts.json, and from there to the guide.
"""

from __future__ import annotations

import json
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import dpsu
from dpsu.yields.made_up import reddit_like

RESULTS = Path(__file__).resolve().parent / "results" / "forecasts.json"
USERS, ITEMS_PER_USER = 50_000, 36
PRIVACY: dict[str, Any] = {"epsilon": 3.0, "delta": 4.5e-6}
MECHANISMS = ("sieve", "policy-gaussian", "policy-laplace", "weighted-gaussian")
EXPONENTS = (1.0, 1.1, 1.2)
KEYS = 3


def measure() -> dict[str, Any]:
    """Forecast and released numbers of items, by mechanism."""
    rows: dict[str, list[float]] = {}
    for zipf in EXPONENTS:
        made = dpsu.forecast(
            dpsu.plan(**PRIVACY), users=USERS, items_per_user=ITEMS_PER_USER, zipf=zipf,
            mechanisms=MECHANISMS,
        )  # fmt: skip
        yields = {point.mechanism: point.released for point in made.by_mechanism}
        rows[f"forecast, zipf {zipf}"] = [yields[name] for name in MECHANISMS]
    rows["data shaped like the papers' Reddit set"] = [_released(name) for name in MECHANISMS]
    return {"rows": rows, "keys": KEYS, "date": datetime.now(UTC).date().isoformat()}


def _released(mechanism: str) -> float:
    users = reddit_like(USERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        sizes = [
            len(dpsu.release(users, mechanism=mechanism, insecure_seed=key, **PRIVACY))
            for key in range(KEYS)
        ]
    return float(np.mean(sizes))


def table(result: dict[str, Any]) -> str:
    """The result as Markdown."""
    told = f"epsilon 3, delta 4.5e-6, {USERS:,} users with {ITEMS_PER_USER} items"
    lines = [f"| {told} | {' | '.join(MECHANISMS)} |", "|---|" + "---:|" * len(MECHANISMS)]
    for name, sizes in result["rows"].items():
        lines.append(f"| {name} | {' | '.join(f'{size:,.0f}' for size in sizes)} |")
    lines += ["", f"Made by `python -m benchmarks.forecasts`, {result['date']}."]
    return "\n".join(lines)


if __name__ == "__main__":
    RESULTS.write_text(json.dumps(measure(), indent=1) + "\n", encoding="utf-8")
