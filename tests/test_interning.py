"""Rows get one code exactly if they have one id, whatever the batches, types and tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu import interning
from dpsu.cells import Column
from dpsu.interning import Interner


def interned(batches: list[pa.ChunkedArray]) -> list[Any]:
    """The id behind the code of each row."""
    interner, codes = Interner(Column("item", "item")), []
    for batch in batches:
        for prepared in interner.prepare(batch):
            found = np.empty(prepared.rows, np.int32)
            missing = interner.intern(prepared, found)
            assert missing == bool((found == -1).any())
            codes += found.tolist()
    ids = interner.ids().values
    assert len(ids.unique()) == len(ids)
    named = ids.to_pylist()
    return [None if code < 0 else named[code] for code in codes]


def integers(rng: np.random.Generator, kind: str) -> Any:
    if kind == "dense":
        return (rng.integers(0, 50, 200) - 25).tolist()
    if kind == "wandering":
        return (rng.integers(0, 50, 200) + rng.integers(-5, 5) * 10**6).tolist()
    if kind == "sparse":
        return (rng.integers(0, 50, 200) * (2**40 + 12345) - 2**45).tolist()
    return rng.choice([-(2**63), 2**63 - 1, 0, -1, 2**62], 200).tolist()


@pytest.mark.parametrize("last", ["dense", "wandering", "sparse", "extreme"])
@pytest.mark.parametrize("first", ["dense", "wandering", "sparse", "extreme"])
def test_integers(first: str, last: str) -> None:
    """Tables widen to both sides, or give way to hashes, and no code changes on the way."""
    rng = np.random.default_rng(1)
    batches = [integers(rng, kind) for kind in [first] * 4 + [last] * 4]
    got = interned([pa.chunked_array([pa.array(b, pa.int64())]) for b in batches])
    assert got == [value for batch in batches for value in batch]


def test_texts_of_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough of them, and long enough, for every array to grow several times."""
    monkeypatch.setattr(interning, "FIRST_ROOM", 4)
    rng = np.random.default_rng(2)
    batches = [
        ["x" * int(n) + str(n % 7) for n in rng.integers(0, 300 * (b + 1), 500)] for b in range(6)
    ]
    got = interned([pa.chunked_array([pa.array(b)]) for b in batches])
    assert got == [value for batch in batches for value in batch]


def test_colliding_hashes_are_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one hash for all, ids are still told apart by their bytes."""
    monkeypatch.setattr(
        interning, "hash_strings", lambda data, offsets, salt: np.zeros(len(offsets) - 1, np.uint64)
    )
    words = ["a", "b", "", "ab", "b", "a", "ba", ""]
    assert interned([pa.chunked_array([words]), pa.chunked_array([words[::-1]])]) == [
        *words,
        *words[::-1],
    ]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["e\u0301", "é", None, "x"]),
        pa.array(["e\u0301", "é", None, "x"], pa.large_string()),
        pa.array(["e\u0301", "é", None, "x"], pa.string_view()),
        pa.array(["e\u0301", "é", None, "x"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 1, 2, 3], ["e\u0301", "é", None, "x"]),
        pa.DictionaryArray.from_arrays([2, 2, None, 3], ["e\u0301", "unused", "é", "x"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3], pa.int8()), ["é", "é", "y", "x"]),
    ],
)
def test_texts_of_every_layout(column: pa.Array) -> None:
    """Normalized, nulls kept apart, repeated entries of dictionaries merged; sliced or whole."""
    whole = pa.chunked_array([column])
    expected = ["é", "é", None, "x"]
    assert interned([whole, whole.slice(1, 2), whole.slice(3)]) == [
        *expected,
        *expected[1:3],
        expected[3],
    ]


@pytest.mark.parametrize("type_", [pa.int8(), pa.uint16(), pa.uint64(), pa.int64()])
def test_integers_of_every_type(type_: pa.DataType) -> None:
    column = pa.chunked_array([pa.array([3, None, 7, 3], type_)])
    assert interned([column, column.slice(1, 2)]) == [3, None, 7, 3, None, 7]
    assert interned([column.dictionary_encode()]) == [3, None, 7, 3]


def test_text_and_integers_do_not_mix() -> None:
    with pytest.raises(dpsu.DataError, match="'item' is integers in one file and text in another"):
        interned([pa.chunked_array([["a"]]), pa.chunked_array([[1]])])
    nothing = pa.chunked_array([pa.nulls(2)])
    assert interned([nothing, pa.chunked_array([[1]]), nothing]) == [None, None, 1, None, None]
