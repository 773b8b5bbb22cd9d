"""Keys of several columns and of all types: the same release from every way to give them."""

from __future__ import annotations

import csv
import datetime
import decimal
import json
import uuid
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from tests.contracts import inputs
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401

SURE: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "weighted-gaussian"}
USERS = 300
DAY, NIGHT = datetime.date(2024, 2, 29), datetime.date(2023, 12, 31)
# Each user has two rows, on two sites that number their visitors alike; one secret has a tab.
ROWS: list[tuple[str, int, str, Any]] = [
    (site, visitor, f"fr\\{site}\t", day)
    for visitor in range(USERS)
    for site, day in (("a", DAY), ("b", NIGHT))
]
ROWS += [("a", 0, "Geheimnis\t", DAY), ("a", 0, "Geheimnis", NIGHT)]
COLUMNS = ["site", "visitor", "country", "day"]
ITEMS = (("fr\\a\t", DAY), ("fr\\b\t", NIGHT))
KEYS: dict[str, Any] = {"user": ["site", "visitor"], "item": ["country", "day"]}


def table() -> pa.Table:
    return pa.table(dict(zip(COLUMNS, map(list, zip(*ROWS, strict=True)), strict=True)))


def pairs() -> list[tuple[Any, Any]]:
    return [((site, visitor), (country, day)) for site, visitor, country, day in ROWS]


UNTYPED = inputs.UNTYPED | {
    # Dates of pandas are Python objects.
    "pandas": lambda table, folder: table.to_pandas(),
    # A mapping whose columns are named is a table.
    "mapping": lambda table, folder: table.to_pydict(),
    "pairs": lambda table, folder: pairs(),
}


@every("form", inputs.TYPED)
def test_keys_of_typed_columns_come_back_with_their_types(form: str, tmp_path: Path) -> None:
    released = dpsu.release(inputs.TYPED[form](table(), tmp_path), **KEYS, **SURE)
    assert released.items == ITEMS
    assert released.to_arrow().schema.names == ["country", "day"]
    assert released.to_arrow().schema.types == [pa.large_string(), pa.date32()]
    assert ITEMS[0] in released


@every("form", UNTYPED)
def test_keys_without_types_are_texts(form: str, tmp_path: Path) -> None:
    released = dpsu.release(UNTYPED[form](table(), tmp_path), **KEYS, **SURE)
    assert released.items == tuple((country, str(day)) for country, day in ITEMS)


def test_without_the_site_two_people_would_be_one() -> None:
    """That is what several columns are for: half of the people would be left."""
    plan = dpsu.plan(**(KEYS | {"item": "day"}), epsilon=30, delta=1e-6, counts=True)
    counted = dpsu.release(table(), plan).to_dict()
    assert all(abs((count or 0) - USERS) < USERS / 4 for count in counted.values())


def test_a_missing_cell_of_a_key_drops_its_row() -> None:
    rows = table().to_pylist()
    more = [row | {"day": None} for row in rows[:5]] + [row | {"visitor": None} for row in rows[:5]]
    data = pa.Table.from_pylist([*rows, *more], table().schema)
    with pytest.warns(dpsu.DataWarning, match="no 'site, visitor' or no 'country, day'"):
        assert dpsu.release(data, **KEYS, **SURE).items == ITEMS
    with pytest.raises(dpsu.DataError, match="some rows have no"):
        dpsu.release(data, **KEYS, **SURE, strict=True)


def test_tuples_of_other_lengths_are_ignored_and_told() -> None:
    odd = [(("a", "x"), item) for item in (("fr",), "fr", ("fr", DAY, 1))]
    data = [*pairs(), *odd, ("one", ("fr", DAY))]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert len(dpsu.release(data, **KEYS, **SURE)) == 2
    said = "\n".join(str(each.message) for each in told)
    assert "some 'country, day' are not tuples of 2 cells" in said
    assert "some 'site, visitor' are not tuples of 2 cells" in said


def test_the_command_line_takes_several_columns(run: Run, tmp_path: Path) -> None:  # noqa: F811
    keys = ("--user", "site", "--user", "visitor", "--item", "country", "--item", "day")
    promise = ("--epsilon", "1", "--delta", "1e-6", "--quiet")
    code, out, _ = run("release", inputs.parquet(table(), tmp_path), *keys, *promise)
    assert (code, out) == (0, "fr\\\\a\\t\t2024-02-29\nfr\\\\b\\t\t2023-12-31\n")
    file = tmp_path / "released.csv"
    assert (
        run("release", inputs.csv_file(table(), tmp_path), *keys, *promise, "--output", file)[0]
        == 0
    )
    with file.open(newline="", encoding="utf-8") as opened:
        assert list(csv.reader(opened))[1:] == [[c, str(d)] for c, d in ITEMS]
    for typed, words in (
        (("--item", "a", "--item", "a"), "--item names a column twice"),
        (("--item", "a", "--item", "b", "--item-type", "text"), "--item-type is for one column"),
        (("--text", "a", "--item", "b", "--item", "c"), "--item must be the name of a column"),
        (("--user", "country", "--item", "day", "--item", "dya"), "name the right one with --item"),
    ):
        code, _, err = run("release", file, *typed, *promise)
        assert code == 2
        assert words in err


