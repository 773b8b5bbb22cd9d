"""`dpsu mechanisms`: one line each."""

from __future__ import annotations

import click

from dpsu.cli.streams import to_stdout
from dpsu.plans.mechanisms import AUTO, MECHANISMS


@click.command()
def mechanisms() -> None:
    """List the mechanisms."""
    width = max(len(name) for name in MECHANISMS)
    told = {name: mechanism.summary for name, mechanism in MECHANISMS.items()}
    told[AUTO] = "the best of these for users as expected, or as estimated privately"
    to_stdout("".join(f"{name:<{width}}  {summary}\n" for name, summary in told.items()))
