"""Rows get one code exactly if they have one id, whatever the batches, types and tables."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions import interning
from dpsu.contributions.id_columns import Column
from dpsu.contributions.interning import Interner
from dpsu.errors import DataError
from dpsu.kernels.hashing import hash_word


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


WORD = 2**64 - 1
# The primes of xxHash64.
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)  # fmt: skip


def hashed_from(target: int, salt: int) -> int:
    """The integer whose salted hash is `target`: every step of the hash can be undone."""

    def divided(value: int, prime: int) -> int:
        return value * pow(prime, -1, 2**64) & WORD

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & WORD

    def unmixed(value: int, by: int) -> int:
        found = value
        for _ in range(64 // by + 1):
            found = value ^ (found >> by)
        return found

    h = unmixed(target, 32)
    h = unmixed(divided(h, P3), 29)
    h = unmixed(divided(h, P2), 33)
    h = rotated(divided((h - P4) & WORD, P1), 64 - 27) ^ ((salt + P5 + 8) & WORD)
    word = divided(rotated(divided(h, P1), 64 - 31), P2)
    assert int(hash_word(np.uint64(word), np.uint64(salt))) == target
    return word - 2**64 if word >= 2**63 else word


@pytest.mark.parametrize("salt", [0, 12345, 2**64 - 1])
@pytest.mark.parametrize("room", [4, 1 << 12])
def test_integers_of_one_slot_and_one_mark_stay_apart(
    salt: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Integers made to agree in all of their hash that a table of this size ever looks at."""
    monkeypatch.setattr(interning, "FIRST_ROOM", room)
    monkeypatch.setattr(os, "urandom", lambda size: salt.to_bytes(size, "big"))
    assert Interner(Column("item", "item"))._salt == salt
    mark, slot = 0xABCDEF01, 77
    values = [hashed_from(mark << 32 | k << 14 | slot, salt) for k in range(200)]
    beside = [hashed_from(mark << 32 | k << 14 | slot + 1, salt) for k in range(20)]
    batches = [values[:3], beside, values[3:], values[::-1], beside]
    got = interned([pa.chunked_array([pa.array(batch, pa.int64())]) for batch in batches])
    assert got == [value for batch in batches for value in batch]


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


@pytest.mark.parametrize("bad", [3, 2**31 - 1, -2, -(2**31)])
@pytest.mark.parametrize("values", [["a", "b", "c"], [1, 2, 3]])
def test_rows_that_refer_to_cells_a_dictionary_lacks_are_refused(
    bad: int, values: list[str] | list[int]
) -> None:
    """Readers of damaged Parquet files make such columns, and would read beyond their memory."""
    indices = pa.array([0, bad, 2], pa.int32())
    column = pa.DictionaryArray.from_arrays(indices, pa.array(values), safe=False)
    with pytest.raises(DataError, match="'item' is damaged"):
        Interner(Column("item", "item")).prepare(pa.chunked_array([column]))
