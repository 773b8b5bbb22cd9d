"""The values of many columns: a mapping, its levels, its counts, and its files."""

from __future__ import annotations

import csv
import datetime
import json
import pickle
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
from dpsu.contributions.kinds import KindsCodec
from dpsu.errors import ParameterError

# Weights without a cutoff grow far beyond the threshold, so these runs cannot fail by chance.
SURE: dict[str, Any] = {
    "epsilon": 2,
    "delta": 1e-10,
    "mechanism": "weighted-gaussian",
    "user": "id",
}
PEOPLE = 900
DAY = datetime.date(2024, 2, 29)
ONE, TWO = uuid.UUID(int=1), uuid.UUID(int=2)


def people() -> pa.Table:
    """People of two sexes in three cities of two countries, and one with secrets of his own."""
    at = range(PEOPLE)
    table = {
        "id": list(at),
        "sex": pa.array(["f", "m"] * (PEOPLE // 2)),
        "adult": [True] * PEOPLE,
        "size": pa.array([number % 3 for number in at], pa.int8()),
        "born": [DAY] * PEOPLE,
        "team": pa.array([(ONE, TWO)[number % 2].bytes for number in at], pa.uuid()),
        "country": ["fr" if number % 3 else "=de" for number in at],
        "city": [("Berlin", "Paris", "Lyon")[number % 3] for number in at],
        "street": [None, *["Rue 1"] * (PEOPLE - 1)],
    }
    secret = {name: ["Geheim"] for name in ("sex", "country", "city", "street")}
    return pa.concat_tables(
        [pa.table(table), pa.table({"id": [0]} | secret)], promote_options="permissive"
    )


def found(**options: Any) -> dpsu.Domains:
    return dpsu.domains(people(), **(SURE | {"columns": ["sex"]} | options))


def test_a_mapping_from_columns_to_typed_values() -> None:
    values = {
        "sex": ("f", "m"), "adult": (True,), "size": (0, 1, 2), "born": (DAY,), "team": (ONE, TWO),
    }  # fmt: skip
    domains = found(columns=list(values))
    assert dict(domains) == domains == values
    assert list(domains) == list(values)
    assert len(domains) == 5
    assert "sex" in domains
    assert "f" not in domains
    assert domains.to_dict()["size"] == [0, 1, 2]
    assert domains.arrays["size"].type == pa.int64()
    assert repr(domains) == (
        "<Domains: sex 2, adult 1, size 3, born 1, team 2 values by weighted-gaussian, private=True>"
    )
    assert pickle.loads(pickle.dumps(domains)) == domains
    with pytest.raises(KeyError):
        domains["job"]


def test_it_is_one_release_with_one_guarantee() -> None:
    domains = found(columns=["sex", "size"])
    assert domains.release.items == (
        ("f", None), ("m", None), (None, 0), (None, 1), (None, 2)
    )  # fmt: skip
    assert domains.plan.privacy == dpsu.Privacy(2, 1e-10)
    assert domains.private
    assert "values of the columns sex, size" in domains.report()
    assert json.loads(domains.report_json())["released"] == 5
    assert "domains" in json.loads(domains.report_json())["proofs"]
    assert "Geheim" not in domains.report()


def test_a_column_without_released_values_is_there() -> None:
    table = pa.table({"id": [1, 2], "sex": ["f", "m"], "size": [1, None]})
    domains = dpsu.domains(table, columns=["sex", "size"], **SURE)
    assert domains == {"sex": (), "size": ()}
    assert domains.arrays["size"].type == pa.int64()
    assert json.loads(domains.to_json()) == {"sex": [], "size": []}
    assert domains.to_arrow().num_rows == 0
    assert "needs" in domains._repr_html_()


def test_levels_lead_from_parents_to_children() -> None:
    domains = found(columns=["sex"], levels=["country", "city", "street"])
    assert domains["country"] == ("=de", "fr")
    assert domains["city"] == ("Berlin", "Lyon", "Paris")
    assert domains["street"] == ("Rue 1",)
    assert domains.levels == {
        ("country", "city", "street"): {
            "=de": {"Berlin": ("Rue 1",)},
            "fr": {"Lyon": ("Rue 1",), "Paris": ("Rue 1",)},
        }
    }


def test_a_parent_comes_out_with_its_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each user one item counts, so that a city and its country have even chances."""
    mechanism = dpsu.CountGaussian(max_items=1)
    needed = dpsu.plan(epsilon=1, delta=1e-6, mechanism=mechanism).needed[0.5]
    assert needed is not None
    users = 2 * round(needed)
    rows = {"id": list(range(users)), "country": ["fr"] * users, "city": ["Paris"] * users}
    options: dict[str, Any] = {
        "user": "id", "levels": ["country", "city"], "epsilon": 1, "delta": 1e-6,
        "mechanism": mechanism,
    }  # fmt: skip

    def released(seed: int) -> set[Any]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpsu.DataWarning)
            return set(dpsu.domains(rows, insecure_seed=seed, **options).release.items)

    found = {seed: released(seed) for seed in range(30)}
    monkeypatch.setattr(KindsCodec, "with_implied", lambda codec, ids: ids)
    alone = 0
    for seed, items in found.items():
        let_out = released(seed)
        assert items == let_out | {("fr", None) for _ in let_out}
        alone += let_out == {("fr", "Paris")}
    assert alone


def test_a_parent_without_released_children_has_none() -> None:
    villages = [f"village {number}" for number in range(300)]
    rows = {"id": list(range(300)), "country": ["fr"] * 300, "city": villages}
    domains = dpsu.domains(rows, levels=["country", "city"], **SURE)
    assert domains.levels["country", "city"] == {"fr": ()}
    assert domains["city"] == ()
    assert json.loads(domains.to_json())["country > city"] == {"fr": []}


def test_holders_of_equal_values_of_two_columns_are_not_added_up() -> None:
    """A value of 150 people in each of two columns has no 200 of them, in whichever column."""
    bakers, others = ["baker"] * 150, [None] * 150
    rows = {"job": bakers + others, "name": others + bakers, "pet": ["dog"] * 300}
    rows["id"] = list(range(300))
    least = dpsu.CountLaplace(max_items=3, min_users=200)
    domains = dpsu.domains(
        rows, columns=["job", "name", "pet"], user="id", epsilon=30, delta=1e-6, mechanism=least
    )
    assert domains == {"job": (), "name": (), "pet": ("dog",)}


def test_what_is_added_has_a_count_too() -> None:
    domains = found(
        columns=["sex"], levels=["country", "city"], counts=True, epsilon=30, delta=1e-10
    )
    assert domains.counts is not None
    assert list(domains.counts) == ["sex", "country", ("country", "city")]
    assert set(domains.counts["country", "city"]) == {
        ("=de", "Berlin"), ("fr", "Lyon"), ("fr", "Paris"),
    }  # fmt: skip
    for kind, true in (("sex", 450), ("country", 450), (("country", "city"), 300)):
        assert all(abs(count - true) < 200 for count in domains.counts[kind].values())
    assert found().counts is None


def test_json_has_columns_and_chains() -> None:
    domains = found(columns=["adult", "size", "born"], levels=["country", "size"])
    read = json.loads(domains.to_json())
    assert read["adult"] == [True]
    assert read["size"] == [0, 1, 2]
    assert read["born"] == ["2024-02-29"]
    assert read["country > size"] == {"=de": [0], "fr": [1, 2]}
    counted = found(columns=["size", "adult"], levels=["country", "city"], counts=True)
    read = json.loads(counted.to_json())
    assert list(read) == ["size", "adult", "country", "city", "country > city"]
    assert set(read["size"]) == {"0", "1", "2"}
    assert set(read["adult"]) == {"true"}
    # Cities were counted in their countries only.
    assert read["city"] == {"Berlin": None, "Lyon": None, "Paris": None}
    assert isinstance(read["country > city"]["fr"]["Paris"], int)


def test_files_have_a_row_for_each_item(tmp_path: Path) -> None:
    domains = found(columns=["size"], levels=["country", "city"])
    domains.write(tmp_path / "domain.csv", csv_safe=True)
    with (tmp_path / "domain.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [
        ["column", "value", "country"],
        *(["size", size, ""] for size in "012"),
        *(["country", country, ""] for country in ("'=de", "fr")),
        *(["city", *city] for city in (("Berlin", "'=de"), ("Lyon", "fr"), ("Paris", "fr"))),
    ]
    domains.write(tmp_path / "domain.parquet")
    table = pyarrow.parquet.read_table(tmp_path / "domain.parquet")
    assert table.equals(domains.to_arrow())
    assert table.schema.metadata[b"dpsu.plan_hash"].decode() == domains.plan.hash
    domains.write(tmp_path / "domain.json")
    assert (tmp_path / "domain.json").read_text() == domains.to_json()
    assert isinstance(domains.to_pandas(), pd.DataFrame)
    assert isinstance(domains.to_polars(), pl.DataFrame)
    wrong: Any
    for wrong, csv_safe, words in (
        (tmp_path / "domain.txt", False, r"must end in \.json, \.csv, \.parquet"),
        (tmp_path / "domain.json", True, "csv_safe is for output"),
        (3, False, "path must be the name of a file"),
    ):
        with pytest.raises(ParameterError, match=words):
            domains.write(wrong, csv_safe=csv_safe)


def test_a_level_named_as_a_head_of_the_table_keeps_its_name() -> None:
    table = people().rename_columns({"country": "column", "city": "value"})
    options: dict[str, Any] = SURE | {"counts": True}
    domains = dpsu.domains(table, levels=["column", "value"], **options)
    assert domains.to_arrow().column_names == ["column_", "value", "column", "noisy_users"]


def test_notebooks_show_first_values_and_no_markup() -> None:
    rows = {"id": list(range(900)), "size": [number % 15 for number in range(900)]}
    shown = dpsu.domains(
        rows | {"name": ["<b>"] * 900}, columns=["size", "name"], **(SURE | {"epsilon": 8})
    )._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "and 5 more" in shown
    assert "differential privacy" in shown
    assert "NOT PRIVATE" in found(insecure_seed=1)._repr_html_()


def test_a_plan_takes_the_place_of_columns() -> None:
    plan = dpsu.plan(item=dpsu.Values(["sex"], ["country", "city"]), **SURE)
    assert dpsu.domains(people(), plan)["sex"] == ("f", "m")
    released = dpsu.release(people(), plan)
    assert dpsu.Domains(released) == dpsu.domains(people(), plan)
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (plan, {"columns": ["sex"]}, "the plan decides columns; drop it"),
        (dpsu.plan(item="sex", **SURE), {}, "the plan releases items of 'sex'"),
        ("plan.json", {}, "plan is a str"),
    ]
    for given, options, words in refused:
        with pytest.raises(ParameterError, match=words):
            dpsu.domains(people(), given, **options)
    with pytest.raises(ParameterError, match="no release of the values of columns"):
        dpsu.Domains(dpsu.release({"a": ["b"]}, epsilon=1, delta=1e-6))


def test_a_ledger_is_charged_once_for_all_columns(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    dataset = ledger.dataset("people", budget=(2, 1e-6))
    dpsu.domains(people(), columns=["sex", "size", "city"], ledger=dataset, **SURE)
    with pytest.raises(dpsu.BudgetError):
        dpsu.domains(people(), columns=["sex"], ledger=dataset, **SURE)


def test_a_named_release_comes_back_with_its_types(tmp_path: Path) -> None:
    dataset = dpsu.Ledger(tmp_path / "ledger.db").dataset("people", budget=(3, 1e-5), once="one")
    options: dict[str, Any] = {
        "columns": ["size", "team"], "levels": ["country", "city"], "ledger": dataset, **SURE
    }  # fmt: skip
    first = dpsu.domains(people(), **options)
    again = dpsu.domains(pa.table({}), **options)
    assert again == first
    assert again.levels == first.levels
    assert again.to_json() == first.to_json()
