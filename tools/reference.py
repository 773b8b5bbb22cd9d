"""The Python reference: one page for every public name, made of its signature and docstring.

What is public is what `__all__` of a module names or, where there is none, what the module defines
without a leading underscore. A new public name gets its page by itself.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Any

from dpsu.errors import ParameterError
from dpsu.options import Option, Typed, options_of
from dpsu.plans.mechanisms import MECHANISMS

MODULES = (
    "dpsu",
    "dpsu.spark",
    "dpsu.dask",
    "dpsu.sklearn",
    "dpsu.vocabulary.training",
)
INTRODUCTION = """# Python

Everything that may be imported, with a page for each function and each class.
[Errors](errors.md) have a page together.
"""
ERRORS = """# Errors

What `dpsu` raises and warns of. No message holds a value of the confidential data.
"""
# Parts of a docstring that are lists of names with a type and a text.
LISTS = ("Parameters", "Attributes", "Returns", "Yields", "Raises")
WIDEST = 80


@dataclass(frozen=True)
class Public:
    """A public name, and what it stands for."""

    name: str
    value: Any

    @property
    def kind(self) -> str:
        """Which folder its page lies in; errors share a page."""
        if not inspect.isclass(self.value):
            return "functions"
        return "errors" if issubclass(self.value, BaseException) else "classes"

    @property
    def page(self) -> str:
        """Where it is described, from the folder of the reference."""
        # The names of a function and of a class may differ in case only, and so would their files:
        # some file systems would take one for the other.
        if self.kind == "errors":
            return "errors.md"
        return f"{self.kind}/{self.name.removeprefix('dpsu.')}.md"

    @property
    def link(self) -> str:
        """The page, and the place on it."""
        return f"errors.md#{_anchor(self.name)}" if self.kind == "errors" else self.page

    @property
    def summary(self) -> str:
        """The first paragraph of its docstring."""
        first = (inspect.getdoc(self.value) or "").split("\n\n")[0]
        return first.replace("\n", " ")


@cache
def public_names() -> tuple[Public, ...]:
    """Everything that users import, module by module, and mechanisms from anywhere else."""
    found = [
        Public(f"{module}.{name}", value) for module in MODULES for name, value in _defined(module)
    ]
    known = {id(public.value) for public in found}
    found += [
        Public(f"{kind.__module__}.{kind.__name__}", kind)
        for kind in MECHANISMS.values()
        if id(kind) not in known
    ]
    return tuple(found)


def _defined(module: str) -> Iterator[tuple[str, Any]]:
    found = importlib.import_module(module)
    if hasattr(found, "__all__"):
        yield from ((name, getattr(found, name)) for name in found.__all__)
        return
    for name, value in vars(found).items():
        own = getattr(value, "__module__", None) == module and not name.startswith("_")
        if own and (inspect.isclass(value) or inspect.isfunction(value)):
            yield name, value


def pages() -> dict[str, str]:
    """All pages, by where they lie in the folder of the reference."""
    made = {"index.md": _index(), "errors.md": _errors()}
    for public in public_names():
        if public.kind != "errors":
            made[public.page] = _page(public)
    return made


def navigation() -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Titles and pages, for each folder."""
    for kind in ("functions", "classes"):
        yield kind, [(_title(p.name), p.page) for p in public_names() if p.kind == kind]


def _title(name: str) -> str:
    """A name that fits into the list of pages."""
    short = name.removeprefix("dpsu.")
    return short if short.count(".") <= 1 else short.rpartition(".")[2]


def _index() -> str:
    parts = [INTRODUCTION]
    for kind in ("functions", "classes", "errors"):
        parts += [f"## {kind.capitalize()}\n", "| name | what it is |", "|---|---|"]
        for public in public_names():
            if public.kind == kind:
                text = _prose(public.summary, "").replace("|", "\\|")
                parts.append(f"| [`{public.name}`]({public.link}) | {text} |")
        parts.append("")
    return "\n".join(parts)


def _errors() -> str:
    parts = [ERRORS]
    for public in public_names():
        if public.kind == "errors":
            base = public.value.__bases__[0].__name__
            parts += [f"## {public.name}\n", f"Derived from `{base}`.\n"]
            parts.append(_markdown(inspect.getdoc(public.value), ""))
    return "\n".join(parts)


def _page(public: Public) -> str:
    docstring = inspect.getdoc(public.value) or ""
    summary, _, rest = docstring.partition("\n\n")
    parts = [f"# {public.name}", "", _markdown(summary, "../")]
    # What is handed out and never made by hand has attributes, and no call worth showing.
    listed = re.search(r"^(Parameters|Attributes)\n---", docstring, re.M)
    typed = isinstance(public.value, type) and issubclass(public.value, Typed)
    if public.kind == "functions" or typed or (listed and listed[1] == "Parameters"):
        parts += [_signature(public.name, public.value), ""]
    if rest:
        parts.append(_markdown(rest, "../"))
    if typed:
        # Whoever types an object wants its options; its methods are for plans and engines.
        parts += [] if listed else _options(public.value)
    elif public.kind == "classes":
        parts += [] if listed else _fields(public.value)
        parts += _members(public)
    return "\n".join(parts).rstrip() + "\n"


def _options(kind: type) -> Iterator[str]:
    """What may be typed, within which bounds, and what it does."""
    with contextlib.suppress(ParameterError):
        yield f'By its name, with all defaults: `mechanism="{kind().name}"`.\n'
    yield "## Options\n"
    for name, option in options_of(kind).items():
        usual = option.shown_default
        default = f", default {usual}" if usual else ""
        word = "public data" if option.kind is object else option.kind.__name__
        word = "numbers" if option.parse is not None else word
        yield f"`{name}` : {word}{default}\n:   {option.help}{_bounds(option)}\n"


