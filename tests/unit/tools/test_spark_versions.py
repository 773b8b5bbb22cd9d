"""What tries other versions of Spark, without any of them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools.peers import environments, runner, spark_versions
from tools.peers.spark_versions import VERSIONS

TOLD = {
    "version": "4.0.1", "seconds": 9.0, "equal": {"sieve": True, "bits": True},
    "released": {"sieve": 1200, "bits": 3},
}  # fmt: skip


def test_requirements_are_pinned_and_of_this_version() -> None:
    for version in [e for e in VERSIONS if not e.here]:
        text = (environments.REQUIREMENTS / f"{version.name}.txt").read_text("utf-8")
        assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in text.splitlines()), version
        assert f"pyspark=={version.name.removeprefix('spark-')}." in text, version


def test_a_version_runs_the_source_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def ran(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        asked.append({"command": command, **options})
        return subprocess.CompletedProcess(command, 0, f"noise\n{json.dumps(TOLD)}\n", "")

    monkeypatch.setattr(spark_versions, "python_of", lambda *_: "python-4.0")
    monkeypatch.setattr("tools.peers.spark_versions.subprocess.run", ran)
    entry = spark_versions.tried(VERSIONS[0], tmp_path, tmp_path / "rows.parquet", "python")
    assert asked[0]["command"][:3] == ["python-4.0", "-m", "tools.peers.releasing"]
    assert asked[0]["env"]["PYTHONPATH"].startswith(str(spark_versions.ROOT / "src"))
    assert {name: entry[name] for name in TOLD} == TOLD


def test_what_failed_is_on_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> str:
        raise environments.NotInstalledError("no such version")

    monkeypatch.setattr(spark_versions, "python_of", refuse)
    entry = spark_versions.tried(VERSIONS[0], tmp_path, tmp_path / "rows.parquet", "python")
    assert entry["failed"] == "not installed: no such version"


def test_the_table_says_which_mechanisms_differ() -> None:
    entry = {"date": "2026-01-31", "dpsu": "1.0", **TOLD}
    other = entry | {"equal": {"sieve": False, "bits": True}, "version": "4.1.0"}
    failed = {"date": "2026-01-31", "dpsu": "1.0", "failed": "did not run: a|b"}
    found = dict(zip([e.name for e in VERSIONS], [entry, other, failed], strict=True))
    lines = spark_versions.table({"versions": found}).splitlines()[2:]
    assert lines[0].endswith("| `sieve` 1,200, `bits` 3 | as on one machine |")
    assert lines[1].startswith("| 4.1.0 | 2026-01-31, dpsu 1.0 |")
    assert lines[1].endswith("| differs: sieve |")
    assert lines[2].endswith("| did not run: a\\|b |")
    assert spark_versions.table({}).count("| never |") == len(VERSIONS)


def test_what_is_shown_is_of_all_versions() -> None:
    """The last runs are in the results, and none of them differs from one machine."""
    found = json.loads(runner.RESULTS.read_text("utf-8"))["versions"]
    for version in VERSIONS:
        assert all(found[version.name]["equal"].values())
        assert len(found[version.name]["equal"]) == 5
