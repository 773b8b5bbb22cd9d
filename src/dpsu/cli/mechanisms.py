"""`dpsu mechanisms`: one line each."""

from __future__ import annotations

import click

from dpsu.mechanisms import AUTO, MECHANISMS


@click.command()
def mechanisms() -> None:
    """List the mechanisms."""
    width = max(len(name) for name in MECHANISMS)
    for name, mechanism in MECHANISMS.items():
        click.echo(f"{name:<{width}}  {mechanism.summary}")
    told = "the best of these for users as expected, or as estimated privately"
    click.echo(f"{AUTO:<{width}}  {told}")
