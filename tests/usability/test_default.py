"""What newcomers who name no mechanism are told: which one is taken, why, and what it costs."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.plans.mechanisms.auto import Hints
from tests.support import flat
from tests.support.cases import every
from tests.unit.cli.test_cli import Run, run  # noqa: F401
from tests.usability.test_confusions import refused

PROMISE: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
TYPED = ("--epsilon", "1", "--delta", "1e-6")
VISITS = {f"u{user}": ["bread", f"own {user}"] for user in range(3000)}


# Options without a mechanism


@pytest.mark.parametrize("typed", [("--rounds", "1"), ("--max-items", "5")], ids=str)
def test_an_option_that_means_sieve_is_told_to_mean_sieve(
    run: Run,  # noqa: F811
    tmp_path: Path,
    typed: tuple[str, str],
) -> None:
    code, out, err = run("plan", *TYPED, *typed)
    assert code == 0
    assert re.search("^mechanism +sieve", out, re.MULTILINE)
    assert err.startswith(f"note: sieve and not auto, because {typed[0]} is an option of sieve")
    rows = tmp_path / "rows.csv"
    rows.write_text("user,item\n" + "".join(f"u{n},a\nu{n},b\n" for n in range(99)), "utf-8")
    code, out, err = run("release", rows, *TYPED, *typed)
    assert (code, out) == (0, "a\nb\n")
    assert err.count("note: sieve and not auto") == 1
    assert run("release", rows, *TYPED, *typed, "--quiet") == (0, "a\nb\n", "")


@every(
    "typed",
    [
        (),
        ("--mechanism", "sieve", "--rounds", "10"),
        ("--mechanism", "bits", "--rounds", "1"),
        ("--expected-items-per-user", "9"),
    ],
)
def test_who_gets_what_was_meant_is_told_nothing(run: Run, typed: tuple[str, ...]) -> None:  # noqa: F811
    code, _, err = run("plan", *TYPED, *typed)
    assert (code, err) == (0, "")


@every(
    ("options", "words"),
    [
        ({"order": "hash"}, ("has no option order, which greedy has; name it as mechanism",)),
        ({"alpha": 3.0}, ("which policy-laplace, policy-gaussian, greedy, reroute have",)),
        ({"alpha": 3.0, "passes": 2}, ("all of it (policy-laplace, policy-gaussian, greedy)",)),
        ({"rounds": 6, "passes": 2}, ("no mechanism has all of rounds, passes",)),
        ({"expected_items_per_user": 3, "rounds": 6}, ("which bits, auto have",)),
    ],
)
def test_an_option_of_others_says_that_none_was_named_and_who_has_it(
    options: dict[str, Any], words: tuple[str, ...]
) -> None:
    refused(lambda: flat.plan(**PROMISE, **options), "no mechanism was named", *words)


def test_help_says_what_is_taken_by_default(run: Run) -> None:  # noqa: F811
    told = {
        command: " ".join(run(command, "--help")[1].split()) for command in ("release", "audit")
    }
    assert "Default auto, or sieve where an option is given that auto lacks." in told["release"]
    assert "Default every mechanism that has a guarantee" in told["audit"]
    for text in told.values():
        assert "order scarce of greedy needs it, and auto chooses by it" in text
        assert "In bits: how often an item has a coin: 4 times, or once" in text
        assert text.count("In bits:") == 1


# Options of auto


def test_auto_that_prefers_speed_says_so_and_pays_for_no_estimate() -> None:
    refused(lambda: dpsu.Auto(prefer="speed", budget=0.1), "there is none (bits pays for its own)")
    hints = dpsu.plan(**PROMISE, mechanism=dpsu.Auto(prefer="speed")).hints
    assert hints is not None
    assert hints.epsilon == 0.0
    for auto in (dpsu.Auto(prefer="speed"), dpsu.Auto(prefer="speed", items_per_user=18)):
        plan = dpsu.plan(**PROMISE, mechanism=auto)
        assert plan.name == "bits"
        assert "auto: bits, because speed was preferred" in str(plan)
    for auto in (dpsu.Auto(users=3), dpsu.Auto(users=3, prefer="speed")):
        refused(partial(dpsu.plan, **PROMISE, mechanism=auto), "nothing can come out")


def test_a_public_number_of_users_is_made_use_of() -> None:
    """It takes the place of the estimated one, and so few that nothing comes out are refused."""
    estimated = Hints(20_000, 2.8, 0.01)
    for users, chosen in ((None, "sieve"), (100_000, "policy-laplace"), (5_000, "sieve")):
        plan = dpsu.plan(**PROMISE, mechanism=dpsu.Auto(users=users))
        made = plan.chosen(estimated)
        assert made.name == chosen
        known: dict[str, Any] = {
            "expected_users": users or 20_000,
            "users_known": users is not None,
        }
        assert made.hints == replace(estimated, **known)
        told = "about 20,000 users with" if users is None else f"{users:,} users (as expected) with"
        assert told in str(made)
        assert dpsu.Plan.from_json(made.to_json()) == made


# Plans and reports


def test_a_plan_says_which_candidate_its_number_of_users_is_for() -> None:
    plan = dpsu.plan(**PROMISE)
    text = str(plan)
    assert "by the candidate that needs most (bits, for hundreds of items per user, aside)" in text
    largest = dpsu.plan(**PROMISE).candidates[-2]
    assert largest.mechanism == dpsu.Sieve(max_items=1000)
    for weight in plan.needed.values():
        assert weight in largest.needed.values()
        people = largest.mechanism.people(largest.design, weight)  # type: ignore[arg-type]
        said = f"at weight {weight:.4g}: {people} (sieve, at most 1,000 items per user)"
        assert said in text
    assert "candidate" not in str(dpsu.plan(**PROMISE, mechanism="sieve"))


def test_a_report_says_which_hash_is_whose() -> None:
    made = dpsu.release(VISITS, **PROMISE)
    assert made.approved is not None
    text = made.report()
    assert f"by plan {made.approved.hash}." in text
    assert f"It left the choice open, and chose plan {made.plan.hash}, shown here." in text
    assert re.search(f"^chosen plan +{made.plan.hash[:16]}", text, re.MULTILINE)
    facts = json.loads(made.report_json())
    assert (facts["plan_hash"], facts["chosen_plan_hash"]) == (made.approved.hash, made.plan.hash)
    assert facts["plan"]["hash"] == made.plan.hash
    assert facts["approved"]["hash"] == made.approved.hash
    named = dpsu.release(VISITS, **PROMISE, mechanism="sieve")
    assert "chosen" not in named.report().splitlines()[1]
    assert json.loads(named.report_json())["chosen_plan_hash"] is None


def test_a_chosen_plan_runs_again_and_says_that_nothing_is_estimated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second run keeps the promise with less than it is charged, and by sums."""
    made = dpsu.release(VISITS, **PROMISE)
    assert made.approved is not None
    paid = made.plan.hints
    assert paid is not None
    monkeypatch.setattr("dpsu.engines.local.estimate", None)  # whoever estimates, fails
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    with pytest.warns(dpsu.DataWarning, match=r"none is made now: epsilon 0\.01 is set aside"):
        again = dpsu.release(VISITS, made.plan, ledger=ledger.dataset("v", budget=(3, 1e-5)))
    assert again.plan == made.plan
    assert again.approved is None
    assert "An earlier run chose this plan. Nothing was estimated in this one" in again.report()
    less = dpsu.plan(epsilon=1 - paid.epsilon, delta=1e-6, mechanism=made.plan.mechanism)
    assert less.design == again.plan.design
    (entry,) = ledger.account("v").releases
    assert entry.cost.privacy == dpsu.Privacy(1, 1e-6)
    assert entry.cost.shift is None


