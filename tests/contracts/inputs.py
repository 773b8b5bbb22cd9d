"""The same rows in every form that a release takes."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet

import dpsu

Rows = list[tuple[Any, Any]]
USERS, COMMON, RARE = 120, 8, 40


def made_up_rows() -> Rows:
    """Users with common items, some of them twice, and rare items that may or may not come out."""
    rng = random.Random(11)
    rows: Rows = []
    for user in range(USERS):
        held = rng.sample(range(COMMON), rng.randint(1, 4))
        held += [COMMON + min(int(rng.paretovariate(0.7)), RARE) for _ in range(rng.randint(0, 4))]
        rows += [(f"u{user}", _word(item)) for item in held]
    rng.shuffle(rows)
    return rows


def _word(number: int) -> str:
    """One token of lower case, so that a text of such words has these items."""
    return "abcdefgh"[number // 8] * 2 + "ijklmnop"[number % 8]


def as_integers(rows: Rows) -> Rows:
    """The same users and items as integers."""
    numbers = {item: 7919 * at - 50 for at, item in enumerate(sorted({i for _, i in rows}))}
    return [(int(user[1:]), numbers[item]) for user, item in rows]


def as_texts(rows: Rows) -> Rows:
    """Two texts a user, whose tokens are the items."""
    texts = [
        (user, " ".join(part))
        for user, items in held(rows).items()
        for part in (items[::2], items[1::2])
    ]
    return [(user, text) for user, text in texts if text]


def held(rows: Rows) -> dict[Any, list[Any]]:
    """What every user holds."""
    found: dict[Any, list[Any]] = {}
    for user, item in rows:
        found.setdefault(user, []).append(item)
    return found


def table(rows: Rows, column: str = "item") -> pa.Table:
    """One row for each user and item."""
    return pa.table({"user": [user for user, _ in rows], column: [item for _, item in rows]})


def parquet(table: pa.Table, folder: Path) -> Path:
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(table, path, row_group_size=50)
    return path


def csv_file(table: pa.Table, folder: Path) -> Path:
    path = folder / "rows.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([table.column_names, *map(dict.values, table.to_pylist())])
    return path


def json_lines(table: pa.Table, folder: Path) -> Path:
    path = folder / "rows.jsonl"
    lines = [json.dumps({"other": None, **row}, default=str) for row in table.to_pylist()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def query(table: pa.Table, folder: Path) -> dpsu.Query:
    file = folder / "rows.duckdb"
    with duckdb.connect(file) as connection:
        connection.register("there", table)
        connection.execute("create table rows as select * from there")
    columns = ", ".join(f'"{name}"' for name in table.column_names)
    return dpsu.Query(f"duckdb:{file}", f"select {columns} from rows")


Form = Callable[[pa.Table, Path], Any]
# Columns of which the library knows the types, and others.
TYPED: dict[str, Form] = {
    "Arrow": lambda table, folder: table,
    "Arrow mapping": lambda table, folder: {name: table[name] for name in table.column_names},
    "Parquet": parquet,
    "pandas Arrow": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda table, folder: pl.from_arrow(table),
    "Polars, lazy": lambda table, folder: pl.DataFrame(table).lazy(),
    "DuckDB relation": lambda table, folder: duckdb.from_arrow(table),
    "DuckDB query": query,
}
UNTYPED: dict[str, Form] = {
    "CSV": csv_file,
    "JSON lines": json_lines,
    "pandas objects": lambda table, folder: pd.DataFrame(table.to_pydict(), dtype=object),
    "columns": lambda table, folder: table.to_pydict(),
}


def people() -> pa.Table:
    """Columns of all types, with names that need care; some cells and some users are missing."""
    rows, noon, day = range(600), datetime.datetime(2024, 2, 29, 12), datetime.timedelta(1)
    return pa.table(
        {
            "id": pa.array([at // 2 if at % 50 else None for at in rows], pa.int32()),
            "site": ["a\t" if at % 2 else "b\\" for at in rows],
            "kind": pa.array([at % 3 if at % 7 else None for at in rows], pa.int8()),
            "a.b `c`": ["e\u0301" if at % 3 else "\u00e9" for at in rows],
            "user": [at % 2 == 0 for at in rows],
            "born": [(noon + at % 3 * day).date() for at in rows],
            "local": pa.array([noon] * len(rows), pa.timestamp("us")),
            "instant": pa.array([noon] * len(rows), pa.timestamp("us", "UTC")),
            "price": [decimal.Decimal(f"{at % 4}.50") for at in rows],
            "part": [float("nan") if at % 5 == 0 else at % 4 / 2 for at in rows],
            "number": [str(at % 3) if at % 4 else "x" for at in rows],
            "raw": pa.array([b"\xff\x00" if at % 2 else b"" for at in rows], pa.binary()),
            "tags": [["x", f"t{at % 5}", None] if at % 6 else None for at in rows],
            "place": [{"name": "fr", "day": noon.date()} if at % 2 else None for at in rows],
            "city": [f"c{at % 40}" if at % 9 else None for at in rows],
        }
    )


INPUTS: dict[str, Callable[[Rows, str, Path], Any]] = {
    "mapping": lambda rows, column, folder: held(rows),
    "tuples": lambda rows, column, folder: rows,
    "generator": lambda rows, column, folder: iter(rows),
    "pandas": lambda rows, column, folder: table(rows, column).to_pandas(),
} | {
    name: lambda rows, column, folder, form=form: form(table(rows, column), folder)
    for name, form in (TYPED | UNTYPED).items()
    # A mapping may be one of users, too.
    if name not in ("Arrow mapping", "columns")
}
