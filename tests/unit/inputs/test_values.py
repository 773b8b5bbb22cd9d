"""Which columns have values, and what is wrong with how they were typed."""

from __future__ import annotations

from typing import Any

import pytest

import dpsu
from dpsu.engines.spark.query import refuse_what_spark_cannot
from dpsu.errors import ParameterError

PRIVACY: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}


def test_kinds_are_columns_and_levels_with_those_above() -> None:
    item = dpsu.Values(["sex", "city"], [["country", "region", "city"], ["country", "language"]])
    assert item.names == ("sex", "city", "country", "region", "language")
    chains = ("country", "country region", "country region city", "country language")
    assert item.kinds == (("sex",), ("city",), *(tuple(chain.split()) for chain in chains))
    assert item.told == (
        "values of the columns sex, city, country, region, language; country > region > city by "
        "levels; country > language by levels"
    )
    # One column and one chain need no list around them.
    assert dpsu.Values("sex") == dpsu.Values(["sex"])
    assert dpsu.Values(levels=["a", "b"]) == dpsu.Values((), [("a", "b")])
    assert dpsu.Values("sex").told == "values of the column sex"


def test_what_is_typed_wrong_is_refused() -> None:
    cases: list[tuple[Any, ...]] = [
        ({}, "columns is empty"),
        ({"columns": 3}, "columns is a int; give a list of names"),
        ({"columns": ["a", 3]}, "columns must be the name of a column as text, not a int"),
        ({"columns": ["a", "b", "a"]}, "columns names 'a' twice"),
        ({"levels": "a,b"}, "levels is a str; give a list of columns"),
        ({"levels": [["a"]]}, "levels needs two columns or more in a chain"),
        ({"levels": ["a"]}, "levels needs two columns or more in a chain"),
        ({"levels": [["a", "b"], "c"]}, "levels needs two columns or more in a chain"),
        ({"levels": ["a", "b", "a"]}, "levels names 'a' twice"),
        ({"levels": [["a", None]]}, "levels must be the name of a column as text"),
        ({"levels": [["a", "b"], ["b", "a"]]}, "a > b and b > a, which are the same combinations"),
        ({"columns": ["a > b"], "levels": ["a", "b"]}, "a column has the name that a chain"),
        ({"columns": ["age"], "types": {"agee": "integer"}}, "among the columns; did you mean 'ag"),
        ({"columns": ["age"], "types": {"age": "float"}}, "types of 'age' is not one of text, int"),
        ({"columns": ["age"], "types": "age=integer"}, "types is a str; give a mapping"),
    ]
    for typed, told in cases:
        with pytest.raises(ParameterError, match=told):
            dpsu.Values(**typed)


def test_public_data_are_refused_before_they_are_read() -> None:
    item = dpsu.Values(["sex"])
    with pytest.raises(ParameterError, match="neither prior nor public_items"):
        dpsu.plan(item=item, public_items=["female"], **PRIVACY)
    with pytest.raises(ParameterError, match="neither prior nor public_items"):
        dpsu.plan(item=item, mechanism=dpsu.Greedy(prior={"a": 1}), **PRIVACY)


def test_what_cannot_have_values_says_so(tmp_path: Any) -> None:
    item = dpsu.Values(["sex"])
    with pytest.raises(ParameterError, match="a series has items of one kind"):
        dpsu.Series.create(tmp_path / "s", periods=2, item=item, **PRIVACY)
    with pytest.raises(ParameterError, match="an audit makes its own data"):
        dpsu.audit(dpsu.plan(item=item, **PRIVACY))
    with pytest.raises(ParameterError, match="greedy cannot run on Spark"):
        refuse_what_spark_cannot(dpsu.plan(item=item, mechanism="greedy", **PRIVACY))
    with pytest.raises(ParameterError, match="ngrams needs texts"):
        dpsu.plan(item=item, mechanism="ngrams", **PRIVACY)


def test_what_values_have_in_common_with_items_works() -> None:
    plan = dpsu.plan(item=dpsu.Values(["sex"]), mechanism="weighted-gaussian", **PRIVACY)
    seen = dpsu.forecast(plan, users=2000, items_per_user=3)
    assert seen.plan.item == plan.item
    people = {"id": list(range(600)), "sex": ["female", "male"] * 300}
    plan = dpsu.plan(
        user="id", item=dpsu.Values(["sex"]), mechanism="weighted-gaussian", epsilon=5, delta=1e-6
    )
    assert dpsu.select(people, [plan]).items == ("female", "male")
