"""Where rows come from in the shell: files, or a query."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import click

import dpsu
from dpsu.cli.options import added
from dpsu.inputs.formats import TABLE

# A database and a query, instead of files.
source_options = added(
    click.option(
        "--source",
        metavar="DATABASE",
        help="Instead of FILE: duckdb:FILE, or postgresql://user@host/database (passwords "
        "by PGPASSWORD or a password file).",
    ),
    click.option("--query", metavar="SQL", help="With --source: one SELECT."),
)


def files_read(files: Sequence[str], source: str | None, ledger: str | None) -> list[str]:
    """Every file that a run reads or keeps, so that none of them is taken for an output."""
    from dpsu.errors import ParameterError
    from dpsu.inputs.files import expand
    from dpsu.inputs.sql import DUCKDB

    read = list(files)
    for name in files:
        # What is wrong with names is said later, in the words for it.
        with contextlib.suppress(ParameterError):
            read += [str(path) for path in expand([name], TABLE)]
    if source is not None and source.startswith(DUCKDB):
        database = source.removeprefix(DUCKDB)
        read += [database, f"{database}.wal"]
    if ledger is not None:
        read += [ledger, *(f"{ledger}-{kind}" for kind in ("journal", "wal", "shm"))]
    return read


def data_of(files: tuple[str, ...], source: str | None, query: str | None) -> Any:
    """The data that was asked for: a list of files or a query."""
    if source is None and query is None:
        if not files:
            raise click.UsageError("Missing argument 'FILE...'.")
        return list(files)
    if source is None or query is None:
        raise click.UsageError("--source and --query go together")
    if files:
        raise click.UsageError("give FILE, or --source and --query, not both")
    return dpsu.Query(source, query)
