"""What can go wrong, and the words for it.

::

    DpsuError
    ├── ParameterError (ValueError)   an option is out of range, missing or does not fit the others
    ├── DataError      (ValueError)   the data cannot be read as rows of (user, item)
    ├── BudgetError    (ValueError)   a release would cost more than is left for its dataset
    ├── LedgerError    (OSError)      the ledger cannot be read or written, or is damaged
    ├── OutputError    (OSError)      the result cannot be written where it was asked for
    ├── ResourceError  (MemoryError)  neither memory nor disk has room for the data
    └── MissingLibraryError (ImportError)  what was asked for needs a library that is not installed
    DataWarning        (UserWarning)  the data can be used, but the curator should know something

A message names what was typed, the bound and the fix. It never contains a value from the data, and
neither does the chain of exceptions behind it: see :func:`without_values`.
"""

from __future__ import annotations

import errno
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")
LONGEST_SHOWN = 60


class DpsuError(Exception):
    """Anything this package raises on purpose."""


class ParameterError(DpsuError, ValueError):
    """An option is out of range, missing, or does not fit the others.

    Parameters
    ----------
    message : str
        Options stand in it as ``{max_items}``, so that Python users read ``max_items=0`` and users
        of the command line ``--max-items 0``.
    flags : mapping, optional
        Names that options have on the command line, where these differ.
    **options
        What was typed for each option that the message names; ``...`` where only its name is
        meant.
    """

    def __init__(self, message: str, flags: Any = None, **options: Any) -> None:
        self.message, self.options = message, options
        self.flags: dict[str, str] = dict(flags or {})
        super().__init__(self._spelled(_in_python))

    def in_the_shell(self) -> str:
        """The message with options as they are typed in the shell."""
        return self._spelled(lambda name, value: _in_the_shell(self.flags.get(name, name), value))

    def _spelled(self, spell: Callable[[str, object], str]) -> str:
        return re.sub(
            r"\{(\w+)\}",
            lambda found: (
                spell(found[1], self.options[found[1]]) if found[1] in self.options else found[0]
            ),
            self.message,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Workers of a cluster send errors home.
        return partial(ParameterError, self.message, self.flags, **self.options), ()


def option_error(name: str, what: str, value: object = ..., *, flags: Any = None) -> ParameterError:
    """The error for one option: its name, with the value if that is given, and what is wrong."""
    return ParameterError(f"{{{name}}} {what}", flags, **{name: value})


def _in_python(name: str, value: object) -> str:
    return name if value is ... else f"{name}={shown(value)}"


def spelled_in_the_shell(name: str) -> str:
    """An option as it is typed in the shell."""
    return "--" + name.replace("_", "-")


def _in_the_shell(name: str, value: object) -> str:
    flag = spelled_in_the_shell(name)
    if value is ... or value is True:
        return flag
    return f"{flag} {value if isinstance(value, str) and value.isprintable() else shown(value)}"


def shown(value: object) -> str:
    """What was typed, cut short; Python refuses to spell whole numbers of thousands of digits."""
    try:
        text = repr(value)
    except ValueError:
        text = f"a {type(value).__name__} of too many digits to show"
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


class DataError(DpsuError, ValueError):
    """The data cannot be read as rows of (user, item)."""


class BudgetError(DpsuError, ValueError):
    """A release would cost more than is left for its dataset."""


class LedgerError(DpsuError, OSError):
    """The ledger cannot be read or written, or is damaged."""


class OutputError(DpsuError, OSError):
    """The result cannot be written where it was asked for."""


class ResourceError(DpsuError, MemoryError):
    """Neither memory nor disk has room for the data."""


class MissingLibraryError(DpsuError, ImportError):
    """What was asked for needs a library that is not installed."""


class DataWarning(UserWarning):
    """The data can be used, but its curator should know something about it."""


# What Python shows and keeps of warnings is for the whole process; what is kept here is for a call.
_kept: ContextVar[list[str] | None] = ContextVar("dpsu warnings", default=None)


@contextmanager
def keep_warnings() -> Iterator[list[str]]:
    """Keep the messages of our warnings in this block, which are not shown."""
    kept: list[str] = []
    before = _kept.set(kept)
    try:
        yield kept
    finally:
        _kept.reset(before)


def warn(message: str) -> None:
    """Warn the curator, at the line of their own code that called dpsu."""
    kept = _kept.get()
    if kept is not None:
        kept.append(message)
        return
    # Python 3.12 has `skip_file_prefixes` for this. How deep a call is depends on the front door.
    frame, level = sys._getframe(1), 2
    # Contexts of ours are left by way of contextlib.
    while frame.f_back is not None and re.match(
        r"(dpsu|contextlib)(\.|$)", frame.f_globals.get("__name__", "")
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DataWarning, stacklevel=level)


def warn_or_refuse(what: str, done: str, fix: str, strict: bool) -> None:
    """Warn of what was left out, or refuse it where the caller wants that."""
    if strict:
        raise DataError(f"{what}; {fix}")
    warn(f"{what}; {done}")


NO_MEMORY = "there is not enough memory for this; use a larger machine, or fewer rows"


def is_memory_error(error: BaseException) -> bool:
    """Whether an error means that memory, or room for another thread, is missing."""
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    # Python has no exception of its own for threads that cannot start.
    no_thread = type(error) is RuntimeError and str(error) == "can't start new thread"
    return no_thread or isinstance(error, MemoryError)


def unless_short(call: Callable[[], T]) -> T:
    """Run `call`, which takes memory or starts threads; if there is no room, say so."""
    try:
        return call()
    except (OSError, RuntimeError) as error:
        if not is_memory_error(error):
            raise
        raise ResourceError(NO_MEMORY) from None


def without_values(call: Callable[[], T], message: str, kind: type[DpsuError] = DataError) -> T:
    """Run `call`; if it fails, raise an error of this kind that carries nothing but `message`.

    Libraries quote the offending cell in their errors. Raising outside the ``except`` block keeps
    that text out of ``__context__`` too, so that no traceback or ``repr`` can show it. Data are not
    to blame where memory is short: then it is a :class:`ResourceError`.
    """
    try:
        return call()
    except DpsuError:
        raise
    except Exception as error:
        short = is_memory_error(error)
    if short:
        raise ResourceError(NO_MEMORY)
    raise kind(message)
