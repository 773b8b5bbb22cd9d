"""Rows get one code exactly if they have one id, whatever the batches, types and tables."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions import id_tables
from dpsu.contributions.id_columns import Column
from dpsu.contributions.interner import Interner
from dpsu.errors import DataError
from dpsu.kernels import interning
from dpsu.kernels.hashing import hash_word


def interned(batches: list[pa.ChunkedArray]) -> list[Any]:
    """The id behind the code of each row."""
    interner, blocks = Interner(Column("item", "item")), []
    for batch in batches:
        codes = np.empty(len(batch), np.int32)
        missing = interner.intern(batch, codes)
        assert missing == bool((codes == -1).any())
        blocks.append(codes)
    numbered = interner.numbered()
    for codes in blocks:
        missing = bool((codes == -1).any())
        assert numbered.renumber(codes) == (not missing and bool((codes == -1).any()))
    ids = numbered.ids.values
    assert len(ids.unique()) == len(ids)
    named = ids.to_pylist()
    return [None if code < 0 else named[code] for codes in blocks for code in codes.tolist()]


def integers(rng: np.random.Generator, kind: str) -> Any:
    if kind == "dense":
        return (rng.integers(0, 50, 200) - 25).tolist()
    if kind == "wandering":
        return (rng.integers(0, 50, 200) + rng.integers(-5, 5) * 10**6).tolist()
    if kind == "sparse":
        return (rng.integers(0, 50, 200) * (2**40 + 12345) - 2**45).tolist()
    return rng.choice([-(2**63), 2**63 - 1, 0, -1, 2**62], 200).tolist()


def test_integers() -> None:
    """Tables widen to both sides, or give way to hashes, and no code changes on the way."""
    for first in ("dense", "wandering", "sparse", "extreme"):
        for last in ("dense", "wandering", "sparse", "extreme"):
            rng = np.random.default_rng(1)
            batches = [integers(rng, kind) for kind in [first] * 4 + [last] * 4]
            got = interned([pa.chunked_array([pa.array(b, pa.int64())]) for b in batches])
            assert got == [value for batch in batches for value in batch], (last, first)


def test_texts_of_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough of them, and long enough, for every array to grow several times."""
    monkeypatch.setattr(id_tables, "FIRST_ROOM", 4)
    rng = np.random.default_rng(2)
    batches = [
        ["x" * int(n) + str(n % 7) for n in rng.integers(0, 300 * (b + 1), 500)] for b in range(6)
    ]
    got = interned([pa.chunked_array([pa.array(b)]) for b in batches])
    assert got == [value for batch in batches for value in batch]


def same_hash(data: Any, offsets: Any, secret: Any, hashes: Any) -> bool:
    hashes[:] = 7
    return True


def test_colliding_hashes_are_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one hash for all, ids are still told apart by their bytes, the last ones included."""
    monkeypatch.setattr(interning, "hash_texts", same_hash)
    words = ["a", "b", "", "ab", "b", "a", "ba", "", "\0", "a\0"]
    words += [f"{'x' * n}{end}" for n in range(20) for end in ("", "y", "z", "yz", "zy")]
    words += ["y" + "x" * n for n in range(20)]
    assert interned([pa.chunked_array([words]), pa.chunked_array([words[::-1]])]) == [
        *words,
        *words[::-1],
    ]


def test_texts_at_the_end_of_a_buffer_are_hashed_like_others() -> None:
    """Eight bytes are loaded at once only where there are as many."""
    secret = np.arange(4, dtype=np.uint64) * 77777
    for length in range(40):
        text = bytes(range(1, length + 1))
        found = set()
        for before, after in ((b"", b""), (b"abc", b""), (b"", b"0123456789"), (b"x", b"yz")):
            data = np.frombuffer(before + text + after or b"-", np.uint8)
            hashes = np.zeros(1, np.uint64)
            offsets = np.array([len(before), len(before) + length])
            assert interning.hash_texts(data, offsets, secret, hashes)
            found.add(int(hashes[0]))
        assert len(found) == 1


def test_texts_beyond_their_buffer_are_refused() -> None:
    """Kernels load without checks, so that the first of them checks."""
    for offsets in ([0, 5, 3, 8], [-1, 2, 3, 4], [0, 2, 9, 9], [0, 9, 4, 5]):
        places, data = np.array(offsets), np.frombuffer(b"abcdefgh", np.uint8)
        secret, hashes = np.zeros(4, np.uint64), np.empty(3, np.uint64)
        assert not interning.hash_texts(data, places, secret, hashes), offsets


def test_a_damaged_column_is_refused() -> None:
    buffers = [None, pa.py_buffer(np.array([0, 9, 4, 5])), pa.py_buffer(b"abcdefgh")]
    damaged = pa.Array.from_buffers(pa.large_string(), 3, buffers)
    with pytest.raises(DataError, match="'item' is damaged"):
        Interner(Column("item", "item")).intern(damaged, np.empty(3, np.int32))


@pytest.mark.parametrize("kind", ["texts", "integers", "widening"])
def test_threads_give_one_code_to_one_id(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads enter the same ids in other orders, into tables that grow all the while."""
    monkeypatch.setattr(id_tables, "FIRST_ROOM", 4)
    monkeypatch.setattr(id_tables, "ROWS_AT_ONCE", 256)
    rng = np.random.default_rng(5)
    numbers = rng.integers(0, 3000, (40, 2000))
    if kind == "integers":
        numbers = numbers * 2**40
    elif kind == "widening":
        numbers[20:] = numbers[20:] * 2**40
    cells = [pa.array(row) for row in numbers]
    if kind == "texts":
        cells = [row.cast(pa.string()) for row in cells]
    interner = Interner(Column("item", "item"))
    blocks = [np.empty(len(row), np.int32) for row in cells]
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(interner.intern, cells, blocks))
    numbered = interner.numbered()
    ids = numbered.ids.values
    assert len(ids) == len(ids.unique()) == len(pa.chunked_array(cells).unique())
    for row, codes in zip(cells, blocks, strict=True):
        numbered.renumber(codes)
        assert ids.take(pa.array(codes)).to_pylist() == row.to_pylist()


