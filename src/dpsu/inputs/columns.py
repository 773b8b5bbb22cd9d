"""Columns by the name that was typed."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

from dpsu.errors import ParameterError


class DefaultName(str):
    """A default name of a column, which the caller did not choose."""


def check_names(**names: Any) -> None:
    """Refuse names that are not text; an option that is None names nothing."""
    for option, name in names.items():
        if name is not None and not isinstance(name, str):
            raise ParameterError(
                f"{option} must be the name of a column as text, not a {type(name).__name__}; "
                "rename columns whose names are not text, and name one column"
            )
        if option == "text" and not name and name is not None:
            raise ParameterError("text is empty; name the column of texts, or leave it out")


def pick(
    wanted: Sequence[str],
    existing: Sequence[Any],
    where: str = "the data",
    *,
    options: Sequence[str] = ("user", "item", "count"),
    typed: bool = True,
) -> list[str]:
    """Check that columns exist, each once; a missing one is answered with the nearest names.

    Only names much like the typed one are shown: in a pivoted table the names of columns are
    private values. Of a text file (not `typed`) none is shown: without a header, they are cells.
    """
    for name, option in zip(wanted, options, strict=False):
        found = list(existing).count(name)
        if found > 1:
            raise ParameterError(f"{where} has more than one column {name!r}; rename them")
        if found:
            continue
        hint = "is there a header in the first line? "
        if typed:
            texts = [other for other in existing if isinstance(other, str)]
            near = difflib.get_close_matches(name, texts, n=3, cutoff=0.6)
            hint = "no column has a name like that; "
            if near:
                hint = f"did you mean {' or '.join(repr(other) for other in near)}? "
        raise ParameterError(
            f"there is no column {name!r} in {where}; {hint}name the right one with {option}= "
            f"(--{option})"
        )
    return list(wanted)
