"""What newcomers type first, and what they should get: the release they meant, or the way to it."""

from __future__ import annotations

import datetime
import decimal
import inspect
import pickle
import uuid
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpsu

PROMISE: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
# Weights without a cutoff grow far beyond the threshold, and what one user holds stays far below:
# less than one in a billion of these releases is another one.
SURE: dict[str, Any] = {"epsilon": 3, "delta": 1e-13, "mechanism": "weighted-gaussian"}
USERS = 300
# Two rows a user: a row for each would be taken for a wrong column of users.
ROWS: list[tuple[Any, Any]] = [
    (f"u{user}", item) for user in range(USERS) for item in ("bread", "milk")
]
FRAME = pd.DataFrame(ROWS, columns=["user", "item"])
DAY = datetime.date(2024, 2, 29)


def refused(
    call: Callable[[], Any], *words: str, kind: type[dpsu.DpsuError] = dpsu.ParameterError
) -> None:
    """Check that it is refused in words that name the way out."""
    with pytest.raises(kind) as caught:
        call()
    for each in words:
        assert each in str(caught.value)


def warned(data: Any, **options: Any) -> tuple[dpsu.Release, str]:
    """A release, and what its curator was told."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        released = dpsu.release(data, **SURE, **options)
    return released, "\n".join(str(warning.message) for warning in told)


# Columns


def test_several_columns_make_one_item() -> None:
    frame = FRAME.assign(country="x")
    for columns in (["country", "item"], ("country", "item"), dpsu.Items(["country", "item"])):
        released = dpsu.release(frame, item=columns, **SURE)
        assert released.items == (("x", "bread"), ("x", "milk"))
        assert released.to_pandas().columns.tolist() == ["country", "item"]
    assert dpsu.Items(["item"]) == dpsu.Items("item")
    assert dpsu.release(FRAME, item=["item"], **SURE).items == ("bread", "milk")


def test_names_of_several_columns_are_checked() -> None:
    names: Any = ["a", 1]
    refused(lambda: dpsu.Items([]), "item is empty")
    refused(lambda: dpsu.Items(["a", "a"]), "names a column twice")
    refused(lambda: dpsu.Users(names), "user must be the name of a column as text")
    refused(lambda: dpsu.Items(["a", "b"], type="text"), "item_type is for one column")
    for named, words in (("coutry", "no column 'coutry'"), ("user", "must be different columns")):
        refused(partial(dpsu.release, FRAME, item=["item", named], **PROMISE), words)


def test_a_name_in_another_case_is_told_the_right_one() -> None:
    for frame in [FRAME, pl.from_pandas(FRAME), pa.Table.from_pandas(FRAME)]:
        refused(partial(dpsu.release, frame, user="User", **PROMISE), "did you mean 'user'?")
    refused(lambda: dpsu.release(FRAME.set_index("user"), **PROMISE), "reset_index()")


# Dates and other types


def test_objects_have_the_texts_that_columns_of_them_have() -> None:
    cases: list[tuple[Any, str]] = [
        (DAY, "2024-02-29"), (decimal.Decimal("1.50"), "1.5"), (True, "true"), (np.False_, "false"),
        (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
        (b"a\xff", "61ff"), (datetime.time(1, 2, 3), "01:02:03"), (pd.Timestamp(0), "1970-01-01T00:00:00"),
        (datetime.datetime(2024, 2, 29, 1, tzinfo=datetime.UTC), "2024-02-29T01:00:00Z"),
    ]  # fmt: skip
    for cell, text in cases:
        released, said = warned({f"u{user}": [cell] for user in range(USERS)})
        assert released.items == (text,), cell
        assert not said, cell


# Lists


def test_a_column_of_lists_is_one_item_each() -> None:
    lists = [["a", "b"], {"c"}, np.array(["a", "c"])] * USERS
    users = [f"u{user % USERS}" for user in range(3 * USERS)]
    frame = pd.DataFrame({"user": users, "item": lists})
    released, said = warned(frame)
    assert released.items == ("a", "b", "c")
    assert not said


def test_a_mapping_is_a_table_where_its_columns_are_named() -> None:
    """Keys may be ids of users: what they are called must not decide."""
    columns = FRAME.to_dict("list")
    named: dict[str, Any] = {"user": "user", "item": "item"}
    for made in [list, tuple, np.array, pa.array, pd.Series, pl.Series]:
        data = {name: made(cells) for name, cells in columns.items()}
        released = dpsu.release(data | {"other": [1]}, **named, **SURE)
        assert released.items == ("bread", "milk")
    refused(
        lambda: dpsu.release({"u1": ["bread"]}, **named, **PROMISE),
        "there is no column 'user' in data", "if it maps users to items, drop the names",
    )  # fmt: skip
    people = {f"u{user}": ["bread", "milk"] for user in range(USERS)}
    for more in ({}, {"user": ["a", "b"]}, {"user": ["a", "b"], "item": ["b"]}):
        assert dpsu.release(people | more, **SURE).items == ("bread", "milk")
    released, said = warned(columns)
    assert released.items == ()
    assert "if it is a column, name the columns of users and of items" in said
    odd = {"user": ["u"], "item": {"a"}}
    refused(lambda: dpsu.release(odd, **named, **PROMISE), "a set, and no column")
    refused(
        lambda: dpsu.release(columns | {"item": ["a"]}, **named, **PROMISE),
        "different lengths",
        kind=dpsu.DataError,
    )


def test_records_are_told_to_be_tables() -> None:
    records = FRAME.to_dict("records")
    said = "give a table: pandas.DataFrame(data)"
    refused(lambda: dpsu.release(records, **PROMISE), said, kind=dpsu.DataError)
    # And that is a way out, as is what series of lists are told.
    assert dpsu.release(pd.DataFrame(records), **SURE).items == ("bread", "milk")
    series = FRAME.groupby("user").item.apply(list)
    refused(lambda: dpsu.release(series, **PROMISE), "series.explode().reset_index()")
    assert dpsu.release(series.explode().reset_index(), **SURE).items == ("bread", "milk")


# Mechanisms


def test_a_class_is_told_to_be_an_object() -> None:
    plan = dpsu.plan(**PROMISE)
    for kind in (dpsu.Sieve, dpsu.Greedy, dpsu.Auto):
        made = f"make one: dpsu.{kind.__name__}()"
        wrong: Any = kind
        refused(partial(dpsu.release, FRAME, mechanism=wrong, **PROMISE), made)
        refused(partial(dpsu.plan, mechanism=wrong, **PROMISE), made)
        for listed in (wrong, [wrong], ["sieve", wrong]):
            refused(partial(dpsu.compare, FRAME, mechanisms=listed, **PROMISE), "mechanisms", made)
        refused(partial(dpsu.forecast, plan, users=9, items_per_user=1, mechanisms=[wrong]), made)
    others: list[tuple[str, Any]] = [
        ("user", dpsu.Users), ("item", dpsu.Items), ("item", dpsu.Tokens), ("counts", dpsu.Counts),
    ]  # fmt: skip
    for option, kind in others:
        said = (option, f"dpsu.{kind.__name__}(")
        refused(partial(dpsu.release, FRAME, **{option: kind}, **PROMISE), *said)


def test_a_name_in_other_letters_is_told_the_right_one() -> None:
    meant = {"Sieve": "sieve", "weighted_gaussian": "weighted-gaussian", "AUTO": "auto"}
    for typed, name in meant.items():
        said = f"mechanism={typed!r}"
        refused(partial(dpsu.release, FRAME, mechanism=typed, **PROMISE), said, name)
        refused(partial(dpsu.mechanism, typed), said, f"did you mean {name!r}?")
    said = "greedy has no option rounds"
    refused(lambda: dpsu.mechanism("greedy", rounds=3), said, "sips, sieve, bits have")
    assert dpsu.mechanism("auto", items_per_user=2) == dpsu.Auto(items_per_user=2)


def test_objects_in_the_wrong_place_are_told_theirs() -> None:
    plan, sieve, tokens = dpsu.plan(**PROMISE), dpsu.Sieve(), dpsu.Tokens("item")
    release: Any = dpsu.release
    refused(lambda: release(FRAME, mechanism=plan, **PROMISE), "dpsu.release(data, plan)")
    refused(lambda: release(FRAME, sieve, **PROMISE), "plan is a Sieve", "mechanism=")
    refused(lambda: release(FRAME, mechanism=tokens, **PROMISE), "is not one of")
    refused(lambda: release(FRAME, item=sieve, **PROMISE), "item must be the name")
    refused(lambda: release(plan, FRAME), "plan is a DataFrame")
    refused(lambda: release(FRAME, plan.to_json()), "dpsu.Plan.from_json(text)")
    refused(lambda: release(FRAME, counts=10, **PROMISE), "dpsu.Counts()")
    for ledger in ("ledger.db", dpsu.Ledger("ledger.db")):
        said = "dpsu.Ledger('ledger.db').dataset("
        refused(partial(release, FRAME, ledger=ledger, **PROMISE), said)
    on_spark: Any = dpsu.spark.release
    refused(lambda: on_spark(FRAME, **PROMISE), "not a Spark DataFrame", "dpsu.release")


# The promise


def test_a_promise_is_asked_for_in_words() -> None:
    release: Any = dpsu.release
    refused(lambda: release(FRAME, 1.0, delta=1e-6), "plan is a float", "epsilon=1, delta=1e-6")
    refused(lambda: release(FRAME, 1), "plan is a int", "epsilon=1, delta=1e-6")
    with pytest.raises(TypeError, match="positional"):
        release(FRAME, 1.0, 1e-6)
    refused(lambda: release(FRAME, epsilon=1e-6, delta=0.5), "epsilon=1e-06 is out of range")
    plan = dpsu.plan(**PROMISE)
    refused(lambda: release(FRAME, plan, **PROMISE), "the plan decides epsilon; drop it")


# Keywords that a call does not have


def test_unknown_keywords_are_refused_with_the_one_that_was_meant() -> None:
    plan = dpsu.plan(**PROMISE)
    doors: list[tuple[Any, dict[str, str]]] = [
        (
            partial(dpsu.release, FRAME, **PROMISE),
            {"public_item": "public_items", "max_items": "", "rounds": "", "seed": "", "text": ""},
        ),
        (partial(dpsu.plan, **PROMISE), {"mechanisms": "mechanism", "max_items": ""}),
        (partial(dpsu.compare, FRAME, **PROMISE), {"mechanism": "mechanisms", "alpha": ""}),
        (partial(dpsu.forecast, plan), {"user": "users", "rounds": ""}),
        (partial(dpsu.audit, plan), {"trial": "trials", "delta": ""}),
        (dpsu.Sieve, {"max_item": "max_items", "alpha": ""}),
        (dpsu.Auto, {"item_per_user": "items_per_user"}),
        (partial(dpsu.Tokens, "body"), {"ngram": "ngrams"}),
        (dpsu.Counts, {"colour": ""}),
    ]
    for door, typed in doors:
        for name, meant in typed.items():
            end = f"; did you mean '{meant}'?" if meant else ""
            with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'") as caught:
                door(**{name: 1})
            assert str(caught.value).endswith(f"'{name}'{end}"), name


def test_signatures_stay() -> None:
    for door in (dpsu.release, dpsu.plan, dpsu.spark.release, dpsu.forecast, dpsu.audit):
        kinds = {parameter.kind for parameter in inspect.signature(door).parameters.values()}
        # Such a signature hides typing errors.
        assert inspect.Parameter.VAR_KEYWORD not in kinds
    assert list(inspect.signature(dpsu.Sieve).parameters) == ["max_items", "rounds", "scout_items"]
    assert next(iter(inspect.signature(dpsu.release).parameters)) == "data"
    assert pickle.loads(pickle.dumps(dpsu.release)) is dpsu.release
    assert pickle.loads(pickle.dumps(dpsu.Sieve(rounds=6))) == dpsu.Sieve(rounds=6)


# Formats and files


def test_formats_and_mechanisms_have_names_that_are_near() -> None:
    refused(
        lambda: dpsu.release("rows.dat", format="cvs", **PROMISE),
        "format='cvs' is not one of parquet, csv, tsv, jsonl; did you mean 'csv'?",
    )
    for door in (dpsu.release, dpsu.compare):
        refused(partial(door, FRAME, format="xlsx", **PROMISE), "format='xlsx' is not one of")
    refused(
        lambda: dpsu.compare(FRAME, mechanisms=["greddy"], **PROMISE),
        "mechanisms='greddy' is not one of",
        "did you mean 'greedy'?",
    )


def test_files_of_other_formats_are_named() -> None:
    said = ("there is no file 'visits.xlsx'", "formats: .parquet, .csv, .tsv, .jsonl")
    refused(lambda: dpsu.release("visits.xlsx", **PROMISE), *said)
    refused(lambda: dpsu.release("visits.csv", **PROMISE), "there is no file 'visits.csv'")


def test_columns_of_a_plan_are_not_typed_anew(tmp_path: Path) -> None:
    plan = dpsu.plan(user="person", item="item", **PROMISE)
    said = ("'person'", "the plan names it; make a plan with the right user", "rename the column")
    ledger = dpsu.Ledger(tmp_path / "ledger.db").dataset("visits", budget=(3, 1e-5))
    for charged in (None, ledger):
        refused(partial(dpsu.release, FRAME, plan, ledger=charged), *said)
    refused(lambda: dpsu.release(FRAME, user="person", **PROMISE), "name the right one with user")
