"""Every door warns of a weak guarantee once, by public numbers alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask.dataframe
import pandas as pd
import pytest

import dpsu
import dpsu.dask
import dpsu.spark
from dpsu.sklearn import PrivateVocabulary
from tests.support.cases import every
from tests.unit.cli.test_cli import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Its functions have no types.
from_pandas: Any = dask.dataframe.from_pandas
WEAK: dict[str, Any] = {"epsilon": 1, "delta": 0.01}
SHELL = ["--epsilon", "1", "--delta", "0.01"]
SENTENCE = (
    "weak guarantee: delta is 0.01, the probability with which it may fail for each user: choose one below "
    "1 / (10 x users), such as 1e-06"
)
FRAME = pd.DataFrame({"user": [n % 200 for n in range(400)], "item": ["bread"] * 400})
TEXTS = FRAME.rename(columns={"item": "text"})


def warned(call: Callable[[], Any]) -> list[str]:
    """The warnings about the guarantee."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    said = [str(each.message) for each in caught if each.category is dpsu.DataWarning]
    return [message for message in said if message.startswith("weak guarantee")]


def unwarned(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()


def test_every_door_warns_once(tmp_path: Path) -> None:
    made = unwarned(lambda: dpsu.plan(**WEAK, mechanism="weighted-gaussian"))
    plans = [made, unwarned(lambda: dpsu.plan(**WEAK, mechanism="policy-laplace"))]
    series = unwarned(lambda: dpsu.Series.create(tmp_path / "used", periods=1, **WEAK))
    tokens = dpsu.Tokens("text")
    doors: dict[str, Callable[[], Any]] = {
        "plan": lambda: dpsu.plan(**WEAK),
        "release": lambda: dpsu.release(FRAME, **WEAK),
        "release by a plan": lambda: dpsu.release(FRAME, made),
        "select": lambda: dpsu.select(FRAME, plans),
        "domains": lambda: dpsu.domains(FRAME, columns=["item"], **WEAK),
        "ngrams": lambda: dpsu.release(TEXTS, item=tokens, mechanism=dpsu.NGrams(), **WEAK),
        "create": lambda: dpsu.Series.create(tmp_path / "new", periods=3, **WEAK),
        "period": lambda: series.release(FRAME),
        "dask": lambda: dpsu.dask.release(from_pandas(FRAME, 2), **WEAK),
        "sklearn": lambda: PrivateVocabulary(1, 0.01).fit(TEXTS.text, groups=TEXTS.user),
    }
    for name, door in doors.items():
        assert warned(door) == [SENTENCE], name


@pytest.mark.spark
def test_spark_warns_once(spark: SparkSession) -> None:
    frame = spark.createDataFrame(FRAME.values.tolist(), "user int, item string")
    assert warned(lambda: dpsu.spark.release(frame, **WEAK)) == [SENTENCE]


def test_the_shell_warns_once(run: Run, tmp_path: Path) -> None:
    rows, texts = str(tmp_path / "rows.parquet"), str(tmp_path / "texts.parquet")
    FRAME.to_parquet(rows)
    TEXTS.to_parquet(texts)
    for command in (
        ["plan"], ["plan", "--users", "5", "--items-per-user", "1"], ["release", rows],
        ["domains", rows, "--columns", "item"], ["ngrams", texts], ["ngrams", texts, "--dry-run"],
        ["series", "new", str(tmp_path / "series"), "--periods", "3"],
    ):  # fmt: skip
        _, _, said = run(*command, *SHELL)
        assert said.count(f"warning: {SENTENCE}\n") == 1, command
        assert "DataWarning" not in said, command


def test_reports_say_it() -> None:
    result = unwarned(lambda: dpsu.release(FRAME, epsilon=20, delta=1e-6))
    sentence = "Weak guarantee: epsilon is 20, so one person can make a result e^20 times as likely"
    for text in (result.report(), result.report_json(), str(result.plan), result._repr_html_()):
        assert sentence in text
    seeded = unwarned(lambda: dpsu.plan(**WEAK, insecure_seed=1))
    assert "eak guarantee" not in str(seeded)


@every(
    ("epsilon", "delta", "users", "weak"),
    [
        (10, 1e-4, None, False), (10.1, 1e-4, None, True), (1, 1.1e-4, None, True),
        (1, 1e-4, 1000, False), (1, 1e-4, 1001, True), (1, 1e-5, 10_000, False),
        (1, 1e-5, 0, False), (1, 2e-4, 5, True),
    ],
)  # fmt: skip
def test_what_is_usual(epsilon: float, delta: float, users: int | None, weak: bool) -> None:
    assert bool(dpsu.Privacy(epsilon, delta).weakness(users)) is weak
    known = dpsu.Auto(users=users, items_per_user=5) if users and users > 50 else None
    if users is None or known is not None:
        said = warned(lambda: dpsu.plan(epsilon=epsilon, delta=delta, mechanism=known))
        assert bool(said) is weak


def test_a_number_of_users_counts_if_it_was_paid_for_and_not_if_it_was_read() -> None:
    many = pd.DataFrame({"user": range(20_000), "item": ["bread"] * 20_000})
    given: dict[str, Any] = {"epsilon": 9, "delta": 9e-5}

    def release(**options: Any) -> list[str]:
        return warned(lambda: unwarned_rows(many, **given, **options))

    assert release(mechanism="weighted-gaussian") == []
    (said,) = release()
    assert "delta is 9e-05" in said


def unwarned_rows(frame: Any, **options: Any) -> None:
    """A release of lists, each of another user."""
    dpsu.release([[item] for item in frame.item], user="one per entry", **options)


def test_what_is_no_release_does_not_warn() -> None:
    made = unwarned(lambda: dpsu.plan(**WEAK, mechanism="weighted-gaussian"))
    assert warned(lambda: dpsu.audit(made, trials=4000)) == []
    assert warned(lambda: dpsu.forecast(made, users=100, items_per_user=2, mechanisms=[])) == []
    assert warned(lambda: dpsu.plan(epsilon=1, delta=1e-6)) == []
    assert warned(lambda: dpsu.compare(FRAME, **WEAK, mechanisms=["policy-laplace"])) == []
