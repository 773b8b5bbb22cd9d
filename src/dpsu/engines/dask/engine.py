"""Dask: the primitives of a release over tasks of a graph, and nothing else.

A table is a list of tasks that have not run, each of which makes batches of Arrow rows. It knows
the tasks that make its own parts and the table before it: the whole graph is put together once,
when rows are collected, because Dask would otherwise copy all of it for each new task. The graph
runs where the caller's Dask runs: in threads, in processes, or on a cluster. Workers log tasks that
raise, in some versions with their arguments, which are private. So no step raises in a task of
ours: the task returns why it failed, later ones pass that on, and `collect` raises it.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterable, Mapping
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
from dpsu.randomness.keys import Key
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
    """A table: keys of tasks that each make a :class:`Part`, and the columns that all of them have.

    `tasks` are those that make the parts of this table out of the parts of the one `before` it.
    """

    columns: pa.Schema
    keys: list[Any]
    tasks: Mapping[Any, Any]
    before: Parts | None = None

    def graph(self) -> dict[Any, Any]:
        """All tasks that the parts are made by."""
        graph: dict[Any, Any] = {}
        table: Parts | None = self
        while table is not None:
            graph.update(table.tasks)
            table = table.before
        return graph


@dataclass(frozen=True, repr=False)
class DaskEngine:
    """The primitives of a release with this key."""

    key: Key
    notes: set[str]

    def map_batches(self, rows: Parts, step: Step, columns: pa.Schema) -> Parts:
        """One task for each task that made the rows; a worker gets the step once for all."""
        from dask.task_spec import DataNode, Task, TaskRef

        name = getattr(step, "__name__", type(step).__name__)
        made, shared = task_name(name), task_name(f"{name}_step")
        tasks: dict[Any, Any] = {shared: DataNode(shared, SharedStep(step))}
        keys = [(made, at) for at in range(len(rows.keys))]
        for key, part in zip(keys, rows.keys, strict=True):
            tasks[key] = Task(key, mapped_with, self.key, TaskRef(shared), TaskRef(part))
        return Parts(columns, keys, tasks, rows)

    def together(self, messages: Parts, partitions: int) -> Parts:
        """Split what every task sends by where it goes, and gather it there."""
        return _moved(messages, partitions, _goes_to)

    def sum_by_item(self, numbers: Parts) -> Parts:
        """Sum in every task, move each item to one task by its hash, and sum again."""
        parts = self.map_batches(numbers, _sums, numbers.columns)
        into = len(parts.keys)
        moved = _moved(parts, into, partial(_hashed, self.key.salt("bucket of item"), into))
        return self.map_batches(moved, _sums, numbers.columns)

    def collect(self, rows: Parts) -> pa.Table:
        """Run the graph."""
        made = computed(rows)
        self.notes.update(*(part.notes for part in made))
        for part in made:
            if part.failure:
                raise failure("Dask", part.failure, "")
        return pa.Table.from_batches([b for part in made for b in part.batches], rows.columns)


class SharedStep:
    """A step that Dask keeps like data, so that it sends it to a worker once. PRIVATE.

    Workers write data to disk if memory is short, so that the secret key must not be among them:
    it is left out when the step is pickled, and comes with every task.
    """

    def __init__(self, step: Step | None, pickled: bytes = b"") -> None:
        self._step, self._pickled = step, pickled

    def __reduce__(self) -> tuple[Any, ...]:
        self._pickled = self._pickled or _pickled(self._step)
        return SharedStep, (None, self._pickled)

    def step(self, key: Key) -> Step:
        """The step, with the key of its release."""
        if self._step is None:
            self._step = _unpickled(self._pickled, key)
        return self._step


def _pickled(step: Any) -> bytes:
    # By the pickler that Dask uses for tasks: a tokenizer may be a function of the caller.
    from cloudpickle import Pickler

    class Keyless(Pickler):  # type: ignore[misc]
        def persistent_id(self, each: object) -> str | None:
            return "key" if isinstance(each, Key) else None

    written = io.BytesIO()
    Keyless(written).dump(step)
    return written.getvalue()


def _unpickled(pickled: bytes, key: Key) -> Step:
    class WithKey(pickle.Unpickler):
        def persistent_load(self, name: Any) -> Key:
            return key

    step: Step = WithKey(io.BytesIO(pickled)).load()
    return step


def task_name(step: str) -> str:
    """A name for the tasks of a step, which says nothing of what they are given."""
    # A name of its own: Dask would compute one from the data.
    return f"{step}-{uuid4().hex}"


def _moved(rows: Parts, into: int, places: Places) -> Parts:
    """The same rows, each in the part that `places` says."""
    from dask.task_spec import List, Task, TaskRef

    split, part, gather = task_name("dpsu_split"), task_name("dpsu_part"), task_name("dpsu_gather")
    tasks: dict[Any, Any] = {}
    for at, key in enumerate(rows.keys):
        tasks[split, at] = Task((split, at), _split, places, into, TaskRef(key))
        for to in range(into):
            # Only the part that goes to a task is sent there, so each is a task of its own.
            tasks[part, at, to] = Task((part, at, to), _part, TaskRef((split, at)), to)
    for to in range(into):
        parts = [TaskRef((part, at, to)) for at in range(len(rows.keys))]
        tasks[gather, to] = Task((gather, to), _gathered, List(*parts))
    return Parts(rows.columns, [(gather, to) for to in range(into)], tasks, rows)


def computed(rows: Parts) -> list[Part]:
    """Run tasks; the message of an error may quote cells, so it is not passed on."""
    from dask.highlevelgraph import HighLevelGraph

    condition, layer = "", task_name("dpsu")
    graph = HighLevelGraph.from_collections(layer, rows.graph(), dependencies=())
    kind: type[DpsuError] = DataError
    try:
        delayed = load("dask.delayed").Delayed
        return list(load("dask").compute(*(delayed(key, graph, layer=layer) for key in rows.keys)))
    except DpsuError:
        raise
    except Exception as error:
        condition, kind = type(error).__name__, kind_of(error)
    raise failure("Dask", "", condition, kind)


def kind_of(error: Exception) -> type[DpsuError]:
    """The error that one of Dask means, by its class alone."""
    if is_memory_error(error):
        return ResourceError
    ended = isinstance(error, (CancelledError, ConnectionError, TimeoutError))
    named = {each.__name__ for each in type(error).__mro__}
    return JobLostError if ended or named & LOST else DataError


def mapped_with(key: Key, shared: SharedStep, part: Part) -> Part:
    """What a step that workers share makes of a part."""
    return mapped(shared.step(key), part)


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
