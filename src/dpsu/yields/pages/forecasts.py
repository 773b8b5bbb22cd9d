"""The page of a forecast: the plan in words, curves, and mechanisms side by side. Public."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

from dpsu._version import __version__
from dpsu.yields.pages.parts import Line, Plot, Series, bar_table, facts, figures, page, series_of
from dpsu.yields.tables import (
    amount,
    best_first,
    between,
    caveats,
    chosen,
    no_max_items,
    point_cells,
    rough,
    sweep,
    worst_first,
)

if TYPE_CHECKING:
    from dpsu.yields.forecasted import Forecast, Point


def forecast_page(forecast: Forecast) -> str:
    """One page, whole."""
    plan, planned = forecast.plan, forecast.planned
    names = [point.mechanism for point in forecast.by_mechanism]
    series = series_of([(name, name) for name in names], planned.mechanism)
    plots = [
        _plot(
            forecast.by_epsilon, "epsilon", "Expected items by epsilon",
            "More privacy loss releases more. The dotted line is the plan.", planned,
        ),
        _plot(
            forecast.by_max_items, "max_items", "Expected items by max_items",
            "A user's items beyond it are left out; a larger one raises thresholds. "
            + no_max_items(forecast), planned,
        ),
    ]  # fmt: skip
    body = [_findings(forecast), facts(_facts(forecast))]
    plots = [plot for plot in plots if plot.lines]
    body.append(figures(plots))
    body.append(_mechanisms(forecast, series))
    body.append(f"<section><h2>The plan in words</h2><pre>{escape(str(plan))}</pre></section>")
    text = " ".join(filter(None, [chosen(planned), *caveats(forecast)]))
    body.append(f'<section><h2>How to read this</h2><p class="small">{escape(text)}</p></section>')
    return page(
        title=f"Forecast: {planned.mechanism} at epsilon {plan.privacy.epsilon:g}",
        lead=f"For {forecast.profile}. No confidential data was touched, and no budget was spent.",
        body="\n".join(body),
        footer=f"Made by dpsu {__version__} from public parameters only.",
        series=series,
        plots=plots,
    )


def _findings(forecast: Forecast) -> str:
    if not forecast.findings:
        return ""
    parts = [
        f'<li class="{"note" if finding.label == "Note" else "stop"}">'
        f"<b>{finding.label.capitalize()}:</b>{escape(finding.text)}.</li>"
        for finding in worst_first(forecast)
    ]
    return f'<ul class="findings">{"".join(parts)}</ul>'


def _facts(forecast: Forecast) -> list[tuple[str, str, str]]:
    planned, privacy = forecast.planned, forecast.plan.privacy
    best = best_first(forecast)[0]
    return [
        ("The plan is expected to release", f"about {rough(planned.released)} items",
         "; ".join(filter(None, [between(planned), f"{planned.chosen or planned.mechanism}, "
                                 f"{1 - planned.missing:.1%} of all pairs"]))),
        ("An item needs about", "-" if planned.needs is None else f"{planned.needs:,} users",
         "nothing is likely to come out" if planned.needs is None
         else f"of {forecast.profile.users:,}"),
        ("Most items", f"{amount(best.released)}", f"by {best.mechanism}"),
        ("Guarantee", f"({privacy.epsilon:g}, {privacy.delta:.2g})", "epsilon, delta"),
    ]  # fmt: skip


def _plot(points: Sequence[Point], by: str, title: str, explanation: str, planned: Point) -> Plot:
    places, found = sweep(points, by)
    mark = getattr(planned, by)
    return Plot(
        id=by,
        title=title,
        explanation=explanation,
        x=by,
        xs=tuple(float(place) for place in places),
        labels=tuple(f"{place:g}" for place in places),
        lines=tuple(Line(name, tuple(released)) for name, released in found.items()),
        log=True,
        mark=places.index(mark) if mark in places else None,
    )


def _mechanisms(forecast: Forecast, series: Sequence[Series]) -> str:
    """All mechanisms with their yields, and bars to see them by."""
    styles = {one.name: one for one in series}
    ordered = best_first(forecast)
    most = ordered[0].released or 1.0
    rows = [
        (styles[point.mechanism], point_cells(point), point.released / most) for point in ordered
    ]
    head = (
        "mechanism",
        "max_items",
        "items released",
        "",
        "range",
        "missing",
        "users an item needs",
    )
    return bar_table("Mechanisms side by side", head, rows)
