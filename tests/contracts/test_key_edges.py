"""Edges of types and shapes at which keys met, moved to others, or stopped the run."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.cells import text_of
from tests.support.cases import every

pytestmark = pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
SURE: dict[str, Any] = {"epsilon": 1, "delta": 1e-6, "mechanism": "weighted-gaussian"}
NAMED: dict[str, Any] = SURE | {"user": "who", "item": "what"}
N = 300


def released(items: Any, **more: Any) -> dpsu.Release:
    return dpsu.release(pa.table({"user": list(range(len(items))), "item": items}), **SURE, **more)


def test_lists_that_are_views_stay_with_their_users() -> None:
    """The list that comes first is last in memory: by places in memory, all would hold it."""
    child = pa.array(["bread"] * N + ["secret"] * N)
    starts, sizes = pa.array([N, *range(N)], pa.int32()), pa.array([N] + [1] * N, pa.int32())
    assert released(pa.ListViewArray.from_arrays(starts, sizes, child)).items == ("bread",)


def test_a_list_that_is_missing_hides_what_stands_behind_it() -> None:
    frame = pl.DataFrame({"user": range(N), "item": [["bread", "milk"]] * N, "ok": [True] * N})
    frame = frame.with_columns(ok=pl.col("user") != 7)
    hidden = frame.with_columns(item=pl.when("ok").then("item"))
    assert dpsu.release(hidden, **SURE).items == ("bread", "milk")
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3]), pa.array(["a", "x", "y"]), mask=pa.array([False, True])
    )
    table = pa.table({"user": [1, 2], "item": lists})
    assert dpsu.release(table, **SURE).items == ()


def test_one_id_does_not_make_a_table_of_a_mapping() -> None:
    users: dict[str, list[str]] = {f"p{n}": ["bread"] for n in range(500)}
    odd = {"item": ["secret"] * N, "user": [f"x{n}" for n in range(N)]}
    assert dpsu.release(users | odd, **SURE).items == ("bread",)
    with pytest.warns(dpsu.DataWarning, match="read as the items of a user"):
        assert dpsu.release(odd, **SURE).items == ()
    table = {"who": list(range(N)), "what": ["bread"] * N}
    assert dpsu.release(table, **NAMED).items == ("bread",)


class Zone(datetime.tzinfo):
    def utcoffset(self, when: datetime.datetime | None) -> datetime.timedelta:
        raise RuntimeError("Zzmarker")

    def dst(self, when: datetime.datetime | None) -> None:
        return None

    def tzname(self, when: datetime.datetime | None) -> None:
        return None


@every(
    "cell",
    [
        pd.Timestamp(np.datetime64("20000-01-01", "s")), pd.Timestamp(np.datetime64("-0001", "s")),
        datetime.datetime(2024, 1, 1, tzinfo=Zone()),
    ],
)  # fmt: skip
def test_one_object_does_not_stop_the_run(cell: Any) -> None:
    users: dict[str, list[Any]] = {f"p{n}": ["bread"] for n in range(N)}
    assert dpsu.release(users | {"z": [cell]}, **SURE).items == ("bread",)


def test_one_text_that_is_no_utf8_does_not_stop_the_run() -> None:
    cells = np.array(["bread"] * N + ["\ud800"])
    assert dpsu.release({"who": np.arange(N + 1), "what": cells}, **NAMED).items == ("bread",)


def test_columns_of_a_result_have_names_of_their_own() -> None:
    struct = pa.array([{"a": "x", "b": "y"}] * N)
    table = pa.table({"user": range(N), "item": struct, "item.a": ["q"] * N})
    with pytest.raises(dpsu.DataError, match="equal names in the result"):
        dpsu.release(table, **SURE, item=["item", "item.a"])
    names = ["noisy_users", "noisy_users_count"]
    table = pa.table({"user": range(N), names[0]: ["a"] * N, names[1]: ["b"] * N})
    made = dpsu.release(table, **SURE, item=names, counts=True)
    assert made.to_arrow().column_names == [*names, "noisy_users_count_count"]
    assert made.items == (("a", "b"),)


def test_a_struct_of_one_field_is_that_field() -> None:
    assert released(pa.array([{"a": "x"}] * N)).items == ("x",)


@every(
    ("type_", "value", "made"),
    [
        (pa.decimal32(7, 2), "1200.5", pa.decimal128(7, 2)),
        (pa.decimal64(12, 3), "1200.5", pa.decimal128(12, 3)),
        (pa.decimal128(10, -2), "1200", pa.decimal128(12, 0)),
        (pa.decimal128(38, -20), "12e20", pa.decimal256(58, 0)),
    ],
)
def test_decimals_of_all_widths_and_scales(type_: Any, value: str, made: Any) -> None:
    items = pa.array([decimal.Decimal(value)] * N, type_)
    found = released(items)
    assert found.values.type == made
    assert found.items == (decimal.Decimal(value),)
    assert released(items[:0]).values.type == made


def test_decimals_that_arrow_cannot_hold_are_refused() -> None:
    with pytest.raises(dpsu.DataError, match="has type decimal"):
        released(pa.nulls(1, pa.decimal128(38, -40)))


def test_equal_decimals_have_equal_texts() -> None:
    assert text_of(decimal.Decimal("1E+77")) is text_of(decimal.Decimal(f"1{'0' * 77}")) is None
    assert text_of(decimal.Decimal("1E+75")) == text_of(decimal.Decimal(f"1{'0' * 75}"))
    assert text_of(decimal.Decimal("0E-100")) == text_of(decimal.Decimal(0)) == "0"


def test_times_of_nanoseconds_are_different_items() -> None:
    found = released(pa.array([0] * N + [1] * N).view(pa.time64("ns")))
    assert found.items == ("00:00:00", "00:00:00.000000001")
    assert len(found.to_dict()) == len(found.to_pandas()) == 2
    whole = released(pa.array([5_000] * N).view(pa.time64("ns")))
    assert whole.items == (datetime.time(0, 0, 0, 5),)


def test_days_do_not_wrap() -> None:
    days = pa.array([2**32 * 86_400_000] * N + [-1] * N, pa.int64()).view(pa.date64())
    assert released(days).items == (datetime.date(1969, 12, 31),)
    far = np.array([2**32] * N + [5] * N).astype("M8[D]")
    found = dpsu.release({"who": np.arange(2 * N), "what": far}, **NAMED)
    assert found.items == (datetime.date(1970, 1, 6),)


@every("cell", ["'12:00:00+01'::timetz", "1::uhugeint", "'0101'::bit", "1::variant"])
def test_types_that_arrow_hides_are_refused(cell: str, tmp_path: Path) -> None:
    query = f'select 1 as "user", {cell} as item'
    duckdb.connect(tmp_path / "shop.db").close()
    for data in (duckdb.sql(query), dpsu.Query(f"duckdb:{tmp_path / 'shop.db'}", query)):
        with pytest.raises(dpsu.DataError, match="which Arrow does not have; cast it to text"):
            dpsu.release(data, **SURE)
