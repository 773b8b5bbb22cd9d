"""Keys as ids: no two different keys meet, equal ones do, and every key comes back."""

from __future__ import annotations

import datetime
import decimal
import random
import unicodedata
import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsu.contributions import cells, codecs
from dpsu.contributions.codecs import Codec, Keys, encode, in_order, is_plain, parts_of
from dpsu.contributions.id_columns import Column
from dpsu.contributions.ids import canonical
from dpsu.errors import DataError
from dpsu.inputs.keyed import Keyed
from dpsu.results import objects

# Characters that a separator, an escape or a normalization could stumble over: a letter t behind a
# tab, combining marks, what composes with them, and Hangul, which composes by itself.
AWKWARD = "\t\\01tn\n\r\0 \u0301\u0327\u0338\u0041\u00c1\u1112\u1161\u11ab=<ﬁ"
TEXTS = st.text(st.sampled_from(AWKWARD) | st.characters(codec="utf-8"), max_size=6)
MICROSECONDS = st.integers(-62135596800 * 10**6, 253402300800 * 10**6 - 1)
DECIMALS = st.decimals(
    allow_nan=False, allow_infinity=False, places=9, min_value=-(10**20), max_value=10**20
)
KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "text": (pa.string(), TEXTS),
    "integers": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "unsigned integers": (pa.uint64(), st.integers(0, 2**64 - 1)),
    "booleans": (pa.bool_(), st.booleans()),
    "dates": (pa.date32(), st.dates()),
    "timestamps": (pa.timestamp("us"), MICROSECONDS),
    "instants": (pa.timestamp("us", "Europe/Berlin"), MICROSECONDS),
    "seconds": (pa.timestamp("s"), st.integers(-62135596800, 253402300799)),
    "nanoseconds": (pa.timestamp("ns"), st.integers(-(2**63) + 1, 2**63 - 1)),
    "times": (pa.time64("us"), st.times()),
    "decimals": (pa.decimal128(38, 9), DECIMALS),
    "wide decimals": (pa.decimal256(60, 12), DECIMALS),
    "hundreds": (pa.decimal128(10, -2), st.integers(-(10**9), 10**9).map(lambda n: decimal.Decimal(n * 100))),
    "UUIDs": (pa.uuid(), st.uuids().map(lambda one: one.bytes)),
    "bytes": (pa.binary(), st.binary(max_size=5)),
    "fixed bytes": (pa.binary(3), st.binary(min_size=3, max_size=3)),
}  # fmt: skip


def nobody(reason: str) -> None:
    raise AssertionError(reason)


def made_of(columns: list[pa.Array]) -> tuple[list[str], list[Any]]:
    """Ids as the interner has them, and what they are decoded to."""
    parts = [(Column(f"c{at}", "item"), column) for at, column in enumerate(columns)]
    keys = Keys()
    keys.note([(column, array.type) for column, array in parts])
    ids = encode(parts, nobody)
    if pa.types.is_dictionary(ids.type):
        ids = ids.dictionary_decode()
    ids = canonical("ids", ids)
    values = keys.codec.decode(ids)
    assert keys.codec.has(ids)
    if pa.types.is_struct(values.type):
        found = list(zip(*map(objects, values.flatten()), strict=True))
    else:
        found = [(value,) for value in objects(values)]
    return list(map(str, ids.to_pylist())), found


def normal(cell: Any) -> Any:
    return unicodedata.normalize("NFC", cell) if isinstance(cell, str) else cell


@st.composite
def tables(draw: Callable[[Any], Any]) -> list[pa.Array]:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4))
    rows = draw(st.integers(0, 6))
    return [
        pa.array(draw(st.lists(KINDS[kind][1], min_size=rows, max_size=rows)), KINDS[kind][0])
        for kind in kinds
    ]


@settings(max_examples=400, deadline=None)
@given(tables())
def test_keys_are_equal_exactly_if_their_ids_are_and_come_back(columns: list[pa.Array]) -> None:
    rows = [tuple(map(normal, row)) for row in zip(*map(objects, columns), strict=True)]
    ids, back = made_of(columns)
    assert back == rows
    assert len(set(ids)) == len(set(rows))
    for one, key in zip(ids, rows, strict=True):
        assert all((one == other) == (key == its) for other, its in zip(ids, rows, strict=True))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=2, max_size=8))
def test_texts_never_meet_across_columns(rows: list[tuple[str, str, str]]) -> None:
    """Moving a character, an escape or a separator to the next column makes another key."""
    shifted = [(a + b[:1], b[1:], c) for a, b, c in rows]
    keys = [*rows, *shifted]
    ids, back = made_of([pa.array(list(column)) for column in zip(*keys, strict=True)])
    normalized = [tuple(map(normal, key)) for key in keys]
    assert back == normalized
    assert len(set(ids)) == len(set(normalized))


