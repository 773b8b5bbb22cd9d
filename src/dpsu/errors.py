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


def without_values(call: Callable[[], T], message: str) -> T:
    """Run `call`; if it fails, raise a :class:`DataError` that carries nothing but `message`.

    Libraries quote the offending cell in their errors. Raising outside the ``except`` block keeps
    that text out of ``__context__`` too, so that no traceback or ``repr`` can show it.
    """
    try:
        return call()
    except (DpsuError, MemoryError):
        raise
    except Exception:
        pass
    raise DataError(message)
