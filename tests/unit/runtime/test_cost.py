"""Costs that do not depend on the machine: calls of Python functions, and bytes for every row."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from tests.support.databases import OF_PAIRS, limited

pytestmark = pytest.mark.filterwarnings("ignore::dpsu.DataWarning")


def rows(n: int, path: Path, *, text: bool) -> Path:
    rng = np.random.default_rng(1)
    items = rng.zipf(1.3, n) % 20_000
    named = [f"word {k}" for k in items.tolist()] if text else items
    table = pa.table({"user": rng.integers(0, n // 30, n), "item": named})
    pa.parquet.write_table(table, path, row_group_size=200_000)
    return path


def release(path: Path, mechanism: str) -> None:
    made = dpsu.mechanism(mechanism, **limited(mechanism, 100))
    dpsu.release(path, epsilon=1, delta=1e-5, mechanism=made, insecure_seed=1)


def calls(path: Path, mechanism: str) -> int:
    """How many Python functions are called, in all threads.

    Those of mpmath do not count: once in some hundred thousand coins or draws it settles what
    doubles cannot, with thousands of calls.
    """
    counted = [0]

    def count(frame: Any, event: str, argument: Any) -> None:
        counted[0] += event == "call" and "mpmath" not in frame.f_code.co_filename

    threading.setprofile(count)
    sys.setprofile(count)
    try:
        release(path, mechanism)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return counted[0]


def test_nothing_is_done_row_by_row_in_python(tmp_path: Path) -> None:
    """Ten times the rows may add calls for every bucket and row group, not for every row."""
    small = rows(60_000, tmp_path / "small.parquet", text=True)
    large = rows(600_000, tmp_path / "large.parquet", text=True)
    for mechanism in OF_PAIRS:
        release(small, mechanism)
        release(large, mechanism)
        few, many = calls(small, mechanism), calls(large, mechanism)
        # One call for every row would be 540,000.
        assert many - few < 6000, mechanism


@pytest.fixture(scope="module")
def sizes(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    folder = tmp_path_factory.mktemp("sizes")
    return {n: rows(n, folder / f"{n}.parquet", text=False) for n in (200_000, 2_200_000)}


@pytest.mark.parametrize("mechanism", ["policy-gaussian", "greedy", "weighted-laplace"])
def test_bytes_for_every_row(mechanism: str, sizes: dict[int, Path]) -> None:
    """At most 32, local counts included: the peak of a large release above that of a small one.

    Counted are arrays of NumPy, memory of Arrow and, by their size, the arrays that hold rows.
    """
    held = []
    for path in sizes.values():
        release(path, mechanism)
        gc.collect()
        pool = pa.system_memory_pool()
        default = pa.default_memory_pool()
        pa.set_memory_pool(pool)
        before = pool.max_memory()
        tracemalloc.start()
        try:
            watched = _Watched()
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("dpsu.runtime.memory._anonymous", watched)
                release(path, mechanism)
            heap = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
            pa.set_memory_pool(default)
        held.append(heap + watched.bytes + pool.max_memory() - before)
    few, many = sizes
    assert (held[1] - held[0]) / (many - few) <= 32


class _Watched:
    """Counts all memory that is taken for rows, as if none of it were ever given back."""

    def __init__(self) -> None:
        from dpsu.runtime import memory

        self._real = memory._anonymous
        self.bytes = 0

    def __call__(self, n_bytes: int) -> Any:
        self.bytes += n_bytes
        return self._real(n_bytes)