def test_texts_that_are_one_id_or_none_are_found_at_the_end() -> None:
    """Cells are entered as they were read: only all of them together show what is one id."""
    reasons: list[str] = []
    interner = Interner(Column("item", "item"), reasons.append)
    raw = pa.array([b"e\xcc\x81", b"\xc3\xa9", b"\xff", b"x", None]).view(pa.string())
    unused = pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.int32()), raw)
    codes, others = np.empty(2, np.int32), np.empty(5, np.int32)
    assert not interner.intern(unused, codes)
    assert not Interner.numbered(interner).renumber(codes)
    assert reasons == []
    interner = Interner(Column("item", "item"), reasons.append)
    assert interner.intern(raw, others)
    numbered = interner.numbered()
    assert numbered.renumber(others)
    assert len(reasons) == 1
    assert "'item' are not valid UTF-8" in reasons[0]
    assert others[0] == others[1] != others[3]
    assert others[2] == others[4] == -1
    assert sorted(numbered.ids.values.to_pylist()) == ["x", "é"]


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


def test_integers_of_one_shard_and_one_slot_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integers made to agree in all of their hash that a table of this size ever looks at."""
    for room in (4, 1 << 12):
        for salt in (0, 12345, 2**64 - 1):
            monkeypatch.setattr(id_tables, "FIRST_ROOM", room)
            eight = salt.to_bytes(8, sys.byteorder)
            monkeypatch.setattr(os, "urandom", lambda size, eight=eight: eight * (size // 8))
            shard, slot = 0xA << 60, 77
            values = [hashed_from(shard | k << 32 | slot, salt) for k in range(200)]
            beside = [hashed_from(shard | k << 32 | slot + 1, salt) for k in range(20)]
            batches = [values[:3], beside, values[3:], values[::-1], beside]
            got = interned([pa.chunked_array([pa.array(batch, pa.int64())]) for batch in batches])
            assert got == [value for batch in batches for value in batch], (salt, room)


def test_texts_of_every_layout() -> None:
    """Normalized, nulls kept apart, repeated entries of dictionaries merged; sliced or whole."""
    cases: list[Any] = [
        pa.array(["e\u0301", "é", None, "x"]),
        pa.array(["e\u0301", "é", None, "x"], pa.large_string()),
        pa.array(["e\u0301", "é", None, "x"], pa.string_view()),
        pa.array(["e\u0301", "é", None, "x"]).dictionary_encode(),
        pa.DictionaryArray.from_arrays([0, 1, 2, 3], ["e\u0301", "é", None, "x"]),
        pa.DictionaryArray.from_arrays([2, 2, None, 3], ["e\u0301", "unused", "é", "x"]),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3], pa.int8()), ["é", "é", "y", "x"]),
    ]
    expected = ["é", "é", None, "x"]
    for column in cases:
        whole = pa.chunked_array([column])
        found = interned([whole, whole.slice(1, 2), whole.slice(3)])
        assert found == [*expected, *expected[1:3], expected[3]], column
        # What is missing in one chunk is missing, whatever is in the next.
        assert interned([pa.chunked_array([column, column.slice(3)])]) == [*expected, "x"], column


def test_integers_of_every_type() -> None:
    for type_ in (pa.int8(), pa.uint16(), pa.int64()):
        column = pa.chunked_array([pa.array([3, None, 7, 3], type_)])
        assert interned([column, column.slice(1, 2)]) == [3, None, 7, 3, None, 7], type_
        assert interned([column.dictionary_encode()]) == [3, None, 7, 3], type_


def test_signed_and_unsigned_integers_are_their_digits() -> None:
    """In a table of their own from 2^63 on: the same 64 bits are also negative integers."""
    large = pa.chunked_array([pa.array([2**64 - 1, None, 7, 2**63, 2**64 - 1], pa.uint64())])
    small = pa.chunked_array([pa.array([-1, 7, None, -(2**63), 2**63 - 1])])
    for parts in ([large, small], [small, large], [small, large.dictionary_encode(), large[:0]]):
        cells = [cell.as_py() for part in parts for cell in part]
        assert interned(parts) == [None if cell is None else str(cell) for cell in cells]


def test_text_and_integers_do_not_mix() -> None:
    with pytest.raises(dpsu.DataError, match="'item' is integers in one file and text in another"):
        interned([pa.chunked_array([["a"]]), pa.chunked_array([[1]])])
    nothing = pa.chunked_array([pa.nulls(2)])
    assert interned([nothing, pa.chunked_array([[1]]), nothing]) == [None, None, 1, None, None]


def test_rows_that_refer_to_cells_a_dictionary_lacks_are_refused() -> None:
    """Readers of damaged Parquet files make such columns, and would read beyond their memory."""
    for values in (["a", "b", "c"], [1, 2, 3]):
        for bad in (3, 2**31 - 1, -2, -(2**31)):
            indices = pa.array([0, bad, 2], pa.int32())
            column = pa.DictionaryArray.from_arrays(indices, pa.array(values), safe=False)
            with pytest.raises(DataError, match="'item' is damaged"):
                Interner(Column("item", "item")).intern(column, np.empty(3, np.int32))
