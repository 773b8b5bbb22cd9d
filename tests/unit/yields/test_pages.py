"""Pages: one file each, without any network, and alive in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tools.browser import MISSING, browser, there_is_a_browser

import dpsu
from dpsu.plans.mechanisms import MECHANISMS

NAMES = ("sieve", "weighted-gaussian", "count-laplace")
needs_a_browser = pytest.mark.skipif(not there_is_a_browser(), reason=MISSING)


@pytest.fixture(scope="module")
def forecast() -> dpsu.Forecast:
    return dpsu.forecast(dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve", user='<b>"who"</b> {{data}} </script>'), users=1500, items_per_user=6, vocabulary=2000, mechanisms=NAMES)  # fmt: skip


@pytest.fixture(scope="module")
def comparison() -> dpsu.Comparison:
    data = {f"u{n}": ["a", "b", "c", f"d {n % 40}", f"own {n}"] for n in range(600)}
    return dpsu.compare(data, epsilon=2, delta=1e-5, mechanisms=NAMES, runs=2)


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_pages_need_nothing_from_elsewhere(
    forecast: dpsu.Forecast, comparison: dpsu.Comparison
) -> None:
    for page in (forecast.to_html(), comparison.to_html()):
        outside = re.sub(r'const NS = "http://www.w3.org/2000/svg";', "", page)
        assert not re.search(
            r"https?://|//cdn|@import|url\(|<img|<iframe|<link(?! rel=.icon)", outside
        )
        assert "default-src 'none'" in page
        assert page.count("<script") == 2
        assert 'lang="en"' in page
    # What was typed is text and not markup, and its braces are no place to fill in.
    page = forecast.to_html()
    assert "<b>&quot;who" not in page
    assert "&lt;b&gt;" in page
    assert page.count("</script>") == 2
    assert page.count('"series":') == 1
    assert "{{data}}" in page


def test_tables_hold_all_numbers_of_the_plots(
    forecast: dpsu.Forecast, comparison: dpsu.Comparison
) -> None:
    page = forecast.to_html()
    plots = {plot["id"]: plot for plot in data_of(page)["plots"]}
    assert set(plots) == {"epsilon", "max_items"}
    for line in plots["epsilon"]["lines"]:
        drawn = dict(zip(plots["epsilon"]["xs"], line["ys"], strict=True))
        points = [p for p in forecast.by_epsilon if p.mechanism == line["name"]]
        assert drawn == {point.epsilon: point.released for point in points}
    assert page.count("<details>") == 2
    for name in NAMES:
        assert f'<th scope="row">{name}</th>' in page
    other = {plot["id"]: plot for plot in data_of(comparison.to_html())["plots"]}
    assert set(other) == {"coverage", "bands"}
    for line, row in zip(other["bands"]["lines"], comparison.rows, strict=True):
        there = [(b, n) for b, n in zip(comparison.bands, row.by_band, strict=True) if b.items]
        assert line["ys"] == [n / band.items for band, n in there]


def test_every_mechanism_has_a_look_of_its_own() -> None:
    from dpsu.yields.pages.parts import series_of

    looks = [(one.color, one.dash) for one in series_of([(name, name) for name in MECHANISMS])]
    assert len(set(looks)) == len(MECHANISMS)
    sizes = series_of([(f"sieve, {size}", "sieve") for size in (10, 30, 100)])
    assert len({one.dash for one in sizes}) == 3


def test_stops_come_first(tmp_path: Path) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    poor = dpsu.forecast(plan, users=9, items_per_user=5, mechanisms=["greedy"])
    page = poor.to_html()
    assert page.index('<li class="stop">') < page.index('<dl class="facts">')
    with pytest.raises(dpsu.ParameterError, match=r"must end in \.html"):
        poor.write_html(tmp_path / "page.pdf")
    poor.write_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text("utf-8") == page


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as opened:
        yield opened


def opened(driver: Any, page: str, folder: Path) -> None:
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    driver.get_log("performance")
    driver.get_log("browser")
    driver.get(path.as_uri())


def complaints(driver: Any) -> tuple[list[Any], list[str]]:
    """Console messages, and addresses asked for other than the page itself."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]
    own = ("file://", "data:")
    return driver.get_log("browser"), [url for url in asked if not url.startswith(own)]


