"""Small pieces of HTML for notebooks.

Every function here takes text and escapes it; `Html` is what has been through one of them. Styles
stand at the elements and set no color of text or page, but for the warning, which brings its own
background: notebooks are dark or light, and many of them drop style sheets.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import NewType

from dpsu.showing.characters import encodable, harmless

Html = NewType("Html", str)

LONGEST = 80
_ALERT = (
    "background:#b3261e;color:#fff;font-weight:bold;padding:0.1em 0.5em;border-radius:0.3em;"
    "white-space:nowrap"
)
_PADDING = "padding:0.15em 0.7em"


def escaped(text: str) -> Html:
    """Text that is shown as it is, and is no markup; control characters are shown by number."""
    return Html(escape(encodable(harmless(text))))


def short(text: str) -> str:
    """The beginning of a text that may be of any length."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def block(*parts: Html) -> Html:
    """All that is shown of one object."""
    return Html(f'<div class="dpsu">{"".join(parts)}</div>')


def alert(text: str, then: str = "") -> Html:
    """A warning in white on red, and what is to be said after it."""
    return Html(f'<p><span style="{_ALERT}">{escaped(text)}</span> {escaped(then)}</p>')


def paragraph(text: str) -> Html:
    """A line of text."""
    return Html(f"<p>{escaped(text)}</p>")


def title(text: str) -> Html:
    """What the object is."""
    return Html(f"<p><strong>{escaped(text)}</strong></p>")


def bullets(heading: str, texts: Iterable[str]) -> Html:
    """A list that is folded away under its heading."""
    listed = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    return Html(f"<details><summary>{escaped(heading)}</summary><ul>{listed}</ul></details>")


def facts(rows: Iterable[tuple[str, str]]) -> Html:
    """A table of names and what is to be said of them."""
    lines = (f"<tr>{_head_cell(name, 'row')}{_cell(value, 'left')}</tr>" for name, value in rows)
    return Html(f"<table><tbody>{''.join(lines)}</tbody></table>")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, texts: int = 1) -> Html:
    """A table with a head; the first `texts` columns are text, the others are numbers."""
    sides = ["left" if at < texts else "right" for at in range(len(head))]
    top = "".join(_head_cell(name, "col", side) for name, side in zip(head, sides, strict=True))
    lines = (
        "".join(_cell(cell, side) for cell, side in zip(row, sides, strict=True)) for row in rows
    )
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return Html(f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>")


def _head_cell(text: str, scope: str, side: str = "left") -> str:
    style = f"text-align:{side};vertical-align:top;{_PADDING}"
    return f'<th scope="{scope}" style="{style}">{escaped(text)}</th>'


def _cell(text: str, side: str) -> str:
    # Spaces belong to an item, and those at its ends could not be seen otherwise.
    return f'<td style="text-align:{side};white-space:pre-wrap;{_PADDING}">{escaped(text)}</td>'
