"""What comes back: a sorted set with its plan, in every format people want."""

from __future__ import annotations

import csv
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.contributions import grouped as contributions
from tests.support import flat

# Weights without a cutoff grow far beyond the threshold, so these runs cannot fail by chance.
SURE: dict[str, Any] = {"mechanism": "weighted-gaussian"}
ODD = ["zebra", "Äpfel", "a,b", 'quo"te', "two\nlines", "back\\slash", " space ", "c\rr", "日本"]


@pytest.fixture(scope="module")
def result() -> dpsu.Release:
    return flat.release(
        {u: [*ODD, f"rare {u}"] for u in range(400)}, item="word", epsilon=2, delta=1e-13, **SURE
    )


@pytest.fixture(scope="module")
def numbers() -> dpsu.Release:
    data = {u: [100, 9, -5] for u in range(300)}
    return flat.release(data, epsilon=2, delta=1e-9, item_type="integer", **SURE)


def test_items_are_sorted_and_behave_like_a_set(
    result: dpsu.Release, numbers: dpsu.Release
) -> None:
    assert result.items == tuple(sorted(ODD, key=lambda s: s.encode()))
    assert numbers.items == (-5, 9, 100)
    assert len(result) == len(ODD)
    assert list(result) == list(result.items)
    assert "zebra" in result
    assert "rare 1" not in result
    assert repr(result) == f"<Release: {len(ODD)} items by weighted-gaussian, private=True>"


def test_frames(result: dpsu.Release, numbers: dpsu.Release) -> None:
    made = result.to_arrow(), result.to_polars(), result.to_pandas()
    assert [type(frame) for frame in made] == [pa.Table, pl.DataFrame, pd.DataFrame]
    arrow, polars, pandas = made
    for frame in (arrow["word"].to_pylist(), polars["word"].to_list(), pandas["word"].tolist()):
        assert frame == list(result.items)
    assert numbers.to_polars()["item"].dtype == pl.Int64
    # Frames hold the items, and nothing that a merge of theirs would carry along.
    assert arrow.schema.metadata is None


def test_files(result: dpsu.Release, numbers: dpsu.Release, tmp_path: Path) -> None:
    for suffix in ("txt", "csv", "parquet", "json"):
        result.write(tmp_path / f"words.{suffix}")
        numbers.write(str(tmp_path / f"numbers.{suffix}"))
    assert json.loads((tmp_path / "words.json").read_text("utf-8")) == list(result.items)
    assert json.loads((tmp_path / "numbers.json").read_text("utf-8")) == [-5, 9, 100]
    with (tmp_path / "words.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    assert rows == [["word"], *[[str(item)] for item in result.items]]
    table = pa.parquet.read_table(tmp_path / "words.parquet")
    assert table["word"].to_pylist() == list(result.items)
    lines = (tmp_path / "words.txt").read_bytes().decode().split("\n")
    assert lines.pop() == ""
    unescaped = [
        line.replace("\\\\", "\0").replace("\\n", "\n").replace("\\r", "\r").replace("\0", "\\")
        for line in lines
    ]
    assert unescaped == list(result.items)
    assert len(list(tmp_path.iterdir())) == 8


def test_files_that_cannot_be_written(result: dpsu.Release, tmp_path: Path) -> None:
    for name, kind, words in (
        ("words.xlsx", dpsu.ParameterError, r"must end in \.txt"),
        ("none/words.txt", dpsu.OutputError, "no folder"),
    ):
        with pytest.raises(kind, match=words):
            result.write(tmp_path / name)
    if os.geteuid() != 0:
        tmp_path.chmod(0o500)
        with pytest.raises(dpsu.OutputError, match="cannot write"):
            result.write(tmp_path / "words.txt")


def test_reports_and_files_mark_what_has_no_guarantee(result: dpsu.Release, tmp_path: Path) -> None:
    data = {u: ["a", "b"] for u in range(300)}
    unproven = dpsu.Greedy(calibration="paper", allow_unproven=True)
    with pytest.warns(dpsu.DataWarning, match="insecure_seed"):
        seeded = dpsu.release(data, epsilon=1, delta=1e-5, insecure_seed=1)
    without = seeded, dpsu.release(data, epsilon=1, delta=1e-5, mechanism=unproven)
    for made in (result, *without):
        facts = json.loads(made.report_json())
        assert made.private == facts["private"] == (made is result)
        assert ("NO GUARANTEE" in made.report()) == (made is not result)
        assert facts["released"] == len(made)
        assert f"{len(made)} items released" in made.report()
        assert dpsu.Plan.from_json(json.dumps(facts["plan"])) == made.plan
        made.write(tmp_path / "items.parquet")
        kept = pa.parquet.read_schema(tmp_path / "items.parquet").metadata
        assert kept[b"dpsu.guarantee"].startswith(b"NO GUARANTEE") == (made is not result)
        assert b"dpsu.dataset" not in kept
    assert "(2, 1e-13)-differential privacy" in result.report()


def test_os_randomness_differs_and_seeds_repeat() -> None:
    data = {u: [f"item {(u * k) % 97}" for k in range(1, 9)] for u in range(300)}
    fresh, seeded = (
        {dpsu.release(data, epsilon=2, delta=1e-3, insecure_seed=seed).items for _ in range(4)}
        for seed in (None, 4)
    )
    assert len(fresh) > 1
    assert len(seeded) == 1


def test_progress_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contributions, "ROWS_PER_REPORT", 10)
    told: list[tuple[str, int]] = []
    dpsu.release(
        {u: ["a", "b"] for u in range(50)}, epsilon=1, delta=1e-5, mechanism="policy-gaussian",
        progress=lambda stage, number: told.append((stage, number)),
    )  # fmt: skip
    assert list(dict(told).items()) == [
        ("reading", 100), ("grouping by user", 0), ("weighing items", 50), ("tossing coins", 0),
    ]  # fmt: skip
    # Users are told stretch by stretch.
    users = [number for stage, number in told if stage == "weighing items"]
    assert users == list(range(0, 51, 5))
