"""What reading does to each row, counted and not timed."""

from __future__ import annotations

import json
import threading
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from dpsu.contributions.id_tables import TextIds
from dpsu.inputs import delimited
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.runtime import threads
from dpsu.runtime.memory import Memory

ROWS, GROUPS = 20_000, 4


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Users who hardly repeat in a row group, and items that do."""
    rng = np.random.default_rng(1)
    users = rng.permutation(np.repeat(np.arange(ROWS // 2), 2))
    table = pa.table(
        {
            "user": [f"{user:032x}" for user in users],
            "item": [f"land {k}" for k in rng.integers(0, 30, ROWS)],
        }
    )
    found = tmp_path / "rows.parquet"
    pa.parquet.write_table(table, found, row_group_size=ROWS // GROUPS)
    return found


def pairs_of(path: Path, memory: Memory | None = None) -> Any:
    source = Source(path, Users("user"), Items("item"))
    return source.pairs(Key.from_insecure_seed(1), with_repeats=False, memory=memory)


def meeting(
    monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, wanted: Callable[[Any], bool]
) -> list[bool]:
    """Let two threads wait for each other in a function that both call; whether they met."""
    together, function, met = threading.Barrier(2), getattr(owner, name), list[bool]()

    def waiting(*given: Any) -> Any:
        if wanted(given) and not met:
            together.wait(timeout=300)
            met.append(True)
        return function(*given)

    monkeypatch.setattr(owner, name, waiting)
    return met


def test_only_columns_that_repeat_are_read_as_dictionaries(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow builds a dictionary of cells that do not repeat row by row."""
    asked: list[list[str]] = []
    opened = pa.parquet.ParquetFile

    class Watched(opened):  # type: ignore[misc, valid-type]
        def __init__(self, *given: Any, read_dictionary: Any = None, **options: Any) -> None:
            if read_dictionary is not None:
                asked.append(list(read_dictionary))
            super().__init__(*given, read_dictionary=read_dictionary, **options)

    monkeypatch.setattr(pa.parquet, "ParquetFile", Watched)
    with threads.use_workers(1):
        assert len(pairs_of(path)) == ROWS
    assert len(asked) == GROUPS
    assert not any("user" in names for names in asked)
    assert asked[-1] == ["item"]


def test_parts_are_interned_side_by_side(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads wait for each other while each of them interns users."""
    met = meeting(monkeypatch, TextIds, "intern", lambda given: len(given[1]) == ROWS // GROUPS)
    with threads.use_workers(2):
        assert len(pairs_of(path)) == ROWS
    assert met


def test_a_row_takes_eight_bytes_when_it_is_read(path: Path) -> None:
    memory = Memory(1 << 30)
    pairs = pairs_of(path, memory)
    assert memory._held == 8 * ROWS
    assert {block.users.dtype for block in pairs.blocks} == {np.dtype(np.int32)}
    assert {block.items.dtype for block in pairs.blocks} == {np.dtype(np.int32)}


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_blocks_of_text_are_parsed_side_by_side(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two threads wait for each other in the parser, also where line breaks stand in quotes."""
    path = tmp_path / f"rows.{kind}"
    rows = [(f"user {k % 900}", f"two\nlines {k % 30}") for k in range(4000)]
    if kind == "csv":
        lines = ["user,item", *(f'{user},"{item}"' for user, item in rows)]
    else:
        lines = [json.dumps({"user": user, "item": item}) for user, item in rows]
    path.write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(delimited, "BLOCK", 1 << 14)
    owner, name = (delimited, "_parse_csv") if kind == "csv" else (delimited._JsonLines, "parse")
    # A block without rows comes first, and before the threads.
    met = meeting(monkeypatch, owner, name, lambda given: bool(given[-1]))
    with threads.use_workers(2):
        assert len(pairs_of(path)) == len(rows)
    assert met


def test_a_block_takes_about_three_times_its_bytes_at_most(tmp_path: Path) -> None:
    """A block is the rest of the one before and what was read, cut where a row ends."""
    path, size = tmp_path / "rows.csv", 1 << 22
    path.write_bytes(b"a,b\n" * (size // 4))
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            for _ in delimited._whole_rows(
                file.read, delimited._Ends(","), 1 << 23, lambda reason: None
            ):
                pass
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3.5 * size
