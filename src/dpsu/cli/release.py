"""`dpsu release`: from files to items."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options, once_option
from dpsu.cli.cluster import engine_options, refuse_for_local, release_on_spark
from dpsu.cli.options import (
    READ_TOO,
    format_option,
    plan_file_option,
    plan_options,
    planned,
    result_options,
)
from dpsu.cli.places import Places
from dpsu.cli.results import LINES, Form
from dpsu.cli.sources import source_options
from dpsu.cli.streams import to_stderr
from dpsu.ledger.spending import Spending
from dpsu.plans.mechanisms import Auto


@click.command("release")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@plan_file_option
@plan_options
@format_option
@engine_options
@result_options()
@ledger_options
@once_option
def release_command(
    files: tuple[str, ...], engine: str, plan_file: Path | None, once: str | None, **options: Any
) -> None:
    """Release the items of FILE... (parquet, csv, tsv, jsonl; .gz and .zst too; - is stdin).

    FILE may also be a folder, a quoted glob or a pipe, or be replaced by --source and --query. What
    comes from a pipe is CSV if neither its name nor --format says otherwise. Items go to standard
    output, one per line, sorted; backslashes and line breaks inside an item are escaped.
    """
    read = [options[name] for name in READ_TOO if options[name]]
    release_typed(files, engine, plan_file, once, options, read, planned)


def release_typed(
    files: tuple[str, ...],
    engine: str,
    plan_file: Path | None,
    once: str | None,
    options: dict[str, Any],
    read: Sequence[str],
    made_of: Callable[..., dict[str, Any]],
    form: Form = LINES,
) -> None:
    """Release by what was typed; `made_of` makes arguments of it, as :func:`planned` does."""
    places = Places.taken(options)
    read = [*read, *([] if plan_file is None else [str(plan_file)])]

    def make() -> dict[str, Any]:
        if engine == "local":
            refuse_for_local(options)
        made = made_of(options, plan_file, quiet=places.quiet)
        if places.ledger is not None and not places.quiet:
            _tell_sums_only(made)
        return made

    def release(data: Any, made: dict[str, Any], spending: Spending, progress: Any) -> dpsu.Release:
        spending.once = once
        if engine == "spark":
            found = release_on_spark(files, made, options | {"ledger": spending})
        else:
            found = dpsu.release(data, progress=progress, ledger=spending, **made, **options)
        if spending.repeated and not places.quiet:
            to_stderr(f"note: {once} was released {found.run.time}; nothing was read or charged")
        return found

    places.released(files, read, make, release, form)


def _tell_sums_only(made: dict[str, Any]) -> None:
    """Tell whoever begins a ledger with auto what that means for the releases to come."""
    mechanism = made["plan"].mechanism if "plan" in made else made["mechanism"]
    if mechanism is None or (isinstance(mechanism, Auto) and mechanism.hints is None):
        to_stderr(
            "note: auto pays for an estimate, so that the ledger adds its releases up by sums; if "
            "there will be many, name --mechanism sieve from the first on, of which more fit"
        )
