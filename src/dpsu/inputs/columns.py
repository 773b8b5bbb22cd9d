"""Columns by the name that was typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from dpsu.errors import ParameterError


def pick(
    wanted: Sequence[str], existing: Sequence[str], where: str = "the data", *, typed: bool = True
) -> list[str]:
    """Check that columns exist; a missing one is answered with the nearest names.

    Only names much like the typed one are shown: in a pivoted table, or where a text file
    (not `typed`) has no header, the names of columns are private values. There a name with digits
    is not shown either, because it looks more like a value than like a name.
    """
    for name in wanted:
        if name not in existing:
            shown = [n for n in existing if typed or not any(c.isdigit() for c in n)]
            near = difflib.get_close_matches(name, shown, n=3, cutoff=0.6 if typed else 0.7)
            hint = f"did you mean {' or '.join(repr(n) for n in near)}?"
            if not near:
                hint = "no column has a name like that" + ("" if typed else "; is there a header?")
            raise ParameterError(f"there is no column {name!r} in {where}; {hint}")
    return list(wanted)
