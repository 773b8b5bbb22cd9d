"""How far forecasts are off on data of other shapes than the forecast's own.

    python -m benchmarks.forecasts [--real FOLDER]

Each set of benchmarks/forecast_sets.py is forecast from what its curator would know without looking
at it, the number of users and of items per user, rounded to one digit, and then released. The
result goes to benchmarks/results/forecasts.json, and from there to the guide.

`dpsu.yields.profiles.RANGE` was chosen with a view to some of the sets only; `factor` in the result
is the one that would cover 80 % of their cases. The others are there to see whether it holds.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

import dpsu
from benchmarks.forecast_sets import FRESH, MADE_UP, Set, real_sets
from benchmarks.kept import keep
from dpsu.plans.mechanisms import by_name
from dpsu.yields import profiles
from dpsu.yields.expected import counted, expect, usual_runs
from dpsu.yields.forecasted import Point
from dpsu.yields.profiles import RANGE, find_users
from dpsu.yields.tables import amount, rough
from dpsu.yields.trials import Trial

RESULTS = Path(__file__).resolve().parent / "results" / "forecasts.json"
PRIVACY = ((3.0, math.exp(-10)), (1.0, 1e-5))
MECHANISMS = ("auto", "sieve", "weighted-gaussian", "policy-laplace")
# Below, a ratio says nothing.
FEWEST = 10
COVERAGE = 0.8
# Users, items per user, zipf and vocabulary of populations that are too large for a lowered cap.
LARGE = (
    (600_000, 5, 1.0, None),
    (100_000, 30, 1.0, None),
    (100_000, 30, 1.0, 5_000),
    (600_000, 5, 1.3, 100_000),
)
LOWERED = 300_000


def one_digit(value: float) -> float:
    """As somebody would know it who has not counted."""
    digit = 10.0 ** math.floor(math.log10(value))
    return round(value / digit) * digit


def points(epsilon: float, delta: float, **known: Any) -> tuple[Point, ...]:
    """The forecast of all mechanisms, as `dpsu.forecast` makes it."""
    plan = dpsu.plan(epsilon=epsilon, delta=delta)
    typed = {"spread": None, "zipf": None, "vocabulary": None, "profile": None, "plan": plan}
    population = find_users(**(typed | known))
    trial = Trial(plan, [by_name(name) for name in MECHANISMS], population, sweeps=False)
    return trial.run(lambda done, of: None)[1][0]


def cases(measured: Set) -> list[dict[str, Any]]:
    """Forecast and released numbers of items of one set, by guarantee and mechanism."""
    pairs = measured.pairs()
    sets = counted(pairs)
    users = int(sets.classes.sum())
    known: dict[str, Any] = {
        "users": int(one_digit(users)),
        "items_per_user": max(1.0, one_digit(sets.pairs / users)),
    }
    plans = [dpsu.plan(epsilon=e, delta=d, mechanism=m) for e, d in PRIVACY for m in MECHANISMS]
    actual = [found.released for found in expect(pairs, plans, usual_runs(sets.pairs, 2))]
    del pairs
    asked = [known]
    if measured.catalogue is not None:
        asked.append({**known, "vocabulary": int(one_digit(measured.catalogue))})
    return [
        {
            "set": measured.name,
            "calibrated": measured.calibrated,
            "real": measured.real,
            "known": each,
            "items": sets.items,
            "epsilon": plan.privacy.epsilon,
            "mechanism": plan.name,
            "actual": released,
            "forecast": point.released,
            "low": point.low,
            "high": point.high,
        }
        for each in asked
        for plan, released, point in zip(
            plans, actual, [p for privacy in PRIVACY for p in points(*privacy, **each)], strict=True
        )
    ]


def under_the_cap() -> dict[str, list[float]]:
    """Forecasts of large populations with a lowered cap, by those without; by mechanism."""
    found: dict[str, list[float]] = {}
    usual = profiles.MOST_PAIRS
    for users, size, zipf, vocabulary in LARGE:
        known = {"users": users, "items_per_user": size, "zipf": zipf, "vocabulary": vocabulary}
        for epsilon, delta in PRIVACY:
            truth = points(epsilon, delta, **known)
            profiles.MOST_PAIRS = LOWERED
            try:
                capped = points(epsilon, delta, **known)
            finally:
                profiles.MOST_PAIRS = usual
            for before, after in zip(truth, capped, strict=True):
                part = after.released / before.released
                found.setdefault(before.mechanism, []).append(part)
    return found


def implied_factor(case: dict[str, Any]) -> float:
    """How many times more users would have given the right forecast, or fewer."""
    known = np.log([max(case[name], 1e-3) for name in ("low", "forecast", "high")])
    actual = math.log(max(case["actual"], 1e-3))
    side = slice(0, 2) if actual < known[1] else slice(1, 3)
    below, above = known[side]
    if above - below < 1e-9:
        return 1.0 if abs(actual - below) < 1e-9 else math.inf
    return float(RANGE ** (abs(actual - known[1]) / (above - below)))


def summary(listed: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Ratios of forecast to actual yields, and how many lie in their ranges."""
    kept = [case for case in listed if max(case["actual"], case["forecast"]) >= FEWEST]
    ratios = [case["forecast"] / max(case["actual"], 1.0) for case in kept]
    inside = [case["low"] <= case["actual"] <= case["high"] for case in kept]
    return {
        "sets": len({case["set"] for case in kept}),
        "cases": len(kept),
        "ratios": np.quantile(ratios, [0.0, 0.1, 0.5, 0.9, 1.0]).tolist(),
        "inside": float(np.mean(inside)),
        "factor": float(np.quantile([implied_factor(case) for case in kept], COVERAGE)),
    }


