"""The layout of the package: no name stands for two things, and imports go one way."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from pathlib import Path
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


def test_options_are_used_as_their_checks_return_them() -> None:
    # Numbers of NumPy compute in their own, smaller types; what is checked is a plain number.
    # These check numbers that dpsu computed itself, or read from a file.
    plain = {"shares.py", "auto.py", "reroute.py"}
    dropped = [
        f"{path.name}:{node.lineno}"
        for path in Path(dpsu.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Expr)
        and path.name not in plain
        and isinstance(node.value, ast.Call)
        and isinstance(node.value.func, ast.Name)
        and node.value.func.id in ("number", "whole_number")
    ]
    assert dropped == []
