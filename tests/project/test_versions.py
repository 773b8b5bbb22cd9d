"""The package, the changelog and the tag of a release have one version."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tools import versions

import dpsu

PROJECT = '[tool.setuptools.dynamic]\nversion = { attr = "code.__version__" }\n'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "code.py").write_text(
        '"""Code."""\n\n__version__ = "1.2.3"\n', encoding="utf-8"
    )
    write_changelog(tmp_path, "## [1.2.3] - 2026-01-31")
    return tmp_path


def write_changelog(tree: Path, heading: str) -> None:
    text = f"# Changelog\n\n{heading}\n\n- A change.\n\n## [1.2.2] - 2025-12-31\n"
    (tree / "CHANGELOG.md").write_text(text, encoding="utf-8")


def test_the_command_answers_by_its_exit_code() -> None:
    """This tree agrees with itself, and with no other tag."""
    assert versions.package_version() == dpsu.__version__
    assert versions.disagreements() == []
    wrong = subprocess.run(
        [sys.executable, "-m", "tools.versions", "--tag", "v99.0.0"],
        cwd=versions.ROOT, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert wrong.returncode == 1
    assert f"its tag is v{dpsu.__version__}" in wrong.stderr


def test_a_release_needs_its_tag_and_its_day(tree: Path) -> None:
    assert versions.disagreements("v1.2.3", tree) == []
    for tag in ("1.2.3", "v1.2.2", "v1.2.3rc1", ""):
        assert len(versions.disagreements(tag, tree)) == 1
    write_changelog(tree, "## [1.2.3] - unreleased")
    assert versions.disagreements(None, tree) == []
    (told,) = versions.disagreements("v1.2.3", tree)
    assert "is unreleased" in told


def test_headings_that_do_not_fit_and_files_without_a_version(tree: Path) -> None:
    for heading in ("[1.2.4] - unreleased", "[1.2.3] - 31 January", "[1.2.3] - 2026-02-30"):
        write_changelog(tree, f"## {heading}")
        assert len(versions.disagreements(None, tree)) == 1, heading
    (tree / "CHANGELOG.md").write_text("# Changelog\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no heading"):
        versions.disagreements(None, tree)
    (tree / "src" / "code.py").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="no __version__"):
        versions.disagreements(None, tree)
