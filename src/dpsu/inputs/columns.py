"""Which columns users and items are in, by the names that were typed."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dpsu.contributions.id_types import ID_TYPES
from dpsu.errors import DataError, ParameterError
from dpsu.options import Typed, option
from dpsu.privacy.guarantee import LARGEST_IDS

if TYPE_CHECKING:
    from dpsu.contributions.id_columns import Column


class DefaultName(str):
    """The default name of a column, for a caller who chose none."""


# Inside, an option that names a column is called by the column's purpose. Here is what people type:
# in Python, and on the command line where that is another word.
TYPED = {"text": "column"}
FLAGS = {"column": "text"}

# What is said instead of the name of a column where each entry of a list is one person.
ONE_PER_ENTRY = "one per entry"
DEFAULT_USER, DEFAULT_ITEM = DefaultName("user"), DefaultName("item")


def _type_option(what: str, name: str) -> Any:
    return option(
        None,
        str,
        f"Read {what} as text or as integers; cells that cannot be read so are ignored. Default: "
        "the type of their column, and text where columns have no type.",
        choices=ID_TYPES,
        name=name,
    )


class Named(Typed):
    """Columns of users or of items."""

    if TYPE_CHECKING:
        columns: str | Sequence[str]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all columns, also of those of the result."""
        return names_of(self.columns)

    @property
    def name(self) -> str:
        """What the columns are called in sentences; the name of a single column."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class Users(Named):
    """The column of the people to protect, where more than its name is to be said.

    Parameters
    ----------
    columns : str or sequence of str
        Name of the column, or names of several columns that identify a person together;
        ``"one per entry"`` where each row of a table, or each list or set in a list, is another
        person's.
    type : {"text", "integer"}, optional
        Read users as text or as integers; cells that cannot be read so are ignored. By default
        typed columns keep their type, and everything else (mappings, tuples, lists, JSON lines,
        pandas columns of objects) is text, integers as decimal digits.
    ids_per_person : int
        How many users, by these columns, one person may be: accounts, devices, cookies. The
        guarantee is then for a person with so many ids. Noise grows in proportion.

    Examples
    --------
    >>> import dpsu
    >>> dpsu.Users("person", type="text")
    Users(columns='person', type='text', ids_per_person=1)
    """

    columns: str | Sequence[str] = option(
        DEFAULT_USER,
        object,
        "Column of the person to protect; given again, several columns that identify one together; "
        "'one per entry' if each row is another person's.",
        name="user",
        several=True,
    )
    type: str | None = _type_option("users", "user_type")
    ids_per_person: int = option(
        1,
        int,
        "A person may have up to so many ids (accounts, devices), and all of them are protected "
        "together; noise grows in proportion.",
        low=1,
        high=LARGEST_IDS,
    )

    def check(self) -> None:
        """Refuse names that are not text."""
        object.__setattr__(self, "columns", checked_columns("user", self.columns, self.type))

    @property
    def person(self) -> str:
        """Who may be added or removed, in a sentence."""
        if self.name == ONE_PER_ENTRY:
            one, several = "entry (row or list) of the data", "entries of the data"
        elif len(self.names) > 1:
            one = f"combination of {self.name!r}"
            several = f"combinations of {self.name!r}"
        else:
            one, several = repr(self.name), f"values of {self.name!r}"
        if self.ids_per_person == 1:
            return one
        if len(self.names) > 1:
            # Nobody need promise that there are no more of them: a person may come on many days.
            return f"group of up to {self.ids_per_person:,} {several}"
        return f"person, who may have up to {self.ids_per_person:,} {several},"

    @property
    def promise(self) -> str:
        """What is promised of people and their ids."""
        ids = f"{self.ids_per_person:,}"
        if self.ids_per_person > 1 and len(self.names) > 1:
            return (
                f"each combination of {self.name!r} belongs to one person, in all rows; somebody "
                f"with more than {ids} of them (such as days) is protected for any {ids} of them "
                "together, and not for all"
            )
        if self.ids_per_person > 1:
            what = "entries" if self.name == ONE_PER_ENTRY else f"values of {self.name!r}"
            return f"nobody has more than {ids} {what}"
        if self.name == ONE_PER_ENTRY:
            return "each entry (row or list) of the data is another person's, and nobody has two"
        if len(self.names) > 1:
            return (
                f"one person is one combination of {self.name!r}, in all rows: somebody who has "
                "several of them (such as days) is protected in each of them alone"
            )
        return f"one person is one value of {self.name!r}, in all rows"


@dataclass(frozen=True)
class Items(Named):
    """The column of what to release, where more than its name is to be said.

    Parameters
    ----------
    columns : str or sequence of str
        Name of the column, and of the column of the result; or names of several columns, whose
        combinations are the items.
    type : {"text", "integer"}, optional
        Read items as text or as integers, as for :class:`Users`.
    repeats : str, optional
        Column that says how often a user holds an item, for mechanisms in whose order that
        matters (greedy); otherwise repeated rows are counted.

    Examples
    --------
    >>> import dpsu
    >>> dpsu.Items("product", repeats="times")
    Items(columns='product', type=None, repeats='times')
    >>> dpsu.Items(["country", "product"]).names
    ('country', 'product')
    """

    columns: str | Sequence[str] = option(
        DEFAULT_ITEM,
        object,
        "Column of what to release; given again, several columns whose combinations are released. "
        "With --text, the name of the column of the result.",
        name="item",
        several=True,
    )
    type: str | None = _type_option("items", "item_type")
    repeats: str | None = option(
        None, object, "Column that says how often a user holds an item (greedy)."
    )
    # What texts have, and columns of items have not.
    longest = 1
    tokenizer = None
    source = None

    def check(self) -> None:
        """Refuse names that are not text."""
        check_names(repeats=self.repeats)
        object.__setattr__(self, "columns", checked_columns("item", self.columns, self.type))
        object.__setattr__(self, "repeats", plain_name(self.repeats))


def names_of(columns: str | Sequence[str]) -> tuple[str, ...]:
    """The names of one or several columns."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def checked_columns(purpose: str, columns: Any, type_: str | None) -> Any:
    """The name of one column, or a tuple of several names; refuses what names no columns."""
    if not isinstance(columns, (list, tuple)):
        check_names(needed=True, **{purpose: columns})
        return plain_name(columns)
    if not columns:
        raise column_error(f"{{{purpose}}} is empty; name a column", **{purpose: ...})
    for column in columns:
        check_names(needed=True, **{purpose: column})
    names = tuple(str.__str__(column) for column in columns)
    if len(set(names)) < len(names):
        raise column_error(f"{{{purpose}}} names a column twice: {list(names)}", **{purpose: ...})
    if len(names) == 1:
        return names[0]
    if type_ is not None:
        raise column_error(
            f"{{{purpose}_type}} is for one column, and {{{purpose}}} names {len(names)}; columns "
            "keep their types: convert those that should have another",
            **{purpose: ..., f"{purpose}_type": ...},
        )
    return names


