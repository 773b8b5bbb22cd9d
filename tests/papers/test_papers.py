"""The papers' experiments run from end to end, beside numbers that are the papers'."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from benchmarks import (
    carvalho2022,
    gopi2020,
    paper_compare,
    paper_corpora,
    paper_page,
    paper_reasons,
)
from benchmarks import paper_numbers as published
from benchmarks.paper_compare import Compared, compared
from benchmarks.paper_priors import made_up_prior, overlap_and_correlation

from dpsu.yields.made_up import reddit_like
from tests.support.paper_files import REDDIT, as_csv

SMALL = ["--users", "400", "--keys", "2", "--figure-keys", "1", "--shared-keys", "2"]
Results = tuple[dict[str, Any], dict[str, Any]]


def small_folder(folder: Path) -> Path:
    """One set of every kind: items, texts with a prior, and files of the papers."""
    users = np.repeat(np.arange(40), 3)
    items = [f"i{(u * 7 + k * k) % 9}" for u in range(40) for k in range(3)]
    pa.parquet.write_table(pa.table({"user": users, "item": items}), folder / "steam_200k.parquet")
    texts = pa.table({"user": [f"u{n % 30}" for n in range(60)], "text": ["a nice flat"] * 60})
    pa.parquet.write_table(texts, folder / "airbnb_reviews.parquet")
    prior = pa.table({"item": ["a", "flat", "castle"], "holders": [90, 3, 2]})
    pa.parquet.write_table(prior, folder / "public_imdb_reviews.parquet")
    (folder / "clean_askreddit.csv").write_bytes(REDDIT)
    reviews = as_csv(["review", "sentiment"], [["Do it, ever and ever", "positive"]] * 2)
    (folder / "IMDB Dataset.csv").write_bytes(reviews)
    return folder


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = small_folder(tmp_path_factory.mktemp("data"))
    out = tmp_path_factory.mktemp("results")
    for module in (gopi2020, carvalho2022):
        name = module.OUTPUT.name
        done = module.main([*SMALL, "--data", str(folder), "--output", str(out / name)])
        assert done == 0
    return out / gopi2020.OUTPUT.name, out / carvalho2022.OUTPUT.name


@pytest.fixture(scope="module")
def results(paths: tuple[Path, Path]) -> Results:
    first, second = (json.loads(path.read_text("utf-8")) for path in paths)
    return first, second


@pytest.mark.thorough
def test_every_table_and_figure_is_produced_on_every_set(results: Results) -> None:
    for found, module in zip(results, (gopi2020, carvalho2022), strict=True):
        assert list(found["sets"]) == ["synthetic", "airbnb_reviews", "steam_200k", "reddit"]
        for entry in found["sets"].values():
            assert tuple(entry["tables"]) == module.TABLES
            drawn_of_tables = {"5"} if module is gopi2020 else set()
            assert {*entry["figures"]} == {*module.FIGURES} - drawn_of_tables
            assert all(entry["tables"].values()) or not entry["tables"]["3"]
            assert all(entry["figures"].values())
    assert gopi2020.TABLES == ("1", "2", "3", "4")
    assert gopi2020.FIGURES == ("1", "4", "5", "6")
    assert carvalho2022.TABLES == ("2", "3", "4")
    assert carvalho2022.FIGURES == ("2", "3")


@pytest.mark.thorough
def test_the_page_shows_everything(paths: tuple[Path, Path]) -> None:
    text = paper_page.page(*paths)
    gopi, carvalho = text.split("## Carvalho et al. 2022")
    for part, module in ((gopi, gopi2020), (carvalho, carvalho2022)):
        for number in module.TABLES:
            assert f"Table {number}" in part
        for number in module.FIGURES:
            assert f"Figure {number}" in part
    assert "(not private)" in carvalho
    for private in ("Twitter", "Finance"):
        assert f"| {private}, here | files not given" in carvalho
    assert "| Reddit, here | files not given" not in carvalho
    for lines in text.strip().split("\n\n"):
        if lines.startswith("|"):
            assert len({line.count("|") for line in lines.split("\n")}) == 1, lines


@pytest.mark.thorough
def test_files_of_the_papers_are_read_by_their_loaders(results: Results) -> None:
    first, second = (found["sets"]["reddit"] for found in results)
    assert (first["users"], first["observations"]) == (3, 5)
    assert first["stands_for"] == "reddit"
    # do n't , ever . two lines and "quotes" NA: split at spaces, as the file is.
    assert first["vocabulary"] == 10
    # imdb is tokenized as the papers do: do it , ever and.
    found = second["tables"]["3"]["imdb"]
    assert found["vocabulary"] == 5
    assert found["overlap"] == pytest.approx(100 * 4 / 10)
    assert {"GW-KT imdb", "popular imdb"} <= set(second["tables"]["4"])
    beside = {(e.corpus, e.where): e for e in compared(*results)}
    # Shared sets have no published number beside them.
    assert {corpus for corpus, where in beside if "shared" not in where} == {"synthetic", "reddit"}
    assert beside["reddit", "posts"].published == 373_983
    assert beside["reddit", "vocabulary of imdb"].ratio == 5 / 194_532


def test_published_numbers_agree_with_each_other() -> None:
    at = published.LIMITS.index(100)
    sizes = [published.GOPI_TABLE_2[name][at][0] for name in gopi2020.POLICIES]
    assert sizes == [14739, 16954]
    for k, (held, *shares) in published.GOPI_TABLE_3.items():
        for name, size, share in zip(gopi2020.POLICIES, sizes, shares, strict=True):
            meant = published.CORRECTED.get(("gopi", "3", k, name), share)
            assert meant == pytest.approx(100 * size / held, abs=0.11)
            assert (meant == share) == ((k, name) != (5, "policy-laplace"))
    gains = {"reddit": (0.5, 12), "twitter": (10, 25), "finance": (10, 13)}
    for private, (greedy, prior) in gains.items():
        row = published.CARVALHO_TABLE_4[private]
        best = max(row[name][0] for name in gopi2020.POLICIES)
        assert 100 * (row["GW"][0] / best - 1) == pytest.approx(greedy, abs=0.5)
        kt = max(row[name][0] for name in published.PUBLIC)
        assert 100 * (kt / best - 1) == pytest.approx(prior, abs=0.5)
    assert published.CARVALHO_TABLE_2["reddit"] == (
        published.USERS, published.POSTS, published.VOCABULARY,
    )  # fmt: skip


def test_ratios_and_flags() -> None:
    def at(ours: float) -> Compared:
        return Compared("gopi", "2", "count-laplace, max_items 1", "synthetic", 1000, ours)

    assert at(1070).ratio == 1.07
    assert [at(n).flagged for n in (899, 900, 1000, 1100, 1101)] == [True, *[False] * 3, True]
    assert at(1000).reason == ""
    assert at(2000).reason == paper_reasons.UNEXPLAINED
    copied = Compared("gopi", "4", "policy-gaussian, max_items 200, passes 1", "reddit", 10, 12)
    assert "copying error" in copied.reason
    assert paper_compare.copied(copied)
    assert not paper_compare.copied(at(2000))


def test_what_was_last_measured_is_near_the_papers_or_explained() -> None:
    found = [json.loads(m.OUTPUT.read_text("utf-8")) for m in (gopi2020, carvalho2022)]
    beside = compared(found[0], found[1])
    assert not [e for e in beside if e.reason == paper_reasons.UNEXPLAINED]
    # What the corpus was fitted to, it has.
    fitted = [e for e in beside if e.corpus == "synthetic" and e.table in ("1", "3")]
    fitted = [e for e in fitted if e.where.startswith(("users with", "words of"))]
    assert len(fitted) == 11
    assert all(abs(e.ratio - 1) < 0.02 for e in fitted)


def test_made_up_priors_overlap_as_they_should() -> None:
    table = reddit_like(2000, seed=3, segments=paper_corpora.SEGMENTS)
    items = table["item"].combine_chunks()
    holders = np.bincount(items.indices.to_numpy())
    rates = paper_corpora.expected_shares(items.dictionary)
    assert rates.max() < 1
    prior = made_up_prior(items.dictionary, rates, overlap=0.3, correlation=0.8, seed=0)
    overlap, correlation = overlap_and_correlation(items.dictionary, holders, prior)
    assert overlap == pytest.approx(0.3, abs=0.02)
    assert correlation == pytest.approx(0.8, abs=0.1)
