"""Kernels once more as other processors run them, and with checks of the indices of arrays."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tools.pages import ROOT

from dpsu.kernels import interning, processor, weights

# What calls kernels most directly.
TESTS = [
    f"tests/unit/{folder}"
    for folder in ("contributions", "kernels", "policies", "randomness", "rounds", "text")
]
WHICH = "import json; from dpsu.kernels import rounds; print(json.dumps(rounds.__file__))"


def environment(build: str) -> dict[str, str]:
    """The environment of a separate run of pytest."""
    others = {name: v for name, v in os.environ.items() if not name.startswith("PYTEST_")}
    return others | {"DPSU_KERNELS": build}


def folder_of(build: str) -> Path:
    done = subprocess.run(
        [sys.executable, "-c", WHICH], env=environment(build), capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    return Path(json.loads(done.stdout)).parent


def test_the_processor_decides_which_build_runs() -> None:
    newer = (ROOT / "src" / "dpsu" / "kernels" / "x86_64_v3").is_dir()
    usual = "x86_64_v3" if newer and processor.runs_x86_64_v3() else "kernels"
    assert folder_of("").name == usual
    assert folder_of("any").name == "kernels"
    # No other folder of the machine, whatever the variable says.
    with pytest.raises(subprocess.CalledProcessError) as refused:
        folder_of("../../somewhere")
    assert "DPSU_KERNELS must be any" in refused.value.stderr


@pytest.mark.slow
@pytest.mark.parametrize("build", ["any", "checked"])
def test_the_other_builds_do_the_same(build: str) -> None:
    """With checks of indices, a mistake that would read beyond an array fails a test."""
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not slow",
            "--deselect", "tests/unit/kernels/test_builds.py", *TESTS,
        ],
        cwd=ROOT, env=environment(build), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    # Where nothing can be raised, Cython prints what went wrong.
    assert "Exception ignored" not in done.stdout + done.stderr
    assert folder_of(build).name == ("checked" if build == "checked" else "kernels")


def test_sources_alone_are_refused_with_what_to_do(tmp_path: Path) -> None:
    folder = tmp_path / "dpsu"
    ignored = shutil.ignore_patterns("*.so", "x86_64_v3", "checked", "__pycache__")
    shutil.copytree(ROOT / "src" / "dpsu", folder, ignore=ignored)
    done = subprocess.run(
        [sys.executable, "-c", "import dpsu.kernels"], capture_output=True, text=True, check=False,
        env=environment("") | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == (
        "ImportError: dpsu is not compiled; run `make`, or install it with pip"
    )


def test_a_wrong_type_or_length_is_an_error() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    items, found = np.zeros(1, np.int32), np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="differ in length"):
        weights.count(one, two, items, found)
    with pytest.raises(ValueError, match="dtype mismatch"):
        weights.count(one, one, one, found)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="not C-contiguous"):
        weights.count(np.zeros(4, np.int64)[::2], two, items, found)
    with pytest.raises(ValueError, match="dimensions"):
        weights.count(one.reshape(1, 1), one, items, found)
    with pytest.raises(ValueError, match="read-only"):
        weights.count(one, one, items, np.frombuffer(bytes(8), np.int64))
    with pytest.raises(TypeError):
        weights.count(None, one, items, found)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="power of 2"):
        interning.seat_texts(np.zeros(0, np.uint64), np.zeros(6, np.uint64))