def plain_name(name: Any) -> Any:
    """A name as plain text: a member of an enumeration equals one, and prints as another."""
    if name is None or isinstance(name, DefaultName):
        return name
    return str.__str__(name)


def check_names(*, needed: bool = False, **names: Any) -> None:
    """Refuse names that are not text; an option that is None names nothing, unless it must."""
    for purpose, name in names.items():
        if (name is not None or needed) and not isinstance(name, str):
            raise column_error(
                f"{{{purpose}}} must be the name of a column as text, not {_other(name)}",
                **{purpose: ...},
            )
        # Names that are read or written are UTF-8; what the shell passes on need not be.
        if name is not None and not is_utf8(name):
            raise column_error(
                f"{{{purpose}}} is not UTF-8; rename the column, and type its name in UTF-8",
                **{purpose: ...},
            )
        if purpose == "text" and not name and name is not None:
            raise column_error(
                "{text} is empty; name the column of texts, or give a column of items", text=...
            )


def is_utf8(name: str) -> bool:
    """Whether a text can be encoded."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _other(name: object) -> str:
    """What was typed instead of a name, and what to do about it; what it holds is not shown."""
    if isinstance(name, type):
        return f"the class {name.__name__}; make one: dpsu.{name.__name__}('column')"
    if isinstance(name, (list, tuple, set, dict)):
        return f"a {type(name).__name__}; several columns are a list of their names"
    if name is None:
        return f"None; if each row of the data is another person's, say {ONE_PER_ENTRY!r}"
    return f"a {type(name).__name__}; rename columns whose names are not text, and name one column"


def collation_error(name: str, fix: str) -> DataError:
    """The error for a column in which different texts, such as "Ann" and "ann", may be equal."""
    return DataError(
        f"column {name!r} has a collation under which different texts are equal; dpsu compares "
        f"bytes, so one user or item could become several. Convert it to one spelling: {fix}"
    )


def sql_of_one_spelling(name: str, *functions: str) -> str:
    """An expression for DuckDB and PostgreSQL that replaces a column with a collation."""
    cell = f'cast("{name}" as text)'
    for function in functions:
        cell = f"{function}({cell})"
    return f'select {cell} collate "C" as "{name}"'


def column_error(message: str, **columns: Any) -> ParameterError:
    """An error about the columns of users and items; options are spelled as they were typed."""
    for purpose, typed in TYPED.items():
        if purpose in columns:
            message = message.replace(f"{{{purpose}}}", f"{{{typed}}}")
            columns[typed] = columns.pop(purpose)
    return ParameterError(message, FLAGS, **columns)


def pick(
    wanted: Sequence[Column],
    existing: Sequence[Any],
    where: str = "the data",
    *,
    typed: bool = True,
) -> list[str]:
    """Check that each column exists once; the error for a missing one suggests similar names.

    Only names much like the typed one are shown: in a pivoted table the names of columns are
    private values. For a text file (not `typed`) none is shown: they are cells if it has no header.
    """
    names = [column.name for column in wanted]
    for name, column in zip(names, wanted, strict=True):
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
        raise MissingColumnError(f"there is no column {name!r} in {where}; {hint}", column.option)
    return names


class MissingColumnError(ParameterError):
    """A column that was named is not there; `purpose` is the option that names it."""

    def __init__(self, found: str, purpose: str) -> None:
        told = column_error(f"{found}name the right one with {{{purpose}}}", **{purpose: ...})
        super().__init__(told.message, told.flags, **told.options)
        self._found, self._purpose = found, purpose

    def named_by(self, purpose: str) -> MissingColumnError:
        """The same where another option names the column."""
        return MissingColumnError(self._found, purpose)

    def under_a_plan(self) -> ParameterError:
        """The same where a plan names the column, and nobody typed it."""
        return column_error(
            f"{self._found}the plan names it; make a plan with the right {{{self._purpose}}} and "
            "have that approved, or rename the column",
            **{self._purpose: ...},
        )


@contextmanager
def reworded(word: Callable[[ParameterError], ParameterError]) -> Iterator[None]:
    """Raise what `word` makes of an error of options, without the first as its context."""
    try:
        yield
    except ParameterError as error:
        found = word(error)
        if found is error:
            raise
    else:
        return
    raise found


def named_by(plan: object) -> AbstractContextManager[None]:
    """Say in errors about missing columns that the plan named them, if it was made before."""

    def blame(error: ParameterError) -> ParameterError:
        if plan is None or not isinstance(error, MissingColumnError):
            return error
        return error.under_a_plan()

    return reworded(blame)
