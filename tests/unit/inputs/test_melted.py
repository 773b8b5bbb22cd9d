"""The long form of a table: what users hold is what their own rows say, and nothing else."""

from __future__ import annotations

import unicodedata
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dpsu
from dpsu.contributions.pairs import Pairs
from dpsu.errors import DataError, ParameterError
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from dpsu.results import objects
from tests.unit.contributions.test_codecs import AWKWARD

KEY = Key.from_insecure_seed(1)
TEXTS = st.text(st.sampled_from(AWKWARD + "ab"), max_size=2)
CELLS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "job": (pa.string(), TEXTS),
    "city": (pa.large_string(), TEXTS),
    "kind": (pa.dictionary(pa.int8(), pa.string()), TEXTS),
    "age": (pa.int32(), st.integers(0, 3)),
    "alive": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates()),
    "tags": (pa.list_(pa.string()), st.lists(st.none() | TEXTS, max_size=2)),
}
Held = set[tuple[Any, tuple[tuple[str, Any], ...]]]


def transcribed(rows: list[dict[str, Any]], user: list[str], item: dpsu.Values) -> Held:
    """Users and the items they hold, row by row and as obviously as possible."""
    held: Held = set()
    for row in rows:
        who = tuple(_normal(row[name]) for name in user)
        for kind in item.kinds:
            cells = [row[name] if name == "tags" else [row[name]] for name in kind]
            for combined in _products([each or [] for each in cells]):
                if None not in (*who, *combined):
                    values = map(_normal, combined)
                    held.add((who, tuple(sorted(zip(kind, values, strict=True)))))
    return held


def _normal(cell: Any) -> Any:
    return unicodedata.normalize("NFC", cell) if isinstance(cell, str) else cell


def _products(cells: list[list[Any]]) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = [()]
    for each in cells:
        found = [(*before, cell) for before in found for cell in each]
    return found


def read(data: Any, user: Any, item: dpsu.Values) -> Pairs:
    with warnings.catch_warnings():
        # About rows without a user, and tables without any.
        warnings.simplefilter("ignore", dpsu.DataWarning)
        return Source(data, dpsu.Users(user), item).pairs(KEY, with_repeats=False)


def decoded(pairs: Pairs) -> Held:
    """The same from what was read."""
    values = pairs.codec.decode(pairs.items.values)
    columns = [objects(column) for column in values.flatten()]
    names = [values.type.field(at).name for at in range(values.type.num_fields)]
    items = [
        tuple(sorted((n, cell) for n, cell in zip(names, row, strict=True) if cell is not None))
        for row in zip(*columns, strict=True)
    ]
    users = [_cells(user) for user in pairs.users.values.to_pylist()]
    return {
        (users[user], items[item])
        for block in pairs.blocks
        for user, item in zip(block.users, block.items, strict=True)
    }


def _cells(user: Any) -> tuple[Any, ...]:
    """The cells of a user; of several columns they are escaped texts between tabs."""
    if not isinstance(user, str) or "\t" not in user:
        return (user,)
    return tuple(part.replace("\\1", "\t").replace("\\0", "\\") for part in user.split("\t"))


@st.composite
def tables(draw: Callable[[Any], Any]) -> tuple[pa.Table, list[str], dpsu.Values]:
    size = draw(st.integers(0, 6))
    several = draw(st.booleans())
    users = {
        "who": pa.array(draw(_column(st.integers(0, 2), size)), pa.int64())
        if not several
        else pa.array(draw(_column(st.sampled_from(["a", "b\\", "\\1"]), size)), pa.string()),
        "site": pa.array(draw(_column(st.sampled_from(["x", "y\t"]), size)), pa.string()),
    }
    cells = {
        name: pa.array(draw(_column(strategy, size)), type_)
        for name, (type_, strategy) in CELLS.items()
    }
    names = draw(st.lists(st.sampled_from(sorted(CELLS)), unique=True, max_size=4))
    chains = [[], ["job", "city"], ["kind", "job", "age"], ["day", "tags"]]
    chain = draw(st.sampled_from(chains if names else chains[1:]))
    item = dpsu.Values(names, [chain] if chain else [])
    cut = draw(st.integers(0, size))
    whole = pa.table(users | cells)
    return (
        pa.concat_tables([whole.slice(0, cut), whole.slice(cut)]),
        ["who", "site"] if several else ["who"],
        item,
    )


def _column(strategy: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | strategy, min_size=size, max_size=size)


@settings(deadline=None, max_examples=150)
@given(tables())
def test_users_hold_what_their_own_rows_say(
    drawn: tuple[pa.Table, list[str], dpsu.Values],
) -> None:
    table, user, item = drawn
    assert decoded(read(table, user, item)) == transcribed(table.to_pylist(), user, item)


@settings(deadline=None, max_examples=50)
@given(tables(), st.randoms())
def test_without_a_user_the_others_hold_what_they_held(
    drawn: tuple[pa.Table, list[str], dpsu.Values], random: Any
) -> None:
    """Neighbors stay neighbors: no row of one user decides about cells of another."""
    table, user, item = drawn
    rows = table.to_pylist()
    gone = random.choice([[row[name] for name in user] for row in rows] or [[None]])
    kept = [at for at, row in enumerate(rows) if [row[name] for name in user] != gone]
    left = decoded(read(table.take(pa.array(kept, pa.int64())), user, item))
    assert left == {each for each in decoded(read(table, user, item)) if each[0] != tuple(gone)}


def test_equal_values_of_two_columns_are_two_items() -> None:
    table = pa.table({"who": [1, 2], "job": ["baker", None], "name": [None, "baker"]})
    pairs = read(table, "who", dpsu.Values(["job", "name"]))
    assert len(pairs.items) == 2
    assert decoded(pairs) == {((1,), (("job", "baker"),)), ((2,), (("name", "baker"),))}