def best_first(listed: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How often the mechanism that a forecast puts first really is, or nearly so."""
    groups: dict[tuple[str, str, float], list[dict[str, Any]]] = {}
    for case in listed:
        place = (case["set"], str(case["known"]), case["epsilon"])
        groups.setdefault(place, []).append(case)
    right = 0
    for group in groups.values():
        first = max(group, key=lambda case: float(case["forecast"]))
        right += first["actual"] >= 0.95 * max(case["actual"] for case in group)
    return {"right": right, "of": len(groups)}


def measure(sets: Iterable[Set]) -> dict[str, Any]:
    """All cases."""
    listed = []
    for each in sets:
        begun = time.perf_counter()
        listed += cases(each)
        print(f"{each.name}: {time.perf_counter() - begun:.1f} s", flush=True)
    return {
        "cases": listed,
        "capped": under_the_cap(),
        "range": RANGE,
        "date": datetime.now(UTC).date().isoformat(),
    }


def table(result: dict[str, Any]) -> str:
    """The result as Markdown: how often ranges held, yields of the default, and the cap."""
    listed = result["cases"]
    blind = [case for case in listed if "vocabulary" not in case["known"]]
    return "\n".join([*_coverage(listed, blind), "", *_defaults(blind), "", *_told(result, blind)])


def _coverage(listed: list[dict[str, Any]], blind: list[dict[str, Any]]) -> list[str]:
    held_out = [case for case in blind if not case["calibrated"]]
    rows = {
        "sets that the range was chosen by": [case for case in blind if case["calibrated"]],
        "sets that were left out": held_out,
        "of these, real": [case for case in held_out if case["real"]],
        "of these, made up": [case for case in held_out if not case["real"]],
        "of these, made up after all was chosen": [c for c in held_out if c["set"] in FRESH],
    }
    for name in MECHANISMS:
        rows[f"{name}, on all sets"] = [case for case in blind if case["mechanism"] == name]
    rows["catalogues, with `vocabulary` given"] = [
        case for case in listed if "vocabulary" in case["known"]
    ]
    lines = [
        "| | sets | cases | forecast / actual, middle | 8 in 10 between | in the range |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, cases_ in rows.items():
        if not cases_:
            continue
        found = summary(cases_)
        _, low, middle, high, _ = found["ratios"]
        lines.append(
            f"| {name} | {found['sets']} | {found['cases']} | {middle:.2f} | {low:.2f} and "
            f"{high:.2f} | {found['inside']:.0%} |"
        )
    return lines


def _defaults(blind: list[dict[str, Any]]) -> list[str]:
    """What the default was forecast to release, and released."""
    lines = [
        "| default plan | known beforehand | "
        + " | ".join(f"epsilon {e:g}: forecast | released" for e, _ in PRIVACY)
        + " |",
        "|---|---|" + "---:|---:|" * len(PRIVACY),
    ]
    found: dict[str, list[str]] = {}
    for case in blind:
        if case["mechanism"] != "auto":
            continue
        known, left_out = case["known"], "" if case["calibrated"] else " *"
        label = f"| {case['set']}{left_out} | {known['users']:,} users, {known['items_per_user']:g}"
        cells = f"{rough(case['forecast'])} ({rough(case['low'])} to {rough(case['high'])})"
        inside = case["low"] <= case["actual"] <= case["high"]
        actual = amount(case["actual"])
        found.setdefault(label, []).append(f"{cells} | {actual if inside else f'**{actual}**'}")
    lines += [f"{label} | {' | '.join(cells)} |" for label, cells in found.items()]
    return [*lines, "", "\\* left out when the range was chosen; **bold**: outside the range."]


def _told(result: dict[str, Any], blind: list[dict[str, Any]]) -> list[str]:
    first = best_first(blind)
    above = [case["set"] for case in blind if case["forecast"] > case["items"]]
    names = f", all of {' and '.join(dict.fromkeys(above))}" if above else ""
    chosen = summary(case for case in blind if case["calibrated"])
    off = {name: np.abs(np.array(each) - 1) for name, each in result["capped"].items()}
    parts, usual = np.concatenate([*off.values()]), np.concatenate([off["auto"], off["sieve"]])
    return [
        f"- The mechanism that a forecast put first released at least 95 % of the best in "
        f"{first['right']} of {first['of']} cases.",
        f"- A forecast was above the number of items that users really hold in {len(above)} of "
        f"{len(blind)} cases{names}.",
        f"- Ranges are what {result['range']:g} times fewer or more users would release; 80 % of "
        f"the cases that it was chosen by lie within {chosen['factor']:.2f} times.",
        f"- Ten times as many users as are made up: extrapolated yields are off by "
        f"{np.median(usual):.0%} in the middle and {max(usual):.0%} at "
        f"most for `auto` and `sieve`, by {np.median(parts):.0%} and "
        f"{max(parts):.0%} for all four mechanisms, in {len(parts)} cases.",
        "",
        f"Made by `python -m benchmarks.forecasts`, {result['date']}.",
    ]


def main() -> None:
    """Measure, and keep the result."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--real", type=Path, help="a folder with the real sets")
    folder = parser.parse_args().real
    sets = [*MADE_UP, *(real_sets(folder) if folder is not None else ())]
    keep(RESULTS, measure(sets))


if __name__ == "__main__":
    main()
