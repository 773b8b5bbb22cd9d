"""The page of a comparison. NOT PRIVATE: it says so first, last and in its title."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from dpsu._version import __version__
from dpsu.yields.pages.parts import Line, Plot, Series, bar_table, facts, figures, page, series_of
from dpsu.yields.tables import NOT_PRIVATE, amount, plus_minus

if TYPE_CHECKING:
    from dpsu.yields.comparing import Comparison


def comparison_page(comparison: Comparison) -> str:
    """One page, whole."""
    privacy = comparison.privacy
    series = series_of([(row.label, row.mechanism) for row in comparison.rows])
    plots = [plot for plot in (_coverage(comparison), _bands(comparison)) if plot.xs]
    warning = f'<p class="warning" role="alert">{escape(NOT_PRIVATE)}</p>'
    body = [warning, facts(_facts(comparison)), _yields(comparison, series)]
    body += [figures(plots), _explained()]
    body.append(warning.replace(' role="alert"', ""))
    return page(
        title="NOT PRIVATE: mechanisms compared on confidential data",
        lead=f"Each mechanism alone would be ({privacy.epsilon:g}, {privacy.delta:.4g})-"
        "differentially private; this page is not. It names no item.",
        body="\n".join(body),
        footer=f"Made by dpsu {__version__}. Coins are averaged exactly, orders and samples "
        f"over {comparison.runs} keys; mechanisms with a star by {comparison.runs} whole runs.",
        series=series,
        plots=plots,
    )


def _facts(comparison: Comparison) -> list[tuple[str, str, str]]:
    best = comparison.rows[0]
    return [
        ("Most items", amount(best.released), f"by {best.label}"),
        ("No private mechanism exceeds", amount(comparison.bound), "items on average"),
        ("Users", f"{comparison.users:,}", f"{comparison.pairs:,} pairs"),
        ("Different items", f"{comparison.items:,}", f"{best.missing:.1%} of pairs missed at best"),
    ]


def _yields(comparison: Comparison, series: Sequence[Series]) -> str:
    rows = [
        (
            style,
            (
                row.mechanism + ("" if row.averaged == "coins" else " *"),
                "all" if row.max_items is None else f"{row.max_items:,}",
                amount(row.released),
                plus_minus(row.error),
                f"{row.missing:.1%}",
                "-" if row.needs is None else f"{row.needs:,}",
                f"{row.of_bound:.1%}",
            ),
            row.of_bound,
        )
        for row, style in zip(comparison.rows, series, strict=True)
    ]
    head = ("mechanism", "max_items", "released", "", "missing", "users needed", "of bound")
    return bar_table("Expected yields", head, rows)


def _coverage(comparison: Comparison) -> Plot:
    there = [at for at, level in enumerate(comparison.levels) if level.items]
    levels = [comparison.levels[at] for at in there]
    return Plot(
        id="coverage",
        title="Coverage of items held by at least k users",
        explanation="Share of them that comes out.",
        x="k",
        xs=tuple(float(level.holders) for level in levels),
        labels=tuple(f"{level.holders:,}" for level in levels),
        lines=tuple(
            Line(row.label, tuple(row.covered[at] / comparison.levels[at].items for at in there))
            for row in comparison.rows
        ),
        percent=True,
        log=True,
    )


def _bands(comparison: Comparison) -> Plot:
    there = [at for at, band in enumerate(comparison.bands) if band.items]
    return Plot(
        id="bands",
        title="Released by number of holders",
        explanation="Share of the items in each band that comes out.",
        x="users who hold an item",
        xs=tuple(float(at) for at in there),
        labels=tuple(str(comparison.bands[at]) for at in there),
        lines=tuple(
            Line(row.label, tuple(row.by_band[at] / comparison.bands[at].items for at in there))
            for row in comparison.rows
        ),
        percent=True,
    )


def _explained() -> str:
    text = (
        "released: expected number of items; missing: part of all (user, item) pairs whose items "
        "stay back; users needed: items of fewer mostly stay back, items of more mostly come out; "
        "of bound: part of what any private mechanism that outputs held items could release."
    )
    return f'<p class="small">{escape(text)}</p>'
