"""`dpsu proofs`: the proof pages, from wherever they are installed."""

from __future__ import annotations

import click

from dpsu.cli.proof_pages import proof_page, proof_pages
from dpsu.cli.streams import to_stdout


@click.command("proofs")
@click.argument("name", required=False)
def proofs_command(name: str | None) -> None:
    """List the proofs, or print the one called NAME.

    Plans and reports name the proofs that their guarantee rests on. `dpsu proofs index` prints
    which theorem covers which mechanism and which of its options.
    """
    if name is not None:
        to_stdout(proof_page(name).text)
        return
    pages = proof_pages().values()
    width = max(len(page.name) for page in pages)
    to_stdout("".join(f"{page.name:<{width}}  {page.title}. {page.about}\n" for page in pages))
