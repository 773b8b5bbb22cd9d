"""Dask: the release of one machine, from partitions of any types; errors and logs without values."""

from __future__ import annotations

import datetime
import logging
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import dpsu
import dpsu.dask
from dpsu.engines.dask import engine
from dpsu.runtime import threads
from tests.support import clusters
from tests.support.cases import every

dask: Any = pytest.importorskip("dask")
dd: Any = pytest.importorskip("dask.dataframe")

SECRET = "alice bought a gun"
BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 0.05}
SEEDED: dict[str, Any] = BUDGET | {"mechanism": "weighted-gaussian", "insecure_seed": 3}
NOON = datetime.datetime(2024, 2, 29, 12)


def typed(table: pa.Table, parts: int = 3) -> Any:
    """A DataFrame with the types of Arrow."""
    return dd.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=parts)


def parts_of(frames: list[pd.DataFrame], meta: pd.DataFrame) -> Any:
    """A DataFrame of these partitions, whatever it declares."""
    delayed = [dask.delayed(frame.copy, pure=False)() for frame in frames]
    return dd.from_delayed(delayed, meta=meta, verify_meta=False)


@every("partitions", [1, 2, 5, None])
def test_the_release_does_not_depend_on_partitions(partitions: int | None) -> None:
    table = clusters.random_table(np.random.default_rng(7), "text-int")
    for parts in (1, 4):
        there = dpsu.dask.release(typed(table, parts), partitions=partitions, **SEEDED)
        assert there == dpsu.release(table, **SEEDED)
        assert len(there) > 3


