"""Rows that name nobody, each another person's, where that was said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dpsu
from dpsu.inputs import files, reading
from dpsu.inputs.columns import ONE_PER_ENTRY
from dpsu.inputs.keyed import ID_BYTES, drawn_ids
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from tests.support.examples import same_keys

CITIES = ["Lima", "Oslo", "Oslo", None, "Kyiv"]


def users_of(data: Any, item: str = "city", seed: int = 1) -> list[list[tuple[str, Any]]]:
    """Users and items of each part, as they are read."""
    source = Source(data, dpsu.Users(ONE_PER_ENTRY), dpsu.Items(item))
    rows = source.rows(Key.from_insecure_seed(seed), with_repeats=False)
    return [list(zip(*(c.to_pylist() for c in part()[:2]), strict=True)) for part in rows.parts]  # fmt: skip


def given(kind: str, folder: Path) -> Any:
    table = pa.table({"city": CITIES, "other": range(5)})
    frame = pl.DataFrame(table)
    writers: dict[str, Any] = {
        "parquet": frame.write_parquet,
        "csv": frame.write_csv,
        "jsonl": frame.write_ndjson,
    }
    if kind in writers:
        writers[kind](folder / f"rows.{kind}")
        return folder / f"rows.{kind}"
    forms = {"arrow": table, "pandas": table.to_pandas(), "polars": frame, "mapping": {"city": CITIES}}  # fmt: skip
    return forms[kind]


KINDS = ["parquet", "csv", "jsonl", "arrow", "pandas", "polars", "mapping"]


def test_each_row_has_a_user_of_its_own(tmp_path: Path) -> None:
    for kind in KINDS:
        read = [row for part in users_of(given(kind, tmp_path)) for row in part]
        assert [item or None for _, item in read] == CITIES, kind
        assert len({user for user, _ in read}) == len(CITIES), kind
        assert {len(user) for user, _ in read} == {128 // 4}, kind
        again = [row for part in users_of(given(kind, tmp_path)) for row in part]
        assert again == read, kind
        other = [row for part in users_of(given(kind, tmp_path), seed=2) for row in part]
        assert not {user for user, _ in other} & {user for user, _ in read}, kind


def test_parts_have_different_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "ROWS_AT_ONCE", 2)
    parts = users_of(pa.table({"city": CITIES}))
    assert len(parts) == 3
    assert len({user for part in parts for user, _ in part}) == len(CITIES)


@pytest.mark.parametrize("limit", ["LARGEST_GROUP", "LARGEST_GROUP_BYTES"])
def test_each_row_of_large_row_groups_is_one_user(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(pa.table({"city": CITIES}), tmp_path / "rows.parquet", row_group_size=2)
    monkeypatch.setattr(files, limit, 1)
    read = [row for part in users_of(tmp_path / "rows.parquet") for row in part]
    assert [item for _, item in read] == CITIES
    assert len({user for user, _ in read}) == len(CITIES)


def test_a_list_is_of_one_user() -> None:
    ((first, second, third),) = users_of(pa.table({"city": [["a", "b"], ["c"]]}))
    assert first[0] == second[0] != third[0]


def test_ids_do_not_depend_on_who_else_is_there() -> None:
    key = Key.from_insecure_seed(3)
    assert drawn_ids(key, 0, 7).slice(0, 4).equals(drawn_ids(key, 0, 4))
    assert set(map(len, drawn_ids(key, 0, 3).to_pylist())) == {2 * ID_BYTES}
    assert len(drawn_ids(key, 5, 0)) == 0


def test_rows_are_released_and_the_report_says_whom_it_protects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same_keys(monkeypatch)
    frame = pd.DataFrame({"city": ["Lima", "Oslo"] * 500 + [f"secret {n}" for n in range(50)]})
    found = dpsu.release(frame, epsilon=1, delta=1e-6, user="one per entry", item="city")
    assert set(found.items) == {"Lima", "Oslo"}
    assert "any one entry (row or list) of the data" in found.report()
    assert "each entry (row or list) of the data is another person's" in found.report()


def test_data_that_name_their_users_are_refused() -> None:
    for data in ({"ann": ["a"]}, [("ann", "a")], {("ann", "a")}, iter([("ann", "a")])):
        with pytest.raises(dpsu.ParameterError, match="these data have users"):
            dpsu.release(data, epsilon=1, delta=1e-6, user="one per entry")


def test_nobody_is_not_a_column() -> None:
    with pytest.raises(dpsu.ParameterError, match="'one per entry'"):
        dpsu.plan(epsilon=1, delta=1e-6, user=None)  # type: ignore[arg-type]


def test_a_plan_says_whom_it_protects() -> None:
    cases: list[tuple[Any, ...]] = [
        (["person", "day"], "any one combination of 'person, day'"),
        (["person", "day"], "protected in each of them alone"),
        (dpsu.Users("account", ids_per_person=3), "any one person, who may have up to 3 values of"),
        (dpsu.Users("account", ids_per_person=3), "nobody has more than 3 values of 'account'"),
        (
            dpsu.Users(["p", "d"], ids_per_person=7),
            "any one group of up to 7 combinations of 'p, d'",
        ),
        (dpsu.Users(["p", "d"], ids_per_person=7), "protected for any 7 of them together"),
    ]
    for user, told in cases:
        said = " ".join(str(dpsu.plan(epsilon=1, delta=1e-6, user=user)).split())
        assert told in said, user