# The ledger


def releases_until_refused(ledger: dpsu.Ledger, mechanism: str) -> tuple[int, str]:
    """How many releases fit, and what the next one is told."""
    small = {"u": ["a"]}
    for done in range(20):
        spending = ledger.dataset(mechanism, budget=(3, 1e-5))
        try:
            dpsu.release(small, **PROMISE, mechanism=mechanism, ledger=spending)
        except dpsu.BudgetError as error:
            return done, str(error)
    raise AssertionError("no end of the budget")


def test_what_auto_costs_in_a_ledger_is_said(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    fitted, told = releases_until_refused(ledger, "auto")
    assert fitted == 3
    assert "no Gaussian account" in told
    assert "by sieve, named from the first, all of these would fit" in told
    fitted, told = releases_until_refused(ledger, "sieve")
    assert fitted == 8
    assert "no Gaussian account" not in told
    refused(
        lambda: dpsu.release({"u": ["a"]}, epsilon=0.5, delta=1e-6, ledger=ledger.dataset("sieve")),
        "Nothing was read or charged",
        kind=dpsu.BudgetError,
    )
    said = str(ledger.account("auto"))
    assert "3 without a Gaussian account (auto)" in said
    assert "names sieve" in said
    assert "without a Gaussian account" not in str(ledger.account("sieve"))
    assert "names sieve" in str(dpsu.plan(**PROMISE))
    assert "names sieve" not in str(dpsu.plan(**PROMISE, mechanism="sieve"))
    # A refusal names sieve where it has room.
    dataset = ledger.dataset("v", budget=(3, 1e-5))
    call = partial(dpsu.release, {"u": ["a"]}, **PROMISE, ledger=dataset)
    for _ in range(6):
        call(mechanism="sieve")
    refused(call, "the same price fits if you name sieve", kind=dpsu.BudgetError)
    assert call(mechanism="sieve").private
