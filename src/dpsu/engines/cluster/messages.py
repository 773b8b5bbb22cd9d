"""Messages between the partitions of a cluster, as rows of an Arrow table.

A message goes `to` a partition, says what `kind` it is and which partition sent it (`sender`), and
carries `data`: numbers as they lie in memory, or several columns as an Arrow stream. A cluster only
has to bring the messages to a partition together; it never reads their data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.ids import Ids, numbers

# The columns of a table of messages.
SCHEMA = pa.schema(
    [("to", pa.int32()), ("kind", pa.string()), ("sender", pa.int32()), ("data", pa.binary())]
)

# Kinds of messages. Rows for a partition of users, and how many users it has.
ROWS, CENSUS = "rows", "census"
# To nobody: something of a text was left out, for the reason whose place is the sender.
LOST = "lost"
# The state that a partition of users or of items sends to itself for the next round.
USERS, ITEMS = "users", "items"
# From users to items: weights with the ids of the items, weights with a flag for each item that
# says whether the users keep it, and weights alone.
NAMED, KEPT, GIVEN = "named", "kept", "given"
# From items to users: one number for each item.
REPLY = "reply"
# From users to all users: sums of which something is estimated. From users to items: what was.
SURVEY, FOUND = "survey", "found"

# A batch of messages is closed once it holds so many bytes; a single message may be larger.
BATCH_BYTES = 1 << 25
BATCH_MESSAGES = 1 << 12


class Message(NamedTuple):
    """One row of a table of messages."""

    to: int
    kind: str
    sender: int
    data: Any


def arrived(batches: Iterable[pa.RecordBatch]) -> Iterator[Message]:
    """The messages of a table, batch by batch; their data are views of the batch."""
    for batch in batches:
        to, kind, sender = (batch.column(name).to_pylist() for name in ("to", "kind", "sender"))
        data = batch.column("data")
        for at in range(batch.num_rows):
            yield Message(to[at], kind[at], sender[at], data[at].as_buffer())


def sent(messages: Iterable[Message]) -> Iterator[pa.RecordBatch]:
    """Messages as batches of a table."""
    waiting: list[Message] = []
    held = 0
    for message in messages:
        waiting.append(message)
        held += len(message.data)
        if held >= BATCH_BYTES or len(waiting) >= BATCH_MESSAGES:
            yield _batch(waiting)
            waiting, held = [], 0
    if waiting:
        yield _batch(waiting)


def pack(columns: Mapping[str, pa.Array | NDArray[Any]]) -> pa.Buffer:
    """Columns of any lengths as one Arrow stream: a row whose cells are the columns."""
    arrays = [_cell(column) for column in columns.values()]
    batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def unpack(data: Any) -> dict[str, pa.Array]:
    """The columns that `pack` packed."""
    batch = pa.ipc.open_stream(data).read_next_batch()
    return {name: batch.column(name).flatten() for name in batch.schema.names}


def ids_of(array: pa.Array) -> Ids:
    """Ids from an unpacked column."""
    return Ids(array if pa.types.is_integer(array.type) else array.cast(pa.large_string()))


def writable(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Numbers from an unpacked column, copied so that kernels may write to them."""
    return numbers(array, dtype).copy()


def _cell(column: pa.Array | NDArray[Any]) -> pa.Array:
    if isinstance(column, np.ndarray):
        values = pa.Array.from_buffers(
            pa.from_numpy_dtype(column.dtype),
            len(column),
            [None, pa.py_buffer(np.ascontiguousarray(column))],
        )
    else:
        # Offsets of 64 bits are not worth their room in a message.
        values = column.cast(pa.string()) if pa.types.is_large_string(column.type) else column
    return pa.LargeListArray.from_arrays(pa.array([0, len(values)], pa.int64()), values)


def _batch(messages: list[Message]) -> pa.RecordBatch:
    to, kind, sender, data = zip(*messages, strict=True)
    sizes = np.fromiter((len(one) for one in data), np.int64, len(data))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    joined = pa.py_buffer(b"".join(data))
    binary = pa.Array.from_buffers(pa.binary(), len(data), [None, pa.py_buffer(offsets), joined])
    columns = [pa.array(to, pa.int32()), pa.array(kind, pa.string()), pa.array(sender, pa.int32())]
    return pa.RecordBatch.from_arrays([*columns, binary], schema=SCHEMA)
