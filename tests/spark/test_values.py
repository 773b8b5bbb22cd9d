"""Keys and values of many columns on Spark: what `tests/contracts/test_engines.py` has not."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet
import pytest

import dpsu
import dpsu.spark
from tests.contracts.inputs import people
from tests.spark.test_cli import SPARK
from tests.spark.test_cli import dpsu as shell
from tests.support.cases import every

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEEDED: dict[str, Any] = {
    "epsilon": 2, "delta": 1e-3, "mechanism": "weighted-gaussian", "insecure_seed": 4
}  # fmt: skip


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_users_of_other_types_and_public_items(spark: SparkSession) -> None:
    frame = spark.createDataFrame(people())
    known = [("c", datetime.date(2024, 2, 29))]
    options: dict[str, Any] = SEEDED | {"user": ["site", "id"], "item": ["site", "born"]}
    here = dpsu.release(people(), **options, public_items=known)
    there = dpsu.spark.release(frame, **options, public_items=known, partitions=2)
    assert known[0] in there.released
    assert there.released.items == here.items
    assert [tuple(row) for row in there.items.collect()] == list(here.items)
    with pytest.raises(dpsu.DataError, match="no values of the columns"):
        dpsu.spark.release(frame, **options, public_items=[("c", "tomorrow")])
    days = {"user": ["born", "user"], "item": "site"}
    assert not len(dpsu.spark.release(frame, **(options | days)))


def test_incomplete_keys_are_told_or_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame(people())
    options: dict[str, Any] = SEEDED | {"user": "id", "item": ["kind", "born"]}
    with pytest.warns(dpsu.DataWarning, match="no 'id' or no 'kind, born'"):
        dpsu.spark.release(frame, **options, partitions=2)
    with pytest.raises(dpsu.DataError, match="no 'id' or no 'kind, born'"):
        dpsu.spark.release(frame, **options, partitions=2, strict=True)


def test_plans_strictness_and_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame(people())
    item = dpsu.Values(["kind"], levels=["site", "city"])
    plan = dpsu.plan(epsilon=2, delta=1e-3, user="id", item=item, mechanism="sieve")
    found = dpsu.spark.release(frame.dropna(subset=["id"]), plan, strict=True, partitions=2)
    assert found.items.columns == ["kind", "site", "city"]
    assert found.private
    with pytest.raises(dpsu.DataError, match=r"some rows have no 'id'.*do without strict"):
        dpsu.spark.domains(frame, plan, strict=True)
    empty = frame.where("id < 0")
    with pytest.warns(dpsu.DataWarning, match="no row has both 'id' and 'kind, site, city'"):
        assert dict(dpsu.spark.domains(empty, plan)) == {"kind": (), "site": (), "city": ()}


@every(
    ("columns", "options", "words"),
    [
        ("id int, job string", {"columns": ["jop"]}, r"did you mean 'job'\?.*with columns"),
        ("id int, job double", {"columns": ["job"]}, r"type double.*types=\{'job'"),
        ("id int, job struct<a:int>", {"columns": ["job"]}, "make a column of each"),
        ("id int, job string", {"columns": ["id"]}, "the person to protect"),
        ("id int, job string, JOB string", {"columns": ["job"]}, "AMBIGUOUS"),
        ("id int, job string", {"columns": ["job"], "mechanism": "greedy"}, "cannot run on Spark"),
    ],
)
def test_what_is_wrong_is_refused_before_a_ledger_is_charged(
    spark: SparkSession, columns: str, options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db").dataset("people", budget=(2, 1e-2))
    with pytest.raises(dpsu.DpsuError, match=words):
        dpsu.spark.domains(
            spark.createDataFrame([], columns), user="id", epsilon=1, delta=1e-3, ledger=ledger,
            **options,
        )  # fmt: skip
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.thorough
def test_values_from_the_shell(tmp_path: Path) -> None:
    table = people().select(["id", "site", "kind", "city"])
    pyarrow.parquet.write_table(table.drop_null(), tmp_path / "people.parquet")
    asked = [
        "domains", str(tmp_path / "people.parquet"), "--user", "id", "--columns", "kind",
        "--levels", "site,city", "--epsilon", "2", "--delta", "1e-3", "--insecure-seed", "4",
        "--mechanism", "weighted-gaussian", "--counts",
    ]  # fmt: skip
    here, there = shell(*asked), shell(*asked, *SPARK)
    assert there.returncode == 0, there.stderr
    assert (there.stdout, there.stderr) == (here.stdout, here.stderr)
    assert '"site > city"' in there.stdout
    refused = shell(*asked, "--master", "local[2]")
    assert refused.returncode == 2
    assert "--master is for --engine spark" in refused.stderr


def test_choices_among_plans_agree(spark: SparkSession, tmp_path: Path) -> None:
    """On everybody and on a part; a ledger is charged once names and types are right."""
    table = people().select(["id", "city"]).drop_null()
    frame = spark.createDataFrame(table)
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    dataset = ledger.dataset("people", budget=(9, 0.1))
    mechanisms = [dpsu.WeightedGaussian(max_items=2), dpsu.Sips(rounds=2)]

    def plans(seed: int | None) -> list[dpsu.Plan]:
        given: dict[str, Any] = {"epsilon": 4, "delta": 0.02, "insecure_seed": seed}
        return [dpsu.plan(user="id", item="city", mechanism=each, **given) for each in mechanisms]

    for fraction, seed in ((None, 1), (0.4, 2)):
        here = dpsu.select(table, plans(seed), tune_fraction=fraction)
        there = dpsu.spark.select(frame, plans(seed), tune_fraction=fraction, partitions=2)
        assert here.items
        assert there.released == here
        assert there.plan == here.plan
        assert there.items.columns == ["city"]
    with pytest.raises(dpsu.ParameterError, match="there is no column 'city'"):
        dpsu.spark.select(frame.drop("city"), plans(None), ledger=dataset)
    assert not ledger.path.exists()
    paid = dpsu.spark.select(frame, plans(None), ledger=dataset, expected_runs=1, partitions=2)
    assert paid.private
    assert [each.state for each in ledger.account("people").releases] == ["done"]
    with pytest.raises(dpsu.ParameterError, match="not a Spark DataFrame"):
        dpsu.spark.select(table, plans(None))
