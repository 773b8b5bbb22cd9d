"""Dask: the primitives of a release over delayed tasks, and nothing else.

A table is a list of tasks that have not run, each of which makes batches of Arrow rows. All of a
release is one graph, which runs where the caller's Dask runs: in threads, in processes, or on a
cluster. Workers log tasks that raise, in some versions with their arguments, which are private. So
no step raises in a task of ours: the task returns why it failed, later ones pass that on, and
`collect` raises it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import CancelledError
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.ids import numbers
from dpsu.engines.cluster.engine import Step
from dpsu.engines.cluster.losses import notes_of
from dpsu.engines.cluster.messages import ids_of
from dpsu.engines.cluster.steps import Batches, failure, placed
from dpsu.errors import DataError, DpsuError, JobLostError, ResourceError, is_memory_error
from dpsu.runtime import threads
from dpsu.runtime.extras import load

# Classes of the library distributed, which may not be installed: what became of workers.
LOST = {"KilledWorker", "CommClosedError", "NoWorkerError", "RPCClosed", "ClosedClientError"}
Places = Callable[[pa.RecordBatch], NDArray[np.int64]]


@dataclass(frozen=True, repr=False)
class Part:
    """What a task made: batches, or why it failed. PRIVATE.

    `notes` say what was seen when rows were read; they go with all that is made of the rows.
    """

    batches: tuple[pa.RecordBatch, ...] = ()
    failure: str = ""
    notes: frozenset[str] = frozenset()


@dataclass(frozen=True, repr=False)
class Parts:
    """A table: tasks that each make a :class:`Part`, and the columns that all of them have."""

    columns: pa.Schema
    tasks: list[Any]


@dataclass(frozen=True, repr=False)
class DaskEngine:
    """The primitives of a release; `salt` spreads items over tasks that sum them."""

    salt: int
    notes: set[str]

    def map_batches(self, rows: Parts, step: Step, columns: pa.Schema) -> Parts:
        """One task for each task that made the rows."""
        named = getattr(step, "__name__", type(step).__name__)
        return Parts(columns, [task(named, partial(mapped, step), each) for each in rows.tasks])

    def together(self, messages: Parts, partitions: int) -> Parts:
        """Split what every task sends by where it goes, and gather it there."""
        return self._moved(messages, partitions, _goes_to)

    def sum_by_item(self, numbers: Parts) -> Parts:
        """Sum in every task, move each item to one task by its hash, and sum again."""
        parts = self.map_batches(numbers, _sums, numbers.columns)
        into = len(parts.tasks)
        moved = self._moved(parts, into, partial(_hashed, self.salt, into))
        return self.map_batches(moved, _sums, numbers.columns)

    def collect(self, rows: Parts) -> pa.Table:
        """Run the graph."""
        made = computed(rows.tasks)
        self.notes.update(*(part.notes for part in made))
        for part in made:
            if part.failure:
                raise failure("Dask", part.failure, "")
        return pa.Table.from_batches([b for part in made for b in part.batches], rows.columns)

    def _moved(self, rows: Parts, into: int, places: Places) -> Parts:
        split = [task("dpsu_split", partial(_split, places, into), each) for each in rows.tasks]
        # Only the part that goes to a task is sent there, so each is a task of its own.
        return Parts(
            rows.columns,
            [
                task("dpsu_gather", _gathered, [task("dpsu_part", _part, s, to) for s in split])
                for to in range(into)
            ],
        )


def task(name: str, function: Callable[..., Any], *given: Any) -> Any:
    """A task that has not run; its name says which step it is, and nothing of what it is given."""
    # A name of its own: Dask would compute one from the data.
    return load("dask").delayed(function, pure=False, traverse=False)(
        *given, dask_key_name=f"{name}-{uuid4().hex}"
    )


def computed(tasks: list[Any]) -> list[Part]:
    """Run tasks; the message of an error may quote cells, so it is not passed on."""
    condition, workers = "", threads.WORKERS
    kind: type[DpsuError] = DataError
    try:
        return list(load("dask").compute(*tasks))
    except DpsuError:
        raise
    except Exception as error:
        condition, kind = type(error).__name__, kind_of(error)
    finally:
        # Several steps at once in the threads of this process may each leave what another set.
        threads.WORKERS = workers
    raise failure("Dask", "", condition, kind)


def kind_of(error: Exception) -> type[DpsuError]:
    """The error that one of Dask means, by its class alone."""
    if is_memory_error(error):
        return ResourceError
    ended = isinstance(error, (CancelledError, ConnectionError, TimeoutError))
    named = {each.__name__ for each in type(error).__mro__}
    return JobLostError if ended or named & LOST else DataError


def mapped(step: Step, part: Part) -> Part:
    """What a step makes of a part; it is guarded, so that its error may be passed on."""
    if part.failure:
        return part
    try:
        batches = tuple(step(iter(part.batches)))
    except RuntimeError as error:
        return replace(part, batches=(), failure=str(error))
    return replace(part, batches=batches, notes=part.notes | notes_of(step, batches))


def _split(places: Places, into: int, part: Part) -> list[Part]:
    """Rows by the task that they go to; all tasks get the notes and failures."""
    kept: list[list[pa.RecordBatch]] = [[] for _ in range(into)]
    for batch in part.batches:
        for place, rows in placed(places(batch)):
            kept[place].append(batch.take(pa.array(rows)))
    return [replace(part, batches=tuple(batches)) for batches in kept]


def _part(split: list[Part], to: int) -> Part:
    return split[to]


def _gathered(parts: Iterable[Part]) -> Part:
    parts = list(parts)
    why = next((part.failure for part in parts if part.failure), "")
    # Where something failed, the rest is not the result of anything.
    batches = () if why else tuple(batch for part in parts for batch in part.batches)
    return Part(batches, why, frozenset[str]().union(*(part.notes for part in parts)))


def _goes_to(messages: pa.RecordBatch) -> NDArray[np.int64]:
    return numbers(messages.column("to"), np.int32).astype(np.int64)


def _hashed(salt: int, into: int, sums: pa.RecordBatch) -> NDArray[np.int64]:
    """The task that sums an item; that of rows without one is the first."""
    item = sums.column("item")
    named = item.is_valid().to_numpy(zero_copy_only=False)
    places = np.zeros(len(item), np.int64)
    places[named] = ids_of(item.drop_null()).hashes(salt) % np.uint64(into)
    return places


def _sums(batches: Batches) -> Batches:
    """One row for each item, with the sum of its numbers."""
    rows = list(batches)
    if rows:
        sums = pa.Table.from_batches(rows).group_by("item").aggregate([("number", "sum")])
        yield from sums.rename_columns(["item", "number"]).cast(rows[0].schema).to_batches()
