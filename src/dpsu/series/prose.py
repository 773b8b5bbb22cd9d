"""A series in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsu.ledger.prose import utc
from dpsu.ledger.splitting import Split, repeated
from dpsu.series.state import LOST, PENDING
from dpsu.showing.markup import block, bullets, paragraph, table, title

if TYPE_CHECKING:
    from dpsu.series.repeated import Series
    from dpsu.series.state import Period

HEAD = ("period", "started (UTC)", "state", "new items")
SERIES_PROMISES = (
    "this folder was never lost or replaced by an older copy",
    "whatever else is released about these people is accounted for elsewhere, such as in a ledger",
    "if a run of a period was followed by another one, whatever ended the first did not depend on "
    "what it had drawn",
)
STATES = {
    PENDING: "A pending period failed or was killed before anything was shown. Run it again: that "
    "costs nothing more.",
    LOST: "A lost period is spent, but has no result: it was removed, or its run failed after its "
    "draws.",
}


def series_text(series: Series) -> str:
    """What is fixed, what is spent, and what that rests on."""
    text = [*_facts(series), *_states(series.history), "You promise that"]
    return "\n".join([*text, *(f"  - {promise}" for promise in _promises(series))])


def series_html(series: Series) -> str:
    """The same for notebooks."""
    history = series.history
    return block(
        title(repr(series)),
        *map(paragraph, _facts(series)),
        *([table(HEAD, map(row, history), texts=3)] if history else []),
        *map(paragraph, _states(history)),
        bullets("You promise that", _promises(series)),
    )


def row(period: Period) -> tuple[str, str, str, str]:
    """A period as a line of a table."""
    started = "unknown" if period.run is None else utc(period.run.time)
    released = "" if period.released is None else f"{period.released:,}"
    return str(period.number), started, period.state, released


def period_line(series: Series, number: int) -> str:
    """What one period adds to the whole."""
    budget = series.budget
    return (
        f"period {number:,} of {series.periods:,}; {len(series.items):,} items so far; all periods "
        f"together are ({budget.epsilon:g}, {budget.delta:g})-private (`dpsu proofs series`)"
    )


def _facts(series: Series) -> list[str]:
    budget, each = series.budget, series.plan.privacy
    by_sums = Split(each, series.periods, budget, repeated(series.plan, series.periods)).by_sums
    how = "sums of epsilon and delta" if by_sums else "Gaussian composition"
    return [
        f"periods: {series.periods:,}, of which {series.periods - series.left:,} were begun and "
        f"{series.left:,} are left",
        f"all periods together: ({budget.epsilon:g}, {budget.delta:g})-differential privacy for "
        f"adding or removing any one {series.plan.user.person} with all rows in all periods, by "
        f"{how} (`dpsu proofs series`)",
        f"each period: {series.plan.name}, epsilon {each.epsilon:g}, delta {each.delta:g}",
        f"items released so far: {len(series.items):,}",
    ]


def _promises(series: Series) -> tuple[str, ...]:
    return (*SERIES_PROMISES, f"{series.plan.user.promise}, in all periods")


def _states(history: tuple[Period, ...]) -> list[str]:
    found = {each.state for each in history}
    return [words for state, words in STATES.items() if state in found]
