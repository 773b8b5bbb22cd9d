"""The site in a real browser: it fits its window, shows its formulas, and asks nobody for anything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.browser import MISSING, browser, resize, there_is_a_browser

ROOT = Path(__file__).resolve().parents[2]
PHONE, DESKTOP = 390, 1280
LOOK = """
const all = (selector) => [...document.querySelectorAll(selector)];
return {
  beyond: document.documentElement.scrollWidth - innerWidth,
  wideCode: all("pre > code").filter((code) => code.scrollWidth > code.clientWidth + 1).length,
  plainFormulas: all(".arithmatex").filter((each) => !each.querySelector(".katex")).length,
  wrongFormulas: all(".katex-error").length,
  missingImages: all("img").filter((image) => !image.naturalWidth).length,
};
"""
GOOD = {"beyond": 0, "plainFormulas": 0, "wrongFormulas": 0, "missingImages": 0}

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once, without a warning."""
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT, capture_output=True, check=False, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    if not there_is_a_browser():
        pytest.skip(MISSING)
    with browser(DESKTOP) as opened:
        yield opened


def asked(driver: Any) -> list[str]:
    """Addresses that pages asked for since this was last called."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


@pytest.mark.thorough
def test_no_page_is_wider_than_its_window(driver: Any, site: Path) -> None:
    asked(driver)  # what an empty window asked for is not the site's doing
    wrong = []
    for page in sorted(site.rglob("*.html")):
        driver.get(page.as_uri())
        for width in (DESKTOP, PHONE):
            resize(driver, width)
            seen = driver.execute_script(LOOK)
            wide_code = seen.pop("wideCode")
            if seen != GOOD or (width == DESKTOP and wide_code):
                wrong.append((str(page.relative_to(site)), width, seen, wide_code))
    assert wrong == []
    assert {url for url in asked(driver) if not url.startswith(("file:", "data:"))} == set()


@pytest.mark.thorough
def test_a_wide_table_scrolls_in_its_own_box(driver: Any, site: Path) -> None:
    resize(driver, PHONE)
    driver.get((site / "figures" / "yields" / "index.html").as_uri())
    widths = driver.execute_script(
        "const table = document.querySelector('table');"
        "const box = table.closest('.md-typeset__scrollwrap') ?? table;"
        "return [box.scrollWidth, box.clientWidth, getComputedStyle(box).overflowX];"
    )
    assert widths[0] > widths[1]
    assert widths[2] == "auto"


def test_formulas_are_typeset_without_a_network(driver: Any, site: Path) -> None:
    resize(driver, DESKTOP)
    driver.get((site / "proofs" / "sieve" / "index.html").as_uri())
    shown = driver.find_elements("css selector", ".katex-display")
    assert len(shown) == 5
    loaded = driver.execute_script(
        "return document.fonts.ready.then((fonts) => "
        "[...fonts].filter((font) => font.status === 'loaded').map((font) => font.family));"
    )
    assert "KaTeX_Main" in {family.strip('"') for family in loaded}
