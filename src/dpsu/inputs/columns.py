"""Columns by the name that was typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from dpsu.errors import ParameterError


def pick(wanted: Sequence[str], existing: Sequence[str], where: str = "the data") -> list[str]:
    """Check that columns exist; a missing one is answered with the nearest names.

    Only names much like the typed one are shown: without a header, or in a pivoted table, the
    names of columns are private values.
    """
    for name in wanted:
        if name not in existing:
            near = difflib.get_close_matches(name, existing, n=3, cutoff=0.6)
            hint = f"did you mean {' or '.join(repr(n) for n in near)}?"
            if not near:
                hint = f"none of its {len(existing)} columns has a name like that"
            raise ParameterError(f"there is no column {name!r} in {where}; {hint}")
    return list(wanted)
