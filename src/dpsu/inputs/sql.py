"""Rows that a database computes: the result of one query, streamed as Arrow record batches.

Databases quote cells in their errors ("invalid input syntax for type integer: ..."), so that
their messages are never repeated, with one exception: a parser sees nothing but the typed text. For
all other errors, our message follows from the kind of the error.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from dpsu.errors import (
    INPUT,
    TRY_AGAIN,
    DataError,
    DpsuError,
    ParameterError,
    ResourceError,
    option_error,
)
from dpsu.inputs.columns import collation_error, pick, sql_of_one_spelling
from dpsu.runtime.extras import load

if TYPE_CHECKING:
    from dpsu.contributions.id_columns import Column
    from dpsu.inputs.delimited import ReadTable

T = TypeVar("T")
DUCKDB = "duckdb:"
POSTGRES = ("postgresql://", "postgres://")
ROWS_AT_ONCE = 1 << 18
# Standard output is for items, so that a query must not print its progress there. Texts of one
# batch may have more than 2 GB.
SETTINGS = (
    "SET enable_progress_bar = false",
    "SET enable_progress_bar_print = false",
    "SET arrow_large_buffer_size = true",
)
BROKEN = (
    "the query failed while its rows were read: a value cannot be converted or computed, or the "
    "database ended the query"
)
LOST = (
    "the server went away while the query ran: it was stopped, or the connection was lost. Nothing "
    "is wrong with the query; release again when the server is back"
)
# Whether PostgreSQL takes texts of a column as equal only if their bytes are; no row is read. Texts
# may be inside of arrays, domains and rows. Texts of the type bpchar differ in blanks at their end;
# where they are not inside of rows, they are read without these.
COLLATION = """(
    WITH RECURSIVE parts(type, collated, inside) AS (
        SELECT pg_typeof(cell)::oid, pg_collation_for(cell::text)::regcollation::oid, false
        FROM (SELECT (SELECT {name} FROM {rows} LIMIT 0) AS cell) AS cells
        UNION
        SELECT more.* FROM parts JOIN pg_type ON pg_type.oid = type, LATERAL (
            SELECT typelem, collated, inside WHERE typcategory = 'A'
            UNION ALL
            SELECT typbasetype, typcollation, inside WHERE typtype = 'd'
            UNION ALL
            SELECT atttypid, attcollation, true FROM pg_attribute
            WHERE typtype = 'c' AND attrelid = typrelid AND attnum > 0 AND NOT attisdropped
        ) AS more
    )
    SELECT bool_and(
        coalesce(collisdeterministic, true) AND typname <> 'citext'
        AND NOT (inside AND typname = 'bpchar')
    )
    FROM parts JOIN pg_type ON pg_type.oid = type
    LEFT JOIN pg_collation ON pg_collation.oid = collated
)"""
# Under which the driver tells the type of a column.
TYPE_NAME = b"POSTGRESQL:type"
# What PostgreSQL's codes mean to the person who typed the query; two characters name a class.
SQLSTATES = {
    "42601": "it is not one SELECT that PostgreSQL understands",
    "42P01": "there is no table of a name in it",
    "42703": "there is no column of a name in it",
    "42883": "there is no function or operator for its types",
    "42501": "this user may not read what it names",
    "42": "it does not fit the tables and their types",
    "25006": "it would change something, and dpsu only reads",
    "53": "the server is short of memory, disk or connections",
    "57014": "the server canceled it",
}
# Classes of codes that another run may not meet: resources, and what an operator does.
PASSING = ("53", "57")


@dataclass(frozen=True, repr=False)
class Query:
    """The rows of a query, as data for :func:`dpsu.release` and everything else that takes data.

    Parameters
    ----------
    source : str
        ``"duckdb:FILE"``, opened for reading only, or ``"postgresql://user@host/database"`` (needs
        ``pip install 'dpsu[postgres]'``), read in a transaction that cannot write. Leave passwords
        to libpq: PGPASSWORD, a password file or a service.
    query : str
        One SELECT; the columns that are named elsewhere are columns of its result.

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
            raise option_error("source", "must be duckdb:FILE or postgresql://user@host/database")
        if not isinstance(self.query, str) or not self.query.strip():
            raise option_error("query", "is empty; give one SELECT")

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
        """The query as a subquery; the line break ends a comment at its end."""
        return f"({self.query.rstrip().rstrip(';')}\n) AS rows"

    def _refuse_early(self) -> None:
        """Refuse what needs no connection to be refused."""
        if self.source.startswith(DUCKDB):
            load("duckdb")
            file = Path(self.source.removeprefix(DUCKDB))
            if not file.is_file():
                raise ParameterError(f"there is no file {str(file)!r}")
        else:
            _postgres()

    def _check_columns(self, columns: Sequence[Column]) -> None:
        """Refuse what the schema of the result says is wrong; none of its rows is read."""
        self._refuse_early()
        with _closed_at_the_end(contextlib.ExitStack()) as reading:
            self._open(columns, reading)

    def _open(
        self, columns: Sequence[Column], reading: contextlib.ExitStack
    ) -> tuple[Callable[[], Any], Callable[[], DataError]]:
        """Connect and check the columns.

        Returns a function that starts reading, and one that says why reading failed.
        """
        from dpsu.inputs.keyed import check_types

        open_ = _open_duckdb if self.source.startswith(DUCKDB) else _open_postgres
        schema, read, explain = open_(self, columns, reading)
        check_types(columns, schema)
        return read, explain

    def _tables(self, columns: Sequence[Column]) -> Iterator[ReadTable]:
        """Run the query and read the wanted columns of its result, batch by batch."""
        from dpsu.inputs.delimited import tables_of

        self._refuse_early()
        with _closed_at_the_end(contextlib.ExitStack()) as opening:
            read, explain = self._open(columns, opening)
            reader, reading = read(), opening.pop_all()

        def batches() -> Iterator[ReadTable]:
            import pyarrow as pa

            with _closed_at_the_end(reading):
                # An empty table first, because a column without rows has a type, too.
                yield lambda: pa.Table.from_batches([], reader.schema)
                with contextlib.suppress(DataError):
                    yield from tables_of(reader, BROKEN)
                    return
                # Out of its context: what stands there may be read by others.
                raise explain()

        return batches()


