"""One user's cell neither stops a run, nor chooses a type, nor changes what others contribute."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.inputs import delimited
from tests.support import flat
from tests.support.cases import every

MARK = "Geheimnis"
SURE: dict[str, Any] = {
    "epsilon": 1.0, "delta": 1e-5, "mechanism": "weighted-gaussian", "insecure_seed": 4,
}  # fmt: skip
GOOD: list[tuple[Any, Any]] = [(f"u{u}", f"i{u % 3}") for u in range(400)]
GOOD += [(f"u{u}", "7") for u in range(400)]
EXPECTED = ("7", "i0", "i1", "i2")


def mapping(rows: list[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    held: dict[Any, list[Any]] = {}
    for user, item in rows:
        held.setdefault(user, []).append(item)
    return held


def objects(rows: list[tuple[Any, Any]], folder: Path) -> pd.DataFrame:
    columns = {"user": [r[0] for r in rows], "item": [r[1] for r in rows]}
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def jsonl(rows: list[tuple[Any, Any]], folder: Path) -> Path:
    path = folder / "rows.jsonl"
    lines = [json.dumps({"user": u, "item": i, "other": [1]}) for u, i in rows]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


UNTYPED: dict[str, Callable[[list[tuple[Any, Any]], Path], Any]] = {
    "mapping": lambda rows, folder: mapping(rows),
    "tuples": lambda rows, folder: rows,
    "generator": lambda rows, folder: (row for row in rows),
    "lists": lambda rows, folder: [*mapping(rows).values()],
    "pandas objects": objects,
    "polars objects": lambda rows, folder: pl.DataFrame(
        {
            "user": pl.Series([r[0] for r in rows], dtype=pl.Object),
            "item": pl.Series([r[1] for r in rows], dtype=pl.Object),
        }
    ),
    "jsonl": jsonl,
}
CELLS: dict[str, Any] = {
    "nan": math.nan, "none": None, "float": 2.5, "whole float": 3.0,
    "surrogate": f"\ud800{MARK}", "lists": [[MARK]], "nested": {MARK: 1}, "huge": 10**5000,
}  # fmt: skip
PYTHON_CELLS: dict[str, Any] = {
    "na": pd.NA, "scalar": pa.scalar(MARK), "tuple": (MARK, 1),
    "far time": datetime.time(1, tzinfo=datetime.UTC), "far decimal": decimal.Decimal("1e999"),
}  # fmt: skip


def warned(call: Callable[[], dpsu.Release]) -> tuple[dpsu.Release, str]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = call()
    said = [str(w.message) for w in told if "insecure_seed" not in str(w.message)]
    return result, "\n".join(said)


def named(form: str) -> dict[str, Any]:
    """What must be said of lists in a list."""
    return {"user": "one per entry"} if form == "lists" else {}


def check_dropped(data: Any, expected: tuple[Any, ...] = EXPECTED, **options: Any) -> str:
    result, said = warned(lambda: flat.release(data, **SURE, **options))
    assert result.items == expected
    assert MARK not in said
    return said


@every("form", UNTYPED)
@every("cell", [*CELLS, *PYTHON_CELLS])
def test_a_cell_of_another_kind_is_dropped(form: str, cell: str, tmp_path: Path) -> None:
    if form == "jsonl" and (cell in PYTHON_CELLS or cell in ("huge",)):
        return  # JSON has no such cells.
    value = (CELLS | PYTHON_CELLS)[cell]
    data = UNTYPED[form]([*GOOD, ("u0", value)], tmp_path)
    said = check_dropped(data, **named(form))
    assert "they were ignored" in said
    assert not any(character.isdigit() for character in said)
    strict = UNTYPED[form]([*GOOD, ("u0", value)], tmp_path)
    with pytest.raises(dpsu.DataError, match=r"some (cells|rows)") as caught:
        flat.release(strict, strict=True, **SURE, **named(form))
    assert MARK not in str(caught.value)


@every("form", [form for form in UNTYPED if form != "lists"])
def test_a_user_of_another_kind_is_dropped(form: str, tmp_path: Path) -> None:
    for bad in (2.5, 1e300):
        check_dropped(UNTYPED[form]([*GOOD, (bad, MARK)], tmp_path))


@every("form", UNTYPED)
def test_integers_of_untyped_input_are_text_unless_declared(form: str, tmp_path: Path) -> None:
    huge = [("u0", 2**63), ("u1", 5)]
    rows = [(u, 7 if i == "7" else i) for u, i in GOOD]
    check_dropped(UNTYPED[form]([*rows, *huge], tmp_path), **named(form))
    options = named(form) | {"item_type": "integer"}
    said = check_dropped(UNTYPED[form]([*rows, *huge], tmp_path), (7,), **options)
    assert 'type="text") (--item-type text) keeps them' in said
    assert "are not integers from" in said


@every("form", UNTYPED)
@every("declared", [None, "text", "integer"])
def test_the_type_does_not_depend_on_one_user(
    form: str, declared: str | None, tmp_path: Path
) -> None:
    found = []
    for rows in ([], [("x", 5)], [("x", "5")], [("x", 2.5)], [("x", None)]):
        data = UNTYPED[form](list(rows), tmp_path)
        options = SURE | {"public_items": [2, 10], "item_type": declared} | named(form)
        found.append(warned(lambda d=data, o=options: flat.release(d, **o))[0])  # type: ignore[misc]
    assert {result.items for result in found} == {(2, 10) if declared == "integer" else ("10", "2")}
    assert len({str(result.values.type) for result in found}) == 1


def test_categories_that_are_objects_have_no_type() -> None:
    """One of them may be one person's alone, and there may be categories that no row has."""
    rows = [(u, int(i)) for u, i in GOOD if i == "7"]
    for odd in ([], ["x"], [True], [2.5]):
        data = objects(rows + [("u0", cell) for cell in odd], Path())
        some: Any = pd.Index([7, 8, *odd], dtype=object)
        data["item"] = data["item"].astype(pd.CategoricalDtype(some))
        check_dropped(data, ("7",))


