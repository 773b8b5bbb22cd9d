"""Refuses confidential data that are also given as public: all of them would be released."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from dpsu.errors import ParameterError, option_error
from dpsu.inputs.formats import STDIN


def refuse_same_object(data: Any, *public: Any) -> None:
    """Refuse confidential data that are also public: all of them would be released."""
    if isinstance(data, (str, os.PathLike)):
        # Names of files are compared by the files themselves.
        return
    if any(given is data and given is not None for given in public):
        raise ParameterError(
            "the confidential data are also given as public data; give public data"
        )


def refuse_same_files(
    files_read: Iterable[str | os.PathLike[str]], public: Iterable[tuple[str, Any]]
) -> None:
    """Refuse public data from a file that is among those with confidential data, by any name."""
    private = [identity(path) for path in files_read]
    for name, given in public:
        found = identity(given)
        if found is not None and found in private:
            raise option_error(name, "is the file of the confidential data; give public data there")


def identity(path: str | os.PathLike[str]) -> tuple[int, int] | None:
    """What identifies a file under any of its names; None if there is no such file."""
    try:
        found = os.fstat(sys.stdin.fileno()) if str(path) == STDIN else Path(path).stat()
    except (OSError, ValueError, AttributeError):
        return None
    return found.st_dev, found.st_ino
