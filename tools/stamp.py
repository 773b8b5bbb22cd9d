"""Tie every proof to the code it covers.

A proof page starts with the functions and classes it covers and a stamp: a hash of their bodies
without comments, docstrings and formatting. When code moves, the stamp no longer fits, and a test
fails until someone has read the proof against the new code and renewed the stamp.

    python -m tools.stamp              list the pages whose stamp does not fit
    python -m tools.stamp --renew ...  renew the stamps of these pages, after reading them
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROOFS = ROOT / "docs" / "proofs"
SOURCE = ROOT / "src"


@dataclass(frozen=True)
class Proof:
    """A page, what it covers and the stamp it carries."""

    page: Path
    covers: tuple[str, ...]
    stamp: str

    @property
    def fits(self) -> bool:
        """Whether the code is still the code that was read."""
        return self.stamp == stamp_of(self.covers)


def proofs() -> list[Proof]:
    """All proof pages; the index has none."""
    return [read(page) for page in sorted(PROOFS.glob("*.md")) if page.stem != "index"]


def read(page: Path) -> Proof:
    """Read the head of a page."""
    lines = page.read_text(encoding="utf-8").split("\n")
    if lines[0] != "---" or "---" not in lines[1:]:
        raise ValueError(f"{page.name} does not start with what it covers")
    head = lines[1 : lines.index("---", 1)]
    covers = tuple(line.strip()[2:] for line in head if line.strip().startswith("- "))
    stamps = [line.split(":", 1)[1].strip() for line in head if line.startswith("stamp:")]
    if not covers or len(stamps) != 1:
        raise ValueError(f"{page.name} must name what it covers and carry one stamp")
    return Proof(page, covers, stamps[0])


def stamp_of(covers: tuple[str, ...]) -> str:
    """Hash of the bodies of these functions and classes."""
    digest = hashlib.sha256()
    for name in sorted(covers):
        digest.update(name.encode() + b"\0" + body_of(name).encode() + b"\0")
    return digest.hexdigest()[:16]


def body_of(name: str) -> str:
    """The code behind a dotted name, without comments, docstrings and formatting."""
    return ast.dump(_stripped(find(name)[1]))


def find(name: str) -> tuple[Path, ast.AST]:
    """The file that a dotted name leads to, and the function, class or constant in it."""
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        path = SOURCE.joinpath(*parts[:split]).with_suffix(".py")
        if not path.exists():
            path = SOURCE.joinpath(*parts[:split], "__init__.py")
        if path.exists():
            node: ast.AST = _tree(path)
            for part in parts[split:]:
                node = _member(node, part, name)
            return path, node
    raise ValueError(f"there is no module for {name}")


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _member(node: ast.AST, part: str, name: str) -> ast.AST:
    for child in getattr(node, "body", []):
        if isinstance(child, (ast.FunctionDef, ast.ClassDef)) and child.name == part:
            return child
        if isinstance(child, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == part for target in child.targets
        ):
            return child
    raise ValueError(f"there is no {part} in {name}")


def _stripped(node: ast.AST) -> ast.AST:
    copy: ast.AST = ast.parse(ast.unparse(node))
    for part in ast.walk(copy):
        body = getattr(part, "body", None)
        if (
            isinstance(part, (ast.FunctionDef, ast.ClassDef))
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
            and isinstance(body[0].value.value, str)
        ):
            part.body = body[1:] or [ast.Pass()]
    return copy


def renew(page: Path) -> None:
    """Write the stamp that fits the code as it is."""
    proof = read(page)
    text = page.read_text(encoding="utf-8")
    page.write_text(
        text.replace(f"stamp: {proof.stamp}", f"stamp: {stamp_of(proof.covers)}", 1),
        encoding="utf-8",
    )


def main() -> None:
    """List or renew stamps."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--renew", nargs="+", metavar="PAGE", help="stems of pages just read")
    chosen = parser.parse_args().renew
    for stem in chosen or []:
        renew(PROOFS / f"{stem}.md")
    stale = [proof.page.stem for proof in proofs() if not proof.fits]
    for stem in stale:
        print(f"read again: docs/proofs/{stem}.md")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
