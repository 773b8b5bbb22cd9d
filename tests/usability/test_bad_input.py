"""Bad input gets an error that names what was typed and the fix, and shows nothing of the data."""

from __future__ import annotations

import gzip
import math
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from tests.support import flat

MARK = "Geheimnis"
GOOD = {u: ["a", "b"] for u in range(50)}
# Weights without a cutoff grow far beyond the threshold, so these runs cannot fail by chance.
SURE: dict[str, Any] = {"mechanism": "weighted-gaussian"}


def everything_said(error: BaseException) -> str:
    said = "".join(traceback.format_exception(error, chain=True))
    link: BaseException | None = error
    while link is not None:
        said += repr(link) + str(link)
        link = link.__cause__ or link.__context__
    # Source lines of this test file appear in tracebacks; only what was said counts.
    return said.replace(f'MARK = "{MARK}"', "")


def refused(data: Any, words: str, kind: type[Exception] = dpsu.DataError, **options: Any) -> None:
    options = {"epsilon": 1.0, "delta": 1e-5} | options
    with pytest.raises(kind, match=words) as caught:
        flat.release(data, **options)
    assert MARK not in everything_said(caught.value)


def test_options_out_of_range() -> None:
    cases: list[tuple[str, Any]] = [
        ("epsilon", 0), ("epsilon", -1.0), ("epsilon", math.nan), ("epsilon", math.inf),
        ("epsilon", "1"), ("epsilon", 51), ("epsilon", True), ("delta", 0), ("delta", 0.6),
        ("delta", 1), ("delta", math.nan), ("delta", -1e-9),
        ("max_items", 0), ("max_items", 2.5), ("max_items", 10**9), ("rounds", 101), ("scout_items", -1),
        ("insecure_seed", 0.5),
    ]  # fmt: skip
    for option, value in cases:
        refused(GOOD, f"{option}={value!r}", dpsu.ParameterError, **{option: value})


def test_options_a_mechanism_does_not_have() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("policy-gaussian", {"order": "hash"}),
        ("sieve", {"calibration": "paper"}), ("reroute", {"calibration": "paper"}),
        ("sieve", {"prior": {"a": 1}}), ("sips", {"prior": {"a": 1}}),
        ("weighted-gaussian", {"alpha": 3.0}),
        ("weighted-laplace", {"cutoff": 3.0}), ("count-gaussian", {"passes": 2}),
        ("count-laplace", {"allow_unproven": True}), ("policy-laplace", {"expected_users": 10}),
    ]  # fmt: skip
    for mechanism, option in cases:
        name = next(iter(option))
        words = f"{mechanism} has no option {name}"
        refused(GOOD, words, dpsu.ParameterError, mechanism=mechanism, max_items=3, **option)


def test_options_that_do_not_fit_each_other() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("count-laplace needs max_items", {"mechanism": "count-laplace"}),
        ("needs max_items", {"mechanism": "policy-laplace", "calibration": "paper"}),
        ("needs max_items", {"mechanism": "weighted-laplace", "calibration": "paper"}),
        ("not differentially private", {"mechanism": "greedy", "calibration": "paper"}),
        ("twice", {"mechanism": "policy-gaussian", "alpha": 2.0, "cutoff": 9.0}),
        ("at least max_items=300", {"scout_items": 20}),
        ("only with max_items", {"mechanism": "policy-laplace", "prior": {"a": 1}}),
        ("wordfreq knows no language 'xx'", {"mechanism": "greedy", "prior": "wordfreq:xx"}),
        ("policy-gaussian makes no use of repeats='n' here; drop it, or choose greedy",
         {"mechanism": "policy-gaussian", "repeats": "n"}),
        ("passes=2 must be 1", {"mechanism": "greedy", "passes": 2}),
        ("needs a prior", {"mechanism": "greedy", "order": "popular"}),
        ("needs expected_users", {"mechanism": "greedy", "order": "scarce", "prior": {"a": 1}}),
        ("no use of a prior", {"mechanism": "greedy", "order": "hash", "prior": {"a": 1}}),
        ("no use of expected_users", {"mechanism": "greedy", "expected_users": 5}),
        ("greedy makes no use of repeats='n' here; drop it, or choose order='repeats'",
         {"mechanism": "greedy", "order": "hash", "repeats": "n"}),
        ("order='best'", {"mechanism": "greedy", "order": "best"}),
        ("prior has numbers", {"mechanism": "greedy", "prior": {"a": -1}}),
        ("prior is empty", {"mechanism": "greedy", "prior": {}}),
        ("no file", {"mechanism": "greedy", "prior": "nowhere.csv"}),
        ("prior is a int", {"mechanism": "greedy", "prior": 3}),
        ("no file", {"public_items": "nowhere.txt"}),
        ("missing items", {"public_items": ["a", None]}),
        ("not a number", {"mechanism": "greedy", "cutoff": "abc"}),
        ("does not hold numbers", {"mechanism": "greedy", "prior": {"x": "abc"}}),
        ("no room for rounding",
         {"mechanism": "policy-gaussian", "cutoff": 2.0**30, "passes": 1000, "max_items": 100_000}),
    ]  # fmt: skip
    for words, options in cases:
        refused(GOOD, words, dpsu.ParameterError, **options)