def test_pandas_types_are_read_as_one_machine_reads_them() -> None:
    rows = pd.DataFrame({"user": np.arange(200) // 2, "item": ["x", "y"] * 100})
    for item in (rows["item"], rows["item"].astype("category"), rows["item"].astype(object)):
        frame = rows.assign(item=item)
        assert dpsu.dask.release(dd.from_pandas(frame, 3), **SEEDED).items == ("x", "y")


def test_a_partition_of_other_types_is_refused() -> None:
    """A user who is text in one partition and an integer in another would be two users."""
    text = pd.DataFrame({"user": ["1", "2"] * 50, "item": ["x"] * 100})
    whole = pd.DataFrame({"user": [1, 2] * 50, "item": ["x"] * 100})
    for meta, mixed in ((text, [text, whole]), (whole, [whole, text])):
        with pytest.raises(dpsu.DataError, match="column 'user' is integers in one file and text"):
            dpsu.dask.release(parts_of(mixed, meta.iloc[:0]), **SEEDED)
    both = dpsu.Users(type="text")
    declared = dpsu.dask.release(parts_of([text, whole], text.iloc[:0]), user=both, **SEEDED)
    # Two users hold it, in either spelling.
    assert declared == dpsu.release(pd.concat([text, text]), user=both, **SEEDED)
    # A partition without any user has no type of its own, and is of the declared one.
    nobody = whole.assign(user=pd.array([None] * 100, pd.ArrowDtype(pa.null())))
    with pytest.warns(dpsu.DataWarning, match="some rows have no 'user' or no 'item'"):
        rest = dpsu.dask.release(parts_of([whole, nobody], whole.iloc[:0]), **SEEDED)
    assert rest == dpsu.release(whole, **SEEDED)


def numbered(items: list[int], kind: Any, *, gap: bool = False) -> pd.DataFrame:
    """A partition of 100 users with these items, of which the first may be missing."""
    cells = pd.Series(items * 100).astype(kind)
    users = np.repeat(np.arange(100), len(items))
    return pd.DataFrame({"user": users, "item": cells.mask(cells.index == 0) if gap else cells})


def test_a_missing_cell_takes_no_integer_from_others() -> None:
    """What a partition is declared to be decides, and not what pandas made of its cells."""
    exact, rounded = (7, 2**53 - 1), 2**53
    whole = numbered([*exact, rounded], np.int64)
    gap = numbered([*exact], np.int64, gap=True)
    large = numbered([*exact, rounded, 2**63], np.uint64)
    assert gap.dtypes["item"] == np.float64
    missing, floats, integers = "some rows have no", "some floats in", "some integers in"
    # Partitions, what they are declared to be, what is lost, and what is released.
    cases: list[tuple[list[Any], Any, set[str], tuple[int, ...]]] = [
        ([whole, gap], whole, {missing}, (*exact, rounded)),
        ([numbered([*exact, rounded], object, gap=True)], whole, {missing}, (*exact, rounded)),
        ([large, whole], whole, {missing, integers}, (*exact, rounded)),
        ([whole, gap], gap, {missing, floats}, exact),
        ([gap, whole], gap, {missing, floats}, exact),
        ([large, whole], gap, {missing, floats}, exact),
    ]
    for parts, declared, reasons, expected in cases:
        for type_ in ("integer",) if declared is gap else (None, "integer"):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always", dpsu.DataWarning)
                frame = parts_of(parts, declared.iloc[:0])
                found = dpsu.dask.release(frame, item=dpsu.Items(type=type_), **SEEDED)
            said = " ".join(str(each.message) for each in told)
            assert found.items == expected, reasons
            assert {one for one in (missing, floats, integers) if one in said} == reasons


def test_unsigned_integers_are_those_of_one_machine() -> None:
    hashes = numbered([7, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)
    hashes["user"] = hashes["user"].to_numpy().astype(np.uint64) + np.uint64(2**63 - 50)
    signed = numbered([-5, 7], np.int64)
    declared: dict[str, Any] = {
        "user": dpsu.Users(type="integer"),
        "item": dpsu.Items(type="integer"),
    }
    options: list[dict[str, Any]] = [SEEDED, SEEDED | declared]
    for kind in (np.uint64, "UInt64", "uint64[pyarrow]"):
        frame = dd.from_pandas(hashes.astype({"user": kind, "item": kind}), npartitions=3)
        for each in options:
            there = dpsu.dask.release(frame, **each)
            assert there == dpsu.release(hashes, **each)
            assert there.items == (7, 2**63 - 1, 2**63, 2**64 - 1)
            assert there.values.type == pa.uint64()
    for parts in ([hashes, signed], [signed, hashes]):
        found = dpsu.dask.release(parts_of(parts, hashes.iloc[:0]), **SEEDED)
        assert sorted(map(int, found.items)) == [-5, 7, 2**63 - 1, 2**63, 2**64 - 1]


def test_rows_that_are_not_there() -> None:
    rows = pa.table({"user": ["a", None, "b", "c"] * 20, "item": ["x", "y", None, "x"] * 20})
    with pytest.warns(dpsu.DataWarning, match="some rows have no 'user' or no 'item'"):
        there = dpsu.dask.release(typed(rows), **SEEDED)
    assert there.items == ("x",)
    with pytest.raises(dpsu.DataError, match=r"some rows have no 'user'.*do without strict"):
        dpsu.dask.release(typed(rows), strict=True, **SEEDED)
    whole = typed(rows).dropna()
    empty = whole[whole["user"] == "nobody"]
    for mechanism in ("sieve", "weighted-gaussian"):
        with pytest.warns(dpsu.DataWarning, match="nothing can be released"):
            made = dpsu.dask.release(empty, mechanism=mechanism, public_items=["p"], **BUDGET)
        assert made.items == ("p",)
        assert made.private
    with pytest.raises(dpsu.DataError, match="no row has both"):
        dpsu.dask.release(empty, mechanism="sips", strict=True, **BUDGET)


def test_errors_and_logs_tell_nothing_of_the_data(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Neither a query of the caller that fails, nor cells that we refuse, are quoted."""
    caplog.set_level(logging.DEBUG)
    rows = pd.DataFrame({"user": [SECRET] * 4, "item": ["x"] * 4})

    def broken(part: pd.DataFrame) -> pd.DataFrame:
        raise ValueError(part["user"].iloc[0])

    failing = dd.from_pandas(rows, 2).map_partitions(broken, meta=rows.iloc[:0])
    with pytest.raises(dpsu.DataError, match=r"could not finish the job \(ValueError\)") as first:
        dpsu.dask.release(failing, **SEEDED)
    mixed = parts_of([rows, rows.assign(user=1)], rows.iloc[:0])
    with pytest.raises(dpsu.DataError, match="in another") as second:
        dpsu.dask.release(mixed, **SEEDED)
    for error in (first.value, second.value):
        assert SECRET not in repr(error)
        assert error.__context__ is None
        assert error.__cause__ is None
    printed = capfd.readouterr()
    assert SECRET not in printed.out + printed.err + caplog.text


def test_workers_and_connections_that_are_lost_are_no_fault_of_the_data(tmp_path: Path) -> None:
    rows = pd.DataFrame({"user": [SECRET] * 4, "item": ["x"] * 4})
    visits = dpsu.Ledger(tmp_path / "ledger.db").dataset("visits", budget=(9, 0.2))
    plan = dpsu.plan(mechanism="weighted-gaussian", **BUDGET)
    for error, kind, words in (
        (ConnectionResetError(SECRET), dpsu.JobLostError, "(4, 0.05) stays charged to 'visits'"),
        (MemoryError(SECRET), dpsu.ResourceError, "more memory"),
    ):

        def broken(part: pd.DataFrame, error: Exception = error) -> pd.DataFrame:
            raise error

        failing = dd.from_pandas(rows, 2).map_partitions(broken, meta=rows.iloc[:0])
        with pytest.raises(kind) as caught:
            dpsu.dask.release(failing, plan, ledger=visits)
        assert words in str(caught.value)
        assert SECRET not in str(caught.value)
        assert caught.value.exit_code == 75


def test_a_schema_is_refused_before_a_ledger_is_charged(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    account = ledger.dataset("visits", budget=(9, 0.1))
    table = clusters.random_table(np.random.default_rng(2), "text-text")
    with pytest.raises(dpsu.ParameterError, match="did you mean 'items'"):
        dpsu.dask.release(typed(table.rename_columns(["user", "items"])), ledger=account, **BUDGET)
    floats = table.set_column(1, "item", pa.array(np.zeros(len(table))))
    with pytest.raises(dpsu.DataError, match="type double"):
        dpsu.dask.release(typed(floats), ledger=account, **BUDGET)
    assert not (tmp_path / "ledger.db").exists()
    paid = dpsu.dask.release(typed(table), ledger=account, **BUDGET)
    (entry,) = ledger.account("visits").releases
    assert entry.run == paid.run.id


def test_a_named_release_is_made_once_here_or_there(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    monday = ledger.dataset("visits", budget=(9, 0.1), once="monday")
    table = clusters.random_table(np.random.default_rng(4), "text-int")
    plan = dpsu.plan(mechanism=dpsu.Sieve(rounds=3), **BUDGET)
    first = dpsu.dask.release(typed(table), plan, ledger=monday)
    # Nothing of these rows is read: they would be refused.
    again = dpsu.dask.release(typed(table.rename_columns(["a", "b"])), plan, ledger=monday)
    assert again == dpsu.release({"nobody": ["nothing"]}, plan, ledger=monday) == first
    assert again.run == first.run
    assert [each.state for each in ledger.account("visits").releases] == ["done"]


@every("mechanism", [dpsu.Sieve(rounds=3), dpsu.NGrams(max_items=20)])
def test_texts_that_are_left_out_are_told(mechanism: Any) -> None:
    """As one machine tells them: texts and users that are missing, and tokens that are too long."""
    some = clusters.random_texts(np.random.default_rng(6), 200)
    rows = {"user": ["x", "y", None], "body": [None, SECRET.replace(" ", "") * 999, "w1"]}
    lost = pa.table(rows, schema=some.schema)
    plan = dpsu.plan(item=dpsu.Tokens("body"), mechanism=mechanism, insecure_seed=3, **BUDGET)
    tables = [(pa.concat_tables([some, lost]), 4), (lost, 5)]
    # By lengths, one machine does not tell texts without a token from none that is left.
    for table, warned in tables[:1] if mechanism.by_length else tables:
        told: list[set[str]] = []
        found = []
        for release, data in ((dpsu.release, table), (dpsu.dask.release, typed(table))):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always", dpsu.DataWarning)
                found.append(release(data, plan))
            told.append({str(each.message) for each in caught})
        assert found[0] == found[1]
        assert (len(found[0]) > 3) == (warned == 4)
        assert told[0] == told[1]
        assert len(told[0]) == warned
        with pytest.raises(dpsu.DataError, match="do without strict") as refused:
            dpsu.dask.release(typed(table), plan, strict=True)
        assert SECRET not in str(refused.value)


def test_what_dask_cannot_run_is_refused(tmp_path: Path) -> None:
    table = clusters.random_table(np.random.default_rng(2), "text-text")
    for mechanism in ("policy-gaussian", "greedy"):
        with pytest.raises(dpsu.ParameterError, match="cannot run on Dask"):
            dpsu.dask.release(typed(table), mechanism=mechanism, **BUDGET)
    with pytest.raises(dpsu.ParameterError, match="not a Dask DataFrame"):
        dpsu.dask.release(table, **BUDGET)
    with pytest.raises(dpsu.ParameterError, match="is for one machine"):
        dpsu.dask.release(typed(table), user="one per entry", **BUDGET)
    with pytest.raises(dpsu.ParameterError, match="partitions"):
        dpsu.dask.release(typed(table), partitions=0, **BUDGET)
    frame = typed(table)
    for given in ({"public_items": frame}, {"mechanism": dpsu.WeightedGaussian(prior=frame)}):
        with pytest.raises(dpsu.ParameterError, match="also given as public data"):
            dpsu.dask.release(frame, **BUDGET, **given)
    file = tmp_path / "rows.parquet"
    table.to_pandas().to_parquet(file)
    with pytest.raises(dpsu.ParameterError, match="file of the confidential data"):
        dpsu.dask.release(dd.read_parquet(file), public_items=file, **BUDGET)


def test_overlapping_releases_leave_their_threads_to_this_process() -> None:
    """Steps take one thread each, and whatever comes after a release takes all of them."""
    table = clusters.random_table(np.random.default_rng(3), "int-int")
    expected = dpsu.release(table, **SEEDED)

    def release(number: int) -> tuple[bool, int]:
        with threads.use_workers(number):
            same = dpsu.dask.release(typed(table), **SEEDED) == expected
            return same, threads.workers()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(release, [1, 3, 5])) == [(True, 1), (True, 3), (True, 5)]
        assert list(pool.map(lambda _: threads.workers(), "abc")) == [threads.usual_workers()] * 3
    assert threads.workers() == threads.usual_workers()


def test_a_job_that_dies_releases_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_gathered", None)
    table = clusters.random_table(np.random.default_rng(3), "int-int")
    with pytest.raises(dpsu.DataError, match="nothing was released"):
        dpsu.dask.release(typed(table), **SEEDED)


def test_the_example_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = Path(__file__).resolve().parents[4] / "docs" / "guides" / "dask.md"
    (code,) = re.findall(r"```python\n(.*?)```", guide.read_text(encoding="utf-8"), re.S)
    people = np.repeat(np.arange(400), 2)
    rows = pd.DataFrame({"person": people, "product": ["bread", "milk"] * 400})
    (tmp_path / "visits").mkdir()
    rows.to_parquet(tmp_path / "visits" / "1.parquet")
    monkeypatch.chdir(tmp_path)
    space: dict[str, Any] = {}
    exec(compile(code, "dask.md", "exec"), space)
    assert space["found"].items == ("bread", "milk")


def test_a_frame_of_dask_is_not_collected() -> None:
    frame = dd.from_pandas(pd.DataFrame({"user": ["a"], "item": ["b"]}), npartitions=1)
    with pytest.raises(dpsu.ParameterError, match=r"dpsu\.dask\.release"):
        dpsu.release(frame, epsilon=1, delta=1e-6)
