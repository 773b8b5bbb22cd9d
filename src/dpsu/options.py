"""Options: what may be typed, within which bounds, and what it means, each said in one place.

An object that people type (a mechanism, `Counts`, `Tokens`) is a frozen dataclass whose fields are
made by :func:`option`. Its checks, the flags of the command line, the tables of the documentation
and the spelling of errors all come from these fields.
"""

from __future__ import annotations

import difflib
import inspect
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import wraps
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from dpsu.errors import option_error

# Strict, so that an option of a mechanism is not taken for a misspelled keyword of a release.
KEYWORD_LIKENESS = 0.7
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Option:
    """One option: its kind, its bounds, and what it does.

    Attributes
    ----------
    default : object
        None means that something sensible is chosen; `usual` says what.
    kind : {int, float, str, bool, object}
        What is typed; anything goes for `object`, which its owner checks.
    help : str
        One sentence for the command line and the reference.
    low, high : float
        Bounds of numbers, both included.
    choices : tuple of str
        The words that may be typed; empty where any may.
    name : str
        Its name on the command line, where it stands beside the options of other objects.
    usual : str
        The default in words.
    parse : callable or None
        Makes of a text of the command line what is typed in Python.
    several : bool
        Whether its flag may be given more than once.
    """

    default: Any
    kind: type
    help: str
    low: float = -math.inf
    high: float = math.inf
    choices: tuple[str, ...] = ()
    name: str = ""
    usual: str = ""
    parse: Callable[[str], Any] | None = None
    several: bool = False

    @property
    def shown_default(self) -> str:
        """What the reference and the command line say of the default; empty for none."""
        if self.usual or self.default in (None, False):
            return self.usual
        return str(self.default)

    @property
    def bounds(self) -> str:
        """What may be typed, in words; empty where that is not a matter of numbers."""
        if self.choices or not math.isfinite(self.low + self.high):
            return ""
        if self.kind is int:
            return f"From {int(self.low):,} to {int(self.high):,}."
        if self.kind is float:
            return f"From {_readable(self.low)} to {_readable(self.high)}."
        return ""

    def check(self, field_name: str, value: Any) -> Any:
        """The value as a plain Python one, or an error that names it, its bound and the fix."""
        if value is None and self.default is None:
            return None
        flags = {field_name: self.name or field_name}
        if self.kind is int:
            return whole_number(field_name, value, int(self.low), int(self.high), flags=flags)
        if self.kind is float:
            return number(field_name, value, self.low, self.high, flags=flags)
        if self.kind is bool:
            return flag(field_name, value, flags=flags)
        if self.choices:
            return one_of(field_name, value, self.choices, flags=flags)
        return value


def _readable(bound: float) -> str:
    """A bound without an exponent where it is a whole number of thousands or more."""
    return f"{bound:,.0f}" if bound >= 1000 and bound.is_integer() else f"{bound:g}"


def option(default: Any, kind: type, help: str, **facts: Any) -> Any:
    """A field of a dataclass that is an option; it must be typed if its default is MISSING."""
    made = Option(None if default is MISSING else default, kind, help, **facts)
    return field(default=default, metadata={"option": made})


@dataclass(frozen=True, kw_only=True)
class Typed:
    """An object whose fields are options; each is checked when the object is made."""

    # Type checkers know from the fields which keywords there are.
    if not TYPE_CHECKING:

        def __new__(cls, *_: Any, **typed: Any) -> Any:
            """Refuse keywords that are no options, and say which one was meant."""
            _refuse_unknown(cls.__name__, typed, options_of(cls))
            return super().__new__(cls)

    def __post_init__(self) -> None:
        # Plain numbers from here on: NumPy's compute in their own, smaller types.
        for name, each in options_of(type(self)).items():
            object.__setattr__(self, name, each.check(name, getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Refuse options that do not fit each other."""


def options_of(kind: type) -> dict[str, Option]:
    """The options of a class by the names of its fields, in their order."""
    return {
        each.name: each.metadata["option"] for each in fields(kind) if "option" in each.metadata
    }


def suggests_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse an unknown keyword of a function, and suggest the nearest known one."""
    known = inspect.signature(function).parameters

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        _refuse_unknown(function.__name__, kwargs, known)
        return function(*args, **kwargs)

    return checked


def _refuse_unknown(call: str, typed: Iterable[str], known: Collection[str]) -> None:
    """Raise Python's own error, with the nearest known keyword."""
    for name in typed:
        if name not in known:
            near = did_you_mean(name, known, KEYWORD_LIKENESS)
            raise TypeError(f"{call}() got an unexpected keyword argument {name!r}{near}")


def set_fields(made: object, **checked: object) -> None:
    """Set fields of a frozen dataclass, while it is made, to the values that checks returned."""
    for name, value in checked.items():
        object.__setattr__(made, name, value)


Flags = dict[str, str] | None


def number(
    name: str, value: object, lowest: float, highest: float, *, flags: Flags = None
) -> float:
    """Return an option as a plain number; refuse one that is out of bounds.

    Use the returned number: a number of NumPy would compute in its own, smaller type.
    """
    given = _float(value)
    if math.isnan(given):
        told = f"is not a number; give one from {lowest:g} to {highest:g}"
        raise option_error(name, told, value, flags=flags)
    if not lowest <= given <= highest:
        told = f"is out of range; it must lie between {lowest:g} and {highest:g}"
        raise option_error(name, told, value, flags=flags)
    # Minus zero is zero, and is not to be spelled otherwise.
    return given + 0.0


def _float(value: object) -> float:
    """A number as a float, infinite if it is too large for one; NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole_number(
    name: str, value: object, lowest: int, highest: int, *, flags: Flags = None
) -> int:
    """Return an option as a plain whole number; refuse one that is out of bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        told = f"is not a whole number; give one from {lowest} to {highest}"
        raise option_error(name, told, value, flags=flags)
    if not lowest <= int(value) <= highest:
        told = f"is out of range; it must lie between {lowest} and {highest}"
        raise option_error(name, told, value, flags=flags)
    return int(value)


def one_of(name: str, value: object, choices: Sequence[str], *, flags: Flags = None) -> str:
    """Check that an option is one of several words."""
    if not isinstance(value, str) or value not in choices:
        near = did_you_mean(value, choices)
        raise option_error(name, f"is not one of {', '.join(choices)}{near}", value, flags=flags)
    # The word itself: a member of an enumeration equals it, and prints as something else.
    return choices[list(choices).index(value)]


def did_you_mean(typed: object, known: Iterable[str], likeness: float = 0.6) -> str:
    """The nearest of some words as the end of a sentence; empty if none is near."""
    words = {word.lower().replace("_", "-"): word for word in known}
    near = difflib.get_close_matches(str(typed).lower().replace("_", "-"), words, 1, likeness)
    return f"; did you mean {words[near[0]]!r}?" if near else ""


def flag(name: str, value: object, *, flags: Flags = None) -> bool:
    """Check that an option is True or False; what merely counts as true may be a mistake."""
    if not isinstance(value, bool):
        raise option_error(name, "is neither True nor False", value, flags=flags)
    return value


def function(name: str, value: Callable[..., None] | None) -> Callable[..., None]:
    """Check that an option can be called; None stands for a function that does nothing."""
    if value is None:
        return lambda *_: None
    if not callable(value):
        raise option_error(name, "is neither a function nor True or False", value)
    return value
