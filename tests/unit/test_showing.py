"""How objects show themselves: in one line, in notebooks, while they are being made."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import types
import unicodedata
from collections.abc import Callable
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from tools.browser import MISSING, browser, there_is_a_browser

import dpsu
import dpsu.dask
import dpsu.spark
from dpsu.audits import Finding
from dpsu.cli import main
from dpsu.ledger.accounting import cost_of
from dpsu.ledger.records import Account, RecordedBudget, RecordedRelease
from dpsu.showing import progress as showing
from dpsu.showing.characters import harmless
from dpsu.showing.markup import escaped, short

EVIL = "<script>document.title='no'</script><img src=x onerror=\"document.title='no'\">"
RED = "#b3261e"
VISITS = {f"person {n}": ["bread", "milk"] for n in range(40)}
PLAN = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve")
TAGS = {
    "div", "p", "span", "strong", "table", "thead", "tbody", "tr", "th", "td", "details", "summary",
    "ul", "li",
}  # fmt: skip


class _Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(html: str) -> _Elements:
    found = _Elements()
    found.feed(html)
    found.close()
    return found


def assert_tame(html: str) -> None:
    """Nothing but elements and attributes of ours, and no character that is obeyed or unseen."""
    found = parsed(html)
    assert found.tags <= TAGS
    assert found.attributes <= {"class", "style", "scope"}
    assert not [c for c in html if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def a_release(items: list[Any], counts: list[int] | None = None, **options: Any) -> dpsu.Release:
    options = {"mechanism": "sieve"} | options
    plan = dpsu.plan(epsilon=1, delta=1e-6, counts=counts is not None, **options)
    return dpsu.Release(plan, pa.array(items), None if counts is None else pa.array(counts))


def an_account(spent: int = 0, **changes: Any) -> Account:
    time, cost = "2025-03-03T08:00:12+00:00", cost_of(PLAN)
    releases = tuple(
        RecordedRelease(number, "visits", time, "sieve", cost, "done", "run", None, None, None)
        for number in range(2, 2 + spent)
    )
    return replace(Account("visits", dpsu.Privacy(3.0, 1e-5), releases), **changes)


# Items are text of strangers.


def test_items_and_names_are_shown_as_text_and_obeyed_nowhere() -> None:
    items = [
        EVIL, "</td></tr></table><script>", "\x00\x07\x1b[31mred\x7f\x9b",
        "abc\u202edef\u2066\u2028\u2029", "a\r\nb\tc", "&lt;b&gt; &amp; \"'`", "\ufeff\U000e0041",
    ]  # fmt: skip
    for item in items:
        for shown in (a_release([item]), a_release([item], [7])):
            html = shown._repr_html_()
            assert_tame(html)
            assert harmless(item) in "".join(parsed(html).text), item
    named = a_release(["bread"], item=EVIL, user=f"{EVIL}2")
    for each in (named, named.plan, an_account(1, dataset=EVIL)):
        assert_tame(each._repr_html_())
        assert "\n" not in repr(each)


def test_what_no_markup_is_made_of() -> None:
    assert escaped("\udc80a\ud83d").encode() == rb"\udc80a\ud83d"
    # Joiners stay where scripts need them.
    for text in ("\U0001f469\u200d\U0001f52c", "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645"):
        assert harmless(text) == text
    assert short("x" * 80) == "x" * 80
    html = a_release(["x" * 100_000])._repr_html_()
    assert len(html) < 2000
    assert "…" in html


# What each object shows.


def test_a_release_shows_its_first_items_beside_their_counts_and_how_many_more() -> None:
    numbers = list(range(100, 125))
    made = a_release([f"item {n}" for n in numbers], [n * 11 for n in numbers])
    text = "|".join(parsed(made._repr_html_()).text)
    assert "item|noisy_users|item 100|1,100|item 101|1,111|" in text
    assert "item 109" in text
    assert "item 110" not in text
    assert "… and 15 more" in text
    assert "standard error" in text
    assert "(1, 1e-06)-differential privacy" in text
    text = "".join(parsed(a_release([])._repr_html_()).text)
    assert "0 items released by sieve" in text
    assert "needs" in text
    assert ">-3</td>" in a_release([-3, 5])._repr_html_()


def test_only_what_is_not_private_says_so_in_red() -> None:
    for kept, seed in ((True, None), (False, 3)):
        made = a_release(["bread"], insecure_seed=seed)
        for shown in (made, made.plan):
            assert shown.private == kept
            html = shown._repr_html_()
            assert (RED in html) != kept
            assert ("NOT PRIVATE" in html) != kept
            assert repr(shown).endswith(f"private={kept}>")


def test_a_plan_shows_its_guarantee_first_and_all_facts_of_its_text() -> None:
    for each in (dpsu.Sieve(), dpsu.Greedy(), dpsu.CountLaplace(max_items=3)):
        plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism=each, counts=True)
        found = parsed(plan._repr_html_())
        assert found.text[0] == "guarantee"
        shown = " ".join("".join(found.text).split())
        for line in str(plan).splitlines():
            # Names stand in columns of their own; what follows them is a cell.
            cell = line.strip().removeprefix("- ").split("  ")[-1].strip()
            assert " ".join(cell.split(" ")[1:]) in shown
        assert_tame(plan._repr_html_())


def test_a_forecast_shows_mechanisms_and_findings_the_worst_in_red() -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6)
    poor = dpsu.forecast(plan, users=9, items_per_user=3, mechanisms=["greedy"], progress=False)
    html = poor._repr_html_()
    text = "".join(parsed(html).text)
    assert_tame(html)
    assert poor.hopeless
    assert RED in html
    assert "STOP" in text
    assert "auto (planned)" in text
    assert "greedy" in text
    assert repr(poor) == "<Forecast: about 0 items (0 to <0.01) by auto, hopeless>"


def test_a_comparison_warns_in_red_and_its_line_tells_nothing_of_the_data() -> None:
    data = {f"person {n}": [f"{EVIL} {n % 7}"] for n in range(163)}
    found = dpsu.compare(data, epsilon=1, delta=1e-6, mechanisms=["weighted-gaussian"], runs=1)
    html = found._repr_html_()
    assert_tame(html)
    assert html.index(RED) < html.index("163")
    assert "do not publish" in html
    assert "NOT PRIVATE" in html
    assert repr(found) == "<Comparison of 1 mechanism: NOT PRIVATE, do not publish>"


def test_an_audit_shows_pass_or_fail_for_every_scenario() -> None:
    plan = dpsu.plan(epsilon=1, delta=0.05, mechanism="weighted-gaussian")
    fine = Finding(EVIL, "delta", "shown, present", 0.03, 0.02, 0.05, 4000)
    passed = dpsu.Audit(plan, (fine,))
    failed = dpsu.Audit(plan, (fine, Finding("far", "epsilon", "x", 2.5, 2.125, 1.0, 4000)))
    assert repr(passed) == "<Audit of weighted-gaussian, tight, max items 100: pass>"
    assert RED not in passed._repr_html_()
    assert "FAIL" not in str(passed)
    for told in (failed._repr_html_(), str(failed)):
        assert "FAIL" in told
        assert "2.125" in told
    assert RED in failed._repr_html_()
    assert_tame(failed._repr_html_())
    assert str(failed).splitlines()[0] == repr(failed)[10:-1]


# Accounts.


def test_an_account_tells_what_is_spent_and_left_by_both_accounts() -> None:
    account = an_account(2)
    spent, left = account.spent, account.left
    assert (spent.sums.epsilon, spent.sums.delta) == (2.0, 2e-6)
    assert left.sums.epsilon == 1.0
    assert left.sums.delta == pytest.approx(8e-6)
    assert spent.gaussian.epsilon == account.total.gaussian_epsilon(1e-5)
    assert spent.gaussian.delta == float(account.total.gaussian_delta(3.0))
    assert left.gaussian.epsilon == 3.0 - spent.gaussian.epsilon
    assert "epsilon 2, delta 2e-06; left: epsilon 1, delta 8e-06" in str(account)
    expected = "<Account 'visits': epsilon 2 of 3, delta 2e-06 of 1e-05 spent by sums>"
    assert repr(account) == expected


def test_what_is_left_is_neither_below_zero_nor_above_the_budget() -> None:
    fresh, spent, ended = an_account(), an_account(9), an_account(400)
    nothing, whole = dpsu.Privacy(1e-3, 1e-7), dpsu.Privacy(3.0, 1e-5)
    for each, budget, left in (
        (fresh, whole, (3.0, 1e-5)),
        (spent, nothing, (0.0, 0.0)),
        (spent, dpsu.Privacy(1.0, 1e-7), (0.0, 0.0)),
    ):
        account = replace(each, budget=budget)
        for amount in (account.left.sums, account.left.gaussian):
            assert (amount.epsilon, amount.delta) == left
        assert_tame(account._repr_html_())
    for amount in (fresh.spent.sums, fresh.spent.gaussian):
        assert (amount.epsilon, amount.delta) == (0.0, 0.0)
    # No epsilon would do.
    ended = replace(ended, budget=dpsu.Privacy(3.0, 1e-9))
    assert ended.spent.gaussian.epsilon == float("inf")
    assert ended.left.gaussian.epsilon == 0.0
    assert "no epsilon of 3" in str(ended)
    assert "none" in ended._repr_html_()
    # The newest ten of many releases are shown.
    text = "|".join(parsed(an_account(12)._repr_html_()).text)
    assert "2 older releases" in text
    assert text.count("2025-03-03 08:00:12") == 10
    assert "|13|" in text


def test_earlier_budgets_are_shown_by_the_account_and_the_command(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    dpsu.release(VISITS, PLAN, ledger=ledger.dataset("visits", budget=(3.14159, 1e-5)))
    ledger.set_budget("visits", (5, 1e-5))
    ledger.set_budget("visits", (4, 2e-5))
    account = ledger.account("visits")
    assert account.budget == dpsu.Privacy(4, 2e-5)
    assert [(each.number, each.privacy) for each in account.earlier_budgets] == [
        (1, dpsu.Privacy(3.14159, 1e-5)),
        (4, dpsu.Privacy(5, 1e-5)),
    ]
    assert all(isinstance(each, RecordedBudget) for each in account.earlier_budgets)
    for told in (str(account), account._repr_html_()):
        assert "earlier budget: epsilon 3.14159, delta 1e-05, set 20" in told
        assert "(entry 4)" in told
    command = ["dpsu", "ledger", str(tmp_path / "ledger.db")]
    for arguments in (command, [*command, "--json"]):
        monkeypatch.setattr(sys, "argv", arguments)
        main()
        out = capfd.readouterr().out
        assert "--json" in arguments or "earlier budget: epsilon 5, delta 1e-05" in out
    (told,) = json.loads(out)["datasets"]
    assert [each["epsilon"] for each in told["earlier_budgets"]] == [3.14159, 5]
    assert told["left"]["sums"]["epsilon"] == 3


# Releases as sequences.


def test_a_release_has_places_and_slices() -> None:
    made = a_release(["bread", "milk", "tea"])
    assert made[0] == "bread"
    assert made[-1] == "tea"
    assert made[:2] == ("bread", "milk")
    assert made[::-1] == ("tea", "milk", "bread")
    assert made[:10] == made.items
    with pytest.raises(IndexError):
        made[3]
    assert made == a_release(["bread", "milk", "tea"])
    assert made != a_release(["bread", "milk"])
    assert a_release(["bread", "milk"], [7, -2]).to_dict() == {"bread": 7, "milk": -2}
    assert a_release([3, 5]).to_dict() == {3: None, 5: None}
    assert a_release([]).to_dict() == {}
    on_spark = dpsu.spark.SparkRelease(made, None)  # type: ignore[arg-type]
    assert len(on_spark) == 3
    assert repr(on_spark) == "<SparkRelease: 3 items by sieve, private=True>"
    assert on_spark._repr_html_() == made._repr_html_()


# The public names.


def test_completion_offers_public_names_only() -> None:
    dunders = {"__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"}
    assert dir(dpsu) == sorted({*dpsu.__all__, *dunders, "dask", "spark"})
    assert all(hasattr(dpsu, name) for name in dir(dpsu))
    public = {name for name in dir(dpsu.Query("duckdb:x", "select 1")) if not name.startswith("_")}
    assert public == {"source", "query", "shown", "rows"}


# Progress.


class _Kept:
    """A bar that nobody sees."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str, int | None, int | None]] = []

    def show(
        self, what: str, told: str = "", done: int | None = None, total: int | None = None
    ) -> None:
        self.shown.append((what, told, done, total))


