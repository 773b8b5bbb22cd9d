"""Tie every proof to the code it covers.

A proof page starts with the functions and classes it covers and a stamp: a hash of their names and
bodies without comments, docstrings, formatting, imports, the words that explain options, and the
modules they stand in. When code changes, the stamp no longer fits, and a test fails until someone
has read the proof against the new code and renewed the stamp. Code that only moves to another
module keeps its stamp.

    python -m tools.stamp                      list the pages whose stamp does not fit
    python -m tools.stamp --renew sieve ...    renew the stamps of these pages, after reading them
    python -m tools.stamp --moved old=new ...  write where covered code is now, and how words in it
                                               are spelled

`--moved` takes modules, dotted names of what is covered, and bare words (`look=round_`); a word
that meant two things may be given twice (`heard=evidence heard=replies`). A page keeps a stamp that
fits the last commit if its code there is the code that is there now, but for these words. In one
function, a variable must have one new spelling, and no two variables may get the same. Otherwise
the page must be read again.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
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
    """Hash of the names and bodies of these functions and classes, wherever they stand."""
    return _hash((name, body_of(name)) for name in covers)


def _hash(covered: Iterable[tuple[str, str]]) -> str:
    digest = hashlib.sha256()
    for name, body in sorted((name.rsplit(".", 1)[-1], body) for name, body in covered):
        digest.update(name.encode() + b"\0" + body.encode() + b"\0")
    return digest.hexdigest()[:16]


def body_of(name: str) -> str:
    """The code behind a dotted name, without comments, docstrings, imports, help and formatting."""
    return ast.dump(_stripped(find(name)[1]))


Read = Callable[[Path], str | None]


def find(name: str, read_text: Read | None = None) -> tuple[Path, ast.AST]:
    """The file that a dotted name leads to, and the function, class or constant in it."""
    parts = name.split(".")
    for split in range(len(parts) - 1, 0, -1):
        place = SOURCE.joinpath(*parts[:split])
        for path in (place.with_suffix(".py"), place / "__init__.py", place.with_suffix(".pxd")):
            text = (read_text or _read_text)(path)
            if text is None:
                continue
            if path.suffix == ".pxd":
                return path, _inline_function(text, parts[-1], name)
            node: ast.AST = _tree(text)
            for part in parts[split:]:
                node = _member(node, part, name)
            return path, node
    raise ValueError(f"there is no module for {name}")


def _inline_function(text: str, function: str, name: str) -> ast.Constant:
    """A function of C that kernels share, as its text without comments."""
    found = re.search(rf"^cdef inline \w+ {function}\(.*(?:\n(?:[ )].*)?)*", text, re.M)
    if found is None:
        raise ValueError(f"there is no {function} in {name}")
    lines = (line.partition("#")[0].rstrip() for line in found[0].splitlines())
    node = ast.Constant("\n".join(filter(None, lines)))
    node.lineno = 1 + text.count("\n", 0, found.start())
    node.end_lineno = node.lineno + found[0].rstrip().count("\n")
    return node


def _read_text(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.exists() else None


@cache
def _committed(path: Path) -> str | None:
    """A file as it is in the last commit."""
    shown = subprocess.run(
        ["git", "show", f"HEAD:{path.relative_to(ROOT).as_posix()}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout if shown.returncode == 0 else None


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


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
        _forget_words(part)
        body = getattr(part, "body", None)
        if not isinstance(body, list):
            continue
        kept = [line for line in body if not isinstance(line, (ast.Import, ast.ImportFrom))]
        if isinstance(part, (ast.FunctionDef, ast.ClassDef)) and kept and _is_docstring(kept[0]):
            kept = kept[1:]
        part.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return copy


def _forget_words(part: ast.AST) -> None:
    """Empty what `option(default, kind, help, usual=...)` says to people."""
    match part:
        case ast.Call(func=ast.Name(id="option"), args=[_, _, ast.Constant(), *_]):
            part.args[2] = ast.Constant("")
            part.keywords = [word for word in part.keywords if word.arg != "usual"]


def _is_docstring(line: ast.stmt) -> bool:
    return (
        isinstance(line, ast.Expr)
        and isinstance(line.value, ast.Constant)
        and isinstance(line.value.value, str)
    )


def moved(page: Path, renames: Collection[tuple[str, str]]) -> bool:
    """Write where covered code is now; True if the page need not be read again.

    The stamp is kept, or made anew for new spellings, if it fits the last commit and the code there
    is the code that is here but for the words that `renames` exchanges.
    """
    proof = read(page)
    places = dict(renames)
    covers = tuple(_renamed(name, places) for name in proof.covers)
    before = [_stripped(find(name, _committed)[1]) for name in proof.covers]
    words = {(old.rsplit(".", 1)[-1], new.rsplit(".", 1)[-1]) for old, new in renames}
    same = _hash(zip(proof.covers, map(ast.dump, before), strict=True)) == proof.stamp and all(
        _same_but_for(words, old, _stripped(find(new)[1]))
        for old, new in zip(before, covers, strict=True)
    )
    text = page.read_text(encoding="utf-8")
    for old, new in zip(proof.covers, covers, strict=True):
        text = text.replace(f"  - {old}\n", f"  - {new}\n", 1)
    if same:
        text = text.replace(f"stamp: {proof.stamp}", f"stamp: {stamp_of(covers)}", 1)
    page.write_text(text, encoding="utf-8")
    return same


def _renamed(name: str, renames: Mapping[str, str]) -> str:
    """A dotted name by its longest part that moved."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        old = ".".join(parts[:length])
        if old in renames:
            return ".".join([renames[old], *parts[length:]])
    return name


