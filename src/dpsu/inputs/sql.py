"""Rows that a database computes: the result of one query, streamed as Arrow record batches.

Databases quote cells in their errors ("invalid input syntax for type integer: ..."), so that their
own words are never repeated, with one exception: a parser sees nothing but the text that was typed.
Everything else is told by the kind of the error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from dpsu.errors import DataError, DpsuError, ParameterError, ResourceError
from dpsu.extras import load

if TYPE_CHECKING:
    from dpsu.inputs.textual import ReadTable

T = TypeVar("T")
DUCKDB = "duckdb:"
POSTGRES = ("postgresql://", "postgres://")
ROWS_AT_ONCE = 1 << 18
BROKEN = "the query failed while its rows were read: a value cannot be converted or computed"
# What PostgreSQL's codes mean to whoever typed the query; a code of two characters is a class.
SQLSTATES = {
    "42601": "it is not one SELECT that PostgreSQL understands",
    "42P01": "there is no table of a name in it",
    "42703": "there is no column of a name in it",
    "42883": "there is no function or operator for its types",
    "42501": "this user may not read what it names",
    "42": "it does not fit the tables and their types",
    "25006": "it would change something, and dpsu only reads",
    "57014": "the server canceled it",
}


@dataclass(frozen=True, repr=False)
class Query:
    """The rows of a query, as data for :func:`dpsu.release`, :func:`dpsu.ngrams` and the others.

    Parameters
    ----------
    source : str
        ``"duckdb:FILE"``, opened for reading only, or ``"postgresql://user@host/database"`` (needs
        ``pip install 'dpsu[postgres]'``), read in a transaction that cannot write. Leave passwords
        to libpq: PGPASSWORD, a password file or a service.
    query : str
        One SELECT; `user`, `item`, `text` and `count` name columns of its result.

    Privacy
    -------
    Rows are as private as any; the query must treat one user's rows without regard to others'
    (no global ranks, deduplication or sampling across users), like any step before a release.

    Cost
    ----
    That of the query. Its result is streamed and never held as a whole.

    Examples
    --------
    >>> import dpsu, duckdb, pathlib, tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = pathlib.Path(folder.name) / "shop.db"
    >>> with duckdb.connect(file) as shop:
    ...     _ = shop.execute("create table visits as select range // 2 as person from range(999)")
    >>> visits = dpsu.Query(f"duckdb:{file}", "select person, 'bread' as product from visits")
    >>> dpsu.release(visits, user="person", item="product", epsilon=1, delta=1e-6).items
    ('bread',)
    >>> folder.cleanup()
    """

    source: str
    query: str

    def __post_init__(self) -> None:
        if not isinstance(self.source, str) or not self.source.startswith((DUCKDB, *POSTGRES)):
            # Whatever it is, it may contain a password.
            raise ParameterError("source must be duckdb:FILE or postgresql://user@host/database")
        if not isinstance(self.query, str) or not self.query.strip():
            raise ParameterError("query is empty; give one SELECT")

    def __repr__(self) -> str:
        return f"Query({self.shown!r}, {self.query!r})"

    @property
    def shown(self) -> str:
        """The source without user, password and options."""
        if self.source.startswith(DUCKDB):
            return self.source
        with contextlib.suppress(ValueError):
            parts = urlsplit(self.source)
            return f"postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
        return "postgresql://..."

    @property
    def rows(self) -> str:
        """The query as a table inside another; the line break ends a comment at its end."""
        return f"({self.query.rstrip().rstrip(';')}\n) AS rows"

    def refuse_early(self) -> None:
        """Refuse what needs no connection to be refused."""
        if self.source.startswith(DUCKDB):
            load("duckdb")
            file = Path(self.source.removeprefix(DUCKDB))
            if not file.is_file():
                raise ParameterError(f"there is no file {str(file)!r}")
        else:
            _postgres()

    def tables(self, columns: Sequence[str]) -> Iterator[ReadTable]:
        """Run the query and read the wanted columns of its result, batch by batch."""
        from dpsu.inputs.textual import tables_of

        self.refuse_early()
        reading = contextlib.ExitStack()
        opened = False
        try:
            open_ = _open_duckdb if self.source.startswith(DUCKDB) else _open_postgres
            reader = open_(self, columns, reading)
            opened = True
        finally:
            if not opened:
                _close(reading)

        def batches() -> Iterator[ReadTable]:
            import pyarrow as pa

            with contextlib.ExitStack() as last:
                last.callback(_close, reading)
                # An empty one first: a column without rows has a type all the same.
                yield lambda: pa.Table.from_batches([], reader.schema)
                yield from tables_of(reader, BROKEN)

        return batches()


def _open_duckdb(query: Query, columns: Sequence[str], reading: contextlib.ExitStack) -> Any:
    import duckdb

    file = query.source.removeprefix(DUCKDB)
    connection = _explained(
        # Without a folder to spill to, nothing of the data is written anywhere.
        lambda: duckdb.connect(file, read_only=True, config={"temp_directory": ""}),
        lambda error: DataError(
            f"{Path(file).name!r} cannot be opened: it is no DuckDB database of a version this "
            "DuckDB reads, or another process is writing it"
        ),
    )
    reading.callback(connection.close)
    statements = _explained(
        lambda: connection.extract_statements(query.query),
        lambda error: ParameterError(f"query: {str(error).splitlines()[0]}"),
    )
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ParameterError("query must be one SELECT")

    def explain(error: Exception) -> DpsuError:
        if isinstance(error, duckdb.OutOfMemoryException):
            return ResourceError("DuckDB has too little memory for the query")
        if isinstance(error, duckdb.CatalogException):
            return ParameterError("query: there is no table or function of a name in it")
        if isinstance(error, duckdb.BinderException):
            return ParameterError("query: there is no column of a name in it, or types do not fit")
        return DataError(BROKEN)

    relation = _explained(lambda: connection.sql(query.query), explain)
    _pick(columns, relation.columns)

    def read() -> Any:
        wanted = connection.sql(f"SELECT {_quoted(columns)} FROM {query.rows}")
        # Older versions of DuckDB have the second name only.
        name = "to_arrow_reader" if hasattr(wanted, "to_arrow_reader") else "fetch_arrow_reader"
        return getattr(wanted, name)(ROWS_AT_ONCE)

    return _explained(read, explain)


def _open_postgres(query: Query, columns: Sequence[str], reading: contextlib.ExitStack) -> Any:
    postgres = _postgres()
    connection = _explained(
        lambda: postgres.connect(query.source),
        lambda error: DataError(
            f"cannot connect to {query.shown!r}: is the server there, and may this user log in?"
        ),
    )
    reading.callback(connection.close)
    cursor = connection.cursor()
    reading.callback(cursor.close)

    # Inside a SELECT no other kind of statement will do: COPY writes files, even in a transaction
    # that only reads.
    def ask() -> list[str]:
        cursor.execute("SET TRANSACTION READ ONLY")
        return list(cursor.adbc_execute_schema(f"SELECT * FROM {query.rows}").names)

    def run() -> Any:
        cursor.execute(f"SELECT {_quoted(columns)} FROM {query.rows}")
        return cursor.fetch_record_batch()

    def explain(error: Exception) -> DpsuError:
        code = str(getattr(error, "sqlstate", None) or "")
        told = SQLSTATES.get(code) or SQLSTATES.get(code[:2])
        return DataError(BROKEN) if told is None else ParameterError(f"query: {told}")

    _pick(columns, _explained(ask, explain))
    reader = _explained(run, explain)
    reading.callback(reader.close)
    return reader


def _pick(columns: Sequence[str], existing: Sequence[str]) -> None:
    from dpsu.inputs.columns import pick

    pick(columns, existing, "the query")
    for name in columns:
        if list(existing).count(name) > 1:
            raise ParameterError(f"the query has more than one column {name!r}; rename them")


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)


def _postgres() -> Any:
    for module in ("adbc_driver_manager", "adbc_driver_postgresql"):
        load(module, "postgres")
    return load("adbc_driver_postgresql.dbapi", "postgres")


def _explained(call: Callable[[], T], explain: Callable[[Exception], DpsuError]) -> T:
    """Run `call`; if it fails, raise what `explain` makes of it, and nothing behind that."""
    try:
        return call()
    except (DpsuError, MemoryError):
        raise
    except Exception as error:
        told = explain(error)
    raise told


def _close(reading: contextlib.ExitStack) -> None:
    """Close all, quietly: a connection that broke says so when it is closed, in its own words."""
    with contextlib.suppress(Exception):
        reading.close()
