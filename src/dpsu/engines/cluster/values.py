"""Values of many columns on a cluster: rows of a wide table become rows of users and items.

    rows of a table -> SendValues -> [by partition of users] -> as for rows of items

A row becomes one row for each kind of item where it is read, by the code of one machine, batch by
batch, so that wide rows are never shuffled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from dpsu.contributions.pairs import Tally, report_lost
from dpsu.engines.cluster.losses import Telling, lost_of
from dpsu.engines.cluster.steps import Batches, SendRows

# Makes batches of ids of users and items of tables, and tallies what is left out.
Read = Callable[[Tally, Iterator[Any]], Batches]
# Batches of an engine are put together to so many rows: every table costs some work for each kind.
ROWS_OF_TABLE = 1 << 16


@dataclass(frozen=True, repr=False)
class SendValues(Telling):
    """Melt rows of a table and send their items to the partitions of the users."""

    read: Read

    def messages(self, batches: Batches, tally: Tally) -> Batches:
        """Messages of rows."""
        return SendRows(self.job)(self._rows(batches, tally))

    def _rows(self, batches: Batches, tally: Tally) -> Batches:
        """Rows of (user, item); those without a user are left out, with a reason."""
        for rows in self.read(tally, _tables(batches)):
            if self.job.strict:
                report_lost(lost_of(tally.lost), strict=True)
            yield rows.filter(rows.column(0).is_valid())


def _tables(batches: Batches) -> Iterator[pa.Table]:
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += len(batch)
        if rows >= ROWS_OF_TABLE:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()