def test_what_is_no_option_is_refused() -> None:
    cases: list[tuple[str, dict[str, Any]]] = [
        ("mechanism='policy' is not one of count-laplace, .* sieve", {"mechanism": "policy"}),
        ("mechanism=5 is not one of", {"mechanism": 5}),
        ("delta is missing; give epsilon and delta, or a plan", {"delta": None}),
        ("epsilon is missing; give epsilon and delta, or a plan", {"epsilon": None}),
        ("prior is an option of mechanisms: mechanism=dpsu.Greedy", {"prior": {"a": 1}}),
        ("counts=2 is neither True nor False nor dpsu.Counts()", {"counts": 2}),
        ("strict='no' is neither True nor False", {"strict": "no"}),
        ("plan is a dict; give what dpsu.plan returned", {"plan": {"epsilon": 1}}),
        ("user must be the name of a column as text, not a int", {"user": 5}),
        ("user is not UTF-8; rename the column", {"user": "\udcff"}),
        ("item is not UTF-8; rename the column", {"item": ["item", "\udcff"]}),
        ("item must be the name of a column as text, not a set", {"item": {"a", "b"}}),
    ]
    for words, options in cases:
        with pytest.raises(dpsu.ParameterError, match=words):
            dpsu.release(GOOD, **({"epsilon": 1.0, "delta": 1e-5} | options))


def test_missing_columns_and_one_column_for_both() -> None:
    table = pa.table({"user_id": [1, 2], "word": ["a", "b"]})
    refused(table, "no column 'user'.*'user_id'", dpsu.ParameterError, item="word")
    refused(table, "different columns", dpsu.ParameterError, user="word", item="word")


def table_of(user: Any, item: Any) -> pa.Table:
    return pa.table({"user": user, "item": item})


def test_unusable_data() -> None:
    cases: list[tuple[str, Any]] = [
        ("'item' has lists of lists", table_of([1, 1], [[[MARK]], [[MARK]]])),
        ("'user' has type list.*a user is one value", table_of([[MARK], [MARK]], ["a", "b"])),
        ("'item' has type map", table_of([1, 1], pa.array([[(MARK, 1)]] * 2, pa.map_(pa.string(), pa.int64())))),
        ("'item' has type double.*round them", table_of([1, 1], [{MARK: 0.5}] * 2)),
        ("has lists inside of a struct", table_of([1, 1], [{MARK: [1]}] * 2)),
        ("neither", [1, 2, 3]),
        ("neither", [(1, MARK, 3), (1, 2, 3)]),
        ("data is a int", 5),
    ]  # fmt: skip
    for words, data in cases:
        refused(data, words)


PACKED = gzip.compress(b"user,item\n" + b"".join(f"{k},{MARK}{k}\n".encode() for k in range(9999)))
FILES: dict[str, tuple[bytes, str]] = {
    "not.parquet": (f"user,item\n1,{MARK}\n".encode(), "not a Parquet file"),
    "cut.parquet": (b"PAR1" + MARK.encode() * 5, "not a Parquet file"),
    "header.csv": (b"user,item,\xff\n1," + MARK.encode() + b",x\n", "header .* is not CSV in UTF-8"),
    "wide.csv": (f"user,item\n1,{MARK}\n".encode("utf-16"), "is in UTF-16"),
    "wide.jsonl": (f'{{"user": 1, "item": "{MARK}"}}\n'.encode("utf-16"), "is in UTF-16"),
    "packed.jsonl": (gzip.compress(f'{{"user": "{MARK}"}}\n'.encode()), "looks compressed"),
    "cut.csv.gz": (PACKED[:-20], "cut off or damaged"),
    "checksum.csv.gz": (PACKED[:-8] + bytes(4) + PACKED[-4:], "cut off or damaged"),
    "cut.jsonl.gz": (PACKED[:-20], "cut off or damaged"),
    "packed.csv": (gzip.compress(f"user,item\n1,{MARK}\n".encode()), "looks compressed"),
    "empty.csv": (b"", "is empty"),
    "not.csv.gz": (f"user,item\n1,{MARK}\n".encode(), "damaged|cannot be opened"),
}  # fmt: skip