def test_files_have_the_columns_with_their_types(tmp_path: Path) -> None:
    released = dpsu.release(table(), **KEYS, **SURE, counts=True)
    counts = [released.to_dict()[item] for item in released.items]
    for suffix in ("txt", "csv", "json", "parquet"):
        released.write(tmp_path / f"out.{suffix}")
    lines = (tmp_path / "out.txt").read_text("utf-8").splitlines()
    assert lines[0] == f"fr\\\\a\\t\t2024-02-29\t{counts[0]}"
    stored = json.loads((tmp_path / "out.json").read_text("utf-8"))
    assert stored[0] == {"country": "fr\\a\t", "day": "2024-02-29", "noisy_users": counts[0]}
    read = pyarrow.parquet.read_table(tmp_path / "out.parquet")
    assert read["day"].to_pylist() == [DAY, NIGHT]
    assert read.equals(released.to_arrow())
    assert released.to_polars()["day"].to_list() == [DAY, NIGHT]
    assert released.to_pandas()["day"].tolist() == [DAY, NIGHT]
    assert "2024-02-29" in released._repr_html_()


ALL: dict[str, tuple[pa.Array, list[Any], str]] = {
    "booleans": (pa.array([True, False]), [False, True], "false"),
    "dates": (pa.array([DAY, NIGHT]), [NIGHT, DAY], "2023-12-31"),
    "old dates": (pa.array([DAY, NIGHT], pa.date64()), [NIGHT, DAY], "2023-12-31"),
    "times": (
        pa.array([datetime.time(9), datetime.time(8, 0, 0, 500)]),
        [datetime.time(8, 0, 0, 500), datetime.time(9)],
        "08:00:00.0005",
    ),
    "timestamps": (
        pa.array([10**9, 0], pa.timestamp("ns")),
        [datetime.datetime(1970, 1, 1), datetime.datetime(1970, 1, 1, 0, 0, 1)],
        "1970-01-01T00:00:00",
    ),
    "instants": (
        pa.array([1, 0], pa.timestamp("s", "Europe/Berlin")),
        [
            datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC),
            datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC),
        ],
        "1970-01-01T00:00:00Z",
    ),
    "decimals": (
        pa.array([decimal.Decimal("10.50"), decimal.Decimal("9.00")]),
        [decimal.Decimal("9.00"), decimal.Decimal("10.50")],
        "9",
    ),
    "UUIDs": (
        pa.array([uuid.UUID(int=2**100).bytes, uuid.UUID(int=1).bytes], pa.uuid()),
        [uuid.UUID(int=1), uuid.UUID(int=2**100)],
        str(uuid.UUID(int=1)),
    ),
    "bytes": (pa.array([b"\xff", b"\0a"]), [b"\0a", b"\xff"], "0061"),
}


