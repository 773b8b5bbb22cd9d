"""Versions of Spark beside the one of the project, each in an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tools.peers.environments import Library, NotInstalledError, last_line, python_of

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = (
    Library("spark-4.0", "Spark 4.0", selects=False),
    Library("spark-4.1", "Spark 4.1", selects=False),
    Library("spark-newest", "the newest Spark", here=True, selects=False),
)


def tried(version: Library, folder: Path, purchases: Path, base: str) -> dict[str, Any]:
    """What releases by this version came to, compared with those of one machine."""
    today = {"date": datetime.now(UTC).date().isoformat()}
    try:
        python = python_of(version, folder, base)
    except NotInstalledError as reason:
        return today | {"failed": f"not installed: {reason}"}
    # There, `dpsu` is the source of this project, and not a package: workers find it, too.
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [python, "-m", "tools.peers.releasing", str(purchases)], cwd=purchases.parent,
        capture_output=True, check=False, text=True, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    if done.returncode:
        return today | {"failed": f"did not run: {last_line(done.stderr)}"}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return today | told


def table(found: dict[str, Any]) -> str:
    """When each version last released, and what came of it."""
    lines = ["| version | last run | released, by mechanism | result |", "|---|---|---|---|"]
    for version in VERSIONS:
        entry = found.get("versions", {}).get(version.name)
        if entry is None:
            lines.append(f"| {version.title} | never | | |")
        elif "failed" in entry:
            reason = entry["failed"].replace("|", "\\|")
            lines.append(f"| {version.title} | {entry['date']} | | {reason} |")
        else:
            named = ", ".join(f"`{name}` {n:,}" for name, n in entry["released"].items())
            differ = [name for name, same in entry["equal"].items() if not same]
            result = f"differs: {', '.join(differ)}" if differ else "as on one machine"
            when = f"{entry['date']}, dpsu {entry['dpsu']}"
            lines.append(f"| {entry['version']} | {when} | {named} | {result} |")
    return "\n".join(lines)