def test_files_that_are_not_what_they_say(tmp_path: Path) -> None:
    for name in FILES:
        content, words = FILES[name]
        (tmp_path / name).write_bytes(content)
        refused(tmp_path / name, words)


def test_files_by_name(tmp_path: Path) -> None:
    for text in (
        [MARK, MARK],
        f"{MARK},{MARK}",
        [f"https://{MARK}", f"{MARK}/{MARK}.txt"],
        [f"{MARK}?", "a"],
    ):
        refused(text, "read as the names of files", dpsu.ParameterError)
    refused({1: MARK}, "each user needs a list or set", dpsu.ParameterError)
    refused("nowhere.csv", "no file 'nowhere.csv'", dpsu.ParameterError)
    refused("nowhere/*.parquet", "no file has a name like 'nowhere", dpsu.ParameterError)
    (tmp_path / "data.xlsx").write_bytes(b"x")
    refused(tmp_path / "data.xlsx", "cannot tell the format", dpsu.ParameterError)
    (tmp_path / "sub").mkdir()
    refused(tmp_path / "sub", "has no", dpsu.ParameterError)
    (tmp_path / "bad.csv").write_text("person,item\n1,a\n")
    refused(tmp_path / "bad.csv", "no column 'user' in 'bad.csv'", dpsu.ParameterError)


def test_null_rows_are_dropped_and_told_but_not_counted() -> None:
    table = table_of([1, None, 2, 2, None] + [3] * 5, ["a", MARK, None, "a", None] + ["b"] * 5)
    with pytest.warns(dpsu.DataWarning, match="some rows have no 'user' or no 'item'") as told:
        dpsu.release(table, epsilon=1, delta=1e-5)
    assert not any(character.isdigit() for character in str(told[0].message))
    refused(table, "some rows have no", strict=True)
    refused([(1, "a"), MARK], "some elements are not pairs", strict=True)
    refused([["a"], MARK], "some users have no list", strict=True, user="one per entry")


def test_a_null_row_changes_nothing_else() -> None:
    users, items = [u % 40 for u in range(400)], [f"i{u % 7}" for u in range(400)]
    clean = dpsu.release(table_of(users, items), epsilon=1, delta=1e-3, insecure_seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dirty = dpsu.release(
            table_of([None, *users], [MARK, *items]), epsilon=1, delta=1e-3, insecure_seed=3
        )
    assert dirty.items == clean.items


def test_counts_that_do_not_count() -> None:
    table = table_of([1, 1, 2], ["a", "b", "a"])
    floats = table.append_column("n", pa.array([1.5, 2.0, 1.0]))
    refused(floats, "must be integers", mechanism="greedy", count="n")
    refused(GOOD, "names a column", dpsu.ParameterError, mechanism="greedy", count="n")
    counted: dict[str, Any] = {"mechanism": "greedy", "item": dpsu.Items(repeats="n")}
    # One that is huge is no missing one.
    dpsu.release(
        table.append_column("n", pa.array([2**32, 1, 1])), epsilon=1, delta=1e-5, **counted
    )
    for cells in (pa.array([0, None, 5]), pa.array(["0", MARK, "5"]), pa.array([-1, -2, 5])):
        with pytest.warns(dpsu.DataWarning, match="no positive 'n'"):
            dpsu.release(table.append_column("n", cells), epsilon=1, delta=1e-5, **counted)


def test_one_user_per_row_is_questioned() -> None:
    table = table_of(list(range(100)), ["a"] * 100)
    with pytest.warns(dpsu.DataWarning, match="really the person to protect"):
        dpsu.release(table, epsilon=1, delta=1e-5)


def test_more_users_than_the_proof_covers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dpsu.Plan, "max_users", 10)
    with pytest.raises(dpsu.DataError, match="at most 10") as caught:
        dpsu.release({u: ["a"] for u in range(11)}, dpsu.plan(epsilon=1, delta=1e-5))
    assert "11" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:some rows")
