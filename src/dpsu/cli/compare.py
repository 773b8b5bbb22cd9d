"""`dpsu compare`: all mechanisms on the curator's own data. NOT PRIVATE."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.options import (
    column_options,
    flags_of,
    format_option,
    items_of,
    promise_options,
    take,
    users_of,
)
from dpsu.cli.progress import shown_steps
from dpsu.cli.results import PAGES, print_warnings, put_in_place, told_warnings, writable
from dpsu.cli.sources import data_of, files_read, source_options
from dpsu.cli.streams import to_stdout
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.options import one_of
from dpsu.runtime.writing import PendingFile, text_writer
from dpsu.yields.forecasting import tried_mechanisms


@click.command("compare")
@click.argument("files", nargs=-1, metavar="[FILE...]")
@source_options
@promise_options
@column_options
@click.option("--mechanisms", metavar="A,B,...", help="Mechanisms to compare. Default all.")
@click.option("--max-items", metavar="N,M,...", help="Sizes of sets to try. Default each its own.")
@click.option("--runs", type=int, help="Keys to average over. Default 3 to 8.")
@click.option("--json", "as_json", type=click.Path(path_type=Path), help="Write all numbers.")
@click.option("--html", type=click.Path(path_type=Path), help="Write a page with plots.")
@click.option("--quiet", is_flag=True, help="Print no progress and no warnings.")
@click.option("--output", hidden=True)
@format_option
def compare_command(
    files: tuple[str, ...],
    source: str | None,
    query: str | None,
    mechanisms: str | None,
    max_items: str | None,
    as_json: Path | None,
    html: Path | None,
    quiet: bool,
    output: str | None,
    **options: Any,
) -> None:
    """Compare all mechanisms on the data in FILE... NOT PRIVATE: for the curator only.

    Shows expected yields, missing mass and coverage by number of holders, without noise. Item names
    are never written. Do not publish any of it; options chosen by looking at it are chosen by
    looking at the data. FILE as for `dpsu release`.
    """
    if output is not None:
        raise click.UsageError("compare never writes items, only numbers; to release items, use "
                               "`dpsu release`")  # fmt: skip
    data = data_of(files, source, query)
    read = [*files_read(files, source, None), options["tokenizer"]]
    writable(read, {"json": as_json, "html": html}, {"html": PAGES}, quiet=quiet)
    for name in ("epsilon", "delta"):
        if options[name] is None:
            raise click.UsageError(f"Missing option '--{name}'.")
    typed = take(options, [flag.name for flag in flags_of(Users, Items, Tokens)])
    columns: dict[str, Any] = {"user": users_of(typed), "item": items_of(typed)}
    tried = _mechanisms(mechanisms, max_items)
    with told_warnings() as caught, shown_steps("comparing", quiet) as progress:
        found = dpsu.compare(data, mechanisms=tried, progress=progress, **columns, **options)
    with ExitStack() as stack:
        named = {}
        for name, path in (("the numbers", as_json), ("the page", html)):
            if path is not None:
                text = found.to_json() + "\n" if path is as_json else found.to_html()
                # For the curator's eyes: nobody else may read the file.
                ready = PendingFile(path, text_writer(text), private=True)
                named[f"{name} in {str(path)!r}"] = ready
                stack.callback(ready.discard)
        put_in_place(named)
    to_stdout(f"{found}\n")
    if not quiet:
        print_warnings(caught)


def _mechanisms(typed: str | None, max_items: str | None) -> list[Any] | None:
    """What was named, or all of them; each for every size."""
    names = None if typed is None else [name.strip() for name in typed.split(",")]
    if max_items is None:
        return names
    try:
        sizes = [int(part) for part in max_items.split(",")]
    except ValueError:
        raise click.UsageError(
            f"--max-items {max_items!r} is not a list of whole numbers such as 30,100"
        ) from None
    names = tried_mechanisms() if names is None else names
    for name in names:
        one_of("mechanisms", name, tried_mechanisms())
    return [dpsu.mechanism(name, max_items=size) for name in names for size in sizes]