CALLS: dict[str, Callable[..., Any]] = {
    "release": partial(dpsu.release, VISITS, PLAN),
    "forecast": partial(dpsu.forecast, PLAN, users=50, items_per_user=3, mechanisms=[]),
    "compare": partial(
        dpsu.compare, VISITS, epsilon=1, delta=1e-6, mechanisms=["weighted-gaussian"], runs=1
    ),
    "audit": partial(
        dpsu.audit,
        dpsu.plan(epsilon=1, delta=0.05, mechanism=dpsu.WeightedGaussian(max_items=2)),
        trials=4000,
    ),
}


def test_progress_may_be_a_function_true_or_false(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doing = {"forecast": "forecasting", "compare": "comparing", "audit": "auditing"}
    for name, call in CALLS.items():
        told: list[tuple[Any, ...]] = []
        call(progress=lambda *parts, told=told: told.append(parts))
        assert told, name
        for silent in (False, True):
            call(progress=silent)
        # Standard error is no terminal here, so that no bar would be seen.
        assert capsys.readouterr().err == "", name
        for wrong in ("yes", 1, 0):
            with pytest.raises(dpsu.ParameterError, match=r"progress=.* is neither a function nor"):
                call(progress=wrong)
        bar = _Kept()
        with monkeypatch.context() as patch:
            patch.setattr(showing, "visible_bar", lambda bar=bar: nullcontext(bar))
            call(progress=True)
        if name == "release":
            assert bar.shown[0][0] == "reading"
            rows = [(what, told.split(",")[0]) for what, told, *_ in bar.shown]
            assert ("reading", "80 rows") in rows
        else:
            assert doing[name] in [what for what, *_ in bar.shown]
            assert bar.shown[-1][2] == bar.shown[-1][3], name


def test_a_release_on_a_cluster_tells_its_stages() -> None:
    frames = pytest.importorskip("dask.dataframe")
    table = pd.DataFrame({"user": [*range(90)] * 2, "item": ["bread", "milk"] * 90})
    stages = ["reading", "choosing items", "counting users"]
    for counts in (False, True):
        plan = dpsu.plan(epsilon=9, delta=0.1, mechanism="sieve", counts=counts)
        told: list[tuple[str, int]] = []
        frame = frames.from_pandas(table, npartitions=1)
        dpsu.dask.release(frame, plan, progress=lambda *stage, told=told: told.append(stage))
        assert [stage for stage, _ in told] == stages[: 2 + counts]
        door: Any
        for door in (dpsu.dask.release, dpsu.spark.release):
            with pytest.raises(dpsu.ParameterError, match="progress='yes'"):
                door(frame, plan, progress="yes")


def test_a_bar_is_gone_when_a_release_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    @contextmanager
    def bar() -> Any:
        try:
            yield _Kept()
        finally:
            closed.append(True)

    monkeypatch.setattr(showing, "visible_bar", bar)
    with pytest.raises(dpsu.DataError):
        dpsu.release([("u", 1.5)], epsilon=1, delta=1e-6, strict=True, progress=True)
    assert closed == [True]


def test_in_a_notebook_one_output_is_updated_and_then_emptied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    states: list[str] = []

    class Handle:
        def update(self, shown: Any) -> None:
            states.append(shown._repr_html_())

    def display(shown: Any, *, display_id: bool) -> Handle:
        assert display_id
        assert repr(shown) == ""
        return Handle()

    fake = types.ModuleType("IPython.display")
    fake.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", fake)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(showing, "SECONDS_BETWEEN_UPDATES", 0.0)
    with showing.steps(True, f"trying {EVIL}") as tell:
        tell(0, 0)
        tell(3, 10)
    assert parsed(states[0]).tags == {"progress"}
    assert '<progress value="3" max="10"></progress>' in states[1]
    assert parsed(states[1]).tags == {"progress"}
    assert states[-1] == ""


def test_a_terminal_that_is_gone_does_not_end_a_release(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: object) -> None:
        raise OSError(5, "Input/output error")

    terminal = types.SimpleNamespace(
        encoding="utf-8", isatty=lambda: True, write=gone, flush=gone, fileno=gone
    )
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert len(dpsu.release(VISITS, PLAN, progress=True)) in (0, 1, 2)


def test_a_bar_in_a_terminal_leaves_standard_output_alone() -> None:
    code = (
        "import dpsu\n"
        "from dpsu.showing.progress import visible_bar\n"
        "with visible_bar() as bar:\n"
        "    bar.show('[red]reading[/red]', '7 rows')\n"
        "    print('to standard output')\n"
        "    bar._drawn.refresh()\n"
    )
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb") as terminal:
        running = subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=terminal,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
        )  # fmt: skip
    shown = b""
    with suppress(OSError):  # how a terminal ends
        while read := os.read(ours, 4096):
            shown += read
    os.close(ours)
    out, _ = running.communicate(timeout=300)
    assert running.returncode == 0
    assert out == b"to standard output\n"
    # Names of stages are no markup of rich, and the cursor is back at the end.
    assert b"[red]reading[/red]" in shown
    assert b"7 rows" in shown
    assert shown.rstrip().rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")


