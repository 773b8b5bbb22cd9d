"""`dpsu ngrams`: from texts to n-grams, length by length."""

from __future__ import annotations

from typing import Any

import click

import dpsu
from dpsu.cli.charges import ledger_options
from dpsu.cli.cluster import engine_options, refuse_for_local
from dpsu.cli.options import (
    added,
    flags_of,
    format_option,
    planned,
    promise_options,
    result_options,
    seed_option,
)
from dpsu.cli.release import release_typed
from dpsu.cli.results import warnings_after_output
from dpsu.cli.sources import source_options
from dpsu.cli.streams import to_stdout
from dpsu.inputs.columns import Users
from dpsu.inputs.tokens import Tokens
from dpsu.plans.mechanisms import NGrams

DEFAULT_TEXT = "text"


@click.command("ngrams")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@promise_options
@added(*(flag.made() for flag in flags_of(Users, Tokens, NGrams) if flag.name != "ngrams"))
@seed_option
@click.option("--dry-run", is_flag=True, help="Print the plan and read nothing.")
@format_option
@engine_options
@result_options()
@ledger_options
def ngrams_command(files: tuple[str, ...], dry_run: bool, engine: str, **options: Any) -> None:
    """Release the n-grams of the texts in FILE..., longer ones only of released shorter ones.

    Lengths above 1 have a few n-grams that nobody holds among them, so that no n-gram proves that
    somebody wrote it. FILE as for `dpsu release`, of which this is --mechanism ngrams; its --ngrams
    is the alternative.
    """
    options |= {"mechanism": NGrams.name, "text": options["text"] or DEFAULT_TEXT}
    if dry_run:
        if engine == "local":
            refuse_for_local(options)
        with warnings_after_output():
            to_stdout(f"{dpsu.plan(**planned(options))}\n")
        return
    read = [options["tokenizer"]] if options["tokenizer"] else []
    release_typed(files, engine, None, None, options, read, planned)