def _bounds(option: Option) -> str:
    if option.choices:
        return f" One of {', '.join(f'`{choice}`' for choice in option.choices)}."
    return f" {option.bounds}".rstrip()


def _fields(value: type) -> Iterator[str]:
    """Fields of a dataclass whose docstring does not list them."""
    found = fields(value) if is_dataclass(value) else ()
    shown = [field for field in found if not field.name.startswith("_")]
    if shown:
        yield "## Attributes\n"
    for field in shown:
        text = field.metadata.get("help")
        yield f"`{field.name}` : {_type(field.type)}\n" + (f":   {text}\n" if text else "")


def _members(public: Public) -> Iterator[str]:
    short = public.name.rpartition(".")[2]
    values, methods = [], []
    for member, found in vars(public.value).items():
        if member.startswith("_") or not getattr(found, "__doc__", None):
            continue
        function = found.__func__ if isinstance(found, classmethod) else found
        if inspect.isfunction(function):
            methods.append((f"{short}.{member}", function))
        elif isinstance(found, property) or hasattr(found, "func"):
            values.append((member, (inspect.getdoc(found) or "").splitlines()[0]))
    if values:
        yield "## Properties\n"
        yield from (f"`{name}`\n:   {_prose(text, '../')}\n" for name, text in values)
    if methods:
        yield "## Methods\n"
    for name, function in methods:
        yield f"### {name}\n"
        yield _signature(name, function) + "\n"
        yield _markdown(inspect.getdoc(function), "../", heading="####")


def _signature(name: str, value: Any) -> str:
    """A call as one would type it, one argument a line where it is long."""
    signature = inspect.signature(value)
    arguments = [_argument(p) for p in _with_marks(signature.parameters.values())]
    returned = signature.return_annotation
    made = inspect.isclass(value) or returned is inspect.Signature.empty
    ending = "" if made else f" -> {_type(returned)}"
    line = f"{name}({', '.join(arguments)}){ending}"
    if len(line) > WIDEST:
        line = f"{name}(\n" + "".join(f"    {a},\n" for a in arguments) + f"){ending}"
    return f"```python\n{line}\n```"


def _with_marks(parameters: Iterable[inspect.Parameter]) -> Iterator[inspect.Parameter | None]:
    """Parameters of a call, with None where a star stands for the end of positions."""
    starred = False
    for parameter in parameters:
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            yield None
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        yield parameter


def _argument(parameter: inspect.Parameter | None) -> str:
    if parameter is None:
        return "*"
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    typed = parameter.annotation is not parameter.empty
    text = stars + parameter.name + (f": {_type(parameter.annotation)}" if typed else "")
    if parameter.default is parameter.empty:
        return text
    return f"{text} = {parameter.default!r}" if typed else f"{text}={parameter.default!r}"


def _type(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else str(inspect.formatannotation(annotation))


def _markdown(docstring: str | None, up: str, heading: str = "##") -> str:
    """Sections as headings, names with their texts as lists, examples as code."""
    out: list[str] = []
    # A backslash continues a list of names on the next line.
    lines = (docstring or "").replace("\\\n", " ").splitlines()
    section, at = "", 0
    while at < len(lines):
        line = lines[at]
        if at + 1 < len(lines) and line and re.fullmatch(r"-{3,}", lines[at + 1]):
            section = line
            out += ["", f"{heading} {section}", ""]
            at += 2
        elif line.lstrip().startswith(">>>"):
            end = next((n for n in range(at, len(lines)) if not lines[n].strip()), len(lines))
            shown = (re.sub(r"\s+# doctest: \S+", "", li).rstrip() for li in lines[at:end])
            out += ["```pycon", *shown, "```"]
            at = end
        elif section in LISTS and line:
            end = at + 1
            while end < len(lines) and lines[end].startswith(" "):
                end += 1
            out += [*_entry(line, lines[at + 1 : end], up), ""]
            at = end
        else:
            out.append(_prose(line, up))
            at += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(out)).strip() + "\n"


def _entry(line: str, texts: list[str], up: str) -> list[str]:
    """A name with its type, and what is said of it, as an entry of a list of definitions."""
    names, separator, kind = line.partition(" : ")
    shown = ", ".join(f"`{name}`" for name in re.split(r",\s+", names.strip()))
    if not separator:
        shown = _type_linked(names, up) or shown
    title = f"{shown} : {_prose(kind, up)}" if separator else shown
    text = _prose("\n".join(text.strip() for text in texts), up)
    if not text:
        return [title]
    return [title, ":   " + text.replace("\n", "\n    ")]


def _type_linked(name: str, up: str) -> str | None:
    """A link to the page of what a function returns, if that is a public class."""
    for public in public_names():
        if public.kind == "classes" and public.name.rpartition(".")[2] == name:
            return f"[`{name}`]({up}{public.link})"
    return None


def _prose(text: str, up: str) -> str:
    """Text with links to what it names."""
    text = re.sub(r":(?:func|class|meth|mod|exc):`([^`]+)`", lambda m: _linked(m[1], up), text)
    text = text.replace("``", "`")
    proof = rf"[`dpsu proofs \1`](../../{up}proofs/\1.md)"
    return re.sub(r"`dpsu proofs ([a-z\d-]+)`", proof, text)


def _linked(name: str, up: str) -> str:
    for public in public_names():
        if name in (public.name, public.name.removeprefix("dpsu.")):
            return f"[`{name}`]({up}{public.link})"
    return f"`{name}`"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\s-]", "", heading).lower().replace(" ", "-")
