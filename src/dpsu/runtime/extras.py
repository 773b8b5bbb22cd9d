"""Libraries that are not always installed, or not always needed."""

from __future__ import annotations

import importlib
from typing import Any

from dpsu.errors import MissingLibraryError


def load(module: str, extra: str | None = None) -> Any:
    """Import a module, or say which extra brings its library."""
    library = module.split(".", maxsplit=1)[0]
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name != library:
            raise
    raise MissingLibraryError(f"this needs {library}: pip install 'dpsu[{extra or library}]'")


class Later:
    """A library that is imported when something of it is first used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(importlib.import_module(self._name), attribute)
