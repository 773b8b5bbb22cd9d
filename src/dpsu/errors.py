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
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class DpsuError(Exception):
    """Anything this package raises on purpose."""


class ParameterError(DpsuError, ValueError):
    """An option is out of range, missing, or does not fit the others."""


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


NO_MEMORY = "there is not enough memory for this; use a larger machine, or fewer rows"
# What libraries say when memory is short; they have no exception of their own for it.
_SHORTAGES = ("bad_alloc", "bad allocation", "can't start new thread", "cannot allocate memory",
              "resource temporarily unavailable", "out of memory", "realloc of size",
              "malloc of size", "failed to map segment")  # fmt: skip


def lacks_memory(error: BaseException) -> bool:
    """Whether an error means that memory, or room for another thread, is missing."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno == errno.ENOMEM
    # Only these classes: a library that quotes a cell must not be taken at its word.
    kinds = OSError | RuntimeError | ImportError | SystemError
    if not isinstance(error, kinds) and type(error).__name__ != "ArrowException":
        return False
    said = str(error).lower()
    return any(shortage in said for shortage in _SHORTAGES)


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
        short = lacks_memory(error)
    if short:
        raise ResourceError(NO_MEMORY)
    raise kind(message)
