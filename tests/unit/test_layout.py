"""The layout of the package: no name stands for two things, and imports go one way."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import dpsu


def packages() -> list[str]:
    found = pkgutil.walk_packages(dpsu.__path__, "dpsu.")
    return ["dpsu", *(each.name for each in found if each.ispkg)]


def test_no_function_or_class_shadows_a_module() -> None:
    for name in packages():
        package = importlib.import_module(name)
        inside = [each.name for each in pkgutil.iter_modules(package.__path__)]
        for module in inside:
            importlib.import_module(f"{name}.{module}")
        shadowed = [
            module for module in inside if not isinstance(getattr(package, module), ModuleType)
        ]
        assert shadowed == [], name