def test_tabs_and_escapes_in_cells_are_other_keys() -> None:
    keys = [
        ("a\t", "b"), ("a", "\tb"), ("a\tb", ""), ("", "a\tb"), ("\\1", "\t"), ("\t", "\\1"), ("\\", "0"),
        ("\\0", ""), ("\t\u0327", "x"), ("\\t\u0327", "x"), ("\t", "\u0327x"), ("\\\\", "\\"),
    ]  # fmt: skip
    ids, back = made_of([pa.array(list(column)) for column in zip(*keys, strict=True)])
    assert back == [tuple(map(normal, key)) for key in keys]
    assert len(set(ids)) == len(keys)


def test_the_separator_and_the_escapes_compose_with_nothing() -> None:
    """Normalization of a joined id must not reach across the marks between its cells."""
    for code in range(0x110000):
        character = chr(code)
        if 0xD800 <= code < 0xE000:
            continue
        for mark in ("\t", "\\", "\\0", "\\1"):
            joined = mark + character
            assert unicodedata.normalize("NFC", joined) == mark + unicodedata.normalize(
                "NFC", character
            )


EQUAL: list[tuple[pa.Array, pa.Array]] = [
    (pa.array([1, 2], pa.int8()), pa.array([1, 2], pa.uint32())),
    (pa.array([1, 2], pa.int64()), pa.array([1, 2], pa.uint64())),
    (pa.array(["a", "b"]), pa.array(["a", "b"]).dictionary_encode()),
    (pa.array(["a", "b"], pa.string_view()), pa.array(["a", "b"], pa.large_string())),
    (pa.array([1, 0], pa.timestamp("s")), pa.array([10**9, 0], pa.timestamp("ns"))),
    (pa.array([1500, 0], pa.timestamp("ms")), pa.array([1500000, 0], pa.timestamp("us"))),
    (pa.array([5], pa.timestamp("s", "UTC")), pa.array([5000], pa.timestamp("ms", "Asia/Tokyo"))),
    (pa.array([1, 0], pa.time32("s")), pa.array([10**9, 0], pa.time64("ns"))),
    (pa.array([1], pa.date32()), pa.array([86_400_000], pa.date64())),
    (
        pa.array([decimal.Decimal("1.5"), decimal.Decimal("100")], pa.decimal128(5, 1)),
        pa.array([decimal.Decimal("1.5"), decimal.Decimal("100")], pa.decimal256(50, 20)),
    ),
    (pa.array([b"ab"]), pa.array([b"ab"], pa.binary(2))),
    (pa.array([b"ab"], pa.binary_view()), pa.array([b"ab"], pa.large_binary())),
]


def test_equal_cells_of_different_physical_types_are_one_id() -> None:
    for one, other in EQUAL:
        for beside in ([], [pa.array(["x"] * len(one))]):
            first, second = made_of([one, *beside])[0], made_of([other, *beside])[0]
            assert first == second, (one.type, other.type, beside)


def test_cells_that_are_missing_stay_so_beside_some_that_have_no_text() -> None:
    """Years beyond 9999 have none; rows without a cell must not get that of another row."""
    times = pa.array([None, 2**62, 0, None], pa.timestamp("us"))
    beside = Column("b", "user", alone=False), pa.array(["x"] * 4)
    for part in (times, times.dictionary_encode()):
        for parts in ([(Column("a", "user"), part)], [(Column("a", "user"), part), beside]):
            lost: list[str] = []
            found = encode(parts, lost.append)
            assert found.is_valid().to_pylist() == [False, False, True, False]
            assert len(lost) == 1


def test_files_of_one_kind_have_one_type_of_results_in_any_order() -> None:
    for one, other in EQUAL:
        found = []
        for types in ((one.type, other.type), (other.type, one.type, pa.null())):
            keys = Keys()
            for type_ in types:
                keys.note([(Column("c", "item"), type_)])
            found.append(keys.codec)
        assert found[0] == found[1], (one.type, other.type)
        ids = encode([(Column("c", "item"), one)], nobody)
        ids = ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids
        assert len(found[0].decode(canonical("c", ids))) == len(one), one.type


def test_files_of_different_kinds_are_refused() -> None:
    keys = Keys()
    keys.note([(Column("c", "item"), pa.date32())])
    with pytest.raises(DataError, match=r"dates in one file and text in another.*--item-type text"):
        keys.note([(Column("c", "item"), pa.string())])
    both = Keys()
    both.note([(Column("c", "item"), pa.timestamp("s"))])
    with pytest.raises(DataError, match=r"with a time zone in one file and timestamps without"):
        both.note([(Column("c", "item"), pa.timestamp("s", "UTC"))])
    for mixed in ("user", "item"):
        keyed = Keyed([Column("user", "user"), Column("item", "item")])
        dates, texts = pa.array([0, 1], pa.date32()), pa.array(["1970-01-01", "1970-01-02"])
        keyed.columns_of(pa.table({"user": texts, "item": texts} | {mixed: dates}))
        with pytest.raises(DataError, match=f"'{mixed}' is dates in one file and text in another"):
            keyed.columns_of(pa.table({"user": texts, "item": texts}))


