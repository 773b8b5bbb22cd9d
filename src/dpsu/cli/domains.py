"""`dpsu domains`: from tables to the values of their columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options, once_option
from dpsu.cli.cluster import engine_options
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
from dpsu.cli.release import release_typed
from dpsu.cli.results import Form
from dpsu.cli.sources import source_options
from dpsu.cli.streams import a_terminal
from dpsu.cli.values import planned_values, values_options
from dpsu.codebook_forms import SUFFIXES, writer
from dpsu.inputs.columns import Users
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
@added(*(flag.made() for flag in flags_of(Users)))
@values_options
@mechanism_options(without=("prior", "longest", "shares", "spurious"))
@counts_options
@seed_option
@format_option
@engine_options
@result_options("values to a .csv, .parquet")
@ledger_options
@once_option
def domains_command(
    files: tuple[str, ...], engine: str, plan_file: Path | None, once: str | None, **options: Any
) -> None:
    """Release the values of many columns of FILE... at once, under one epsilon and delta.

    Values go to standard output as JSON, from each column to its values. FILE as for `dpsu
    release`: parquet, csv, tsv, jsonl; - is stdin. Missing cells are no values.
    """
    release_typed(files, engine, plan_file, once, options, [], planned_values, BY_COLUMN)
