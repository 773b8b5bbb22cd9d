"""Columns by the name that was typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from dpsu.errors import ParameterError


def pick(wanted: Sequence[str], existing: Sequence[str], where: str = "the data") -> list[str]:
    """Check that columns exist; a missing one is answered with the nearest names."""
    for name in wanted:
        if name not in existing:
            near = difflib.get_close_matches(name, existing, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
            listed = ", ".join(repr(n) for n in list(existing)[:20])
            raise ParameterError(
                f"there is no column {name!r} in {where}; {hint or 'it has ' + listed}"
            )
    return list(wanted)
