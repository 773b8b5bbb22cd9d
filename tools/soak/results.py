"""What attacks have found so far: sums by attack and by the code that was attacked."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "soak.json"
# Enough to repeat what went wrong; a flood of one kind need not be kept in full.
MOST_CASES, MOST_SHOWN, MOST_TOLD = 20, 5, 160


def summary(found: dict[str, dict[str, Any]]) -> str:
    """The table for people: attack, tried, bad, what was varied."""
    lines = [f"{'attack':<8} {'tried':>9} {'bad':>6}  what was varied"]
    for name, row in found.items():
        lines.append(f"{name:<8} {row['tried']:>9,} {row['bad']:>6,}  {row['varied']}")
    return "\n".join(lines)


def add(path: Path, found: dict[str, dict[str, Any]], minutes: float) -> None:
    """Add a run to the file; sums are kept by version and state of the sources."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"sources": []}
    name = attacked()
    entries: list[dict[str, Any]] = known["sources"]
    entry = next((e for e in entries if e["name"] == name), None)
    if entry is None:
        entry = {"name": name, "minutes": 0.0, "attacks": {}}
        entries.append(entry)
    # The newest is the last.
    entries.remove(entry)
    entries.append(entry)
    entry["date"] = datetime.now(UTC).date().isoformat()
    entry["minutes"] = round(entry["minutes"] + minutes, 1)
    for attack, row in found.items():
        sums = entry["attacks"].setdefault(attack, {"tried": 0, "bad": 0, "cases": []})
        sums["tried"] += row["tried"]
        sums["bad"] += row["bad"]
        sums["unit"], sums["varied"] = row["unit"], row["varied"]
        sums["cases"] = (sums["cases"] + row["cases"])[:MOST_CASES]
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def table(known: dict[str, Any]) -> str:
    """What was found in all runs together, and in the newest sources, as Markdown."""
    *earlier, newest = known["sources"]
    lines = [
        "| attack | tried, all runs | bad | tried, newest sources | bad | what was varied |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, sums in newest["attacks"].items():
        before = [entry["attacks"].get(name, {}) for entry in earlier]
        tried, bad = (
            sums[key] + sum(row.get(key, 0) for row in before) for key in ("tried", "bad")
        )
        lines.append(
            f"| {name} | {tried:,} {sums['unit']} | {bad:,} | {sums['tried']:,} | "
            f"{sums['bad']:,} | {sums['varied']} |"
        )
    minutes = sum(entry["minutes"] for entry in known["sources"])
    lines += [
        "",
        f"All runs: {minutes:,.0f} minutes. Newest: dpsu {newest['name']} (a name that "
        f"`git rev-parse --short HEAD:src/dpsu` tells), {newest['minutes']:,.0f} minutes, "
        f"{newest['date']}. What is bad in the newest sources is open and listed here; bad cases "
        "of earlier ones are in `benchmarks/results/soak.json`.",
    ]
    for name, sums in newest["attacks"].items():
        lines += ["", f"Bad {name}:", ""] if sums["cases"] else []
        lines += [
            f"- seed {case['seed']}: `{case['troubles'][0][:MOST_TOLD]}`"
            for case in sums["cases"][:MOST_SHOWN]
        ]
    return "\n".join(lines)


def attacked() -> str:
    """The version, and the state of the package's sources as Git names it.

    The sources' own name stays the same when commits are merged or pages are written.
    """
    import dpsu

    package = Path(dpsu.__file__).parent
    tree = _git(package, "rev-parse", "--short", "HEAD:./")
    changed = "" if not _git(package, "status", "--porcelain", ".") else " with changes"
    return f"{dpsu.__version__}, sources {tree or 'unknown'}{changed}"


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
