"""The values of many columns: the same release from every table."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.plans.mechanisms import MECHANISMS
from tests.contracts import inputs
from tests.support.cases import every
from tests.support.databases import OF_PAIRS

PEOPLE = 300
SURE: dict[str, Any] = {"epsilon": 2, "delta": 1e-6, "mechanism": "weighted-gaussian"}
# One person has a value of his own in every column, and one column has missing cells.
ROWS = [
    (f"p{at}", "fm"[at % 2], at % 3, None if at % 4 == 0 else "smith", ("fr", "de")[at % 2])
    for at in range(PEOPLE)
]
ROWS += [("p1", "Geheim", 77, "Geheim", "Geheim")]
NAMES = ["id", "sex", "size", "job", "country"]
NAMED: dict[str, Any] = {
    "user": "id",
    "columns": ["sex", "size", "job"],
    "levels": ["country", "size"],
}


def table() -> pa.Table:
    return pa.table(dict(zip(NAMES, map(list, zip(*ROWS, strict=True)), strict=True)))


TYPED = inputs.TYPED | {
    "pandas": lambda table, folder: table.to_pandas(),
    "two files": lambda table, folder: [inputs.parquet(table, folder)] * 2,
}


@every("form", TYPED)
def test_values_of_typed_columns_have_their_types(form: str, tmp_path: Path) -> None:
    domains = dpsu.domains(TYPED[form](table(), tmp_path), **NAMED, **SURE)
    assert domains == {
        "sex": ("f", "m"), "size": (0, 1, 2), "job": ("smith",), "country": ("de", "fr"),
    }  # fmt: skip
    assert domains.levels == {("country", "size"): {"de": (0, 1, 2), "fr": (0, 1, 2)}}


@every("form", inputs.UNTYPED)
def test_values_without_types_are_texts_or_what_was_declared(form: str, tmp_path: Path) -> None:
    data = inputs.UNTYPED[form](table(), tmp_path)
    assert dpsu.domains(data, **NAMED, **SURE)["size"] == ("0", "1", "2")
    domains = dpsu.domains(data, types={"size": "integer"}, **NAMED, **SURE)
    assert domains["size"] == (0, 1, 2)
    assert domains["job"] == ("smith",)
    assert domains.levels["country", "size"]["de"] == (0, 1, 2)


@every("name", OF_PAIRS)
def test_it_is_the_release_of_pairs_of_columns_and_values(name: str) -> None:
    """One release like any other: the same key lets the same items out, written down by hand."""
    columns = ["sex", "size", "job"]
    options: dict[str, Any] = {
        "mechanism": MECHANISMS[name](**({"max_items": 10} if name == "count-laplace" else {})),
        "epsilon": 2,
        "delta": 1e-3,
        "insecure_seed": 5,
    }
    # Values of one to some hundred holders, of which some come out and some do not.
    rows = [
        (f"p{at}", {"sex": at % 2, "size": int(at**0.5), "job": None if at % 7 else at % 31})
        for at in range(600)
    ]
    pairs = [
        (who, f"{number}\t{row[column]}")
        for who, row in rows
        for number, column in enumerate(columns)
        if row[column] is not None
    ]
    table = pa.Table.from_pylist([{"id": who} | row for who, row in rows])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        by_hand = dpsu.release(pairs, **options)
        domains = dpsu.domains(table, user="id", columns=columns, **options)
    found = [
        f"{number}\t{value}" for number, column in enumerate(columns) for value in domains[column]
    ]
    assert sorted(found) == sorted(by_hand.items)
    assert 0 < len(found) < len({item for _, item in pairs})


@every("form", ["Arrow", "Parquet", "pandas", "Polars", "CSV", "DuckDB query"])
def test_an_unknown_column_is_refused_before_it_is_charged(form: str, tmp_path: Path) -> None:
    data = (TYPED | inputs.UNTYPED)[form](table(), tmp_path)
    _refused(data, ["sex", "jop"], "there is no column 'jop'", tmp_path)


def _refused(data: Any, columns: list[str], told: str, folder: Path) -> None:
    """Refused, and the whole budget is there for what is right."""
    dataset = dpsu.Ledger(folder / "ledger.db").dataset("people", budget=(2, 1e-6))
    with pytest.raises(dpsu.DpsuError, match=told):
        dpsu.domains(data, user="id", columns=columns, ledger=dataset, **SURE)
    dpsu.domains(data, user="id", columns=["sex"], ledger=dataset, **SURE)
