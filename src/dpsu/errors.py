"""What can go wrong, and the words for it.

::

     1  DpsuError
     2  ├── ParameterError (ValueError)   an option is out of range, missing or does not fit others
     2  ├── DataError      (ValueError)   the data cannot be read as rows of (user, item)
     3  ├── BudgetError    (ValueError)   a release costs more than is left, or its name is spent
     1  ├── LedgerError    (OSError)      the ledger cannot be read or written, or is damaged
     1  ├── OutputError    (OSError)      the result cannot be written where it was asked for
    75  ├── ResourceError  (MemoryError)  neither memory nor disk has room for the data
    75  ├── JobLostError   (RuntimeError) a cluster ended the job, or lost what it ran on
     2  └── MissingLibraryError (ImportError)  what was asked for needs a library
        DataWarning    (UserWarning)  the data can be used, but their curator should know something

A message names what was typed, the bound and the fix. It never contains a value from the data, and
neither does the chain of exceptions behind it: see :func:`without_values`.

The number is the exit code of the command line, and the `exit_code` of the error. Each class has
one; an error may have its own by its cause, and never by its text:

1. *failed*: a defect, a damaged ledger, a disk that fails, and what the others do not name.
2. *input*: the command, the data or the surroundings must be fixed, such as a missing file.
3. *refused*: by the budget, a plan that was edited, or a name that is spent or has another plan.
75. *try again*: the cause may pass, such as a full disk, a locked ledger, a name that runs in
    another process, a server that cannot be reached, or a job that was lost.
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
# Exit codes. The last is EX_TEMPFAIL of sysexits.h, which Windows does not have.
FAILED, INPUT, REFUSED, TRY_AGAIN = 1, 2, 3, 75
# Exit codes of system errors: causes that may pass, and causes that must be fixed.
_OF_SYSTEM = {
    getattr(errno, name): code
    for code, names in (
        (TRY_AGAIN, "ENOMEM ENOSPC EDQUOT EAGAIN ENFILE ETIMEDOUT"),
        (INPUT, "ENOENT ENOTDIR EISDIR EACCES EPERM EROFS ELOOP ENAMETOOLONG"),
    )
    for name in names.split()
}
# BUSY, LOCKED, NOMEM, FULL and PROTOCOL; PERM, READONLY, CANTOPEN and NOTADB.
_OF_SQLITE = dict.fromkeys((5, 6, 7, 13, 15), TRY_AGAIN) | dict.fromkeys((3, 8, 14, 26), INPUT)


class DpsuError(Exception):
    """Anything this package raises on purpose.

    Parameters
    ----------
    message : str
        What is wrong, then what to do.
    exit_code : int, optional
        The exit code of this error, where it is not that of its class.

    Attributes
    ----------
    exit_code : int
        The exit code of the command line: 1 failed, 2 the input must be fixed, 3 refused, 75 try
        again.
    """

    exit_code: int = FAILED

    def __init__(self, message: str = "", *, exit_code: int | None = None) -> None:
        super().__init__(message)
        if exit_code is not None:
            self.exit_code = exit_code


class ParameterError(DpsuError, ValueError):
    """An option is out of range, missing, or does not fit the others.

    Parameters
    ----------
    message : str
        Options stand in it as ``{max_items}``, so that Python users read ``max_items=0`` and users
        of the command line ``--max-items 0``.
    flags : mapping, optional
        Names that options have on the command line, where these differ.
    exit_code : int, optional
        As for all errors; 2 by default.
    **options
        What was typed for each option that the message names; ``...`` where only its name is
        meant.
    """

    exit_code = INPUT

    def __init__(
        self, message: str, flags: Any = None, *, exit_code: Any = None, **options: Any
    ) -> None:
        self.message, self.options = message, options
        self.flags: dict[str, str] = dict(flags or {})
        super().__init__(self._spelled(_in_python), exit_code=exit_code)

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
        code, options = self.exit_code, self.options
        return partial(ParameterError, self.message, self.flags, exit_code=code, **options), ()


def option_error(
    name: str, what: str, value: object = ..., *, flags: Any = None, exit_code: int = INPUT
) -> ParameterError:
    """The error for one option: its name, with the value if that is given, and what is wrong."""
    return ParameterError(f"{{{name}}} {what}", flags, exit_code=exit_code, **{name: value})


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

    exit_code = INPUT


class BudgetError(DpsuError, ValueError):
    """A release would cost more than is left for its dataset, or its name is spent."""

    exit_code = REFUSED


class LedgerError(DpsuError, OSError):
    """The ledger cannot be read or written, or is damaged."""


class OutputError(DpsuError, OSError):
    """The result cannot be written where it was asked for."""


class ResourceError(DpsuError, MemoryError):
    """Neither memory nor disk has room for the data."""

    exit_code = TRY_AGAIN


class JobLostError(DpsuError, RuntimeError):
    """A cluster ended the job, or lost the session or the machines it ran on.

    Nothing is wrong with the data, and nothing was released. Of a job that was charged, the message
    says what stays charged.
    """

    exit_code = TRY_AGAIN


class MissingLibraryError(DpsuError, ImportError):
    """What was asked for needs a library that is not installed."""

    exit_code = INPUT


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


def exit_code_of(error: BaseException) -> int:
    """The exit code that a failure means, by its class or its number, and never by its text."""
    if isinstance(own := getattr(error, "exit_code", None), int):
        return own
    if is_memory_error(error):
        return TRY_AGAIN
    if isinstance(error, OSError):
        return _OF_SYSTEM.get(error.errno or 0, FAILED)
    # Errors of SQLite have a number of their own, and tell more in its upper bits.
    return _OF_SQLITE.get(getattr(error, "sqlite_errorcode", 0) & 0xFF, FAILED)


def unless_short(call: Callable[[], T]) -> T:
    """Run `call`; turn errors of the system for missing memory or threads into ResourceError."""
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
