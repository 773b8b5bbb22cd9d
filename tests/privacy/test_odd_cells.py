"""One person's odd cell changes nothing of what others' cells mean, whoever reads them."""

from __future__ import annotations

import json
import uuid
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import dpsu
from dpsu.selection import telling_once
from tests.support.cases import every

PEOPLE = 600
OPTIONS: dict[str, Any] = {"epsilon": 2, "delta": 1e-5, "insecure_seed": 7}
USERS = [f"u{k // 2}" for k in range(2 * PEOPLE)]
ITEMS = [f"i{k % 3}" for k in range(2 * PEOPLE)]


def released(data: Any, **options: Any) -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(dpsu.release(data, **OPTIONS, **options).items)


@every("odd", [3, -1, 0.5, None, "x", [1], {"a": 1}, "\ud800", True])
@every("usual", [3, "3"])
def test_repeats_of_others_in_json_lines(usual: Any, odd: Any, tmp_path: Path) -> None:
    """An odd line moves those around it to another parser, which reads them as the first does."""
    rows = [{"user": u, "item": i, "n": usual} for u, i in zip(USERS, ITEMS, strict=True)]
    found = []
    for more in ([], [{"user": "eve", "item": "i0", "n": odd}]):
        path = tmp_path / f"{len(more)}.jsonl"
        path.write_text("\n".join([*map(json.dumps, more + rows), ""]), encoding="utf-8")
        found.append(released(path, item=dpsu.Items("item", repeats="n"), mechanism=dpsu.Greedy()))
    assert found[0] == found[1] == ("i0", "i1", "i2")


@every("odd", ["\ud800", "x", "", "3"])
@every("column", ["n", "user"])
def test_texts_of_others_in_pandas(column: str, odd: str) -> None:
    """Arrow cannot convert a column with half of a pair of surrogates as a whole."""
    text = pd.StringDtype("python")
    usual = {"n": ["3"] * len(USERS), "user": [name[1:] for name in USERS], "item": ITEMS}
    found = []
    for more in ({}, {"n": "3", "user": "9999", "item": "i0", column: odd}):
        cells = {name: [*each, *([more[name]] if more else [])] for name, each in usual.items()}
        frame = pd.DataFrame({name: pd.Series(each, dtype=text) for name, each in cells.items()})
        found.append(
            released(
                frame, user=dpsu.Users("user", type="integer"), mechanism=dpsu.Greedy(),
                item=dpsu.Items("item", repeats="n"),
            )
        )  # fmt: skip
    assert found[0] == found[1] == ("i0", "i1", "i2")


def test_uuids_of_every_layout_are_one_id() -> None:
    storage = pa.array([uuid.UUID(int=k // 2).bytes for k in range(2 * PEOPLE)], pa.binary(16))
    plain = pa.ExtensionArray.from_storage(pa.uuid(), storage)
    coded = storage.dictionary_encode()
    as_dictionary = pa.DictionaryArray.from_arrays(
        coded.indices, pa.ExtensionArray.from_storage(pa.uuid(), coded.dictionary)
    )
    found = [
        released(pa.table({"user": users, "item": ITEMS}), mechanism=dpsu.CountLaplace(max_items=3))
        for users in (plain, as_dictionary)
    ]
    assert found[0] == found[1]
    assert found[0]


def test_the_number_of_runs_is_told_by_no_warning() -> None:
    """Ours or those of whoever reads the data: each is told once, however many runs there were."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with telling_once():
            for _ in range(7):
                warnings.warn("a loader is slow", UserWarning, stacklevel=1)
                warnings.warn("some rows have no user", dpsu.DataWarning, stacklevel=1)
    assert sorted(str(each.message) for each in caught) == [
        "a loader is slow", "some rows have no user",
    ]  # fmt: skip


def test_damaged_offsets_are_refused_beside_missing_cells() -> None:
    import numpy as np

    bitmap = pa.py_buffer(bytes([0b101]))
    buffers = [bitmap, pa.py_buffer(np.array([0, 9, 4, 5])), pa.py_buffer(b"abcdefgh")]
    damaged = pa.Array.from_buffers(pa.large_string(), 3, buffers)
    with pytest.raises(dpsu.DataError, match="'item' is damaged"):
        dpsu.release(pa.table({"user": ["a", "b", "c"], "item": damaged}), **OPTIONS)
