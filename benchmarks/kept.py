"""Results as they are kept: what pages show, with one row on a line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

# What fits in here is a row, and so is a list of numbers; all else is a table of rows.
WIDTH = 360


def keep(path: Path, found: Any) -> None:
    """Write a result."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_text(found) + "\n", encoding="utf-8")


def _text(found: Any, indent: str = "") -> str:
    row, inner = json.dumps(found), indent + " "
    if isinstance(found, dict):
        lines = [f"{json.dumps(name)}: {_text(each, inner)}" for name, each in found.items()]
    elif isinstance(found, list) and any(isinstance(each, (dict, list)) for each in found):
        lines = [_text(each, inner) for each in found]
    else:
        return row
    if len(indent + row) <= WIDTH:
        return row
    return f"{row[0]}\n" + ",\n".join(inner + line for line in lines) + f"\n{indent}{row[-1]}"
