"""What comes of a column of each type in each library: the table of the guide on columns."""

from __future__ import annotations

import contextlib
import datetime
import decimal
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

import dpsu
import dpsu.spark
from tests.support import servers

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "columns.md"
USERS = 150
SETTINGS: dict[str, Any] = {"epsilon": 5, "delta": 1e-4, "mechanism": "weighted-gaussian"}
NOON = datetime.datetime(2024, 2, 29, 12)
IDS = [uuid.UUID(int=5).bytes, uuid.UUID(int=6).bytes]
TYPES: dict[str, pa.Array] = {
    "text": pa.array(["x", "y"]),
    "integers": pa.array([1, 2], pa.int16()),
    "unsigned 64-bit integers": pa.array([1, 2**64 - 1], pa.uint64()),
    "booleans": pa.array([True, False]),
    "dates": pa.array([NOON.date(), datetime.date(2000, 1, 1)]),
    "timestamps": pa.array([NOON, datetime.datetime(2000, 1, 1)], pa.timestamp("us")),
    "timestamps with zone": pa.array([0, 1], pa.timestamp("us", "UTC")),
    "times": pa.array([NOON.time(), datetime.time(1)], pa.time64("us")),
    "decimals": pa.array([decimal.Decimal("1.50"), decimal.Decimal("2.50")], pa.decimal128(9, 2)),
    "UUIDs": pa.array(IDS, pa.uuid()),
    "bytes": pa.array([b"\xff", b"a"]),
    "categories, enums": pa.array(["x", "y"]).dictionary_encode(),
    "lists of text": pa.array([["x"], ["x", "y"]]),
    "structs": pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]),
    "floats": pa.array([0.5, 1.5]),
    "durations": pa.array([1, 2], pa.duration("us")),
}
# How a database writes two values of a type.
SQL: dict[str, tuple[str, str]] = {
    "text": ("'x'", "'y'"),
    "integers": ("1::smallint", "2::smallint"),
    "booleans": ("true", "false"),
    "dates": ("date '2024-02-29'", "date '2000-01-01'"),
    "timestamps": ("timestamp '2024-02-29 12:00:00'", "timestamp '2000-01-01 00:00:00'"),
    "timestamps with zone": ("timestamptz '1970-01-01 00:00:00Z'", "timestamptz '2000-01-01 00:00:00Z'"),
    "times": ("time '12:00:00'", "time '01:00:00'"),
    "decimals": ("1.50::numeric(9, 2)", "2.50::numeric(9, 2)"),
    "UUIDs": (f"'{uuid.UUID(int=5)}'::uuid", f"'{uuid.UUID(int=6)}'::uuid"),
    "categories, enums": ("'x'::mood", "'y'::mood"),
    "floats": ("0.5::float8", "1.5::float8"),
    "durations": ("interval '1 day'", "interval '2 days'"),
}  # fmt: skip
OWN_SQL: dict[str, dict[str, tuple[str, str]]] = {
    "DuckDB": {
        "unsigned 64-bit integers": ("1::ubigint", f"{2**64 - 1}::ubigint"),
        "bytes": ("'ab'::blob", "'b'::blob"),
        "lists of text": ("['x']", "['x', 'y']"),
        "structs": ("{'a': 1, 'b': 'x'}", "{'a': 2, 'b': 'y'}"),
    },
    "PostgreSQL": {
        "bytes": ("'ab'::bytea", "'b'::bytea"),
        "lists of text": ("array['x']", "array['x', 'y']"),
    },
}
ENUM = "create type mood as enum ('x', 'y')"
NAMES = {
    "large_string": "text", "large_binary": "bytes", "int64": "integer", "uint64": "integer", "bool": "boolean", "date32[day]": "date",
    "timestamp": "timestamp", "time64": "time", "decimal128": "decimal", "binary": "bytes",
    "extension<arrow.uuid>": "UUID", "struct": "columns",
}  # fmt: skip
Made = Callable[[str], Any]