@every("kind", ALL)
@every("form", ["arrow", "parquet", "dictionary"])
def test_a_column_of_any_type_is_items_and_users(kind: str, form: str, tmp_path: Path) -> None:
    cells, expected, text = ALL[kind]
    rows = pa.array([row % 2 for row in range(2 * USERS)])
    column = cells.take(rows)
    if form == "dictionary":
        if kind == "UUIDs":
            return  # Arrow has no dictionaries of these.
        column = column.dictionary_encode()
    data: Any = pa.table({"user": [row // 2 for row in range(2 * USERS)], "item": column})
    if form == "parquet":
        pyarrow.parquet.write_table(data, tmp_path / "x.parquet")
        data = tmp_path / "x.parquet"
    released = dpsu.release(data, **SURE, counts=True)
    assert list(released.items) == expected
    released.write(tmp_path / "out.csv")
    with (tmp_path / "out.csv").open(newline="") as file:
        assert list(csv.reader(file))[1][0] == text
    released.write(tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text())[0]["item"] == (
        False if kind == "booleans" else text
    )
    assert released.to_polars().height == released.to_pandas().shape[0] == 2
    if kind != "bytes":
        # Declared to be text, it is text.
        as_text = dpsu.release(data, item=dpsu.Items(type="text"), **SURE)
        assert as_text.values.type == pa.large_string()
        assert text in as_text.items
    # As users they are two people, and nothing of two people comes out.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert not dpsu.release(data, user="item", item="user", **SURE).items


@every("kind", ALL)
def test_no_rows_have_the_types_of_their_schema(kind: str) -> None:
    cells, _, _ = ALL[kind]
    data = pa.table({"user": pa.nulls(0, pa.int64()), "item": cells[:0], "other": cells[:0]})
    with pytest.warns(dpsu.DataWarning, match="nothing can be released"):
        released = dpsu.release(data, **SURE)
    assert released.items == ()
    assert released.values.type == (pa.date32() if kind == "old dates" else cells.type)
    with pytest.warns(dpsu.DataWarning):
        pairs = dpsu.release(data, item=["item", "other"], **SURE)
    assert pairs.items == ()
    assert pairs.to_arrow().schema.names == ["item", "other"]


def test_files_must_agree_on_what_their_columns_mean(tmp_path: Path) -> None:
    one, other = table(), table().set_column(3, "day", table()["day"].cast(pa.string()))
    for place, each in enumerate((one, other)):
        pyarrow.parquet.write_table(each, tmp_path / f"{place}.parquet")
    for keys in (KEYS, KEYS | {"item": "day"}):
        with pytest.raises(dpsu.DataError, match="dates in one file and text in another"):
            dpsu.release(tmp_path, **keys, **SURE)
    stamped = table().set_column(3, "day", table()["day"].cast(pa.date64()))
    pyarrow.parquet.write_table(stamped, tmp_path / "1.parquet")
    assert dpsu.release(tmp_path, **KEYS, **SURE).items == ITEMS


def test_structs_are_several_columns() -> None:
    place = pa.StructArray.from_arrays(
        [table()["country"].combine_chunks(), table()["day"].combine_chunks()], ["name", "day"]
    )
    data = table().append_column("place", place)
    released = dpsu.release(data, user=["site", "visitor"], item="place", **SURE)
    assert released.items == ITEMS
    assert released.to_arrow().schema.names == ["place.name", "place.day"]
    # Users and items may share a column.
    both = dpsu.release(data, user=["site", "visitor"], item=["place", "site"], **SURE)
    assert both.items == (("fr\\a\t", DAY, "a"), ("fr\\b\t", NIGHT, "b"))
    with pytest.raises(dpsu.ParameterError, match="must be different columns"):
        dpsu.release(data, user="site", item=["site", "day"], **SURE)
    assert len(dpsu.release(data, user="place", item="site", **SURE)) == 0
    polars = dpsu.release(pl.from_arrow(data), user=["site", "visitor"], item="place", **SURE)
    assert polars == released


LISTS = {
    "list": pa.list_(pa.string()), "large list": pa.large_list(pa.large_string()),
    "fixed list": pa.list_(pa.string(), 2), "list of views": pa.list_(pa.string_view()),
    "list view": pa.list_view(pa.string()),
}  # fmt: skip


@every("kind", LISTS)
def test_lists_are_one_item_each(kind: str, tmp_path: Path) -> None:
    held = [["a", "b"] if row % 2 else ["c", "a"] for row in range(2 * USERS)]
    users = [f"u{row // 2}" for row in range(2 * USERS)]
    data = pa.table(
        {"user": users, "item": pa.array(held, LISTS[kind]), "site": ["x"] * len(users)}
    )
    assert dpsu.release(data, **SURE).items == ("a", "b", "c")
    pairs = dpsu.release(data, item=["site", "item"], **SURE)
    assert pairs.items == (("x", "a"), ("x", "b"), ("x", "c"))
    if kind in ("list", "large list"):
        pyarrow.parquet.write_table(data, tmp_path / "x.parquet")
        assert dpsu.release(tmp_path, **SURE).items == ("a", "b", "c")
    twice = data.append_column("more", data["item"])
    with pytest.raises(dpsu.DataError, match="more than one of the columns"):
        dpsu.release(twice, item=["item", "more"], **SURE)


def test_items_of_a_list_are_those_of_its_row() -> None:
    """Two users hold one list each, of items that nobody else has."""
    from dpsu.inputs.keyed import Keyed
    from dpsu.inputs.reading import wanted

    data = pa.table({"user": ["u", "v", "w"], "item": [["a"], [], ["b", "c"]], "n": [1, 2, 3]})
    user, item, repeats = Keyed(wanted(dpsu.Users("user"), dpsu.Items("item"), "n")).columns_of(
        data
    )
    assert repeats is not None
    rows = zip(user.to_pylist(), item.to_pylist(), repeats.to_pylist(), strict=True)
    assert list(rows) == [("u", "a", 1), ("w", "b", 3), ("w", "c", 3)]


def test_lists_count_for_their_user_and_with_their_repeats() -> None:
    """A list is rows of one user: it has the weight of one user, however long it is."""
    long = pa.table({"user": ["u"], "item": [[f"secret {n}" for n in range(5000)]]})
    assert dpsu.release(long, **SURE).items == ()
    data = pa.table(
        {
            "user": [f"u{n}" for n in range(USERS)] * 2,
            "item": [["a", "b"], ["c"]] * USERS,
            "times": [1, 7] * USERS,
        }
    )
    items = dpsu.Items("item", repeats="times")
    greedy = dpsu.Greedy(order="repeats")
    assert dpsu.release(data, item=items, epsilon=1, delta=1e-6, mechanism=greedy).items


def test_missing_lists_are_told_and_empty_ones_are_not() -> None:
    held = [["a"], [], ["a", None]] * USERS
    users = [f"u{n % USERS}" for n in range(3 * USERS)]
    data = pa.table({"user": users, "item": pa.array(held, pa.list_(pa.string()))})
    with pytest.warns(dpsu.DataWarning, match="some rows have no"):
        assert dpsu.release(data, **SURE).items == ("a",)
    filled = pa.array([each for each in held if each != ["a", None]] * 1, pa.list_(pa.string()))
    assert dpsu.release(pa.table({"user": users[: len(filled)], "item": filled}), **SURE).items
    missing = pa.array([["a", "b"], None] * USERS, pa.list_(pa.string()))
    rows = pa.table({"user": [f"u{n % USERS}" for n in range(2 * USERS)], "item": missing})
    with pytest.warns(dpsu.DataWarning, match="some cells of 'item' are missing"):
        assert dpsu.release(rows, **SURE).items == ("a", "b")


def test_json_has_lists_too(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    lines = [
        json.dumps({"user": f"u{n}", "item": ["a", 7, True] if n % 2 else "b"})
        for n in range(2 * USERS)
    ]
    path.write_text("\n".join(lines))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        assert dpsu.release(path, **SURE).items == ("7", "a", "b", "true")


@every("form", ["tuples", "table", "text table", "csv"])
def test_public_items_and_priors_have_the_same_columns(form: str, tmp_path: Path) -> None:
    known = [("known\t", DAY), ("fr\\a\t", DAY)]
    frame = pd.DataFrame(known, columns=["country", "day"])
    public: Any = {
        "tuples": known, "table": pa.table(frame), "text table": frame.astype({"day": str}),
        "csv": tmp_path / "known.csv",
    }[form]  # fmt: skip
    frame.to_csv(tmp_path / "known.csv", index=False)
    prior: Any = dict.fromkeys(known, 5)
    if form != "tuples":
        frame.assign(number=5).to_csv(tmp_path / "prior.csv", index=False)
        prior = tmp_path / "prior.csv"
    mechanism = dpsu.CountGaussian(prior=prior, max_items=3)
    released = dpsu.release(
        table(), **KEYS, epsilon=8, delta=1e-3, mechanism=mechanism, public_items=public
    )
    assert released.items == (ITEMS[0], ITEMS[1], ("known\t", DAY))
    assert released.prior_share == 2 / 3


def test_public_items_of_other_columns_or_types_are_refused() -> None:
    for public, words in (
        ([("x", "tomorrow")], "with their types and spelled"),
        ([("x", 5)], "with their types and spelled"),
        (["x"], "tuples of 2 cells"),
        (pd.DataFrame({"country": ["x"]}), "there must be 'country', 'day'"),
        (pd.DataFrame({"country": [0.5], "day": ["x"]}), "convert it"),
    ):
        with pytest.raises((dpsu.DataError, dpsu.ParameterError), match=words):
            dpsu.release(table(), **KEYS, **SURE, public_items=public)


def test_an_audit_takes_plans_of_several_columns() -> None:
    plan = dpsu.plan(**KEYS, epsilon=1, delta=0.05, mechanism=dpsu.WeightedGaussian(max_items=3))
    assert dpsu.audit(plan, trials=4000).passed


def test_many_columns_of_json_are_one_key(tmp_path: Path) -> None:
    """More columns than Arrow is asked to try all types for."""
    names = [f"c{place}" for place in range(9)]
    row = {"user": 0} | {name: place if place % 2 else "x" for place, name in enumerate(names)}
    lines = [json.dumps(row | {"user": user % USERS}) for user in range(2 * USERS)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    released = dpsu.release(tmp_path / "x.jsonl", item=names, **SURE)
    assert released.items == (("x", "1", "x", "3", "x", "5", "x", "7", "x"),)