def invalid(cells: list[bytes | None], type_: pa.DataType) -> pa.Array:
    return pa.array(cells, pa.binary()).cast(pa.large_binary()).view(pa.large_string()).cast(type_)


@every("form", ["arrow", "dictionary", "parquet", "binary", "csv", "jsonl"])
def test_bytes_that_are_not_utf8(form: str, tmp_path: Path) -> None:
    users = [u for u, _ in GOOD] + ["u0"]
    cells = [i.encode() for _, i in GOOD] + ["Geheimnis ü".encode("cp1252")]
    table = pa.table({"user": users, "item": invalid(cells, pa.large_string())})
    options: dict[str, Any] = {}
    data: Any = table
    if form == "dictionary":
        data = table.set_column(1, "item", table["item"].dictionary_encode())
    elif form == "parquet":
        data = tmp_path / "x.parquet"
        pyarrow.parquet.write_table(table, data)
    elif form == "binary":
        data = table.set_column(1, "item", pa.array(cells, pa.binary()))
        assert check_dropped(data, tuple(item.encode() for item in EXPECTED)) == ""
        options = {"item_type": "text"}
    elif form in ("csv", "jsonl"):
        data = tmp_path / f"x.{form}"
        one = b"%s,%s\n" if form == "csv" else b'{"user": "%s", "item": "%s"}\n'
        head = b"user,item\n" if form == "csv" else b""
        rows = zip(users, cells, strict=True)
        data.write_bytes(head + b"".join(one % (u.encode(), i) for u, i in rows))
    said = check_dropped(data, **options)
    assert "not valid UTF-8" in said or "neither valid text" in said


@every("suffix", ["csv", "tsv"])
@every("row", ["u0", f"u0,{MARK},1", f"{MARK},", f",{MARK}"])
@every("last", [True, False])
def test_rows_of_csv_that_are_none(suffix: str, row: str, last: bool, tmp_path: Path) -> None:
    lines = [f"{u},{i}" for u, i in GOOD]
    lines.insert(len(lines) if last else 3, row)
    text = "user,item\n" + "\n".join(lines)
    path = tmp_path / f"x.{suffix}"
    path.write_text(text if suffix == "csv" else text.replace(",", "\t"))
    said = check_dropped(path)
    assert "they were ignored" in said
    assert "never closes" not in said
    with pytest.raises(dpsu.DataError, match=r"some rows"):
        flat.release(path, strict=True, **SURE)


