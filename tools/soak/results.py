"""What attacks have found so far: sums by attack and by the code that was attacked."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.kept import keep

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "soak.json"
# Enough to repeat what went wrong; a flood of one kind need not be kept in full.
MOST_SHOWN, MOST_TOLD = 5, 160


def summary(found: dict[str, dict[str, Any]]) -> str:
    """The table for people: attack, tried, bad, what was varied."""
    lines = [f"{'attack':<8} {'tried':>9} {'bad':>6}  what was varied"]
    for name, row in found.items():
        lines.append(f"{name:<8} {row['tried']:>9,} {row['bad']:>6,}  {row['varied']}")
    return "\n".join(lines)


def add(path: Path, found: dict[str, dict[str, Any]], minutes: float) -> None:
    """Add a run to the file: to the newest sources, or to the sums of all earlier ones."""
    known = json.loads(path.read_text("utf-8")) if path.exists() else {"earlier": _nothing()}
    name = attacked()
    if "newest" in known and known["newest"]["name"] != name:
        newest = known.pop("newest")
        _add(known["earlier"], newest["attacks"], newest["minutes"])
    newest = known.setdefault("newest", {"name": name, **_nothing()})
    newest["date"] = datetime.now(UTC).date().isoformat()
    _add(newest, found, minutes)
    for attack, row in found.items():
        sums = newest["attacks"][attack]
        sums["unit"], sums["varied"] = row["unit"], row["varied"]
        cases = [{"seed": case["seed"], "trouble": case["troubles"][0]} for case in row["cases"]]
        sums["cases"] = (sums.get("cases", []) + cases)[:MOST_SHOWN]
    keep(path, known)


def _nothing() -> dict[str, Any]:
    return {"minutes": 0.0, "attacks": {}}


def _add(sums: dict[str, Any], found: dict[str, dict[str, Any]], minutes: float) -> None:
    """Minutes, and what was tried and bad, of one run or of several."""
    sums["minutes"] = round(sums["minutes"] + minutes, 1)
    for attack, row in found.items():
        entry = sums["attacks"].setdefault(attack, {"tried": 0, "bad": 0})
        entry["tried"] += row["tried"]
        entry["bad"] += row["bad"]


def table(known: dict[str, Any]) -> str:
    """What was found in all runs together, and in the newest sources, as Markdown."""
    earlier, newest = known["earlier"], known["newest"]
    lines = [
        "| attack | tried, all runs | bad | tried, newest sources | bad | what was varied |",
        "|---|---:|---:|---:|---:|---|",
    ]
    for name, sums in newest["attacks"].items():
        before = earlier["attacks"].get(name, {"tried": 0, "bad": 0})
        tried, bad = (sums[key] + before[key] for key in ("tried", "bad"))
        lines.append(
            f"| {name} | {tried:,} {sums['unit']} | {bad:,} | {sums['tried']:,} | "
            f"{sums['bad']:,} | {sums['varied']} |"
        )
    minutes = earlier["minutes"] + newest["minutes"]
    lines += [
        "",
        f"All runs: {minutes:,.0f} minutes. Newest: dpsu {newest['name']} (a name that "
        f"`git rev-parse --short HEAD:src/dpsu` tells), {newest['minutes']:,.0f} minutes, "
        f"{newest['date']}. What is bad in the newest sources is open and listed here.",
    ]
    for name, sums in newest["attacks"].items():
        lines += ["", f"Bad {name}:", ""] if sums["cases"] else []
        lines += [
            f"- seed {case['seed']}: `{case['trouble'][:MOST_TOLD]}`" for case in sums["cases"]
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
