"""The libraries, and an environment for each: their requirements exclude one another."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

REQUIREMENTS = Path(__file__).resolve().parent / "requirements"


@dataclass(frozen=True)
class Library:
    """A library that takes keys.

    Attributes
    ----------
    name : str
        That of its file in `libraries`, of its requirements and of its folder.
    title : str
        What people call it.
    here : bool
        Whether the environment of the project has it.
    selects : bool
        Whether it can find keys by itself, privately.
    needs_delta : bool
        Whether its sums cost a delta, so that keys cannot have all of it.
    private : bool
        Whether it adds noise; what does not, answers for nobody but the curator.
    """

    name: str
    title: str
    here: bool = False
    selects: bool = True
    needs_delta: bool = False
    private: bool = True


LIBRARIES = (
    Library("opendp", "OpenDP"),
    Library("tumult", "Tumult Analytics"),
    Library("pipelinedp", "PipelineDP"),
    Library("smartnoise", "SmartNoise SQL"),
    Library("dpmm", "dpmm", selects=False, needs_delta=True),
    Library("duckdb", "DuckDB", here=True, selects=False, private=False),
    Library("spark", "Spark", here=True, selects=False, private=False),
)


class NotInstalledError(Exception):
    """A library could not be installed; the message says why."""


def python_of(library: Library, folder: Path, base: str = sys.executable) -> str:
    """The interpreter that has this library; its environment is made where it is missing or old."""
    if library.here:
        return sys.executable
    home = folder / library.name
    python, stamp = home / "bin" / "python", home / "installed.txt"
    wanted = (REQUIREMENTS / f"{library.name}.txt").read_text("utf-8")
    if not stamp.exists() or stamp.read_text("utf-8") != wanted:
        _run([base, "-m", "venv", "--clear", str(home)])
        _run(
            [
                *(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
                *("--requirement", str(REQUIREMENTS / f"{library.name}.txt")),
            ]
        )
        stamp.write_text(wanted, "utf-8")
    return str(python)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    if done.returncode:
        raise NotInstalledError(last_line(done.stderr))


def last_line(errors: str) -> str:
    """The last line that says something, without addresses and paths, which are this machine's."""
    lines = [line.strip() for line in errors.splitlines() if line.strip()]
    told = re.sub(r"\w+://\S+|(?<!\w)(?:/[\w.@~+-]+){2,}/?", "...", lines[-1] if lines else "")
    return told[:300] or "no reason was given"
