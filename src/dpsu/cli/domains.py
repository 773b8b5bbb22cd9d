"""`dpsu domains`: from tables to the values of their columns."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options, once_option
from dpsu.cli.cluster import engine_options, refuse_for_local, release_where
from dpsu.cli.options import (
    added,
    counts_options,
    flags_of,
    format_option,
    mechanism_options,
    plan_file_option,
    promise_options,
    result_options,
    seed_option,
)
from dpsu.cli.places import Places
from dpsu.cli.release import tell_sums_only
from dpsu.cli.results import Form
from dpsu.cli.sources import source_options
from dpsu.cli.streams import a_terminal
from dpsu.cli.values import planned_values, values_options
from dpsu.codebook_forms import SUFFIXES, writer
from dpsu.codebooks import refuse_other_items
from dpsu.inputs.columns import Users
from dpsu.ledger.spending import Spending
from dpsu.showing.characters import harmless


def _printed(found: dpsu.Release) -> str:
    text = dpsu.Domains(found).to_json()
    if not a_terminal():
        return text
    return "".join(f"{harmless(line)}\n" for line in text.splitlines())


BY_COLUMN = Form(
    SUFFIXES,
    lambda found, path, csv_safe: writer(dpsu.Domains(found), path, csv_safe=csv_safe),
    _printed,
)


@click.command("domains")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@plan_file_option
@promise_options
@partial(added, options=[flag.made() for flag in flags_of(Users)])
@values_options
@mechanism_options(without=("prior", "longest", "shares", "spurious"))
@counts_options
@seed_option
@format_option
@engine_options
@partial(result_options, written="values to a .csv, .parquet")
@ledger_options
@once_option
def domains_command(
    files: tuple[str, ...], engine: str, plan_file: Path | None, once: str | None, **options: Any
) -> None:
    """Release the values of many columns of FILE... at once, under one epsilon and delta.

    Values go to standard output as JSON, from each column to its values. FILE as for `dpsu
    release`: parquet, csv, tsv, jsonl; - is stdin. Missing cells are no values.
    """
    places = Places.taken(options)
    read = [] if plan_file is None else [str(plan_file)]

    def make() -> dict[str, Any]:
        if engine == "local":
            refuse_for_local(options)
        made = planned_values(options, plan_file, quiet=places.quiet)
        if "plan" in made:
            refuse_other_items(made["plan"])
        if places.ledger is not None and not places.quiet:
            tell_sums_only(made)
        return made

    def release(data: Any, made: dict[str, Any], spending: Spending, progress: Any) -> dpsu.Release:
        return release_where(
            engine, files, data, made, options, spending,
            once=once, progress=progress, quiet=places.quiet,
        )  # fmt: skip

    places.released(files, read, make, release, BY_COLUMN)
