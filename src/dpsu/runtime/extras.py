"""Libraries that are not always installed."""

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