def test_files_of_other_fields_are_refused() -> None:
    """The cells of a key go by their places, so that another order would make another key."""
    texts, key = pa.array(["t"]), pa.array([{"a": "x", "b": "y"}])
    for nested in ("user", "item"):
        for other in ([{"b": "y", "a": "x"}], [{"a": "x", "c": "y"}], [{"a": "x"}]):
            keyed = Keyed([Column("user", "user"), Column("item", "item")])
            keyed.columns_of(pa.table({"user": texts, "item": texts, nested: key}))
            with pytest.raises(DataError, match=f"column '{nested}' has other fields in one file"):
                keyed.columns_of(pa.table({"user": texts, "item": texts, nested: pa.array(other)}))


def test_what_does_not_fit_a_common_type_is_text() -> None:
    """One file has the year 9999 in seconds, another nanoseconds, and no type has both."""
    keys = Keys()
    for unit in ("s", "ns"):
        keys.note([(Column("c", "item"), pa.timestamp(unit))])
    far, fine = "9999-12-31T00:00:00", "2024-01-01T00:00:00.000000001"
    assert keys.codec.decode(pa.array([fine], pa.large_string())).type == pa.timestamp("ns")
    assert keys.codec.decode(pa.array([far], pa.large_string())).type == pa.timestamp("us")
    assert keys.codec.decode(pa.array([far, fine], pa.large_string())).to_pylist() == [far, fine]


def test_cells_beyond_dates_of_python_are_lost_and_told() -> None:
    said: list[str] = []
    far = [
        pa.array([2**40, 0], pa.timestamp("s")), pa.array([2**30, 0], pa.int32()).cast(pa.date32()),
        pa.array([86_400, 0], pa.time32("s")),
    ]  # fmt: skip
    for column in far:
        for beside in ([], [(Column("d", "item"), pa.array(["x", "x"]))]):
            ids = encode([(Column("c", "item"), column), *beside], said.append)
            assert ids.is_valid().to_pylist() in ([False, True], [True, True])
            assert ids.dictionary_decode().is_valid().to_pylist() == [False, True]
    assert len(said) == 6
    assert all("years 1 to 9999" in each for each in said)


def test_a_missing_cell_makes_a_key_missing() -> None:
    columns = [pa.array(["a", None, "c"]), pa.array([1, 2, None])]
    parts = [(Column(f"c{at}", "item"), column) for at, column in enumerate(columns)]
    assert encode(parts, nobody).to_pylist() == ["a\t1", None, None]


def test_entries_of_a_dictionary_that_no_row_has_are_not_told() -> None:
    values = pa.array([b"\xff", b"a"], pa.binary()).view(pa.string())
    column = pa.DictionaryArray.from_arrays(pa.array([1, 1], pa.int32()), values)
    parts = [(Column("c", "item"), column), (Column("d", "item"), pa.array([1, 2]))]
    assert encode(parts, nobody).to_pylist() == ["a\t1", "a\t2"]
    said: list[str] = []
    used = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), values)
    assert encode([(Column("c", "item"), used), parts[1]], said.append).to_pylist() == [
        None,
        "a\t2",
    ]
    assert len(said) == 1


def test_public_items_are_spelled_as_ids_are() -> None:
    cases: list[tuple[Any, ...]] = [
        (pa.date32(), "2024-02-29", ["2024-2-29", "tomorrow", "2023-02-29"]),
        (pa.bool_(), "true", ["True", "1"]),
        (pa.timestamp("us"), "2024-02-29T00:00:00", ["2024-02-29", "2024-02-29T00:00:00Z"]),
        (pa.timestamp("us", "UTC"), "2024-02-29T00:00:00Z", ["2024-02-29T00:00:00"]),
        (pa.decimal128(5, 2), "1.5", ["1.50", "1e3", "x"]),
        (pa.uuid(), str(uuid.UUID(int=5)), [str(uuid.UUID(int=5)).replace("-", ""), "x"]),
        (pa.binary(), "ff00", ["f", "FF00"]),
        (pa.time64("us"), "01:02:03", ["1:2:3", "25:00:00"]),
    ]
    for type_, good, bad in cases:
        codec = Codec(("c",), (type_,))
        assert codec.has(pa.array([good], pa.large_string())), (type_, good, bad)
        assert codec.has(pa.nulls(0, pa.large_string())), (type_, good, bad)
        several = Codec(("c", "d"), (type_, pa.large_string()))
        assert several.has(pa.array([f"{good}\tx\\1"], pa.large_string())), (type_, good, bad)
        for text in (good, f"{good}\t\\2", f"{good}\tx\ty"):
            assert not several.has(pa.array([text], pa.large_string())), (type_, good, bad)
        for text in bad:
            assert not codec.has(pa.array([text], pa.large_string())), (type_, good, bad)
            assert not several.has(pa.array([f"{text}\tx"], pa.large_string())), (type_, good, bad)


