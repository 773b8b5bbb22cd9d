"""`dpsu proofs`: the proof pages, in a wheel beside the code, in the source tree under docs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import click

import dpsu
from dpsu.cli.streams import to_stdout
from dpsu.errors import DpsuError, ParameterError
from dpsu.options import did_you_mean

INDEX = "index"
_PACKAGE = Path(dpsu.__file__).resolve().parent
# The build of a wheel copies docs/proofs to the first of these; an editable install has the second.
_FOLDERS = (_PACKAGE / "proofs", _PACKAGE.parent.parent / "docs" / "proofs")
_ROW = re.compile(r"^\| \[[^]]+\]\((?P<name>[a-z0-9-]+)\.md\) \| (?P<about>[^|]+) \|$", re.M)


class ProofPage(NamedTuple):
    """One page: its name in plans, its heading, what it proves, and its text from the heading."""

    name: str
    title: str
    about: str
    text: str


@cache
def proof_pages() -> dict[str, ProofPage]:
    """All pages by name, in the order of the index, which comes last."""
    folder = next((place for place in _FOLDERS if (place / f"{INDEX}.md").is_file()), None)
    if folder is None:
        raise DpsuError("the proof pages are not part of this installation")
    index = _body(folder / f"{INDEX}.md")
    abouts = {row["name"]: row["about"] for row in _ROW.finditer(index)}
    abouts[INDEX] = "Says which theorem covers which mechanism, calibration and option."
    pages = {}
    for name, about in abouts.items():
        text = _body(folder / f"{name}.md")
        pages[name] = ProofPage(name, text.partition("\n")[0].removeprefix("# "), about, text)
    return pages


def proof_page(name: str) -> ProofPage:
    """The page of this name."""
    pages = proof_pages()
    if name not in pages:
        near = did_you_mean(name, pages)
        raise ParameterError(f"there is no proof {name!r}; `dpsu proofs` lists them{near}")
    return pages[name]


def _body(path: Path) -> str:
    """A page from its heading on."""
    text = path.read_text(encoding="utf-8")
    if text.startswith("---\n"):
        text = text.partition("\n---\n")[2]
    return text


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