def _query_error(problem: str, exit_code: int = INPUT) -> ParameterError:
    return ParameterError(f"{{query}}: {problem}", exit_code=exit_code, query=...)


def _open_duckdb(
    query: Query, columns: Sequence[Column], reading: contextlib.ExitStack
) -> tuple[Any, Callable[[], Any], Callable[[], DataError]]:
    import duckdb

    from dpsu.inputs.frames import refuse_what_arrow_hides

    file = query.source.removeprefix(DUCKDB)
    connection = _explained(
        # Without a folder for temporary files, no data is written to disk.
        lambda: duckdb.connect(file, read_only=True, config={"temp_directory": ""}),
        lambda error: DataError(
            f"{Path(file).name!r} cannot be opened: it is no DuckDB database of a version this "
            "DuckDB reads, or another process is writing it"
        ),
    )
    reading.callback(connection.close)
    for setting in SETTINGS:
        connection.execute(setting)
    statements = _explained(
        lambda: connection.extract_statements(query.query),
        lambda error: _query_error(str(error).splitlines()[0]),
    )
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise option_error("query", "must be one SELECT")

    def explain(error: Exception) -> DpsuError:
        if isinstance(error, duckdb.OutOfMemoryException):
            return ResourceError("DuckDB has too little memory for the query")
        if isinstance(error, duckdb.CatalogException):
            return _query_error("there is no table or function of a name in it")
        if isinstance(error, duckdb.BinderException):
            return _query_error("there is no column of a name in it, or types do not fit")
        return DataError(BROKEN)

    relation = _explained(lambda: connection.sql(query.query), explain)
    names = pick(columns, relation.columns, "the query")
    refuse_what_arrow_hides(relation, names)

    def read(rows: str) -> Any:
        wanted = connection.sql(f"SELECT {_quoted(names)} FROM {rows}")
        # Older versions of DuckDB have the second name only.
        name = "to_arrow_reader" if hasattr(wanted, "to_arrow_reader") else "fetch_arrow_reader"
        return getattr(wanted, name)(ROWS_AT_ONCE)

    # A query without rows has a schema, too.
    schema = _explained(lambda: read(f"{query.rows} LIMIT 0"), explain).schema
    return schema, lambda: _explained(lambda: read(query.rows), explain), lambda: DataError(BROKEN)


