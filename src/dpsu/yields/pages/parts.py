"""The parts of a page: template, tables, and plots as data for the script inside the page.

A page forbids itself all network by its content security policy. What is put into it is escaped:
names of columns and mechanisms are text, never markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib.resources import files
from itertools import pairwise

from dpsu.plans.mechanisms import MECHANISMS

COLORS = 10
DASHES = ("", "7 3", "2 3", "9 3 2 3")


@dataclass(frozen=True)
class Series:
    """What one mechanism looks like in all plots of a page."""

    name: str
    color: int
    dash: str
    planned: bool


@dataclass(frozen=True)
class Line:
    """A series in one plot: a value for each place on the x axis, None where there is none."""

    name: str
    ys: tuple[float | None, ...]


@dataclass(frozen=True)
class Plot:
    """Lines over the same places; `log` spaces them by their logarithms, `mark` points at one."""

    id: str
    title: str
    explanation: str
    x: str
    xs: tuple[float, ...]
    labels: tuple[str, ...]
    lines: tuple[Line, ...]
    percent: bool = False
    log: bool = False
    mark: int | None = None

    def __post_init__(self) -> None:
        assert all(a < b for a, b in pairwise(self.xs)), "places must ascend"


def series_of(names: Sequence[tuple[str, str]], planned: str | None = None) -> list[Series]:
    """Colors by mechanism, dashes for Laplace noise and for more than one size of sets.

    `names` are pairs of the name of a series and of its mechanism.
    """
    order = list(MECHANISMS)
    seen: dict[str, int] = {}
    made = []
    for name, mechanism in names:
        around, color = divmod(order.index(mechanism), COLORS)
        # There are more mechanisms than colors.
        turn = seen.get(mechanism, 0) + ("laplace" in mechanism) + 2 * around
        seen[mechanism] = seen.get(mechanism, 0) + 1
        made.append(Series(name, color, DASHES[turn % len(DASHES)], name == planned))
    return made


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of text; its cells are escaped."""
    parts = ["<table>"]
    cells = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    parts.append(f"<thead><tr>{cells}</tr></thead><tbody>")
    for first, *others in rows:
        cells = "".join(f"<td>{escape(cell)}</td>" for cell in others)
        parts.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    parts.append("</tbody></table>")
    return "".join(parts)


def bar_table(
    title: str, head: Sequence[str], rows: Sequence[tuple[Series, Sequence[str], float]]
) -> str:
    """A section with a table, each row with a bar in the color of its series at the end.

    Rows are hidden with their series. The last of a row is the length of its bar, at most 1.
    """
    parts = []
    for series, cells, share in rows:
        color = f"--c: var(--s{series.color}); width: {min(1.0, share):.1%}"
        planned = ' class="planned"' if series.planned else ""
        parts.append(
            f'<tr data-series="{escape(series.name)}"{planned}>'
            + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
            + f'<td class="bar"><span style="{color}"></span></td></tr>'
        )
    names = "".join(f'<th scope="col">{escape(name)}</th>' for name in (*head, ""))
    return (
        f"<section><h2>{escape(title)}</h2><table><thead><tr>{names}</tr></thead>"
        f"<tbody>{''.join(parts)}</tbody></table></section>"
    )


def facts(listed: Sequence[tuple[str, str, str]]) -> str:
    """A few numbers in large type: what it is, the number, a word about it."""
    parts = [
        f"<div><dt>{escape(what)}</dt><dd>{escape(number)}<small>{escape(word)}</small></dd></div>"
        for what, number, word in listed
    ]
    return f'<dl class="facts">{"".join(parts)}</dl>'


def figures(plots: Sequence[Plot]) -> str:
    """Places for the plots, each with its numbers as a table."""
    parts = [
        '<div class="controls" id="controls" role="group" '
        'aria-label="Mechanisms in the plots"></div>',
        '<noscript><p class="small">Plots need JavaScript; the tables do not.</p></noscript>',
        '<div class="plots">',
    ]
    for plot in plots:
        rows = [
            (line.name, *(_cell(value, plot.percent) for value in line.ys)) for line in plot.lines
        ]
        numbers = table((plot.x, *plot.labels), rows)
        parts.append(
            f"<figure><h2>{escape(plot.title)}</h2><figcaption>{escape(plot.explanation)}"
            f'</figcaption><div class="plot" id="plot-{plot.id}"></div>'
            f"<details><summary>The numbers</summary>{numbers}</details></figure>"
        )
    return "\n".join([*parts, "</div>"])


def page(
    *,
    title: str,
    lead: str,
    body: str,
    footer: str,
    series: Sequence[Series],
    plots: Sequence[Plot],
) -> str:
    """The whole page; `body` is markup, everything else is text."""
    folder = files("dpsu.yields.pages")
    data = {"series": [asdict(one) for one in series], "plots": [asdict(one) for one in plots]}
    filled = {
        "title": escape(title),
        "lead": escape(lead),
        "body": body,
        "footer": escape(footer),
        # No text in JSON may end the script element around it.
        "data": json.dumps(data).replace("<", "\\u003c"),
        "style": folder.joinpath("page.css").read_text("utf-8"),
        "script": folder.joinpath("page.js").read_text("utf-8"),
    }
    template = folder.joinpath("page.html").read_text("utf-8")
    # In one pass, so that braces in what is filled in stay as they are.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], template)


def _cell(value: float | None, percent: bool) -> str:
    from dpsu.yields.tables import amount

    if value is None:
        return "-"
    return f"{value:.1%}" if percent else amount(value)
