"""What the documentation shows is what happens."""

from __future__ import annotations

import gzip
import json
import re
import textwrap
from pathlib import Path

import duckdb
import pytest
from benchmarks import choosing, steep, yields
from tools import pages, reference

import dpsu
import dpsu.dask
import dpsu.spark
from dpsu.options import options_of
from dpsu.plans.mechanisms import MECHANISMS
from tests.support.examples import python, same_keys, shell

ROOT = Path(__file__).resolve().parents[2]
# These need data of their own, and have tests of their own.
TESTED_ELSEWHERE = {
    "columns",
    "compare",
    "dask",
    "domains",
    "forecast",
    "hand-on",
    "ledger",
    "series",
    "spark",
    "sql",
    "text",
    "tokenizers",
}
GUIDES = [
    path
    for folder in ("tutorial", "guides")
    for path in sorted((ROOT / "docs" / folder).glob("*.md"))
    if path.stem not in TESTED_ELSEWHERE | {"index"}
]


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


def test_generated_pages_are_up_to_date() -> None:
    for path, text in pages.pages().items():
        assert path.read_text(encoding="utf-8") == text, (
            f"run python -m tools.pages for {path.name}"
        )
    assert pages.leftover() == []


def test_what_is_claimed_of_mechanisms_was_measured() -> None:
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    rows = steep.kept()
    assert f"[up to {steep.most(rows)}](" in readme
    assert f"misses {steep.missed(rows, 'greedy')[:-1]} % of the common items" in readme
    found = json.loads(yields.RESULTS.read_text("utf-8"))
    sizes = [at["sizes"] for name in yields.NAMES for at in found[name]["rows"].values()]
    parts = [100 * each["sieve"]["size"] / yields.published(each) - 100 for each in sizes]
    assert f"`sieve` releases {min(parts):.0f} % to {max(parts):.0f} % more" in readme
    alone = [
        max(row["sizes"]["greedy"], row["sizes"]["policy-laplace"]) / row["sizes"]["sieve 300"]
        for row in json.loads(choosing.RESULTS.read_text("utf-8"))
        if row["items_per_user"] < 1.1
    ]
    page = " ".join((ROOT / "docs" / "explanation" / "how-it-works.md").read_text("utf-8").split())
    assert f"up to {max(alone):.1f} times as much as `sieve`" in page


def test_every_public_name_has_a_page_in_the_reference() -> None:
    """One for each function and class, the errors together, and no role of another tool left."""
    made = reference.pages()
    names = [f"dpsu.{name}" for name in dpsu.__all__]
    names += [f"dpsu.spark.{name}" for name in dpsu.spark.__all__]
    names += [f"dpsu.dask.{name}" for name in dpsu.dask.__all__]
    for name in [*names, "dpsu.sklearn.PrivateVocabulary"]:
        assert f"[`{name}`](" in made["index.md"], name
    # Some file systems do not tell upper from lower case.
    assert len({path.lower() for path in made}) == len(made)
    for path, text in made.items():
        assert not re.search(r":(func|class|meth|mod|exc):`", text), path
        for block in re.findall(r"```\w+\n(.*?)```", text, re.S):
            assert max(map(len, block.split("\n"))) <= 100, path


def test_the_reference_lists_every_option_of_every_mechanism() -> None:
    made = reference.pages()
    for kind in MECHANISMS.values():
        page = made[f"classes/{kind.__name__}.md"]
        for name, option in options_of(kind).items():
            assert f"`{name}` : " in page
            assert option.help in page