@every("row", [f'"{MARK},u0', f'u0,"{MARK}', f'u0,"{MARK}""'])
@every("longest", [256, 1 << 23])
def test_rows_behind_a_quote_that_never_closes_are_told_and_not_guessed(
    row: str, longest: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 64)
    monkeypatch.setattr(delimited, "LONGEST_ROW", longest)
    path = tmp_path / "x.csv"
    lines = [*(f"{u},{i}" for u, i in GOOD), row, *(f"v{k},{MARK} {k % 2}" for k in range(999))]
    path.write_text("user,item\n" + "\n".join(lines) + "\n")
    said = check_dropped(path)
    assert "some rows stand behind a quote that never closes; they were ignored" in said
    with pytest.raises(dpsu.DataError, match=r"never closes|have more than"):
        flat.release(path, strict=True, **SURE)


@every("closed", [True, False])
def test_nobody_writes_rows_of_others_inside_a_long_cell(
    closed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cell in quotes is one cell, however long, and also where the file was cut off."""
    monkeypatch.setattr(delimited, "BLOCK", 1 << 10)
    monkeypatch.setattr(delimited, "LONGEST_ROW", 1 << 12)
    forged = "".join(f"\nfake{k},{MARK},fine" for k in range(2000))
    rows = [f"{u},{i},fine\n" for u, i in GOOD]
    path = tmp_path / "x.csv"
    end = '"\n' + rows[0] if closed else ""
    path.write_text("user,item,comment\n" + "".join(rows) + f'u0,a,"so{forged}' + end)
    said = check_dropped(path)
    assert "have more than" in said
    assert ("never closes" in said) == (not closed)


@every("line", ["[1]", "5", MARK, f'{{"user": "{MARK}"', '{"user": [1], "item": 2}', "{}", "null"])
def test_lines_of_json_that_are_none(line: str, tmp_path: Path) -> None:
    path = jsonl(GOOD, tmp_path)
    path.write_text(line + "\n" + path.read_text("utf-8") + "\n\n", encoding="utf-8")
    assert "they were ignored" in check_dropped(path)


FLOATS = pa.table({"user": [float(u % 400) for u in range(800)], "item": [7.0] * 799 + [math.nan]})


@every("form", ["arrow", "pandas", "polars", "parquet", "duckdb"])
def test_floats_need_a_declaration(form: str, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(FLOATS, tmp_path / "x.parquet")
    data: Any = {
        "arrow": FLOATS, "pandas": FLOATS.to_pandas(), "polars": pl.from_arrow(FLOATS),
        "parquet": tmp_path / "x.parquet", "duckdb": duckdb.from_arrow(FLOATS),
    }[form]  # fmt: skip
    with pytest.raises(dpsu.DataError, match=r'type="integer"\) \(--user-type integer\)') as told:
        flat.release(data, **SURE)
    assert """dtype={'user': "Int64"}), or "UInt64" if they""" in str(told.value)
    types = {"user_type": "integer", "item_type": "integer"}
    assert "some rows have no" in check_dropped(data, (7,), **types)
    check_dropped(data, ("7",), user_type="text", item_type="text")
    halves = FLOATS.set_column(1, "item", pa.array([7.0] * 798 + [0.5, 2.0**63]))
    said = check_dropped(halves, (7,), **types)
    assert "not whole numbers" in said


@every(
    ("text", "number"),
    [
        ("0", 0), ("7", 7), ("-7", -7), ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)), ("9223372036854775808", None),
        ("-9223372036854775809", None), ("007", None), ("-0", None), ("+7", None), (" 7", None),
        ("7 ", None), ("7\n", None), ("7.0", None), ("1e3", None), ("", None), ("\uff17", None),
        ("99999999999999999999", None),
    ],
)  # fmt: skip
def test_texts_that_are_integers(text: str, number: int | None) -> None:
    """One spelling for each integer, so that no two ids become one."""
    data = pa.table({"user": [f"u{u}" for u in range(400)] * 2, "item": [text, "5"] * 400})
    expected = (5,) if number is None else tuple(sorted((5, number)))
    check_dropped(data, expected, item_type="integer")


EXACT = {pa.float16(): 2**11, pa.float32(): 2**24, pa.float64(): 2**53}


@every("declared", ["text", "integer"])
def test_integers_that_floats_round_are_no_ids(declared: str) -> None:
    """Of 2**53 and 2**53 + 1 floats make one number, and so one item of the items of two people."""
    for type_, bound in EXACT.items():
        cells = pa.array([7.0, bound - 1.0, 1.0 - bound, bound, -bound], pa.float64()).cast(type_)
        data = pa.table({"user": np.arange(2000) // 5, "item": pa.concat_arrays([cells] * 400)})
        kept = (1 - bound, 7, bound - 1)
        expected = kept if declared == "integer" else tuple(sorted(map(str, kept)))
        assert "too large to be exact integers" in check_dropped(data, expected, item_type=declared)


def test_one_missing_cell_makes_no_item_of_the_items_of_many() -> None:
    """pandas makes floats of all integers of a column that lacks one."""
    items = pd.Series([*(10**17 + u // 2 for u in range(400)), *[7] * 400, None])
    assert items.nunique() < 100
    data = pd.DataFrame({"user": [*range(400), *range(400), 0], "item": items})
    check_dropped(data, (7,), item_type="integer")
    people = data.rename(columns={"user": "item", "item": "user"}).assign(item=7)
    check_dropped(people, (), user_type="integer")


LARGE = (7, 2**63 - 1, 2**63, 2**64 - 1)
HASHES = pa.table(
    {
        "user": np.repeat(np.arange(2**63 - 200, 2**63 + 200, dtype=np.uint64), 4),
        "item": np.array(LARGE * 400, np.uint64),
    }
)


def written(table: pa.Table, path: Path) -> Path:
    pyarrow.parquet.write_table(table, path)
    return path


HASHED: dict[str, Callable[[Path], Any]] = {
    "arrow": lambda folder: HASHES,
    "pandas": lambda folder: HASHES.to_pandas(),
    "nullable": lambda folder: HASHES.to_pandas().astype("UInt64"),
    "polars": lambda folder: pl.from_arrow(HASHES),
    "duckdb": lambda folder: duckdb.from_arrow(HASHES),
    "parquet": lambda folder: written(HASHES, folder / "x.parquet"),
    "arrays": lambda folder: {name: HASHES[name].to_numpy() for name in HASHES.column_names},
    "dictionaries": lambda folder: pa.table(
        {name: HASHES[name].dictionary_encode() for name in HASHES.column_names}
    ),
    "lists": lambda folder: pa.table(
        {"user": HASHES["user"][::4], "item": pa.array([LARGE] * 400, pa.list_(pa.uint64()))}
    ),
}


@every("form", HASHED)
def test_unsigned_integers_are_ids_like_any_other(form: str, tmp_path: Path) -> None:
    """Hashes are such, and half of them have no room among signed integers."""
    signed = HASHES.set_column(0, "user", HASHES["user"].cast(pa.large_string()))
    expected = flat.release(signed, item_type="text", **SURE)
    for declared in (None, "integer", "text"):
        options = SURE | {
            "item_type": declared,
            "user_type": declared,
            "user": "user",
            "item": "item",
        }
        found, said = warned(lambda o=options: flat.release(HASHED[form](tmp_path), **o))  # type: ignore[misc]
        assert said == ""
        as_text = found.values.cast(pa.large_string())
        assert sorted(as_text.to_pylist()) == sorted(expected.items)
        assert found.values.type == (pa.large_string() if declared == "text" else pa.uint64())
        assert len(found) == 4


def test_unsigned_integers_beside_a_missing_cell() -> None:
    """It makes all rows of the part be looked at, and takes nothing from the others."""
    more = pa.table(
        {"user": pa.array([None, 5], pa.uint64()), "item": pa.array([7, None], pa.uint64())}
    )
    assert "some rows have no" in check_dropped(
        pa.concat_tables([HASHES, more]).combine_chunks(), LARGE
    )


def test_equal_integers_are_one_id_in_signed_and_unsigned_files(tmp_path: Path) -> None:
    """Whatever the order of files; which type is released follows from schemas alone."""
    small = [(user, item) for user in range(400) for item in (-5, 7)]
    large = [(user, item) for user in range(200, 600) for item in (7, LARGE[-1])]
    rows = {"signed": (small, pa.int64()), "unsigned": (large, pa.uint64())}
    for name, (held, type_) in rows.items():
        columns = [pa.array(list(column), type_) for column in zip(*held, strict=True)]
        table = pa.table(columns, names=["user", "item"])
        written(table, tmp_path / f"{name}.parquet")
        written(table.slice(0, 0), tmp_path / f"no {name}.parquet")
    texts = [[str(cell) for cell in column] for column in zip(*small, *large, strict=True)]
    spelled = pa.table(texts, names=["user", "item"])
    counted = SURE | {"counts": True}
    one = flat.release(spelled, **counted)
    expected = dict(zip(one.items, one.to_arrow()["noisy_users"].to_pylist(), strict=True))
    assert set(expected) == {"-5", "7", str(LARGE[-1])}
    for names in (("signed", "unsigned"), ("unsigned", "signed")):
        for declared in (None, "integer"):
            files = [tmp_path / f"{name}.parquet" for name in names]
            options = counted | {"user_type": declared, "item_type": declared}
            found, said = warned(lambda f=files, o=options: flat.release(f, **o))  # type: ignore[misc]
            assert said == ""
            assert found.values.type == pa.decimal128(20, 0)
            noisy = found.to_arrow()["noisy_users"].to_pylist()
            assert dict(zip(map(str, found.items), noisy, strict=True)) == expected
    alone = flat.release([tmp_path / "signed.parquet", tmp_path / "no unsigned.parquet"], **SURE)
    assert alone.values.type == pa.decimal128(20, 0)
    assert list(map(str, alone.items)) == ["-5", "7"]


def test_public_data_know_unsigned_integers() -> None:
    known = [5, *LARGE[1:]]
    for public in (known, pa.table({"item": pa.array(known, pa.uint64())})):
        found = flat.release(HASHES, public_items=public, **SURE)
        assert found.items == (5, *LARGE)
        assert found.values.type == pa.uint64()
    with pytest.raises(dpsu.DataError, match="no values of the columns"):
        flat.release(HASHES, public_items=[-1], **SURE)
    greedy = {"mechanism": "greedy", "allow_unproven": True}
    priors = [
        flat.release(HASHES, prior=prior, **SURE | greedy)
        for prior in (dict.fromkeys(known, 3), {str(item): 3 for item in known})
    ]
    assert priors[0].items == priors[1].items


SHAPES: dict[str, tuple[Any, dict[str, Any], str]] = {
    "series of lists": (pd.Series([["a", "b"]] * 9, index=["u"] * 9), {}, "index is not read"),
    "series": (pd.Series(["a"]), {}, "explode"),
    "polars series": (pl.Series([["a"], ["b"]]), {}, "polars Series"),
    "rows": ([[MARK, "a"]] * 9, {"user": "user"}, "user ids would be published"),
    "rows by item": ([[MARK, "a", "x"]] * 9, {"item": "thing"}, "user ids would be published"),
    "rows of users": (
        [[MARK, "a"]] * 9, {"item": "item", "user": "one per entry"}, "drop item='item'",
    ),
    "generated rows": (([MARK, "a"] for _ in range(9)), {"user": "who"}, "would be published"),
    "array": (np.array([[MARK, "a"]] * 9), {}, "numpy ndarray"),
    "arrays": ([np.array([MARK, "a"])] * 9, {}, "neither"),
    "array of lists": (np.array([["a"], ["b", "c"]], dtype=object), {}, "numpy ndarray"),
    "arrow lists": (pa.array([["a"], ["b"]]), {}, "pyarrow ListArray"),
    "arrow chunks": (pa.chunked_array([[["a"], ["b"]]]), {}, "pyarrow ChunkedArray"),
    "group by": (pd.DataFrame({"user": [1], "item": [2]}).groupby("user"), {}, "was grouped"),
    "polars group by": (
        pl.DataFrame({"user": [1], "item": [2]}).group_by("user"), {}, "was grouped",
    ),
    "items of a mapping": ({MARK: ["a"]}.items(), {}, "the mapping itself"),
    "names in a set": ([(1, 2)], {"user": {"a", MARK}}, "user must be the name"),
    "names in a mapping": ([(1, 2)], {"item": {"a": MARK}}, "item must be the name"),
    "integer name": (pd.DataFrame({0: [1], 1: [2]}), {"user": 0, "item": 1}, "rename columns"),
    "integer columns": (pd.DataFrame({0: [1], 1: [2]}), {}, "no column 'user'"),
    "declared wrongly": ([(1, 2)], {"item_type": "float"}, "is not one of text, integer"),
    "type of tokens": ([(1, "a")], {"text": "t", "item_type": "text"}, "drop it"),
}  # fmt: skip


@every("shape", SHAPES)
def test_shapes_that_would_publish_users_are_refused(shape: str) -> None:
    data, options, words = SHAPES[shape]
    with pytest.raises((dpsu.ParameterError, dpsu.DataError), match=words) as caught:
        flat.release(data, **SURE, **options)
    assert MARK not in str(caught.value)


def failing_frames(folder: Path) -> dict[str, tuple[Any, str]]:
    table = pa.table({"user": [1], "item": ["a"], "real": [0.5]})
    columns = [table["user"], table["item"], table["item"]]
    twice = pa.Table.from_arrays(columns, ["user", "item", "item"])
    pyarrow.parquet.write_table(twice, folder / "twice.parquet")
    pyarrow.parquet.write_table(table.rename_columns(["u", "item", "r"]), folder / "other.parquet")
    file = folder / "rows.db"
    with duckdb.connect(file) as connection:
        connection.execute("create table t as select 1 as who, 0.5::double as item")
    closed = duckdb.connect()
    relation = closed.sql("select 1 as user, 'a' as item")
    closed.close()
    return {
        "pandas": (table.to_pandas().rename(columns={"user": "usr"}), "did you mean 'usr'"),
        "pandas type": (table.to_pandas().rename(columns={"item": "x", "real": "item"}), "double"),
        "polars": (pl.DataFrame({"user": [1], "thing": [2]}), r"name the right one with item"),
        "polars type": (pl.DataFrame({"user": [1], "item": [[[2]]]}), "one row for each item"),
        "polars lazy": (pl.LazyFrame({"user": [[1]], "item": [True]}), "a user is one value"),
        "polars plan": (pl.LazyFrame({"user": [1]}).select("nothing"), "could not be read"),
        "duckdb": (duckdb.sql("select 1 as user, 0.5::double as item"), "double"),
        "closed": (relation, "its connection is closed"),
        "parquet twice": (folder / "twice.parquet", "more than one column 'item'"),
        "parquet": (folder / "other.parquet", "no column 'user'"),
        "query": (dpsu.Query(f"duckdb:{file}", "select who, item from t"), "no column 'user'"),
        "query type": (dpsu.Query(f"duckdb:{file}", 'select who as "user", item from t'), "double"),
        "series": (pd.Series([["a"]]), "pandas Series"),
    }


def test_schemas_are_refused_before_a_ledger_is_charged(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    charged: dict[str, Any] = {"ledger": ledger, "dataset": "d", "budget": (2, 1e-4)}
    for name, (data, words) in failing_frames(tmp_path).items():
        with pytest.raises((dpsu.ParameterError, dpsu.DataError), match=words):
            flat.release(data, **charged, **SURE)
        # A charge would have made the file.
        assert not ledger.exists(), name


def test_a_name_that_is_not_utf8(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.csv"
    Path(os.fsdecode(path)).write_bytes(b"user,item\n1,a\n")
    with pytest.raises(dpsu.ParameterError, match="rename the file"):
        flat.release(os.fsdecode(path), **SURE)


def test_listed_users_have_ids_of_their_own_whatever_is_declared() -> None:
    data = [[7] for _ in range(400)]
    options = {"user": "one per entry", "user_type": "integer", "item_type": "integer"}
    found = flat.release(data, **options, **SURE)
    assert found.items == (7,)


@pytest.mark.slow
@every("terminal", [False, True])
def test_a_slow_query_prints_nothing_but_items(terminal: bool, tmp_path: Path) -> None:
    """DuckDB has a bar of its own for queries that take more than two seconds."""
    file = tmp_path / "rows.db"
    with duckdb.connect(file) as connection:
        connection.execute("create table t as select range as n from range(4000)")
    slow = (
        "select n as person, 'bread' as product from t "
        "where (select sum(hash(a.range + n)) from range(30000) a) >= 0"
    )
    command = [
        sys.executable, "-m", "dpsu", "release", "--source", f"duckdb:{file}", "--query", slow,
        "--user", "person", "--item", "product", "--epsilon", "1", "--delta", "1e-6", "--quiet",
    ]  # fmt: skip
    if not terminal:
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=600)
        assert done.stdout == b"bread\n"
        return
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                chunk = os.read(ours, 1 << 16)
            except OSError:
                break
            if not chunk:
                break
            said += chunk
        assert process.wait(timeout=600) == 0
    os.close(ours)
    assert said == b"bread\r\n"
