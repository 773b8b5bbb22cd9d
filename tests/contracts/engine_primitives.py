"""What every engine owes to the loop over steps (`dpsu.engines.cluster.engine.Engine`).

Each check takes an engine and a function that makes a table of it, with one task for each of the
tables that it is given. A new engine that passes them all, and the releases of `test_engines`,
releases what one machine releases. Steps are classes at the top of this module, so that they can
be sent to workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.engines.cluster.engine import SIZES
from dpsu.engines.cluster.messages import SCHEMA, Message, arrived, sent
from dpsu.engines.cluster.steps import Guarded

Make = Callable[[list[pa.Table]], Any]
NUMBERS = {
    kind: pa.schema([("item", kind), ("number", pa.int64())]) for kind in (pa.int64(), pa.string())
}
UNKNOWN = "could not finish the job"
SECRET = "alice bought a gun"
# Sums that a double cannot hold.
LARGE = 2**60 + 1


class PassOn:
    """A step that changes nothing."""

    def __call__(self, batches: Any) -> Any:
        yield from batches


class CountCalls:
    """How many messages each call got, by where they go."""

    def __call__(self, batches: Any) -> Any:
        seen = Counter(message.to for message in arrived(batches))
        columns = [pa.array(seen.keys(), pa.int64()), pa.array(seen.values(), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, schema=SIZES)


class Renamed:
    """Classes as items."""

    def __call__(self, batches: Any) -> Any:
        for batch in batches:
            yield batch.rename_columns(["item", "number"])


class Fail:
    """A step that fails in one task: by an error that quotes a cell, or that says what to do."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, batches: Any) -> Any:
        for batch in batches:
            yield batch
            if 1 in batch.column("sender").to_pylist():
                raise self.error


def messages(partitions: int, tasks: int) -> list[pa.Table]:
    """Two messages of every task to every partition but the last, one of them empty."""
    return [
        pa.Table.from_batches(
            sent(
                Message(to, "kind", sender, data)
                for to in range(partitions - 1)
                for data in (b"\0" + bytes([to, sender]), b"")
            ),
            SCHEMA,
        )
        for sender in range(tasks)
    ]


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def check_steps_see_every_row_once(engine: Any, make: Make) -> None:
    """Each row goes through a step once; tables without rows have columns all the same."""
    given = messages(3, 4)
    for tables in (given, [each.slice(0, 0) for each in given]):
        found = engine.collect(engine.map_batches(make(tables), Guarded(PassOn()), SCHEMA))
        assert rows_of(found) == rows_of(pa.concat_tables(tables))
        assert found.column_names == SCHEMA.names


def check_messages_come_together(engine: Any, make: Make) -> None:
    """All messages to one partition are in one call of the next step, and each is there once."""
    for partitions, tasks in ((1, 1), (5, 3), (2, 4)):
        moved = engine.together(make(messages(partitions, tasks)), partitions)
        calls = engine.collect(engine.map_batches(moved, Guarded(CountCalls()), SIZES))
        expected = dict.fromkeys(range(partitions - 1), 2 * tasks)
        assert rows_of(calls) == Counter(expected.items())
        again = engine.together(engine.together(moved, partitions), partitions)
        assert rows_of(engine.collect(again)) == rows_of(
            pa.concat_tables(messages(partitions, tasks))
        )


def check_sums_are_exact(engine: Any, make: Make) -> None:
    """One row for each item of all tasks, null among them, with the sum in 64 bits."""
    for kind, items in ((pa.string(), ["a", "", "ü"]), (pa.int64(), [-1, 0, 2**62])):
        tables = [
            pa.table(
                {"item": [*items, None], "number": [LARGE + task, -task, 1, 50]}, NUMBERS[kind]
            )
            for task in range(3)
        ]
        sums = [3 * LARGE + 3, -3, 3, 150]
        for given in (tables, [pa.concat_tables(tables)]):
            found = engine.collect(engine.sum_by_item(make(given)))
            assert found.column_names == ["item", "number"]
            assert rows_of(found) == Counter(zip([*items, None], sums, strict=True))
        nobody = engine.collect(engine.sum_by_item(make([tables[0].slice(0, 0)])))
        assert len(nobody) == 0


def fail_and_go_on(engine: Any, make: Make, failing: Fail) -> None:
    """A query whose first step fails in some tasks, and whose others expect other columns."""
    failed = engine.map_batches(make(messages(3, 2)), Guarded(failing), SCHEMA)
    counted = engine.map_batches(engine.together(failed, 3), Guarded(CountCalls()), SIZES)
    numbers = engine.map_batches(counted, Guarded(Renamed()), NUMBERS[pa.int64()])
    engine.collect(engine.sum_by_item(numbers))


def fail_at_the_end(engine: Any, make: Make, failing: Fail) -> None:
    """A query whose last step fails in some tasks."""
    engine.collect(engine.map_batches(make(messages(3, 2)), Guarded(failing), SCHEMA))


def check_failures_quote_nothing(engine: Any, make: Make) -> None:
    """Errors of ours arrive as they are; of others only the place, from any step of a query."""
    for error, told in (
        (ValueError(SECRET), "unexpected ValueError"),
        (dpsu.DataError("use a smaller one"), "^use a smaller one$"),
        (dpsu.ResourceError("use a larger one"), "^use a larger one$"),
    ):
        # Tasks that die with the one that failed may be reported in its place.
        said = f"{told}|{UNKNOWN}"
        for fail in (fail_and_go_on, fail_at_the_end):
            with pytest.raises((dpsu.DataError, dpsu.ResourceError), match=said) as caught:
                fail(engine, make, Fail(error))
            seen: BaseException | None = caught.value
            while seen is not None:
                assert SECRET not in repr(seen)
                seen = seen.__context__ or seen.__cause__


CHECKS = (
    check_steps_see_every_row_once,
    check_messages_come_together,
    check_sums_are_exact,
    check_failures_quote_nothing,
)
