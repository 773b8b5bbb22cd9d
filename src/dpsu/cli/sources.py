"""Where rows come from in the shell: files, or a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

import dpsu

Command = Callable[..., Any]


def source_options(command: Command) -> Command:
    """A database and a query, instead of files."""
    for option in reversed(
        (
            click.option(
                "--source",
                metavar="DATABASE",
                help="Instead of FILE: duckdb:FILE, or postgresql://user@host/database (passwords "
                "by PGPASSWORD or a password file).",
            ),
            click.option("--query", metavar="SQL", help="With --source: one SELECT."),
        )
    ):
        command = option(command)
    return command


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