VISITS = "person,product\n" + "".join(
    f"p{u},{i}\n" for u in range(300) for i in ("bread", "milk", f"secret {u}")
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where examples run: they write files, and draw the same keys each time."""
    monkeypatch.chdir(tmp_path)
    same_keys(monkeypatch)
    return tmp_path


def test_the_python_example_of_the_readme_runs(folder: Path) -> None:
    result = python(blocks(ROOT / "README.md", "python"), "README.md")["result"]
    assert isinstance(result, dpsu.Release)
    assert set(result.items) == {"bread", "milk"}
    assert (folder / "items.csv").exists()


def test_the_shell_examples_of_the_readme_run(folder: Path) -> None:
    (folder / "visits").mkdir()
    (folder / "visits" / "1.csv.gz").write_bytes(gzip.compress(VISITS.encode()))
    (folder / "public_counts.csv").write_text("item,holders\nbread,9\n")
    with duckdb.connect(folder / "shop.db") as shop:
        shop.execute("create table visits as from 'visits/1.csv.gz'")
        shop.execute("copy visits to 'visits.parquet'")
    posts = "".join(f'w{u},"So long, and thanks for the fish"\n' for u in range(300))
    (folder / "posts.csv").write_text(f"writer,body\n{posts}")
    script, texts = (b for b in blocks(ROOT / "README.md", "sh") if "dpsu release" in b)
    shell(f"{script}\n{texts}", folder)
    assert "thanks for" in (folder / "phrases.txt").read_text().splitlines()
    for made in ("tokenizer.json", "items.parquet", "report.json"):
        assert (folder / made).exists()
    assert set((folder / "items.txt").read_text().split()) == {"bread", "milk"}


def test_the_examples_of_the_front_page_run(folder: Path) -> None:
    front = ROOT / "docs" / "index.md"
    local, spark = (textwrap.dedent(block) for block in blocks(front, "python"))
    result = python([local], "index.md")["result"]
    assert isinstance(result, dpsu.Release)
    assert set(result.items) == {"bread", "milk"}
    # The guide to Spark begins with the same lines, and its own test runs them.
    assert spark in blocks(ROOT / "docs" / "guides" / "spark.md", "python")[0]
    (folder / "visits.csv").write_text(VISITS)
    (typed,) = blocks(front, "sh")
    shell(textwrap.dedent(typed), folder)
    assert set((folder / "items.txt").read_text().split()) == {"bread", "milk"}


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.stem)
def test_the_examples_of_guides_run(guide: Path, folder: Path) -> None:
    assert blocks(guide, "python")
    python(blocks(guide, "python"), guide.name)
    if typed := blocks(guide, "sh"):
        rows = "".join(f"p{u},weather\np{u},disease {u}\n" for u in range(300))
        (folder / "searches.csv").write_text(f"person,query\n{rows}")
        shell("\n".join(typed), folder)
        assert "weather" in (folder / "items.csv").read_text()


def test_the_examples_of_guides_print_what_they_show(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("columns", "domains"):
        guide = ROOT / "docs" / "guides" / f"{name}.md"
        shown = "\n".join(blocks(guide, "python"))
        space = python([shown], guide.name)
        assert capsys.readouterr().out.splitlines() == re.findall(r"print\(.*\)  # (.*)", shown)
        for made in folder.glob("*.json"):
            made.unlink()
        if name == "columns":
            space["visits"].to_parquet(folder / "visits.parquet")
        else:
            space["people"].to_csv(folder / "people.csv", index=False)
        shell("\n".join(blocks(guide, "sh")), folder)
    assert '"fr","bread"' in (folder / "released.csv").read_text().splitlines()
    assert json.loads((folder / "domain.json").read_text())["sex"] == ["female", "male"]
    assert "France" in json.loads((folder / "places.json").read_text())["country > city"]


def test_the_examples_of_the_guide_to_text_run(folder: Path) -> None:
    guide = ROOT / "docs" / "guides" / "text.md"
    space = python(blocks(guide, "python"), "text.md")
    words, phrases = space["words"], space["phrases"]
    assert isinstance(words, dpsu.Release)
    assert isinstance(phrases, dpsu.Release)
    assert set(words.items) <= {"all", "fish", "for", "long", "so", "thanks", "the"}
    assert "thanks for all" in phrases
    assert space["matrix"].toarray().tolist() == [[0, 0, 2]]
    rows = "".join(f"w{u},Thanks for all the fish\n" for u in range(300))
    (folder / "posts.csv").write_text(f"writer,post\n{rows}")
    (typed,) = blocks(guide, "sh")
    shell(typed, folder)
    for name in ("phrases", "ngrams"):
        assert "thanks for all" in (folder / f"{name}.txt").read_text().splitlines()


def test_links_lead_somewhere() -> None:
    for page in ("README.md", "SECURITY.md", "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", (ROOT / page).read_text(encoding="utf-8")):
            assert link.startswith("http") or (ROOT / link).exists(), link
