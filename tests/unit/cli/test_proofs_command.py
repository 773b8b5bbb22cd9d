"""`dpsu proofs`: what a report names can be read where the report is read."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from tools import stamp

import dpsu
from dpsu.cli import proofs as command
from dpsu.errors import DpsuError
from dpsu.plans.prose import proofs
from tests.unit.cli.test_cli import Run

PROMISE: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
STEMS = {proof.page.stem for proof in stamp.proofs()}


def test_every_proof_has_a_line(run: Run) -> None:
    code, out, err = run("proofs")
    assert (code, err) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert set(lines) == STEMS | {"index"}
    for about in lines.values():
        assert about.endswith(".")
    assert lines["sieve"].startswith("Sieve: many rounds, each steering the next. ")


def test_a_page_is_printed_without_its_head(run: Run) -> None:
    for name in sorted(STEMS | {"index"}):
        code, out, err = run("proofs", name)
        assert (code, err) == (0, ""), name
        assert out.startswith("# "), name
        assert "stamp: " not in out.partition("\n")[0], name
        assert "covers:\n" not in out, name
        page = (stamp.PROOFS / f"{name}.md").read_text(encoding="utf-8")
        assert page.endswith(out), name
        assert name == "index" or "**Claim.**" in out, name


def test_a_name_that_is_no_proof_is_a_usage_error(run: Run) -> None:
    for name in ["no-such-proof", "../../README", "/etc/passwd", "sieve.md", ""]:
        code, out, err = run("proofs", name)
        assert (code, out) == (2, ""), name
        assert "`dpsu proofs` lists them" in err, name
        assert ("did you mean 'sieve'?" in err) == (name == "sieve.md"), name


def named(text: str) -> set[str]:
    return set(re.findall(r"`dpsu proofs ([^`]*)`", text))


def test_plans_name_every_proof_they_rest_on() -> None:
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({"mechanism": "sieve"}, {"sieve", "orders", "noise"}),
        ({"mechanism": "sips"}, {"sips", "noise"}),
        ({"mechanism": "bits"}, {"bits", "orders", "coins", "noise"}),
        ({"mechanism": dpsu.Bits(items_per_user=9)}, {"bits", "orders", "coins"}),
        ({"mechanism": "greedy"}, {"optimal", "greedy", "orders", "coins"}),
        ({"mechanism": dpsu.Greedy(alpha=3)}, {"truncated-laplace", "greedy", "orders", "coins"}),
        ({"mechanism": dpsu.Greedy(prior={"a": 1})}, {"optimal", "greedy", "public", "orders"}),
        (
            {"mechanism": dpsu.Greedy(prior={"a": 1}, order="scarce", expected_users=1000)},
            {"optimal", "greedy", "public", "orders", "coins"},
        ),
        ({"mechanism": dpsu.PolicyGaussian()}, {"gaussian-joint", "l2-descent", "orders"}),
        ({"mechanism": dpsu.Reroute()}, {"gaussian-joint", "reroute", "coins"}),
        ({"mechanism": dpsu.CountLaplace(max_items=3)}, {"count", "truncated-laplace", "orders"}),
        ({"mechanism": dpsu.CountGaussian(calibration="paper")}, {"count", "gaussian", "orders"}),
        ({"mechanism": dpsu.WeightedLaplace()}, {"weighted", "truncated-laplace", "coins"}),
        ({"mechanism": dpsu.PolicyLaplace()}, {"truncated-laplace", "orders", "coins"}),
        ({"mechanism": dpsu.Greedy(calibration="paper", allow_unproven=True)}, {"greedy"}),
        ({"mechanism": dpsu.WeightedGaussian(min_users=5)}, {"gaussian", "weighted", "min-users"}),
        ({"mechanism": dpsu.Greedy(min_users=5)}, {"optimal", "greedy", "min-users"}),
        ({"mechanism": "auto"}, {"auto", "sieve", "bits", "optimal", "truncated-laplace"}),
        ({"mechanism": "sieve", "counts": True}, {"sieve", "counts", "noise"}),
        ({"mechanism": "greedy", "counts": True}, {"greedy", "counts", "coins", "noise"}),
        ({"mechanism": "sieve", "public_items": ["a"]}, {"sieve", "public"}),
        ({"mechanism": "sieve", "item": dpsu.Tokens("body")}, {"sieve", "text"}),
        ({"mechanism": "sieve", "item": dpsu.Values(["a"])}, {"sieve", "domains"}),
        ({"item": dpsu.Tokens("body"), "mechanism": "ngrams"}, {"ngrams", "text", "orders"}),
    ]
    for options, pages in cases:
        plan = dpsu.plan(**PROMISE, **options)
        # All plans name the ledger, among what their caller promises.
        assert "ledger" in named(str(plan)), options
        found = named(str(plan)) - {"ledger"}
        assert found == set(proofs(plan)), options
        assert pages <= found <= STEMS, options
        # Paths of the source tree lead nowhere once dpsu is installed.
        assert "docs/proofs" not in str(plan), options
        assert ("NONE: the published proof of greedy has a gap" in str(plan)) != plan.proven
        for page, there in (
            ("counts", plan.counts is not None),
            ("text", plan.text is not None),
            ("public", plan.public_items is not None or plan.prior is not None),
            ("min-users", plan.min_users is not None),
            ("coins", plan.rounds is None or plan.name == "bits"),
        ):
            assert (page in found) == there, options
        apart = plan.min_users is not None and plan.name == "weighted-gaussian"
        assert ("by the published curve" in str(plan)) == apart, options
        chosen = {"auto"} if options["mechanism"] == "auto" else set()
        assert {"select", "auto"} & found == chosen, options


def test_choices_that_were_paid_for_name_their_proofs() -> None:
    visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    estimated = dpsu.release(visits, mechanism=dpsu.Auto(budget=0.02), **PROMISE)
    assert {"auto", "noise"} <= named(str(estimated.plan))
    assert "auto" in json.loads(estimated.report_json())["proofs"]
    free = dpsu.plan(mechanism=dpsu.Auto(items_per_user=1), **PROMISE)
    assert "auto" not in named(str(free))
    best = dpsu.select(visits, [dpsu.plan(mechanism=each, **PROMISE) for each in ("sieve", "sips")])
    assert "select" in named(best.report())
    assert "select" in json.loads(best.report_json())["proofs"]


def test_pages_beside_the_code_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "proofs"
    shutil.copytree(stamp.PROOFS, installed)
    sieve = installed / "sieve.md"
    sieve.write_text(sieve.read_text("utf-8").replace("# Sieve", "# Installed sieve"), "utf-8")
    monkeypatch.setattr(command, "_FOLDERS", (installed, stamp.PROOFS))
    command.proof_pages.cache_clear()
    assert command.proof_page("sieve").title.startswith("Installed")
    monkeypatch.setattr(command, "_FOLDERS", (tmp_path / "nowhere",))
    command.proof_pages.cache_clear()
    with pytest.raises(DpsuError, match="not part of this installation"):
        command.proof_pages()
    monkeypatch.undo()
    command.proof_pages.cache_clear()
    assert command.proof_page("sieve").title.startswith("Sieve")