def test_no_rows_release_nothing_but_public_items(tmp_path: Path) -> None:
    """An error would tell the empty database from its neighbors; the curator is told instead."""
    (tmp_path / "header.csv").write_text("user,item\n")
    (tmp_path / "none.jsonl").write_bytes(b"")
    empty: list[Any] = [
        [], {}, {1: []}, table_of(pa.array([], pa.int64()), pa.array([], pa.string())),
        table_of(pa.nulls(3, pa.string()), ["a", "b", MARK]),
        tmp_path / "header.csv", tmp_path / "none.jsonl",
    ]  # fmt: skip
    for data in empty:
        with pytest.warns(dpsu.DataWarning, match="no row has both 'user' and 'item'"):
            result = dpsu.release(data, epsilon=1, delta=1e-5, public_items=["known"])
        assert result.items == ("known",), data
        refused(data, "no row has both|some rows have no", strict=True)


def test_arrays_of_items_are_not_added_up() -> None:
    data = {u: np.array([7, 8]) for u in range(100)} | {"last": [7]}
    assert flat.release(data, epsilon=1, delta=1e-5, **SURE).items == ("7", "8")
    series = {u: pd.Series([7, 8]) for u in range(100)} | {1000: np.array([], int)}
    found = flat.release(series, epsilon=1, delta=1e-5, item_type="integer", **SURE)
    assert found.items == (7, 8)


def test_columns_of_different_lengths() -> None:
    from dpsu.contributions.interning import intern
    from dpsu.contributions.pairs import Rows

    one, two = pa.chunked_array([[1]]), pa.chunked_array([["a", "b"]])
    with pytest.raises(dpsu.DataError, match="different lengths"):
        intern(Rows([lambda: (one, two, None)], ("user", "item", None)))


def test_no_type_is_guessed_from_one_users_row(tmp_path: Path) -> None:
    """Dates stay text with or without a neighbor that is no date; other columns do not matter."""
    dates = [(u, f"2020-01-0{1 + u % 3}") for u in range(300)]
    path = tmp_path / "dates.jsonl"
    for extra in ([], [(300, "foo")]):
        lines = [f'{{"user": {u}, "item": "{i}"}}\n' for u, i in [*dates, *dates, *extra]]
        path.write_text("".join(lines))
        assert len(flat.release(path, epsilon=2, delta=1e-13, **SURE)) == 3
    path = tmp_path / "ages.csv"
    rows = "".join(f"u{u},a,{u}\nu{u},b,{u}\n" for u in range(200_000))
    path.write_text(f"user,item,age\n{rows}u1,a,unknown\n")
    assert flat.release(path, epsilon=1, delta=1e-5, **SURE).items == ("a", "b")


def test_names_of_columns_may_be_private(tmp_path: Path) -> None:
    path = tmp_path / "headless.csv"
    path.write_text(f"alice,{MARK}\nbob,{MARK}\n")
    refused(path, "is there a header", dpsu.ParameterError)
    refused(
        pd.DataFrame({MARK: [1], "x": [2]}), "no column has a name like that", dpsu.ParameterError
    )
    nested = pa.table({"user": [1, 2], "item": [{MARK: {MARK: 0.5}}, {MARK: {MARK: 2.5}}]})
    refused(nested, "'item' has type double")
    twice = pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])
    refused(twice, "same name", dpsu.ParameterError)
    path.write_text("user,item,item\n1,a,b\n")
    refused(path, "more than one column 'item'", dpsu.ParameterError)


def test_lists_in_a_list_say_whose_they_are(tmp_path: Path) -> None:
    data = [[f"person {u}", MARK] for u in range(30)]
    for rows in (data, [set(row) for row in data], [row[:1] for row in data], [*data, {MARK}]):
        refused(rows, "say user='one per entry'", dpsu.ParameterError)
    refused((row for row in data), "say user='one per entry'", dpsu.ParameterError)
    # Nothing was charged for a shape that was refused.
    ledger = dpsu.Ledger(tmp_path / "ledger.db").dataset("d", budget=(2, 1e-2))
    with pytest.raises(dpsu.ParameterError, match="one per entry"):
        dpsu.release(data, epsilon=1, delta=1e-5, ledger=ledger)
    assert not (tmp_path / "ledger.db").exists()
    own = [[f"person {u}", MARK] for u in range(300)]
    said = dpsu.release(own, user="one per entry", epsilon=2, delta=1e-13, **SURE)
    assert said.items == (MARK,)
    assert "any one entry (row or list) of the data" in said.report()
    assert "of the data is another person's, and nobody has two" in said.report()


