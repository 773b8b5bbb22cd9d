"""What the pages on forecasts and comparisons show is what happens."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import dpsu
from tests.docs.test_docs import ROOT, blocks
from tests.support.examples import python, shell

DOCS = ROOT / "docs"


def test_python_examples_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space = python(blocks(DOCS / "guides" / "forecast.md", "python"), "forecast.md")
    assert isinstance(space["seen"], dpsu.Forecast)
    assert (tmp_path / "plan.html").exists()
    assert capsys.readouterr().out.startswith("Forecast for 3,000 users")
    python(blocks(DOCS / "guides" / "compare.md", "python"), "compare.md")
    assert capsys.readouterr().out.startswith("NOT PRIVATE")


@pytest.mark.thorough
def test_shell_examples_run(tmp_path: Path) -> None:
    texts = "".join(f"a{n},the quick brown fox and word {n}\n" for n in range(400))
    (tmp_path / "public_reviews.csv").write_text(f"author,body\n{texts}")
    words = "".join(f"a{n},{w}\n" for n in range(400) for w in ("good", "bad", f"typo {n}"))
    (tmp_path / "reviews.csv").write_text(f"author,word\n{words}")
    for name in ("forecast.md", "compare.md"):
        for block in blocks(DOCS / "guides" / name, "sh"):
            # Fewer made-up users are as good here, and a tenth of the work.
            shell(block.replace("--users 30000", "--users 3000"), tmp_path)
    for made in ("plan.html", "compare.json", "compare.html"):
        assert (tmp_path / made).exists()


def test_numbers_in_the_words_are_those_of_the_software() -> None:
    told = (DOCS / "guides" / "forecast.md").read_text("utf-8")
    poor = dpsu.forecast(
        dpsu.plan(epsilon=0.1, delta=1e-9), users=150, items_per_user=20, mechanisms=[]
    )
    said = re.sub(r"\s+", " ", told)
    assert poor.findings[0].text[1:] in said
    plan = dpsu.plan(epsilon=1, delta=1e-7)
    assert "at weight 30.74: 31 users who hold nothing else that is still open" in str(plan)
    assert "31 users *who hold nothing else that is still open*" in said