def paths(driver: Any, plot: str) -> dict[str, str]:
    found = driver.find_elements("css selector", f"#plot-{plot} path[data-series]")
    return {path.get_attribute("data-series"): path.get_attribute("d") for path in found}


@needs_a_browser
def test_a_forecast_in_a_browser(driver: Any, forecast: dpsu.Forecast, tmp_path: Path) -> None:
    from selenium.webdriver import ActionChains

    opened(driver, forecast.to_html(), tmp_path)
    assert driver.title == "Forecast: sieve at epsilon 1"
    for plot in ("epsilon", "max_items"):
        assert set(paths(driver, plot)) == set(NAMES)
        svg = driver.find_element("css selector", f"#plot-{plot} svg")
        assert svg.size["width"] > 300
        assert svg.get_attribute("role") == "img"
    before = paths(driver, "epsilon")
    chip = driver.find_element("css selector", "button[data-series=sieve]")
    chip.click()
    after = paths(driver, "epsilon")
    assert chip.get_attribute("aria-pressed") == "false"
    assert set(after) == set(NAMES) - {"sieve"}
    # Without the best the axis is rescaled, so that the others rise.
    assert after["weighted-gaussian"] != before["weighted-gaussian"]
    row = driver.find_element("css selector", "tr[data-series=sieve]")
    assert not row.is_displayed()
    chip.click()
    assert paths(driver, "epsilon") == before
    driver.find_element("id", "scale").click()
    assert paths(driver, "epsilon")["sieve"] != before["sieve"]
    # Numbers follow the pointer.
    svg = driver.find_element("css selector", "#plot-epsilon svg")
    ActionChains(driver).move_to_element(svg).perform()
    tip = driver.find_element("css selector", "#plot-epsilon .tip")
    assert tip.is_displayed()
    assert "epsilon: 1" in tip.text
    here = next(p for p in forecast.by_mechanism if p.mechanism == "weighted-gaussian")
    assert f"{here.released:,.0f}" in tip.text
    driver.find_element("css selector", "figure summary").click()
    assert driver.find_element("css selector", "figure details table").is_displayed()
    assert complaints(driver) == ([], [])


@needs_a_browser
def test_a_comparison_in_a_browser(
    driver: Any, comparison: dpsu.Comparison, tmp_path: Path
) -> None:
    opened(driver, comparison.to_html(), tmp_path)
    assert driver.title.startswith("NOT PRIVATE")
    warning = driver.find_element("css selector", ".warning")
    assert warning.is_displayed()
    assert "do not publish" in warning.text
    labels = {row.label for row in comparison.rows}
    assert set(paths(driver, "coverage")) == set(paths(driver, "bands")) == labels
    driver.find_element("css selector", "#controls button").click()
    assert len(paths(driver, "bands")) == len(labels) - 1
    assert complaints(driver) == ([], [])
    refused = driver.execute_async_script(
        "const done = arguments[0];"
        "fetch('http://127.0.0.1:9/').then(() => done('sent'), () => done('refused'));"
    )
    assert refused == "refused"
    said, _ = complaints(driver)
    assert any("Content Security Policy" in entry["message"] for entry in said)


def test_notebooks_show_other_epsilons_and_sizes_too() -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    seen = dpsu.forecast(plan, users=200, items_per_user=3, mechanisms=["greedy"])
    page = seen._repr_html_()
    assert page.count("<table>") == 3
    for words in ("Expected items by epsilon", "Expected items by max_items", ">0.25<", ">300<"):
        assert words in page