# Names in a dump, by what they name. Texts are no names: keys are made of some.
NAME = re.compile(r"\b(Name\(id|arg\(arg|keyword\(arg|attr|name)='(\w+)'")


def _same_but_for(words: set[tuple[str, str]], before: ast.AST, after: ast.AST) -> bool:
    """Whether two pieces of code differ in the spelling of names alone, by these words."""
    if NAME.sub("", _dump(before)) != NAME.sub("", _dump(after)):
        return False
    return all(
        old == new or (old, new) in words for _, old, new in _pairs_of_names(before, after)
    ) and all(
        _one_to_one(*pair) for pair in zip(_functions(before), _functions(after), strict=True)
    )


def _one_to_one(before: ast.AST, after: ast.AST) -> bool:
    """Whether two variables of a function are one afterwards only if they were one before."""
    variables = {
        (old, new)
        for what, old, new in _pairs_of_names(before, after)
        if what in ("Name(id", "arg(arg")
    }
    return all(len(set(side)) == len(variables) for side in zip(*variables, strict=True))


def _pairs_of_names(before: ast.AST, after: ast.AST) -> Iterator[tuple[str, str, str]]:
    found = (NAME.findall(_dump(tree)) for tree in (before, after))
    for (what, old), (_, new) in zip(*found, strict=True):
        yield what, old, new


def _functions(tree: ast.AST) -> list[ast.AST]:
    return [part for part in ast.walk(tree) if isinstance(part, ast.FunctionDef)]


def _dump(tree: ast.AST) -> str:
    """A dump in which the text that `getattr` is given is the name of an attribute."""
    copy = ast.parse(ast.unparse(tree))
    for part in ast.walk(copy):
        match part:
            case ast.Call(
                func=ast.Name(id="getattr"), args=[held, ast.Constant(value=str(name)), *_]
            ):
                part.args[1] = ast.Attribute(held, name, ast.Load())
    return ast.dump(copy)


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
    parser.add_argument("--moved", nargs="+", metavar="OLD=NEW", help="modules, names or words")
    chosen = parser.parse_args()
    for stem in chosen.renew or []:
        renew(PROOFS / f"{stem}.md")
    renames = [(old, new) for old, _, new in (pair.partition("=") for pair in chosen.moved or [])]
    for proof in proofs() if renames else []:
        moved(proof.page, renames)
    stale = [proof.page.stem for proof in proofs() if not proof.fits]
    for stem in stale:
        print(f"read again: docs/proofs/{stem}.md")
    sys.exit(1 if stale else 0)


if __name__ == "__main__":
    main()