def test_a_missing_cell_drops_that_cell_alone_and_nobody_is_warned() -> None:
    table = pa.table({"who": [1, 2], "job": ["baker", None], "age": [None, 30]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = Source(table, dpsu.Users("who"), dpsu.Values(["job", "age"]), strict=True).pairs(
            KEY, with_repeats=False
        )
    assert decoded(pairs) == {((1,), (("job", "baker"),)), ((2,), (("age", 30),))}


def test_rows_without_a_user_are_told_and_refused_if_strict() -> None:
    table = pa.table({"who": [1, None], "job": ["baker", "smith"]})
    source = Source(table, dpsu.Users("who"), dpsu.Values(["job"]))
    with pytest.warns(dpsu.DataWarning, match="some rows have no 'who' or no 'job'"):
        source.pairs(KEY, with_repeats=False)
    strict = Source(table, dpsu.Users("who"), dpsu.Values(["job"]), strict=True)
    with pytest.raises(DataError, match="some rows have no 'who'"):
        strict.pairs(KEY, with_repeats=False)


def test_a_level_has_no_item_where_a_level_above_is_missing() -> None:
    table = pa.table({"who": [1, 2], "country": ["fr", None], "city": ["Paris", "Paris"]})
    pairs = read(table, "who", dpsu.Values(levels=["country", "city"]))
    assert {item for _, item in decoded(pairs)} == {
        (("country", "fr"),),
        (("city", "Paris"), ("country", "fr")),
    }


def test_lists_are_flattened_each_by_itself_and_a_part_of_users_may_be_a_value() -> None:
    table = pa.table({"who": [1], "site": ["n"], "reads": [["a", "b"]], "writes": [["b", None]]})
    held = decoded(read(table, ["who", "site"], dpsu.Values(["reads", "writes", "site"])))
    values = [("reads", "a"), ("reads", "b"), ("writes", "b"), ("site", "n")]
    assert held == {(("1", "n"), (value,)) for value in values}


def test_ids_of_people_are_not_released() -> None:
    with pytest.raises(ParameterError, match="values of many columns need a column of users"):
        dpsu.domains({"job": ["a"]}, columns="job", user="one per entry", epsilon=1, delta=1e-6)
    for columns, user in ((["who"], "who"), (["job", "who"], "who"), (["a", "b"], ["b", "a"])):
        table = pa.table({name: ["x"] for name in ("who", "job", "a", "b")})
        source = Source(table, dpsu.Users(user), dpsu.Values(columns))
        for refuse in (source.check, lambda: source.pairs(KEY, with_repeats=False)):  # noqa: B023
            with pytest.raises(ParameterError, match="ids of people would be published"):
                refuse()


def test_floats_structs_and_unknown_columns_are_refused_by_name() -> None:
    table = pa.table(
        {"who": [1], "job": ["a"], "height": [1.5], "place": [{"city": "Paris", "zip": 1}]}
    )
    for columns, error, told in (
        (
            ["job", "height"],
            DataError,
            r"'height' has type double.*types=\{'height': \"integer\"\}",
        ),
        (["job", "place"], DataError, "'place' has several fields; make a column of each"),
        (["jop"], ParameterError, "no column 'jop'.*did you mean 'job'.*with columns"),
    ):
        source = Source(table, dpsu.Users("who"), dpsu.Values(columns))
        for refuse in (source.check, lambda: source.pairs(KEY, with_repeats=False)):  # noqa: B023
            with pytest.raises(error, match=told) as caught:
                refuse()
            assert "Paris" not in str(caught.value)
    with pytest.raises(ParameterError, match=r"no column 'whoo'.*name the right one with user"):
        Source(table, dpsu.Users("whoo"), dpsu.Values("job")).check()


def test_declared_types_are_those_of_their_columns() -> None:
    floats = np.array([30.0, np.nan, 40.0])
    table = pa.table({"who": ["1", "2", "3"], "age": floats, "zip": [1, 2, 3]})
    item = dpsu.Values(["age", "zip"], types={"age": "integer", "zip": "text"})
    assert {held for _, held in decoded(read(table, "who", item))} == {
        (("age", 30),), (("age", 40),), (("zip", "1"),), (("zip", "2"),), (("zip", "3"),)
    }  # fmt: skip


def test_what_has_no_columns_is_refused_without_a_word_of_it() -> None:
    cases: list[tuple[Any, ...]] = [
        ({"anna": ["bread"]}, "data is a mapping without the key 'who'"),
        ({"who": [1]}, "data is a mapping without the key 'job'"),
        ([("anna", "bread")], "data is a list, which has no columns"),
        ([["bread"]], "data is a list, which has no columns"),
        (3, "data is a int"),
    ]
    for data, told in cases:
        source = Source(data, dpsu.Users("who"), dpsu.Values("job"))
        for refuse in (source.check, lambda: source.pairs(KEY, with_repeats=False)):  # noqa: B023
            with pytest.raises(dpsu.DpsuError, match=told) as caught:
                refuse()
            assert "anna" not in str(caught.value), (data, told)
            assert "bread" not in str(caught.value), (data, told)


def test_files_that_differ_in_a_type_are_refused_by_the_column(tmp_path: Any) -> None:
    for at, cells in enumerate(([1], ["x"])):
        pa.parquet.write_table(pa.table({"who": [at], "age": cells}), tmp_path / f"{at}.parquet")
    source = Source(str(tmp_path), dpsu.Users("who"), dpsu.Values(["age"]))
    with pytest.raises(DataError, match=r"'age' is integers in one file and text.*types"):
        source.pairs(KEY, with_repeats=False)
