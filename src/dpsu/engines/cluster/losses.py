"""What was left out where rows were read on a cluster: told in messages, and to the curator.

A message names a reason by its place in a list that the plan alone decides, and nothing else: no
number, and nothing of a cell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpsu.contributions.pairs import Tally, report_lost, report_nothing
from dpsu.engines.cluster.messages import LOST, ROWS, Message, arrived, sent
from dpsu.engines.cluster.steps import Batches, Job
from dpsu.inputs.melted import columns_of_values
from dpsu.inputs.values import Values
from dpsu.plans.plan import Plan
from dpsu.text.corpus import WITH_SPACE
from dpsu.text.pieces import FAILED, NO_TEXT, TOO_LONG, not_utf8

# Noted where at least one row, or one item of a text, had both a user and an item: not a loss.
COMPLETE = ""


def reasons(plan: Plan) -> tuple[str, ...]:
    """Why something may be left out; messages have the places of reasons in this list."""
    user, item = plan.user.name, plan.item.name
    if isinstance(plan.item, Values):
        columns = columns_of_values(plan.user, plan.item)
        told = [reason for column in columns for reason in column.reasons]
        # Users and values may share a column, and so its reasons.
        return tuple(dict.fromkeys([incomplete(user, item), *told]))
    if plan.text is None:
        return (incomplete(user, item),)
    told = [NO_TEXT, not_utf8(plan.text.column), TOO_LONG, FAILED, without_user(plan)]
    return (*told, WITH_SPACE) if plan.by_length else tuple(told)


def incomplete(user: str, item: str) -> str:
    """What is said of rows without a user or an item."""
    return f"some rows have no {user!r} or no {item!r}"


def without_user(plan: Plan) -> str:
    """The reason for which texts of nobody are left out."""
    assert plan.text is not None
    if plan.by_length:
        return f"some rows have no {plan.user.name!r}"
    return incomplete(plan.user.name, plan.text.column)


def nothing(plan: Plan) -> str:
    """What is said if there is no item of a user."""
    if plan.text is not None:
        return f"no text of a {plan.user.name!r} has a token"
    return f"no row has both {plan.user.name!r} and {plan.item.name!r}"


@dataclass(frozen=True, repr=False)
class Telling(ABC):
    """A step that tells in messages what it left out."""

    job: Job

    def __call__(self, batches: Batches) -> Batches:
        """Messages of rows, and at the end one for each reason for which something was lost."""
        tally = Tally(None)
        yield from self.messages(batches, tally)
        lost = [at for at, reason in enumerate(reasons(self.job.plan)) if reason in tally.lost]
        yield from sent(Message(0, LOST, at, b"") for at in lost)

    @abstractmethod
    def messages(self, batches: Batches, tally: Tally) -> Batches:
        """Messages of rows; what is left out is tallied."""


def tells(step: Any) -> bool:
    """Whether a step tells in messages what it left out."""
    return isinstance(inner(step), Telling)


def inner(step: Any) -> Any:
    """The step that is guarded, or the step itself."""
    return getattr(step, "step", step)


def notes_of(step: Any, messages: Iterable[pa.RecordBatch]) -> frozenset[str]:
    """What messages of a step tell of its rows: reasons, and that something was left."""
    if not tells(step):
        return frozenset()
    told = reasons(inner(step).job.plan)
    found = {message[1:3] for message in arrived(iter(messages))}
    lost = {told[place] for kind, place in found if kind == LOST}
    return frozenset(lost | {COMPLETE for kind, _ in found if kind == ROWS})


def lost_of(notes: Iterable[str]) -> Tally:
    """What notes say was left out."""
    tally = Tally(None)
    for note in notes:
        if note != COMPLETE:
            tally.lose(note)
    return tally


def report_notes(plan: Plan, notes: Collection[str], strict: bool) -> None:
    """Warn of what was left out while partitions were read, as the local engine does."""
    tally = lost_of(notes)
    report_lost(tally, strict)
    if COMPLETE not in notes:
        report_nothing(tally, strict, nothing(plan))
