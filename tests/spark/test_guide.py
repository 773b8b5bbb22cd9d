"""The guide runs, and a release on a cluster is charged like any other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
import dpsu.spark
from tests.support import flat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "spark.md"


def visits() -> pa.Table:
    people = [person for person in range(400) for _ in range(3)]
    products = [item for person in range(400) for item in ("bread", "milk", f"secret {person}")]
    return pa.table({"person": people, "product": products})


def shown() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.S)


@pytest.mark.thorough
def test_the_example_of_the_guide_runs(spark: SparkSession, tmp_path: Path) -> None:
    pyarrow.parquet.write_table(visits(), tmp_path / "visits")
    posts = pa.table({"author": visits()["person"], "body": ["Fresh bread and milk"] * 1200})
    pyarrow.parquet.write_table(posts, tmp_path / "posts")
    cities = ["Paris", "Berlin"] * 600
    people = {
        "id": visits()["person"], "sex": ["female", "male"] * 600, "city": cities,
        "country": ["France" if city == "Paris" else "Germany" for city in cities],
    }  # fmt: skip
    pyarrow.parquet.write_table(pa.table(people), tmp_path / "people")
    *code, _ = shown()
    names: dict[str, Any] = {"spark": spark}
    exec(compile("\n".join(code).replace("s3a://lake", str(tmp_path)), "spark.md", "exec"), names)
    found: Any = names["found"]
    assert "fresh bread and" in found.released
    values, best = names["values"], names["best"]
    assert values["sex"] == ("female", "male")
    assert values.levels["country", "city"] == {"France": ("Paris",), "Germany": ("Berlin",)}
    assert {*best.released.items} <= {"bread", "milk"}
    released = spark.read.parquet(str(tmp_path / "released")).collect()
    assert {row["product"] for row in released} <= {"bread", "milk"}


@pytest.fixture
def lake(spark: SparkSession) -> Iterator[None]:
    spark.sql("create database lake")
    spark.createDataFrame(visits()).write.saveAsTable("lake.visits")
    yield
    spark.sql("drop database lake cascade")


@pytest.mark.thorough
@pytest.mark.usefixtures("lake")
def test_a_session_goes_from_a_table_to_a_table(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    *_, code = shown()
    space: dict[str, Any] = {"spark": spark}
    exec(compile(code, "spark.md", "exec"), space)
    released = spark.read.table("lake.released")
    assert released.columns == ["product", "noisy_users"]
    assert {row["product"] for row in released.collect()} == {"bread", "milk"}
    assert space["found"].released.plan_hash == dpsu.Plan.read("plan.json").hash
    assert "2 items released" in (tmp_path / "report.txt").read_text(encoding="utf-8")
    (entry,) = dpsu.Ledger("ledger.db").account("visits").releases
    assert (entry.state, entry.plan_hash) == ("done", space["plan"].hash)
    printed = capsys.readouterr().out
    assert "bread" in printed
    assert "budget" in printed
    assert "secret" not in printed


def test_a_release_is_on_record_before_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame(visits())
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    options: dict[str, Any] = {
        "user": "person", "item": "product", "epsilon": 1.0, "delta": 1e-6,
        "mechanism": "weighted-laplace", "ledger": ledger, "dataset": "visits",
    }  # fmt: skip
    # Names and types are looked at before the charge.
    for wrong in ({"user": "persn"}, {"user": "product"}):
        with pytest.raises(dpsu.ParameterError):
            flat.spark_release(frame, budget=(2, 1e-5), **(options | wrong))
    assert not ledger.path.exists()
    done = flat.spark_release(frame, budget=(2, 1e-5), **options)
    assert done.private
    # A job that dies is charged too, and one beyond the budget never starts.
    dying = frame.selectExpr("assert_true(person < 0) as person", "product")
    with pytest.raises(dpsu.DataError):
        flat.spark_release(dying, **options)
    assert [entry.state for entry in ledger.account("visits").releases] == ["done", "pending"]
    with pytest.raises(dpsu.BudgetError):
        flat.spark_release(frame, **options)
