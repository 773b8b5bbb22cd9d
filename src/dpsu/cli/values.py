"""Options that name the columns whose values are released."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import click

from dpsu.cli.options import Flags, added, flags_of, planned, take
from dpsu.errors import spelled_in_the_shell
from dpsu.inputs.columns import Items
from dpsu.inputs.tokens import Tokens
from dpsu.inputs.values import Values
from dpsu.options import options_of

LISTED = {"columns": "A,B,...", "levels": "A,B,...", "types": "A=TYPE,..."}


# The columns, levels of columns, and their types; each may be given again.
values_options = added(
    *(
        click.option(
            f"--{name}", name, multiple=True, default=None, metavar=metavar,
            help=options_of(Values)[name].help,
        )
        for name, metavar in LISTED.items()
    )
)  # fmt: skip


def planned_values(flags: Flags, file: Path | None, *, quiet: bool = False) -> dict[str, Any]:
    """Arguments of :func:`dpsu.release` for values: a plan in a file, or what flags say."""
    typed = {name: given for name, given in take(flags, LISTED).items() if given}
    if file is not None:
        for name in typed:
            raise click.UsageError(f"--plan decides --{name}; drop one of them")
        from dpsu.codebooks import refuse_other_items

        made = planned(flags, file)
        refuse_other_items(made["plan"])
        return made
    if "columns" not in typed and "levels" not in typed:
        raise click.UsageError("Missing option '--columns' (or '--levels').")
    for flag in flags_of(Items, Tokens):
        if flags.get(flag.name) is not None:
            raise click.UsageError(
                f"{spelled_in_the_shell(flag.name)} is for items of one kind, and --columns or "
                "--levels for values of many columns; drop one of them"
            )
    item = Values(
        columns=[name for given in typed.get("columns", ()) for name in _names("columns", given)],
        levels=[_names("levels", given) for given in typed.get("levels", ())],
        types=[pair for given in typed.get("types", ()) for pair in _types(given)],
    )
    return planned(flags, quiet=quiet) | {"item": item}


def planned_for_either(flags: Flags, file: Path | None) -> dict[str, Any]:
    """The same where items may be of one kind as well."""
    if any(flags[name] for name in LISTED):
        return planned_values(flags, file)
    take(flags, LISTED)
    return planned(flags, file)


def _names(option: str, given: str) -> list[str]:
    """Names with commas between them; one that has commas itself stands in quotes."""
    try:
        (names,) = csv.reader([given], strict=True)
    except (csv.Error, ValueError):
        raise click.UsageError(
            f"--{option} {given!r} is no list of columns; put commas between them, and quotes "
            "around names that have commas or quotes"
        ) from None
    if not all(names) or not names:
        raise click.UsageError(f"--{option} {given!r} has an empty name; put one comma between two")
    return names


def _types(given: str) -> list[tuple[str, str]]:
    pairs = [each.rpartition("=") for each in _names("types", given)]
    for name, _, _ in pairs:
        if not name:
            raise click.UsageError(f"--types {given!r} is not like age=integer,zip=text")
    return [(name, type_) for name, _, type_ in pairs]
