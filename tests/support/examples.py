"""What pages show is run with keys that are the same each time, so that nothing fails by chance.

As a script it is the command `dpsu` with such keys.
"""

from __future__ import annotations

import hashlib
import itertools
import runpy
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest


def keys() -> Callable[[int], bytes]:
    """What draws one key after the other in place of the operating system."""
    drawn = itertools.count()
    return lambda size: hashlib.shake_256(b"%d" % next(drawn)).digest(size)


def same_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw keys of releases in this process so, as long as the test runs."""
    monkeypatch.setattr(secrets, "token_bytes", keys())


def python(codes: Iterable[str], page: str) -> dict[str, Any]:
    """Run pieces of code one after the other; returns their names."""
    space: dict[str, Any] = {}
    for code in codes:
        exec(compile(code, page, "exec"), space)
    return space


def shell(script: str, folder: Path, wanted: int = 0) -> str:
    """What a script prints in a folder; it must end with the code that is wanted."""
    done = subprocess.run(
        ["bash", "-ec", script.replace("dpsu ", f"{sys.executable} {__file__} ")],
        cwd=folder, capture_output=True, check=False, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == wanted, done.stderr
    return done.stdout


if __name__ == "__main__":
    secrets.token_bytes = keys()  # type: ignore[assignment]
    # Not the folder of this script.
    del sys.path[0]
    runpy.run_module("dpsu", run_name="__main__", alter_sys=True)