def test_values_are_sorted_by_value_and_counts_with_them() -> None:
    keys = pa.StructArray.from_arrays(
        [pa.array([True, False, False]), pa.array([2, 10, 9])], ["a", "b"]
    )
    values, counts = in_order(keys, pa.array([1, 2, 3]))
    assert counts is not None
    assert counts.to_pylist() == [3, 2, 1]
    assert values.field("b").to_pylist() == [9, 10, 2]


def test_one_column_of_text_or_integers_is_left_as_it_is() -> None:
    for column in (pa.array(["a\t\\"]), pa.array([1]), pa.array(["a"]).dictionary_encode()):
        assert is_plain([(Column("c", "item"), column.type)])
        assert encode([(Column("c", "item"), column)], nobody) is column
    for type_ in (pa.date32(), pa.bool_(), pa.binary()):
        assert not is_plain([(Column("c", "item"), type_)])
    # Bytes that were declared to be text are read as before.
    assert is_plain([(Column("c", "item", "text"), pa.binary())])


def test_types_that_are_no_keys_are_refused_with_a_way_out() -> None:
    item, user = Column("c", "item"), Column("c", "user")
    refused = {
        pa.float64(): "round them", pa.float16(): "round them", pa.duration("s"): "convert it",
        pa.map_(pa.string(), pa.int64()): "one row for each item", pa.struct([]): "without fields",
        pa.list_(pa.list_(pa.string())): "lists of lists", pa.list_(pa.float64()): "round them",
        pa.struct([("a", pa.list_(pa.string()))]): "lists inside", pa.month_day_nano_interval(): "interval",
    }  # fmt: skip
    for type_, words in refused.items():
        with pytest.raises(DataError, match=words):
            parts_of(item, type_)
    with pytest.raises(DataError, match="a user is one value"):
        parts_of(user, pa.list_(pa.string()))
    fields = pa.struct([("a", pa.int64()), ("b", pa.struct([("c", pa.string())]))])
    assert [column.released_as for column, _ in parts_of(user, fields)] == ["c.a", "c.b.c"]
    assert {str(column) for column, _ in parts_of(user, fields)} == {"'c'"}
    assert parts_of(item, pa.large_list(pa.date32())) == [(item, pa.date32())]


OBJECTS = st.one_of(
    st.booleans(), st.binary(max_size=5), st.dates(), st.times(), st.datetimes(), st.uuids(),
    st.datetimes(
        timezones=st.sampled_from([datetime.UTC, *(datetime.timezone(datetime.timedelta(minutes=m)) for m in (330, -570))]),
        min_value=datetime.datetime(2, 1, 1), max_value=datetime.datetime(9998, 1, 1),
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-(10**9), max_value=10**9),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(OBJECTS)
def test_python_objects_have_the_texts_of_their_columns(value: Any) -> None:
    array = (
        pa.array([value.bytes], pa.uuid()) if isinstance(value, uuid.UUID) else pa.array([value])
    )
    assert cells.spell(array).to_pylist() == [cells.text_of(value)]


def test_many_distinct_pairs_are_joined_as_single_ones_are() -> None:
    draws = random.Random(5)
    one = [draws.randrange(300) for _ in range(20_000)]
    two = [f"é{draws.randrange(200)}" for _ in one]
    ids = encode(
        [(Column("a", "item"), pa.array(one)), (Column("b", "item"), pa.array(two))], nobody
    )
    assert len(np.unique(ids.indices.to_numpy())) == len(set(zip(one, two, strict=True)))
    assert ids.to_pylist() == [f"{a}\t{b}" for a, b in zip(one, two, strict=True)]


def test_pairs_of_cells_that_reach_too_far_for_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their numbers come from hash tables then, and are those of the texts all the same."""
    monkeypatch.setattr("dpsu.contributions.id_tables.SMALL_SPAN", 0)
    rng = np.random.default_rng(6)
    # More possible pairs than rows, and fewer than a table may have.
    one, other = rng.integers(0, 60, (2, 1000)).astype(np.int32)
    texts = pa.array([f"text {k}" for k in range(60)], pa.large_string())
    places, joined = codecs._joined(one, texts, other, texts)
    assert joined.take(pa.array(places)).to_pylist() == [
        f"text {a}\ttext {b}" for a, b in zip(one, other, strict=True)
    ]
