"""`dpsu mechanisms`: one line each."""

from __future__ import annotations

import click

from dpsu.cli.streams import to_stdout
from dpsu.plans.mechanisms import MECHANISMS


@click.command("mechanisms")
def mechanisms_command() -> None:
    """List the mechanisms."""
    summaries = {kind.name: kind.summary for kind in MECHANISMS.values()}
    width = max(map(len, summaries))
    to_stdout("".join(f"{name:<{width}}  {summary}\n" for name, summary in summaries.items()))
