"""Rows that do not fit in memory go to nameless files, or are refused before the work starts."""

from __future__ import annotations

import resource
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.contributions import id_tables
from dpsu.runtime import memory
from dpsu.runtime.memory import Memory, available, parse_size
from tests.support import flat

OPTIONS: dict[str, Any] = {"epsilon": 3, "delta": 1e-5, "insecure_seed": 5}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(0)
    return pa.table(
        {"user": rng.integers(0, 3000, 200_000), "item": rng.zipf(1.3, 200_000) % 10_000}
    )


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
@pytest.mark.parametrize("mechanism", ["policy-gaussian", "greedy", "weighted-laplace"])
def test_spilled_rows_give_the_same_release(
    mechanism: str, table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit of nothing, of some blocks, and of all that was read but not of what is grouped."""
    expected = flat.release(table, mechanism=mechanism, **OPTIONS)
    assert len(expected) > 20
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(table, path, row_group_size=30_000)
    spilled: list[Memory] = []

    class Watched(Memory):
        def __init__(self, limit: int | None = None) -> None:
            super().__init__(limit)
            spilled.append(self)

    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    monkeypatch.setattr(memory, "Memory", Watched)
    monkeypatch.setattr(memory, "SLABS", (1 << 16, 1 << 20))
    limit: Any
    for limit in (0, 300_000, "1MB"):
        got = flat.release(path, mechanism=mechanism, memory_limit=limit, **OPTIONS)
        assert got.items == expected.items, limit
        assert spilled.pop().spilled > 0, limit
        assert not spilled
        assert not list(scratch.iterdir()), limit


def test_temporary_files_never_have_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    held = Memory(0)
    arrays = [held.empty(1000), held.empty(5, np.int64), held.empty(3000)]
    for value, array in enumerate(arrays):
        array[:] = value
    assert not list(tmp_path.iterdir())
    assert [set(array.tolist()) for array in arrays] == [{0}, {1}, {2}]


def test_memory_is_counted_and_given_back() -> None:
    held = Memory(10_000)
    one = held.empty(2000)
    assert held.spilled == 0
    held.empty(1000)[:] = 1
    assert held.spilled == 4000
    del one
    held.empty(2400)[:] = 1
    assert held.spilled == 4000
    assert len(held.empty(0)) == 0


def test_data_larger_than_memory_and_disk_are_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"user": [1, 2], "item": ["a", "b"]}), path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=3))
    seen: list[str] = []
    words = r"the rows need more than the 0.0 MB .* set TMPDIR to a larger disk"
    with pytest.raises(dpsu.ResourceError, match=words):
        dpsu.release(
            path,
            epsilon=1,
            delta=1e-5,
            memory_limit=0,
            progress=lambda stage, _: seen.append(stage),
        )
    assert set(seen) <= {"reading"}


def test_a_full_disk_is_an_error_and_no_signal() -> None:
    """The blocks of a file are reserved before it is written to: here more than any disk has."""
    with pytest.raises(dpsu.ResourceError, match=r"has no room for .* more; set TMPDIR"):
        Memory(0).empty(1 << 58)


def test_rows_go_to_small_disks_and_need_no_disk_where_they_fit(
    table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on the size of files stands for a small disk; no more is reserved than is needed."""
    rows = table.slice(0, 20_000)
    options = {"mechanism": "weighted-laplace", **OPTIONS}
    expected = flat.release(rows, **options)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 18, hard))
        assert flat.release(rows, memory_limit=0, **options).items == expected.items
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, hard))
        with pytest.raises(dpsu.ResourceError, match=r"has no room for .* more; set TMPDIR"):
            flat.release(rows, memory_limit=0, **options)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    def no_folder() -> str:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    assert flat.release(rows, **options).items == expected.items
    with pytest.raises(dpsu.ResourceError, match="no folder for temporary files; set TMPDIR"):
        flat.release(rows, memory_limit=0, **options)


def test_distinct_ids_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1 << 20)
    with pytest.raises(dpsu.ResourceError, match="distinct users and items need more memory"):
        id_tables.grown(np.empty(1, np.int64), 1, 1 << 24)


def test_sizes() -> None:
    sizes: dict[Any, int] = {"4GB": 4 * 10**9, "500M": 5 * 10**8, "1.5 gib": 3 << 29, 7: 7, "0": 0}
    for text, size in sizes.items():
        assert parse_size(text) == size, text
    wrong: Any
    for wrong in ("much", "-1GB", "4 XB", -1):
        with pytest.raises(dpsu.ParameterError, match="memory_limit="):
            parse_size(wrong)
    assert 1 << 26 < available() < 1 << 50
