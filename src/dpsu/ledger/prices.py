"""Epsilon and delta as two numbers that somebody typed: a budget, or what something costs."""

from __future__ import annotations

from typing import Any

from dpsu.errors import ParameterError, option_error, shown
from dpsu.privacy.guarantee import Privacy


def price(option: str, given: Any, flags: dict[str, str] | None = None) -> Privacy:
    """The two numbers of this option; errors name the option, which `flags` may call otherwise."""
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise option_error(option, "must be two numbers, epsilon and delta", flags=flags)
    try:
        return Privacy(*given)
    except ParameterError as error:
        # Epsilon and delta of a pair have no options of their own.
        told = error.message
        for name, value in error.options.items():
            told = told.replace(f"{{{name}}}", f"its {name} {shown(value)}")
        raise ParameterError(f"{{{option}}}: {told}", flags, **{option: ...}) from None
