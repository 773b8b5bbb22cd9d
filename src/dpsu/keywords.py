"""Keywords that a call does not have: the error says where what was typed belongs.

Most options belong to objects, such as ``dpsu.Sieve(rounds=6)``. Whoever types one as a keyword of
`release`, or for another object, is told which objects have it. All of this is made of signatures
and of the fields of the objects, so that it needs no list of its own.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import wraps
from types import FunctionType
from typing import Any, ParamSpec, TypeVar, cast

from dpsu.errors import ParameterError

P = ParamSpec("P")
R = TypeVar("R")
# Classes of objects that people type, in the order in which they are defined.
OWNERS: list[type] = []
# Where several objects have an option, the first of these stands for them: an option without a
# mechanism means one of these.
USUAL = ("sieve", "auto")
# Of those that have a prior, greedy needs nothing else to make use of it.
ALONE = {"prior": "greedy"}
LONGEST_SHOWN = 40
NEAR = 0.55
# What `dpsu.plan` takes, known once it is defined.
PLANNED: set[str] = set()


class UnknownKeywordError(ParameterError, TypeError):
    """A keyword that a function or class does not have; Python calls that a TypeError."""

    def __reduce__(self) -> tuple[Any, ...]:
        return UnknownKeywordError, (self.message, self.flags)


def kind_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Refuse keywords that a function does not have in words that tell where they belong."""
    known = inspect.signature(function).parameters
    names, refuse = set(known), _refuse_for_call
    if function.__name__ == "plan":
        PLANNED.update(names)

    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if not names.issuperset(kwargs):
            refuse(function, known, kwargs)
        return function(*args, **kwargs)

    # Doctests are found by the globals of a function, and those of this module are not its own.
    own = FunctionType(
        checked.__code__,
        getattr(function, "__globals__", {}),
        function.__name__,
        None,
        checked.__closure__,
    )
    return cast(Callable[P, R], wraps(function)(own))


def refuse_for_class(kind: type, typed: Iterable[str]) -> None:
    """Refuse keywords that are not fields of a class; called before it is made."""
    own = _options(kind)
    for name in typed:
        if name in own:
            continue
        message = f"{kind.__name__}() got an unexpected keyword argument {name[:LONGEST_SHOWN]!r}"
        flags = {flag: field for field, flag in own.items()}
        meant = flags.get(name) or _near(name, list(own))
        having = [each for each in _having(name) if each is not kind and hasattr(each, "name")]
        if meant is not None:
            raise UnknownKeywordError(f"{message}; did you mean {meant}?")
        if having:
            verb = "has" if len(having) == 1 else "have"
            message += f", which {', '.join(_label(each) for each in having)} {verb}"
        raise UnknownKeywordError(f"{message}; its options are {', '.join(own)}")


def _refuse_for_call(
    function: Callable[..., Any], known: Mapping[str, inspect.Parameter], typed: Iterable[str]
) -> None:
    for name in typed:
        if name not in known:
            begun = f"{function.__name__}() got an unexpected keyword argument"
            raise UnknownKeywordError(f"{begun} {name[:LONGEST_SHOWN]!r}{_hint(name, known)}")


def _hint(name: str, known: Mapping[str, inspect.Parameter]) -> str:
    """Where this keyword belongs: to an object, to the plan, or it is misspelled."""
    if name in ("dataset", "budget") and "ledger" in known:
        return "; it belongs to the ledger: ledger=dpsu.Ledger(path).dataset(name, budget=(E, D))"
    plans = any(_words(each) >= {"Plan"} for each in known.values())
    owner = _owner(name)
    if owner is not None:
        made = _made(owner, name)
        place = next((each for each in known if _takes(known[each], owner)), None)
        if place is None and plans:
            return f"; the plan decides it: dpsu.plan(..., {_place_in_plan(owner)}={made})"
        return f"; it is an option of an object: {'' if place is None else f'{place}='}{made}"
    near = _near(name, list(known))
    if near is not None:
        return f"; did you mean {near}?"
    return f"; the plan decides it: dpsu.plan({name}=...)" if plans and name in PLANNED else ""


def _place_in_plan(owner: type) -> str:
    """The keyword of a plan that takes such an object."""
    places = {"Users": "user", "Counts": "counts"} | dict.fromkeys(
        ("Items", "Tokens", "Values"), "item"
    )
    return places.get(owner.__name__, "mechanism")


def _owner(name: str) -> type | None:
    """The object that has this option; the usual one, if several have it."""
    having = _having(name)
    first = (ALONE[name], *USUAL) if name in ALONE else USUAL
    usual = [each for best in first for each in having if getattr(each, "name", None) == best]
    return next(iter((*usual, *having)), None)


def _having(name: str) -> list[type]:
    """Classes with a field of this name; or, if there is none, of this flag's name."""
    typed = [each for each in OWNERS if _is_typed(each)]
    fit = [each for each in typed if name in _options(each)]
    return fit or [each for each in typed if name in _options(each).values()]


def _is_typed(kind: type) -> bool:
    """Whether people type this class: it is neither a base of others nor a kind without a name."""
    return hasattr(kind, "name") == ("name" in vars(kind)) and not inspect.isabstract(kind)


def _made(owner: type, name: str) -> str:
    """How to type an object with this option, and those that it cannot do without."""
    own = _options(owner)
    field = name if name in own else next(each for each, flag in own.items() if flag == name)
    needed = [each.name for each in fields(owner) if each.default is MISSING and each.name in own]
    parts = ", ".join(f"{each}=..." for each in dict.fromkeys((*needed, field)))
    return f"dpsu.{owner.__name__}({parts})"


def _options(kind: type) -> dict[str, str]:
    """The options of a class, and what each is called on the command line."""
    named = ((each.name, each.metadata.get("option")) for each in fields(kind))
    return {name: option.name or name for name, option in named if option is not None}


def _label(kind: type) -> str:
    return str(getattr(kind, "name", kind.__name__))


def _takes(parameter: inspect.Parameter, kind: type) -> bool:
    return bool(_words(parameter) & {each.__name__ for each in kind.__mro__})


def _words(parameter: inspect.Parameter) -> set[str]:
    """The names in the annotation of a parameter, which is text."""
    # Not those of the elements of a list: an object alone does not fit there.
    return set(re.findall(r"\w+", re.sub(r"\[.*?\]", "", str(parameter.annotation))))


def _near(typed: str, names: list[str]) -> str | None:
    """The name that was meant: one much like it, or one that has it as a part."""
    near = difflib.get_close_matches(typed, names, n=1, cutoff=NEAR)
    parts = [name for name in names if typed in name.split("_")]
    return next(iter((*near, *parts)), None)
