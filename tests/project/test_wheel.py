"""What is installed from a wheel works without the source tree and without the test libraries."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tools.pages import ROOT

import dpsu

pytestmark = pytest.mark.thorough

# Nothing of this process may show the installed package the way back to the source tree.
OUTSIDE = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


@dataclass(frozen=True)
class Archives:
    wheel: Path
    sdist: Path


def checked(*command: object, **options: object) -> str:
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, check=False, text=True, **options
    )  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def need_an_index(folder: Path) -> None:
    """Skip where pip finds no package at all; a build needs its backend."""
    asked = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--retries", "0"]
    found = subprocess.run(
        [*asked, "--dest", str(folder), "cython"], capture_output=True, check=False
    )
    if found.returncode != 0:
        pytest.skip("pip cannot reach a package index, so that nothing can be built or installed")


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Archives:
    need_an_index(tmp_path_factory.mktemp("index"))
    folder = tmp_path_factory.mktemp("dist")
    # First the source archive, and then the wheel from what is in that archive.
    checked(sys.executable, "-m", "build", "--outdir", folder, ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Archives(wheel, sdist)


@pytest.fixture(scope="module")
def programs(archives: Archives) -> Iterator[Path]:
    """The programs of an environment in which there is nothing but the wheel and what it needs."""
    # Not pytest's folders: these are kept for some runs, and this one is large.
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        programs = Path(folder) / ("Scripts" if os.name == "nt" else "bin")
        checked(programs / "python", "-m", "pip", "install", archives.wheel, env=OUTSIDE)
        yield programs


def files(folder: Path, pattern: str = "*") -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob(pattern) if path.is_file())
    here = (path.as_posix() for path in found if "__pycache__" not in path.parts)
    return {name for name in here if not name.endswith((".so", ".pyd"))}


def test_the_wheel_holds_the_package_its_kernels_and_its_pages(archives: Archives) -> None:
    source = files(ROOT / "src" / "dpsu")
    # What the compiler reads is in the source archive.
    expected = {f"dpsu/{name}" for name in source if not name.endswith((".pxd", ".h"))}
    for pages in ("proofs", "guides"):
        expected |= {f"dpsu/{pages}/{name}" for name in files(ROOT / "docs" / pages, "*.md")}
    with zipfile.ZipFile(archives.wheel) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        found = {name for name in names if not name.endswith((".so", ".pyd"))}
        kernels = {path.stem for path in (ROOT / "src/dpsu/kernels").glob("*.py")} - {"__init__"}
        compiled = {Path(name).parts[2:] for name in names - found}
        assert {parts[0].partition(".")[0] for parts in compiled if len(parts) == 1} == {
            *kernels, "_shared",
        }  # fmt: skip
        assert {parts[0] for parts in compiled if len(parts) == 2} <= {"x86_64_v3"}
        terms = wheel.read(f"dpsu-{dpsu.__version__}.dist-info/licenses/LICENSE")
    assert found == expected
    assert terms == (ROOT / "LICENSE").read_bytes()


def test_the_source_archive_holds_what_its_tests_look_at(archives: Archives) -> None:
    with tarfile.open(archives.sdist) as archive:
        top = f"dpsu-{dpsu.__version__}/"
        found = {name.removeprefix(top) for name in archive.getnames()}
    # A CITATION.cff, a workflow or a page that is missing here makes the tests of the archive fail.
    folders = ("src", "tests", "tools", "docs", ".ci", ".github")
    expected = {f"{folder}/{name}" for folder in folders for name in files(ROOT / folder)}
    expected |= {"CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "Dockerfile", "Makefile"}
    expected |= {".dockerignore", ".pre-commit-config.yaml", "mkdocs.yml", "pyproject.toml"}
    assert expected <= found


def test_the_installed_wheel_works(programs: Path, tmp_path: Path) -> None:
    where = checked(
        programs / "python", "-c", "import dpsu; print(dpsu.__file__)", env=OUTSIDE, cwd=tmp_path
    )
    assert Path(where.strip()).resolve().is_relative_to(programs.parent.resolve())
    installed = checked(programs / "python", "-m", "pip", "list", "--format=freeze", env=OUTSIDE)
    assert "pytest" not in installed

    def command(*arguments: object) -> str:
        return checked(programs / "dpsu", *arguments, env=OUTSIDE, cwd=tmp_path)

    assert command("--version") == f"dpsu, version {dpsu.__version__}\n"
    rows = "".join(f"p{u},{item}\n" for u in range(500) for item in ("bread", f"secret {u}"))
    (tmp_path / "visits.csv").write_text(f"person,product\n{rows}", encoding="utf-8")
    private = ("--epsilon", "2", "--delta", "1e-6", "--mechanism", "weighted-gaussian")
    items = command(
        "release", "visits.csv", "--user", "person", "--item", "product", *private,
        "--report", "report.txt",
    )  # fmt: skip
    assert items == "bread\n"
    # The report names its proofs in a way that leads to them here.
    report = (tmp_path / "report.txt").read_text(encoding="utf-8")
    for name in ("gaussian-joint", "weighted"):
        assert f"`dpsu proofs {name}`" in report
        assert "**Claim.**" in command("proofs", name)
    assert command("proofs", "sieve").startswith("# Sieve")
    assert "\nledger " in command("proofs")
    assert "sieve" in command("demo")