def table(name: str) -> pa.Table:
    """Two values for each user."""
    rows = pa.array([row % 2 for row in range(2 * USERS)])
    kept = TYPES[name]
    column = pa.concat_arrays([kept] * USERS) if name == "UUIDs" else kept.take(rows)
    return pa.table({"user": [row // 2 for row in range(2 * USERS)], "item": column})


def _polars(name: str) -> Any:
    return None if name == "UUIDs" else pl.from_arrow(table(name))


def _pandas(name: str) -> Any:
    """As people have them: dates, times and decimals are Python objects."""
    if name == "UUIDs":
        cells = [uuid.UUID(bytes=IDS[row % 2]) for row in range(2 * USERS)]
        return pd.DataFrame({"user": table(name)["user"].to_pandas(), "item": cells})
    return table(name).to_pandas()


def _query(library: str, uri: str) -> Made:
    def made(name: str) -> Any:
        cells = (SQL | OWN_SQL[library]).get(name)
        if cells is None:
            return None
        case = f"case when n % 2 = 0 then {cells[0]} else {cells[1]} end"
        numbers = f"generate_series(0, {2 * USERS - 1}) as numbers(n)"
        return dpsu.Query(
            uri, f'select cast(n / 2 as int) as "user", {case} as item from {numbers}'
        )

    return made


@contextlib.contextmanager
def library(name: str, folder: Path, spark: Any = None) -> Iterator[Made | None]:
    """What makes a column of a type in a library; None if the library cannot be had here."""
    simple: dict[str, Made] = {"Arrow": table, "Polars": _polars, "pandas": _pandas}
    if name in simple:
        yield simple[name]
    elif name == "Parquet":

        def written(kind: str) -> Path:
            pyarrow.parquet.write_table(table(kind), folder / "x.parquet")
            return folder / "x.parquet"

        yield written
    elif name == "DuckDB":
        with duckdb.connect(folder / "types.db") as connection:
            connection.execute(ENUM)
        yield _query(name, f"duckdb:{folder / 'types.db'}")
    elif name == "PostgreSQL":
        with servers.postgres() as uri:
            if uri is None:
                yield None
                return
            from adbc_driver_postgresql import dbapi

            with dbapi.connect(uri, autocommit=True) as opened, opened.cursor() as cursor:
                cursor.execute(ENUM)
            yield _query(name, uri)
    else:
        yield None if spark is None else lambda kind: _on_spark(spark, kind)


def _on_spark(spark: Any, name: str) -> Any:
    if name in ("UUIDs", "times", "categories, enums"):
        return None
    made = table(name)
    if name == "unsigned 64-bit integers":
        # As Spark reads them from Parquet.
        made = made.set_column(1, "item", made["item"].cast(pa.decimal128(20, 0)))
    frame = spark.createDataFrame(made)
    if name == "timestamps":
        return frame.withColumn("item", frame["item"].cast("timestamp_ntz"))
    return frame


LIBRARIES = ("pandas", "Polars", "Arrow", "Parquet", "DuckDB", "PostgreSQL", "Spark")


def outcome(data: Any) -> str:
    """What a column is released as, and whether it may be the users."""
    if data is None:
        return "-"
    as_item, as_user = _released(data, "user", "item"), _released(data, "item", "user")
    if as_item == as_user:
        return as_item
    return f"{as_item}; no users" if as_user in ("refused", "ignored") else as_item


def _released(data: Any, user: str, item: str) -> str:
    columns: dict[str, Any] = {"user": user, "item": item, "strict": True}
    on_spark = type(data).__module__.startswith("pyspark")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        try:
            if on_spark:
                made = dpsu.spark.release(data, **columns, partitions=1, **SETTINGS)
                released = made.released
            else:
                released = dpsu.release(data, **columns, **SETTINGS)
        except dpsu.DataError as error:
            said = str(error)
            # A refusal says what to do instead.
            # Cells that have no text are dropped with a warning, which strict makes an error.
            if "make columns of the entries of dicts" in said:
                return "ignored"
            fixes = ("round them", "convert it", "one row for each")
            return "refused" if any(fix in said for fix in fixes) else said
    if item == "item" and len(released) != 2:
        return "not both values"
    kind = str(released.values.type)
    return next(word for begun, word in NAMES.items() if kind.startswith(begun))


def outcomes(name: str, folder: Path, spark: Any = None) -> dict[str, str] | None:
    """The column of the table for a library."""
    with library(name, folder, spark) as made:
        return None if made is None else {kind: outcome(made(kind)) for kind in TYPES}


def documented() -> dict[str, dict[str, str]]:
    """The table of the guide, by library and type."""
    lines = [
        [cell.strip() for cell in line.strip("|\n ").split("|")]
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if line.startswith("|")
    ]
    start = next(at for at, cells in enumerate(lines) if cells[1:] == list(LIBRARIES))
    rows = {cells[0]: cells[1:] for cells in lines[start + 2 : start + 2 + len(TYPES)]}
    return {
        each: {kind: cells[at] for kind, cells in rows.items()} for at, each in enumerate(LIBRARIES)
    }
