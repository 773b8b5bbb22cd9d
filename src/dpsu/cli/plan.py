"""`dpsu plan`: the mechanism before it meets data."""

from __future__ import annotations

from typing import Any

import click

import dpsu
from dpsu.cli.options import mechanism_options


@click.command()
@mechanism_options
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(as_json: bool, **options: Any) -> None:
    """Show what a release would do and need, without reading any data."""
    made = dpsu.plan(**options)
    click.echo(made.to_json() if as_json else str(made))
