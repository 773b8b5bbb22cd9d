"""The values of many columns: an item is a column and one of its values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from dpsu.contributions.id_types import ID_TYPES
from dpsu.errors import ParameterError, option_error
from dpsu.inputs.columns import Items, MissingColumnError, check_names, names_of, reworded
from dpsu.options import did_you_mean, option

Chains = tuple[tuple[str, ...], ...]
CHAIN = "country", "city"


@dataclass(frozen=True)
class Values(Items):
    """The values of many columns, and perhaps of levels of columns, as the items of one release.

    Parameters
    ----------
    columns : str or sequence of str
        Names of the columns. An item is a column and one of its values, so that equal values of two
        columns are two items. A missing cell is no item.
    levels : sequence of str, or sequence of such sequences
        Columns from the outermost level to the innermost: ``["country", "city"]``. Items are then
        the countries, and the cities of each country. Several such chains may be given, and their
        columns need not be repeated in `columns`.
    types : mapping of str to {"text", "integer"}, optional
        Columns to read as text or as integers; cells that cannot be read so are ignored. By default
        typed columns keep their type, and everything else is text.

    Examples
    --------
    >>> import dpsu
    >>> dpsu.Values(["sex", "job"], levels=["country", "city"]).names
    ('sex', 'job', 'country', 'city')
    >>> dpsu.Values("sex", levels=["country", "city"]).kinds
    (('sex',), ('country',), ('country', 'city'))
    """

    columns: str | Sequence[str] = option(
        (),
        object,
        "Columns whose values are released, with commas between them.",
        usual="those of --levels",
    )
    # What single columns of items have, and many have not.
    type: str | None = field(default=None, init=False, repr=False)
    repeats: str | None = field(default=None, init=False, repr=False)
    levels: Any = option(
        (),
        object,
        "Columns from the outermost level to the innermost, such as country,city: cities are "
        "released with their country. May be given again for other chains.",
        usual="none",
    )
    types: Any = option(
        None,
        object,
        "Columns to read as text or as integers, such as age=integer,zip=text; cells that cannot "
        "be read so are ignored. Default: their own types, and text where columns have none.",
    )

    def check(self) -> None:
        """Refuse names that are no columns, and chains that are none."""
        object.__setattr__(self, "columns", _columns(self.columns))
        object.__setattr__(self, "levels", _chains(self.levels))
        if not self.names:
            raise ParameterError("{columns} is empty; name columns of values", columns=...)
        object.__setattr__(self, "types", _types(self.types, self.names))
        keys = [*self.names, *map(chain_name, self.levels)]
        if len(set(keys)) < len(keys):
            raise ParameterError(
                "a column has the name that a chain of {levels} has in the result; rename it",
                levels=...,
            )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, in the order in which they were typed."""
        inside = (name for chain in self.levels for name in chain)
        return tuple(dict.fromkeys((*names_of(self.columns), *inside)))

    @property
    def name(self) -> str:
        """What the columns are called in sentences."""
        return ", ".join(self.names)

    @cached_property
    def kinds(self) -> Chains:
        """The columns of each kind of item: one column, or a level with all levels above it."""
        above = (chain[:end] for chain in self.levels for end in range(1, len(chain) + 1))
        return tuple(dict.fromkeys((*((name,) for name in names_of(self.columns)), *above)))

    @property
    def told(self) -> str:
        """What the items are, in words."""
        many = "columns" if len(self.names) > 1 else "column"
        chains = "".join(f"; {chain_name(chain)} by levels" for chain in self.levels)
        return f"values of the {many} {self.name}{chains}"


def chain_name(chain: Sequence[str]) -> str:
    """What a chain of levels is called."""
    return " > ".join(chain)


def naming_columns(item: object) -> AbstractContextManager[None]:
    """Say in errors that `columns` or `levels` name what is missing, if values are the items."""

    def rename(error: ParameterError) -> ParameterError:
        if not isinstance(item, Values) or "item" not in error.options:
            return error
        if isinstance(error, MissingColumnError):
            return error.named_by("columns")
        options = {name: value for name, value in error.options.items() if name != "item"}
        message = error.message.replace("{item}", "{columns}")
        return ParameterError(message, error.flags, **options, columns=...)

    return reworded(rename)


def _columns(given: Any) -> str | tuple[str, ...]:
    names = (given,) if isinstance(given, str) else given
    if not isinstance(names, (list, tuple)):
        raise option_error(
            "columns", f"is a {type(given).__name__}; give a list of names of columns"
        )
    plain = _plain("columns", names)
    return plain[0] if len(plain) == 1 else plain


def _chains(given: Any) -> Chains:
    """Chains of levels; one chain may stand without a list around it."""
    if not isinstance(given, (list, tuple)):
        raise ParameterError(
            f"{{levels}} is a {type(given).__name__}; give a list of columns from the outermost "
            f"level to the innermost, such as {list(CHAIN)}",
            levels=...,
        )
    listed = [given] if given and all(isinstance(name, str) for name in given) else given
    chains = tuple(map(_chain, listed))
    seen: dict[frozenset[str], tuple[str, ...]] = {}
    for chain in chains:
        for end in range(1, len(chain) + 1):
            known = seen.setdefault(frozenset(chain[:end]), chain[:end])
            if known != chain[:end]:
                raise ParameterError(
                    f"{{levels}} has {chain_name(known)} and {chain_name(chain[:end])}, which are "
                    "the same combinations; give one of them",
                    levels=...,
                )
    return tuple(dict.fromkeys(chains))


def _chain(given: Any) -> tuple[str, ...]:
    if not isinstance(given, (list, tuple)) or len(given) < 2:
        raise option_error(
            "levels",
            "needs two columns or more in a chain, from the outermost level to the "
            f"innermost, such as {list(CHAIN)}",
        )
    return _plain("levels", given)


def _plain(what: str, names: Sequence[Any]) -> tuple[str, ...]:
    """Names of columns as plain text, none of them twice."""
    for name in names:
        check_names(needed=True, **{what: name})
    for name in names:
        if list(names).count(name) > 1:
            raise option_error(what, f"names {name!r} twice; once is enough")
    return tuple(str.__str__(name) for name in names)


def _types(given: Any, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Declared types by column, in the order of the columns."""
    if given is None:
        return ()
    try:
        found = dict(given)
    except (TypeError, ValueError):
        found = None
    if not isinstance(given, (Mapping, list, tuple)) or found is None:
        raise ParameterError(
            f'{{types}} is a {type(given).__name__}; give a mapping such as {{"age": "integer"}}',
            types=...,
        )
    for name, type_ in found.items():
        if name not in names:
            near = did_you_mean(name, names)
            raise option_error("types", f"has {name!r}, which is not among the columns{near}")
        if type_ not in ID_TYPES:
            raise option_error("types", f"of {name!r} is not one of {', '.join(ID_TYPES)}")
    return tuple((name, found[name]) for name in names if name in found)
