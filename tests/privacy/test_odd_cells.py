"""One person's odd cell changes nothing of what others' cells mean, whoever reads them."""

from __future__ import annotations

import uuid
import warnings
from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.selection import telling_once

PEOPLE = 600
OPTIONS: dict[str, Any] = {"epsilon": 2, "delta": 1e-5, "insecure_seed": 7}
USERS = [f"u{k // 2}" for k in range(2 * PEOPLE)]
ITEMS = [f"i{k % 3}" for k in range(2 * PEOPLE)]


def released(data: Any, **options: Any) -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tuple(dpsu.release(data, **OPTIONS, **options).items)


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
