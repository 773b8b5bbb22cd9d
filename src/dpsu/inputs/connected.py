"""Rows of a query on a DuckDB connection that is open, of a database that may be in memory."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.inputs.sql import DUCKDB, Query, quoted, read_duckdb

if TYPE_CHECKING:
    from dpsu.contributions.id_columns import Column


@dataclass(frozen=True, repr=False)
class Connected(Query):
    """The rows of a query on an open connection, streamed like those of any other query."""

    source: str = DUCKDB
    query: str = ""
    connection: Any = None

    def _refuse_early(self) -> None:
        """There is a connection."""

    def _open(self, columns: Sequence[Column], reading: contextlib.ExitStack) -> Callable[[], Any]:
        return read_duckdb(self.connection, self, columns)


@contextmanager
def beside(connection: Any, schema: Sequence[str]) -> Iterator[Any]:
    """Another connection to the same database: the first one is busy while its statement runs.

    `schema` names the database and the schema that are current there.
    """
    cursor = connection.cursor()
    try:
        # Otherwise a table that does not exist could be a variable of whoever called this.
        cursor.execute("SET python_enable_replacements = false")
        cursor.execute(f"USE {'.'.join(quoted([name]) for name in schema)}")
        yield cursor
    finally:
        cursor.close()
