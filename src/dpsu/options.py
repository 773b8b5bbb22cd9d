"""Checks of what was typed: every error names the option, its bound and what was given."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real

from dpsu.errors import ParameterError

LONGEST_SHOWN = 60


def number(name: str, value: object, lowest: float, highest: float) -> float:
    """Check that an option is a number within its bounds."""
    given = _float(value)
    if math.isnan(given):
        raise ParameterError(
            f"{name}={shown(value)} is not a number; give one from {lowest:g} to {highest:g}"
        )
    if not lowest <= given <= highest:
        raise ParameterError(
            f"{name}={shown(value)} is out of range; it must lie between {lowest:g} and {highest:g}"
        )
    return given


def _float(value: object) -> float:
    """A number as a float, infinite if it is too large for one; NaN if it is none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def whole_number(name: str, value: object, lowest: int, highest: int) -> int:
    """Check that an option is a whole number within its bounds."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ParameterError(
            f"{name}={shown(value)} is not a whole number; give one from {lowest} to {highest}"
        )
    if not lowest <= int(value) <= highest:
        raise ParameterError(
            f"{name}={shown(value)} is out of range; it must lie between {lowest} and {highest}"
        )
    return int(value)


def one_of(name: str, value: object, choices: Sequence[str]) -> str:
    """Check that an option is one of several words."""
    if not isinstance(value, str) or value not in choices:
        raise ParameterError(f"{name}={shown(value)} is not one of {', '.join(choices)}")
    return value


def flag(name: str, value: object) -> bool:
    """Check that an option is True or False; what merely counts as true may be a mistake."""
    if not isinstance(value, bool):
        raise ParameterError(f"{name}={shown(value)} is neither True nor False")
    return value


def function(name: str, value: Callable[..., None] | None) -> Callable[..., None]:
    """Check that an option can be called; None stands for a function that does nothing."""
    if value is None:
        return lambda *_: None
    if not callable(value):
        raise ParameterError(f"{name}={shown(value)} is not a function")
    return value


def shown(value: object) -> str:
    """What was typed, cut short; Python refuses to spell whole numbers of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__} of too many digits to show"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."