def _open_postgres(
    query: Query, columns: Sequence[Column], reading: contextlib.ExitStack
) -> tuple[Any, Callable[[], Any], Callable[[], DataError]]:
    postgres = _postgres()
    connection = _explained(
        lambda: postgres.connect(query.source),
        lambda error: DataError(
            f"cannot connect to {query.shown!r}: is the server there, and may this user log in?",
            exit_code=TRY_AGAIN,
        ),
    )
    reading.callback(connection.close)
    cursor = connection.cursor()
    reading.callback(cursor.close)

    # Inside a SELECT no other kind of statement is allowed: COPY would write files, even in a
    # transaction that only reads.
    def ask() -> Any:
        cursor.execute("SET TRANSACTION READ ONLY")
        return cursor.adbc_execute_schema(f"SELECT * FROM {query.rows}")

    def run() -> Any:
        selected = ", ".join(_expression(schema.field(name)) for name in names)
        cursor.execute(f"SELECT {selected} FROM {query.rows}")
        reader = cursor.fetch_record_batch()
        reading.callback(reader.close)
        return reader

    def explain_reading() -> DataError:
        try:
            # A connection that is there can do this, whatever became of the query.
            connection.rollback()
        except Exception:
            return DataError(LOST, exit_code=TRY_AGAIN)
        return DataError(BROKEN)

    def explain(error: Exception) -> DpsuError:
        code = str(getattr(error, "sqlstate", None) or "")
        problem = SQLSTATES.get(code) or SQLSTATES.get(code[:2])
        if problem is None:
            return explain_reading()
        return _query_error(problem, TRY_AGAIN if code[:2] in PASSING else INPUT)

    def ask_collations() -> Any:
        asked = (COLLATION.format(name=_quoted([name]), rows=query.rows) for name in names)
        cursor.execute(f"SELECT {', '.join(asked)}")
        found: tuple[bool, ...] = cursor.fetchone()
        return found

    schema = _explained(ask, explain)
    names = pick(columns, schema.names, "the query")
    for name, by_bytes in zip(names, _explained(ask_collations, explain), strict=True):
        if not by_bytes:
            raise collation_error(name, sql_of_one_spelling(name, "lower"))
    return _as_text(schema), lambda: _explained(run, explain), explain_reading


def _quoted(columns: Sequence[str]) -> str:
    return ", ".join('"{}"'.format(name.replace('"', '""')) for name in columns)


def _as_text(schema: Any) -> Any:
    """A schema of PostgreSQL in which columns that Arrow has no type for are text."""
    import pyarrow as pa

    texts = {None: None, "text": pa.string(), "text[]": pa.list_(pa.string())}
    return pa.schema([(each.name, texts[_text_type(each)] or each.type) for each in schema])


def _text_type(field: Any) -> str | None:
    """The type that a column is converted to by PostgreSQL.

    Enumerations, addresses and numerics are converted, and texts that differ in blanks at their
    end, which are equal there.
    """
    import pyarrow as pa

    type_ = field.type
    if pa.types.is_list(type_):
        return None if _text_type(type_.value_field) is None else "text[]"
    if (field.metadata or {}).get(TYPE_NAME) == b"bpchar":
        return "text"
    extended = isinstance(type_, pa.BaseExtensionType)
    return "text" if extended and not isinstance(type_, pa.UuidType) else None


def _expression(field: Any) -> str:
    """A column for a SELECT of PostgreSQL; numbers are written without zeros at their end."""
    import pyarrow as pa

    name, converted = _quoted([field.name]), _text_type(field)
    cell = name
    if pa.types.is_list(field.type):
        # Elements of an array may be numbered from anywhere; the driver takes some numbers only. A
        # slice is numbered from 1.
        cell = f"{name}[:]"
    elif getattr(field.type, "type_name", None) == "numeric":
        cell = f"trim_scale({name})"
    return f"{cell}{'' if converted is None else f'::{converted}'} AS {name}"


def _postgres() -> Any:
    for module in ("adbc_driver_manager", "adbc_driver_postgresql"):
        load(module, "postgres")
    return load("adbc_driver_postgresql.dbapi", "postgres")


def _explained(call: Callable[[], T], explain: Callable[[Exception], DpsuError]) -> T:
    """Run `call`; if it fails, raise the error that `explain` returns, without a cause."""
    try:
        return call()
    except (DpsuError, MemoryError):
        raise
    except Exception as error:
        failure = explain(error)
    raise failure


@contextlib.contextmanager
def _closed_at_the_end(reading: contextlib.ExitStack) -> Iterator[contextlib.ExitStack]:
    """Close everything and ignore errors: those of a broken connection may quote data."""
    try:
        yield reading
    finally:
        with contextlib.suppress(Exception):
            reading.close()
