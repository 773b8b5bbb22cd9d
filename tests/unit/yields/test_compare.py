"""Comparisons: right numbers, loudly not private, and never the name of an item."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import dpsu
from dpsu.engines import local
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.reading import Source
from dpsu.privacy.curves import Optimal
from dpsu.randomness.keys import Key
from dpsu.yields.comparing import BANDS, LEVELS
from dpsu.yields.expected import pairs_to_try
from dpsu.yields.made_up import zipf_like
from dpsu.yields.tables import NOT_PRIVATE
from tests.support import flat
from tests.support.cases import every
from tests.support.databases import OF_PAIRS
from tests.unit.cli.test_cli import Run, run  # noqa: F401

MARK = "Zzmarker"
PRIVACY: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4}


def table() -> pa.Table:
    made = zipf_like(700, items_per_user=5, zipf=1.0, vocabulary=400, seed=11)
    users = [f"{MARK}-user-{user}" for user in made["user"].to_pylist()]
    items = [f"{MARK}-item-{item}" for item in made["item"].to_pylist()]
    return pa.table({"user": users, "item": items, "count": made["count"]})


@pytest.fixture(scope="module")
def found() -> dpsu.Comparison:
    return dpsu.compare(table(), item=dpsu.Items("item", repeats="count"), **PRIVACY)


def holders() -> dict[str, int]:
    counted: dict[str, int] = {}
    for item in table()["item"].to_pylist():
        counted[item] = counted.get(item, 0) + 1
    return counted


def test_the_size_of_the_data(found: dpsu.Comparison) -> None:
    held = holders()
    assert (found.users, found.pairs, found.items) == (700, sum(held.values()), len(held))
    assert [level.holders for level in found.levels] == list(LEVELS)
    for level in found.levels:
        assert level.items == sum(n >= level.holders for n in held.values())
    assert [band.first for band in found.bands] == list(BANDS)
    for band in found.bands:
        last = band.last or 10**9
        assert band.items == sum(band.first <= n <= last for n in held.values())
    best = Optimal(2.0, 1e-4)
    assert found.bound == pytest.approx(sum(best.probability(n) for n in held.values()))


@every("mechanism", ["weighted-gaussian", "policy-laplace", "sieve"])
def test_all_numbers_are_means_of_real_runs(mechanism: str) -> None:
    (row,) = dpsu.compare(table(), mechanisms=[mechanism], runs=30, **PRIVACY).rows
    pairs = pairs_to_try(Source(table(), Users(), Items()))
    plan = flat.plan(mechanism=mechanism, **PRIVACY)
    held, total = holders(), sum(holders().values())
    facts = []
    for seed in range(50):
        released = local.select_items(plan, pairs, Key.from_insecure_seed(seed))[1].to_pylist()
        numbers = np.array([held[item] for item in released])
        bands = np.searchsorted(BANDS, numbers, side="right") - 1
        facts.append(
            [
                len(released),
                1 - numbers.sum() / total,
                *(float((numbers >= level).sum()) for level in LEVELS),
                *np.bincount(bands, minlength=len(BANDS)).astype(float),
            ]
        )
    mean, error = np.mean(facts, axis=0), np.std(facts, axis=0, ddof=1) / np.sqrt(len(facts))
    told = np.array([row.released, row.missing, *row.covered, *row.by_band])
    # Both sides have an error; that of the comparison is at most as large, per run. What happens
    # once in a hundred runs may not be seen in fifty.
    rare = np.full(len(told), 0.1)
    rare[1] = 1e-3
    assert np.all(np.abs(told - mean) <= 5 * error * np.sqrt(1 + 50 / 30) + rare)
    assert row.averaged == ("runs" if mechanism == "sieve" else "coins")


def test_rows_fit_together(found: dpsu.Comparison) -> None:
    assert {row.mechanism for row in found.rows} == set(OF_PAIRS)
    assert [row.released for row in found.rows] == sorted(
        (row.released for row in found.rows), reverse=True
    )
    for row in found.rows:
        assert sum(row.by_band) == pytest.approx(row.released)
        assert row.of_bound == pytest.approx(row.released / found.bound)
        assert row.of_bound < 1
        assert 0 <= row.missing <= 1
        for level, covered, relative in zip(found.levels, row.covered, row.relative, strict=True):
            assert covered <= level.items + 1e-9
            if level.items:
                assert relative == pytest.approx(row.released / level.items)
            else:
                assert relative is None


def test_several_sizes_and_forms() -> None:
    data = {f"u{n}": ["a", "b", f"own {n}"] for n in range(300)}
    sizes = [dpsu.CountGaussian(max_items=size) for size in (1, 2, 3)]
    made = dpsu.compare(data, mechanisms=sizes, runs=2, **PRIVACY)
    assert sorted(row.max_items or 0 for row in made.rows) == [1, 2, 3]
    assert dpsu.compare(data, mechanisms="greedy", **PRIVACY).runs == 8
    assert dpsu.compare(data, mechanisms=[dpsu.Greedy(max_items=2)], **PRIVACY).runs == 8
    texts = {f"u{n}": "the quick brown fox" for n in range(300)}
    spoken = dpsu.compare(
        texts, item=dpsu.Tokens("text", ngrams="1-2"), mechanisms=["sips"], **PRIVACY
    )
    assert spoken.items == 7
    assert spoken.rows[0].released == pytest.approx(7.0)
    assert str(spoken).count("1,000+") == 0  # bands without items are not shown
    # Sizes are those that a release of texts has.
    item = dpsu.Tokens("text", ngrams=2)
    (row,) = dpsu.compare(texts, item=item, mechanisms=["sieve"], runs=1, **PRIVACY).rows
    assert row.max_items == dpsu.plan(item=item, mechanism="sieve", **PRIVACY).max_items


@pytest.mark.filterwarnings("ignore:no row has both")
def test_nothing_to_compare() -> None:
    made = dpsu.compare({}, **PRIVACY)
    assert (made.users, made.items, made.bound) == (0, 0, 0.0)
    assert all(row.released == 0 and row.needs is None for row in made.rows)
    assert str(made).startswith("NOT PRIVATE")
    assert json.loads(made.to_json())["users"] == 0
    assert "NOT PRIVATE" in made.to_html()


def test_every_form_says_that_it_is_not_private(found: dpsu.Comparison) -> None:
    assert str(found).startswith(NOT_PRIVATE)
    assert str(found).endswith(NOT_PRIVATE)
    assert next(iter(json.loads(found.to_json()))) == "NOT PRIVATE"
    page = found.to_html()
    assert "<title>NOT PRIVATE" in page
    assert page.count("do not publish") == 2
    assert "NOT PRIVATE" in str(dpsu.compare.__doc__)
    # And none names an item or a user.
    said = str(found) + repr(found) + found.to_json() + page
    assert MARK not in said
    assert "-item-" not in said


@every(
    "data",
    [
        [[f"{MARK}-1", f"{MARK}-2"], {f"{MARK}-1": 5}],
        [(f"{MARK}-1", f"{MARK}-2", f"{MARK}-3")],
        pa.table({"user": [f"{MARK}"], "item": [{MARK: [MARK]}]}),
        pa.table({MARK: [1], f"{MARK}2": [2]}),
        [f"{MARK}-text"],
        {f"{MARK}-user": f"{MARK}-item"},
    ],
)
def test_errors_name_nothing(data: Any) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(dpsu.DpsuError) as failed:
            dpsu.compare(data, **PRIVACY)
    said = "".join(str(warning.message) for warning in caught)
    seen: list[BaseException] = [failed.value]
    for error in seen:
        said += repr(error) + "".join(traceback.format_exception_only(error))
        seen += [e for e in (error.__cause__, error.__context__) if e is not None and e not in seen]
    assert MARK not in said


@every(
    ("options", "words"),
    [
        ({"mechanisms": []}, "mechanisms is empty"),
        ({"mechanisms": ["magic"]}, "'magic' is not one of"),
        ({"mechanisms": [dpsu.Greedy(prior={"a": 1})]}, "must be without a prior here"),
        ({"mechanisms": ["ngrams"]}, "'ngrams' is not one of"),
        ({"runs": 0}, "runs=0 is out of range"),
        ({"epsilon": -1}, "epsilon=-1 is out of range"),
    ],
)
def test_wrong_options_are_refused_before_reading(options: dict[str, Any], words: str) -> None:
    with pytest.raises(dpsu.ParameterError, match=words):
        dpsu.compare("no such file.csv", **(PRIVACY | options))


def test_the_command(tmp_path: Path) -> None:
    data, scratch = tmp_path / f"{MARK}.parquet", tmp_path / "scratch"
    pa.parquet.write_table(table(), data)
    scratch.mkdir()
    typed = ["compare", data, "--epsilon", 2, "--delta", 1e-4, "--repeats", "count", "--mechanisms",
             "sieve, greedy", "--max-items", "10,30", "--runs", 2, "--json", scratch / "out.json",
             "--html", scratch / "out.html"]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "dpsu", *map(str, typed)],
        capture_output=True, text=True, check=False, env=os.environ | {"TMPDIR": str(scratch)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("NOT PRIVATE")
    made = json.loads((scratch / "out.json").read_text("utf-8"))
    assert [row["mechanism"] for row in made["rows"]].count("sieve") == 2
    left = "".join(p.name + p.read_text("utf-8") for p in scratch.rglob("*") if p.is_file())
    assert MARK not in done.stdout + done.stderr + left
    assert "NOT PRIVATE" in (scratch / "out.html").read_text("utf-8")


def test_the_command_refuses(run: Run, tmp_path: Path) -> None:  # noqa: F811
    data = tmp_path / "rows.csv"
    data.write_text(f"user,item\n{MARK},{MARK}\n")
    given = ("compare", data, "--epsilon", "1", "--delta", "1e-5")
    for arguments, words in (
        (("--output", "items.txt"), "compare never writes items, only numbers"),
        (("--max-items", "ten"), "is not a list of whole numbers"),
        (("--max-items", ""), "is not a list of whole numbers"),
        (("--max-items", "0"), "--max-items 0 is out of range"),
        (("--tokenizer", "words"), "--tokenizer is for texts: name their column with --text"),
        (("--html", tmp_path / "out.txt"), "must end in .html"),
        (("--json", data), "is also read"),
        (("--item", "word"), "word"),
        (("--html", tmp_path / "nowhere" / "x.html"), "there is no folder"),
    ):
        found, out, err = run(*given, *arguments)
        assert found == 2, err
        assert words in err
        assert "Traceback" not in err
        assert MARK not in err + out


def test_a_query_is_compared_as_a_file_is(run: Run, tmp_path: Path) -> None:  # noqa: F811
    import duckdb

    data, database = tmp_path / "rows.parquet", tmp_path / "rows.duckdb"
    pa.parquet.write_table(table(), data)
    with duckdb.connect(str(database)) as connection:
        connection.execute(f"create table visits as select * from '{data}'")
    options = (
        "--epsilon", 2, "--delta", 1e-4, "--mechanisms", "weighted-gaussian", "--runs", 2,
    )  # fmt: skip
    query = ("--source", f"duckdb:{database}", "--query", "select * from visits")
    code, out, err = run("compare", *query, *options)
    assert code == 0, err
    assert out == run("compare", data, *options)[1]
    assert MARK not in out + err
    for arguments, words in (
        (query[:2], "--source and --query go together"),
        ((data, *query), "not both"),
        ((*query[:3], "select nothing from visits"), "--query: there is no column"),
        ((*query[:3], "drop table visits"), "--query must be one SELECT"),
        ((*query, "--json", database), "is also read"),
        ((*query, "--item", "thing"), "there is no column 'thing'"),
    ):
        code, out, err = run("compare", *arguments, *options)
        assert (code, out) == (2, ""), err
        assert words in err
