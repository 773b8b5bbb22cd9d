"""`dpsu warm-up`: after it, releases compile nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dpsu.runtime import machine_code

AFTERWARDS = """
import sys
import numpy as np
import pyarrow as pa
import dpsu
from dpsu.runtime.compiling import when_compiling
rng = np.random.default_rng(1)
n = 40_000
table = pa.table({
    "user": rng.integers(0, 2000, n), "number": rng.zipf(1.3, n) % 3000,
    "item": [f"item {k}" for k in rng.zipf(1.3, n) % 3000],
    "text": [f"a {k} of {k % 7}" for k in rng.zipf(1.3, n) % 300],
})
compiled = []
with when_compiling(lambda: compiled.append(1)):
    for mechanism in ("weighted-gaussian", "policy-gaussian", "sieve", "bits", "auto"):
        for item in ("item", "number"):
            dpsu.release(table, item=item, epsilon=1, delta=1e-5, mechanism=mechanism)
    dpsu.release(table, item=dpsu.Tokens("text", ngrams=2), epsilon=1, delta=1e-5)
print(len(compiled), "numba" in sys.modules)
"""


def command(*words: str, **settings: str) -> str:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True, check=True, text=True, timeout=900, env=os.environ | settings,
    ).stdout  # fmt: skip


@pytest.mark.thorough
def test_after_it_releases_compile_nothing(tmp_path: Path) -> None:
    kept = {"NUMBA_CACHE_DIR": str(tmp_path)}
    said = command("-m", "dpsu", "warm-up", "--quiet", **kept)
    assert "functions were compiled" in said
    assert str(tmp_path) in said or not machine_code.usable()
    compiled, with_numba = command("-c", AFTERWARDS, **kept).split()
    assert int(compiled) == 0
    assert with_numba == str(not machine_code.usable())
    assert "nothing had to be compiled" in command("-m", "dpsu", "warm-up", "--quiet", **kept)


@pytest.mark.skipif(not machine_code.usable(), reason="numba keeps its own files here")
def test_it_refuses_before_it_compiles_what_cannot_be_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        command("-m", "dpsu", "warm-up", "--quiet", NUMBA_CACHE_DIR=str(tmp_path / "file"))
    folder = tmp_path / "file" / "dpsu"
    assert f"{folder} cannot be written; set NUMBA_CACHE_DIR" in refused.value.stderr