def test_warnings_point_at_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    promise: dict[str, Any] = {"epsilon": 1, "delta": 1e-5}
    plan = dpsu.plan(**promise)
    missing = [("a", "b"), ("b", None), ("c", "b"), ("c", "a")]
    own = [(f"u{u}", "a") for u in range(50)]
    texts = {f"u{u}": "some words" for u in range(50)}
    ledger = dpsu.Ledger(tmp_path / "ledger.db").dataset("visits", budget=(3, 1e-5))
    calls: list[Callable[[], object]] = [
        lambda: dpsu.release([], **promise),
        lambda: dpsu.release([], plan),
        lambda: dpsu.release(missing, **promise),
        lambda: dpsu.release(own, **promise),
        lambda: dpsu.release(GOOD, insecure_seed=1, **promise),
        lambda: dpsu.release(texts, item=dpsu.Tokens("t"), insecure_seed=1, **promise),
        lambda: dpsu.release({}, item=dpsu.Tokens("t"), mechanism=dpsu.NGrams(), **promise),
        lambda: dpsu.select([], [plan]),
        lambda: dpsu.compare([], mechanisms=["sips"], **promise),
        lambda: dpsu.release(GOOD, plan, ledger=ledger),
    ]

    def broken(self: dpsu.Ledger, number: int, kind: str) -> None:
        raise dpsu.LedgerError("the disk is full")

    monkeypatch.setattr(dpsu.Ledger, "_close", broken)
    for call in calls:
        with pytest.warns(dpsu.DataWarning) as told:
            call()
        assert {warning.filename for warning in told} == {__file__}


def test_columns_of_missing_values_only_are_no_rows() -> None:
    frames = [
        pd.DataFrame({"user": ["a"], "item": [math.nan]}),
        pd.DataFrame({"user": [], "item": []}, dtype=float),
    ]
    for frame in frames:
        # pandas says that these are floats, and what pandas says decides.
        refused(frame, 'has type double.*type="integer"')
        untyped = frame.astype(object)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert len(dpsu.release(untyped, epsilon=1, delta=1e-5)) == 0
        assert any("no row has both" in str(w.message) for w in told)


def test_hints_about_text_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    for content, words in (
        ("user7,item3\nuser8,item4\n", "is there a header"),
        ("usera,itemb\nuserc,itemd\n", r"is there a header.*name the right one with user$"),
        ("user;item\n1;2\n", "semicolon"),
        ("User,item\n1,a\n", "is there a header"),
    ):
        path.write_text(content)
        with pytest.raises(dpsu.ParameterError, match=words) as caught:
            dpsu.release(path, epsilon=1, delta=1e-5)
        for cell in ("user7", "usera", "User", "itemb"):
            assert cell not in str(caught.value)


def test_public_tables_must_name_their_items(tmp_path: Path) -> None:
    headless, named = tmp_path / "prior.csv", tmp_path / "named.csv"
    headless.write_text("a,5\nb,4\n")
    named.write_text("word,n\na,5\n")
    for options in ({"mechanism": "greedy", "prior": headless}, {"public_items": headless}):
        refused(GOOD, "must be named 'item'", dpsu.ParameterError, **options)
    plan = dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Greedy(prior=named), item="word")
    assert plan.prior is not None
    assert plan.prior.entries == 1


def test_a_declared_type_survives_emptiness() -> None:
    """The type of a release must not tell the empty database from its neighbors."""
    one = pa.table({"user": pa.array([1]), "item": pa.array([5])})
    nothing = pa.table({"user": pa.array([1]), "item": pa.nulls(1, pa.int64())})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            dpsu.release(data, epsilon=1, delta=1e-9, public_items=[2, 10])
            for data in (one, one.slice(1), nothing)
        ]
    assert [result.items for result in found] == [(2, 10)] * 3
    assert len({str(result.to_arrow().schema) for result in found}) == 1
