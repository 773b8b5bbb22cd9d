"""Build with setuptools; without a C compiler, with the one that the package index has.

`pip` asks this file what a build needs. Where no compiler is found, that is `ziglang` as well.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import sysconfig
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]
ZIG = "ziglang>=0.13"


def find_compiler() -> str | None:
    """The command of a compiler: the one Python was built with, or another that is there."""
    usual = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    if shutil.which(shlex.split(usual)[0]):
        return usual
    return next(filter(shutil.which, ("cc", "gcc", "clang")), None)


def needs_zig() -> bool:
    """Whether a compiler has to be fetched; on Windows setuptools looks elsewhere for one."""
    return os.name != "nt" and find_compiler() is None


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What a build needs besides what pyproject.toml names."""
    needed = build_meta.get_requires_for_build_wheel(config_settings)
    return [*needed, ZIG] if needs_zig() else needed


def get_requires_for_build_editable(config_settings: Any = None) -> list[str]:
    """The same for an editable installation."""
    needed = build_meta.get_requires_for_build_editable(config_settings)
    return [*needed, ZIG] if needs_zig() else needed


def build_wheel(*arguments: Any, **options: Any) -> Any:
    """Build a wheel."""
    choose_compiler()
    return build_meta.build_wheel(*arguments, **options)


def build_editable(*arguments: Any, **options: Any) -> Any:
    """Build the kernels beside their sources."""
    choose_compiler()
    return build_meta.build_editable(*arguments, **options)


def choose_compiler() -> None:
    """Tell setuptools which compiler to use, unless it finds the usual one."""
    if os.name == "nt" or (found := find_compiler()) == sysconfig.get_config_var("CC"):
        return
    os.environ["CC"] = found or f"{shlex.quote(sys.executable)} -m ziglang cc"
