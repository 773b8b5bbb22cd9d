"""The Python reference: every public name with its signature and docstring, as Markdown."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import dpsu
import dpsu.sklearn
import dpsu.vocabulary.lexicons
import dpsu.vocabulary.training

INTRODUCTION = """# Python

Functions, then classes, then errors, as their docstrings tell.
"""


def public_names() -> list[tuple[str, Any]]:
    """Everything that users import: functions, then classes, then errors."""
    found = [(f"dpsu.{name}", getattr(dpsu, name)) for name in dpsu.__all__]
    found.append(("dpsu.sklearn.PrivateVocabulary", dpsu.sklearn.PrivateVocabulary))
    for module in (dpsu.vocabulary.training, dpsu.vocabulary.lexicons):
        found += [
            (f"{module.__name__}.{name}", value)
            for name, value in vars(module).items()
            if inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not name.startswith("_")
        ]
    return sorted(found, key=lambda pair: (inspect.isclass(pair[1]), _is_error(pair[1])))


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for name, value in public_names():
        parts += [f"## {name}", ""]
        if not _is_error(value):
            parts += [_signature(name, value), ""]
        parts.append(_markdown(inspect.getdoc(value)))
        if inspect.isclass(value) and not _is_error(value):
            parts += list(_methods(name, value))
    return "\n".join(parts).rstrip() + "\n"


def _methods(name: str, value: type) -> Iterator[str]:
    for member, found in vars(value).items():
        if member.startswith("_") or not getattr(found, "__doc__", None):
            continue
        function = found.__func__ if isinstance(found, classmethod) else found
        if inspect.isfunction(function):
            yield f"### {name.rsplit('.', maxsplit=1)[-1]}.{member}\n"
            yield _signature(member, function)
            yield ""
            yield _markdown(inspect.getdoc(function))
        elif isinstance(found, property) or hasattr(found, "func"):
            yield f"- `{member}`: {(inspect.getdoc(found) or '').splitlines()[0]}"
    yield ""


def _signature(name: str, value: Any) -> str:
    signature = str(inspect.signature(value)).replace("'", "")
    if len(signature) > 80:
        inside, returned = signature[1:].rsplit(")", 1)
        arguments = re.split(r", (?![^\[\(]*[\]\)])", inside)
        signature = "(\n" + "".join(f"    {argument},\n" for argument in arguments) + ")" + returned
    return f"```python\n{name}{signature}\n```"


def _markdown(docstring: str | None) -> str:
    """Sections as small headings, parameters as lists, examples as code."""
    out: list[str] = []
    lines = (docstring or "").splitlines()
    section, at = "", 0
    while at < len(lines):
        line = lines[at]
        if at + 1 < len(lines) and line and re.fullmatch(r"-{3,}", lines[at + 1]):
            section = line
            out += ["", f"**{section}**", ""]
            at += 2
        elif section in ("Parameters", "Attributes", "Returns", "Yields") and line:
            body = line.strip()
            out.append(f"    {body}" if line.startswith(" ") else f"- `{body}`\n")
            at += 1
        elif line.lstrip().startswith(">>>"):
            block = []
            while at < len(lines) and lines[at].strip():
                block.append(lines[at].strip())
                at += 1
            out += ["```pycon", *block, "```"]
        else:
            out.append(re.sub(r":(?:func|class|meth):`([^`]+)`", r"`\1`", line).replace("``", "`"))
            at += 1
    return "\n".join(out) + "\n"