# In a browser.


@pytest.mark.thorough
@pytest.mark.skipif(not there_is_a_browser(), reason=MISSING)
@pytest.mark.parametrize("dark", [False, True])
def test_in_a_browser_nothing_runs_and_everything_fits(dark: bool, tmp_path: Path) -> None:
    shown: list[Any] = [
        a_release([EVIL, "bread"], [5, 6], insecure_seed=1),
        dpsu.plan(epsilon=1, delta=1e-6),
        an_account(2, dataset=EVIL),
    ]
    page = tmp_path / "page.html"
    look = "body{background:#111;color:#ddd}" if dark else ""
    parts = "".join(each._repr_html_() for each in shown)
    page.write_text(
        f"<!doctype html><meta charset=utf-8><title>yes</title><style>{look}</style>{parts}",
        encoding="utf-8",
    )
    with browser(900, 1200, dark=dark) as driver:
        driver.get(page.as_uri())
        assert driver.title == "yes"
        assert not driver.find_elements("css selector", "script, img")
        assert driver.find_element("css selector", "td").text == EVIL
        wide = "return document.documentElement.scrollWidth <= window.innerWidth"
        assert driver.execute_script(wide)
        colors = {
            driver.execute_script("return getComputedStyle(arguments[0]).color", cell)
            for cell in driver.find_elements("css selector", "td, th, p")
        }
        assert colors == {"rgb(221, 221, 221)" if dark else "rgb(0, 0, 0)"}
