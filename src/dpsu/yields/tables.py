"""Forecasts and comparisons as plain text for a terminal, and as tables for a notebook."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dpsu.showing.markup import Html, alert, block, bullets, paragraph, table, title
from dpsu.yields.profiles import RANGE

if TYPE_CHECKING:
    from dpsu.plans.feasibility import Finding
    from dpsu.yields.comparing import Compared, Comparison
    from dpsu.yields.forecasted import Forecast, Point

BAR = 24
# Measured by benchmarks/forecasts.py, on sets that were left out when the range was chosen.
COVERED = "3 in 4"
NOT_PRIVATE = (
    "NOT PRIVATE: for the curator only; do not publish. Options chosen by looking at this are "
    "chosen by looking at the data."
)
FORECAST_HEAD = ("mechanism", "max_items", "released", "", "range", "missing", "users needed")
COMPARISON_HEAD = ("mechanism", "max_items", "released", "", "of bound", "missing", "users needed")


def aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width: the first to the left, numbers to the right."""
    lines = [head, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return [
        "  ".join(
            f"{cell:<{width}}" if at == 0 else f"{cell:>{width}}"
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def amount(value: float) -> str:
    """An expected number of items."""
    if 0 < value < 0.01:
        return "<0.01"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.2g}"


def rough(value: float) -> str:
    """An expected number of items, to as many digits as a range deserves."""
    if value < 10:
        return amount(value)
    digit = 10 ** (math.floor(math.log10(value)) - 1)
    return f"{round(value / digit) * digit:,}"


def between(point: Point) -> str:
    """The range of a yield, where there is one and its ends differ."""
    if point.low is None or point.high is None:
        return ""
    low, high = rough(point.low), rough(point.high)
    return "" if low == high else f"{low} to {high}"


def about(point: Point) -> str:
    """A yield and its range in words."""
    range_ = between(point)
    return f"about {rough(point.released)} items" + (f" ({range_})" if range_ else "")


def chosen(point: Point) -> str:
    """What auto would choose, in words; empty for all others."""
    if point.chosen is None:
        return ""
    size = "" if point.max_items is None else f" with at most {point.max_items:,} items per user"
    return f"For such users {point.mechanism} would choose {point.chosen}{size}."


def no_max_items(forecast: Forecast) -> str:
    """Why mechanisms are missing from the table by max_items; empty if none is."""
    names = forecast.without_max_items
    if not names:
        return ""
    if len(names) == 1:
        return f"{names[0]} has no max_items to choose and is not shown here."
    listed = f"{', '.join(names[:-1])} and {names[-1]}"
    return f"{listed} have no max_items to choose and are not shown here."


def plus_minus(error: float | None) -> str:
    """A standard error, where there is one."""
    return "" if error is None else f"± {error:.1f}"


def bar(value: float, most: float) -> str:
    """A share of the largest value, drawn."""
    return "#" * round(BAR * value / most) if most > 0 else ""


def forecast_text(forecast: Forecast) -> str:
    """A forecast for people to read."""
    told = [(each.warns, f"{each.label}: {each.text}.") for each in worst_first(forecast)]
    text = [line for warns, line in told if warns]
    text += [*_expected(forecast), *(line for warns, line in told if not warns)]
    most = max(point.released for point in forecast.by_mechanism)
    rows = [
        (*point_cells(point), f"{bar(point.released, most):<{BAR}}")
        for point in best_first(forecast)
    ]
    text += ["", *aligned((*FORECAST_HEAD, ""), rows)]
    text += ["", "Expected items by epsilon"]
    text += aligned(*_sweep_cells(forecast.by_epsilon, "epsilon"))
    text += ["", "Expected items by max_items"]
    if forecast.by_max_items:
        text += aligned(*_sweep_cells(forecast.by_max_items, "max_items"))
    text += filter(None, [no_max_items(forecast)])
    text += ["", *caveats(forecast)]
    return "\n".join(text)


def forecast_html(forecast: Forecast) -> str:
    """A forecast for notebooks: what is expected, what is wrong with it, and all mechanisms."""
    findings = [
        alert(finding.label, f"{finding.text}.")
        if finding.stops or finding.warns
        else paragraph(f"Note: {finding.text}.")
        for finding in worst_first(forecast)
    ]
    return block(
        *map(paragraph, _expected(forecast)),
        *findings,
        table(FORECAST_HEAD, map(point_cells, best_first(forecast))),
        *_sweep_html("Expected items by epsilon", forecast.by_epsilon, "epsilon"),
        *_sweep_html("Expected items by max_items", forecast.by_max_items, "max_items"),
        *map(paragraph, filter(None, [no_max_items(forecast)])),
        bullets("How to read it", caveats(forecast)),
    )


def _expected(forecast: Forecast) -> list[str]:
    planned, need = forecast.planned, ": no item is more likely to come out than not"
    if planned.needs is not None:
        need = f"; an item needs about {planned.needs:,} users"
    told = [
        f"Forecast for {forecast.profile}.",
        f"{planned.mechanism} is expected to release {about(planned)}{need}.",
        chosen(planned),
    ]
    return [line for line in told if line]


def worst_first(forecast: Forecast) -> list[Finding]:
    """What stops a release must not be overlooked."""
    return sorted(forecast.findings, key=lambda finding: finding.order)


def best_first(forecast: Forecast) -> list[Point]:
    """What releases most comes first."""
    return sorted(forecast.by_mechanism, key=lambda point: -point.released)


def point_cells(point: Point) -> tuple[str, ...]:
    """A point in a table: see `FORECAST_HEAD`."""
    return (
        f"{point.mechanism}{' (planned)' if point.planned else ''}",
        "all" if point.max_items is None else f"{point.max_items:,}",
        amount(point.released),
        plus_minus(point.error),
        between(point),
        f"{point.missing:.1%}",
        "-" if point.needs is None else f"{point.needs:,}",
    )


def caveats(forecast: Forecast) -> list[str]:
    """How to read a forecast, and how far it can be trusted."""
    keys = "one key" if forecast.runs == 1 else f"{forecast.runs} keys, ± standard error"
    return [
        "released: expected number of items; missing: part of all (user, item) pairs whose items "
        "stay back;",
        "users needed: items of fewer mostly stay back, items of more mostly come out;",
        f"range: what {RANGE:g} times fewer or more of these users would release.",
        f"Averages over coins and {keys}. Real data differ from any profile:",
        f"in tests on data of other shapes, the range held in about {COVERED} cases.",
        "No confidential data was touched.",
    ]


def _sweep_html(heading: str, points: Sequence[Point], by: str) -> list[Html]:
    return [title(heading), table(*_sweep_cells(points, by))] if points else []


def sweep(points: Sequence[Point], by: str) -> tuple[list[float], dict[str, list[float | None]]]:
    """The values that were tried, and what each mechanism releases at each of them."""
    places = sorted({getattr(point, by) for point in points})
    found = {(point.mechanism, getattr(point, by)): point.released for point in points}
    names = dict.fromkeys(point.mechanism for point in points)
    return places, {name: [found.get((name, place)) for place in places] for name in names}


def _sweep_cells(points: Sequence[Point], by: str) -> tuple[list[str], list[list[str]]]:
    """A row for each mechanism, and a column for each value that was tried."""
    places, found = sweep(points, by)
    rows = [
        [name, *("-" if cell is None else amount(cell) for cell in cells)]
        for name, cells in found.items()
    ]
    return ["", *(f"{place:g}" for place in places)], rows


def comparison_text(comparison: Comparison) -> str:
    """A comparison for its owner to read. NOT PRIVATE, and says so first and last."""
    text = [NOT_PRIVATE, "", *_sizes(comparison), ""]
    text += aligned(COMPARISON_HEAD, [_compared_row(row) for row in comparison.rows])
    text += ["", "Share released of the items held by at least k users (number of such items)"]
    text += _shares(
        comparison,
        [(f"{level.holders:,}", level.items) for level in comparison.levels],
        "covered",
    )
    text += ["", "Share released by number of holders (number of such items)"]
    text += _shares(comparison, [(str(band), band.items) for band in comparison.bands], "by_band")
    text += ["", _averages(comparison), "", NOT_PRIVATE]
    return "\n".join(text)


def comparison_html(comparison: Comparison) -> str:
    """A comparison for notebooks. NOT PRIVATE, and says so first."""
    name, _, reason = NOT_PRIVATE.partition(": ")
    return block(
        alert(name, reason),
        *map(paragraph, _sizes(comparison)),
        table(COMPARISON_HEAD, map(_compared_row, comparison.rows)),
        paragraph(_averages(comparison)),
    )


def _sizes(comparison: Comparison) -> tuple[str, str]:
    privacy = comparison.privacy
    return (
        f"{comparison.users:,} users, {comparison.items:,} items, {comparison.pairs:,} pairs; "
        f"epsilon {privacy.epsilon:g}, delta {privacy.delta:.4g} for each mechanism alone.",
        f"No private mechanism can release more than {amount(comparison.bound)} items on average.",
    )


def _averages(comparison: Comparison) -> str:
    return (
        f"Coins are averaged exactly, orders and samples over {comparison.runs} keys; * averages "
        f"{comparison.runs} whole runs."
    )


def _compared_row(row: Compared) -> tuple[str, ...]:
    return (
        row.mechanism,
        "all" if row.max_items is None else f"{row.max_items:,}",
        amount(row.released) + ("" if row.averaged == "coins" else "*"),
        plus_minus(row.error),
        f"{row.of_bound:.1%}",
        f"{row.missing:.1%}",
        "-" if row.needs is None else f"{row.needs:,}",
    )


def _shares(comparison: Comparison, columns: list[tuple[str, int]], part: str) -> list[str]:
    """One column for each group of items that has any."""
    there = [at for at, (_, items) in enumerate(columns) if items]
    rows = [("items", *(f"{columns[at][1]:,}" for at in there))]
    for row in comparison.rows:
        found = getattr(row, part)
        rows.append((row.label, *(f"{found[at] / columns[at][1]:.1%}" for at in there)))
    return aligned(("", *(columns[at][0] for at in there)), rows)
