"""What the pages on forecasts and comparisons show is what happens."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import dpsu

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(name: str, language: str) -> list[str]:
    return re.findall(
        rf"```{language}\n(.*?)```", (DOCS / "guides" / name).read_text("utf-8"), re.S
    )


@pytest.mark.parametrize("name", ["forecast.md", "compare.md"])
def test_python_examples_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    space: dict[str, object] = {}
    for block in blocks(name, "python"):
        exec(compile(block, name, "exec"), space)
    out = capsys.readouterr().out
    if name == "forecast.md":
        assert isinstance(space["seen"], dpsu.Forecast)
        assert (tmp_path / "plan.html").exists()
        assert out.startswith("Forecast for 3,000 users")
    else:
        assert out.startswith("NOT PRIVATE")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["forecast.md", "compare.md"])
def test_shell_examples_run(name: str, tmp_path: Path) -> None:
    texts = "".join(f"a{n},the quick brown fox and word {n}\n" for n in range(400))
    (tmp_path / "public_reviews.csv").write_text(f"author,body\n{texts}")
    words = "".join(f"a{n},{w}\n" for n in range(400) for w in ("good", "bad", f"typo {n}"))
    (tmp_path / "reviews.csv").write_text(f"author,word\n{words}")
    for block in blocks(name, "sh"):
        script = block.replace("dpsu ", f"{sys.executable} -m dpsu ")
        # Fewer made-up users are as good here, and a tenth of the work.
        script = script.replace("--users 30000", "--users 3000")
        done = subprocess.run(
            ["bash", "-ec", script], cwd=tmp_path, capture_output=True, check=False, text=True
        )
        assert done.returncode == 0, done.stderr
    made = {"forecast.md": ["plan.html"], "compare.md": ["compare.json", "compare.html"]}[name]
    assert all((tmp_path / file).exists() for file in made)


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


def test_pictures_are_small() -> None:
    for name in ("forecast.png", "compare.png"):
        assert (DOCS / "images" / name).stat().st_size < 200_000
