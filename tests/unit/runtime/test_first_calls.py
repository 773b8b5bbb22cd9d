"""What the first release of a process loads, and what rounds call: counted, because clocks lie."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.runtime import threads

# What a release from a file can do without.
NOT_NEEDED = (
    "IPython", "narwhals", "pandas", "polars", "duckdb", "dask", "pyspark", "rich", "sklearn",
    "scipy", "numpy.ma", "pyarrow.dataset", "sqlite3", "dpsu.audits", "dpsu.clusters", "dpsu.codebooks",
    "dpsu.dask", "dpsu.ledger.ledger", "dpsu.selection", "dpsu.series.repeated",
    "dpsu.spark", "dpsu.yields", "dpsu.vocabulary",
)  # fmt: skip
OTHER_COMMANDS = (
    "audit", "compare", "demo", "domains", "ledger", "ngrams", "plan", "proofs", "series",
    "tokenizer",
)  # fmt: skip

FIRST_RELEASE = """
import json, sys
import dpsu
dpsu.release(sys.argv[1], epsilon=1, delta=1e-5, mechanism=dpsu.mechanism(sys.argv[2]))
print(json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    rng = np.random.default_rng(3)
    users, items = rng.integers(0, 200, 4000), rng.zipf(1.4, 4000) % 500
    table = pa.table({"user": users, "item": [f"item {k}" for k in items]})
    pa.parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("mechanism", ["weighted-gaussian", "sieve", "auto"])
def test_a_first_release_loads_little(rows: Path, mechanism: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FIRST_RELEASE, str(rows), mechanism],
        capture_output=True, check=True, text=True, timeout=600,
    )  # fmt: skip
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert sorted(set(NOT_NEEDED) & modules) == []
    # Nothing is compiled when it is needed: that was done when the package was built.
    assert not {"cython", "Cython", "numba", "setuptools"} & modules


def test_the_command_loads_no_other_command(rows: Path) -> None:
    code = (
        "import atexit, sys\n"
        "sys.argv = ['dpsu', 'release', sys.argv[1], '--epsilon', '1', '--delta', '1e-5', '--mechanism', 'sieve']\n"
        "atexit.register(lambda: print('loaded', sorted(m for m in sys.modules if 'dpsu' in m)))\n"
        "from dpsu.cli import main\nmain()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(rows)],
        capture_output=True, check=True, text=True, timeout=600,
    )  # fmt: skip
    loaded = done.stdout.splitlines()[-1]
    assert "dpsu.cli.release" in loaded
    assert [name for name in OTHER_COMMANDS if f"'dpsu.cli.{name}'" in loaded] == []
    assert [name for name in NOT_NEEDED if f"'{name}'" in loaded] == []


def calls_of(mechanism: dpsu.Sieve, rows: Path) -> int:
    """Calls of Python functions that a release makes, in this thread."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        # A fixed key: now and then noise is so near a boundary that it takes more digits, and these
        # take thousands of calls.
        dpsu.release(rows, epsilon=1, delta=1e-5, mechanism=mechanism, insecure_seed=1)
    finally:
        sys.setprofile(before)
    return calls


def test_a_round_calls_few_functions(rows: Path) -> None:
    for rounds in (12, 22):
        calls_of(dpsu.Sieve(rounds=rounds), rows)  # plans are made once
    few, many = (calls_of(dpsu.Sieve(rounds=rounds), rows) for rounds in (12, 22))
    assert (many - few) / 10 < 60


def test_rounds_do_not_start_threads(rows: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, start = [0], threading.Thread.start

    def counted(self: threading.Thread) -> None:
        started[0] += 1
        start(self)

    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setattr(threading.Thread, "start", counted)
    with threads.use_workers(3):
        dpsu.release(rows, epsilon=1, delta=1e-5, mechanism=dpsu.Sieve(rounds=20))
    # Those that read ahead, and helpers, which are kept.
    assert started[0] <= 3 + threads.MOST_WORKERS
