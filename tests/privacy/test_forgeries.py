"""Nothing that says private is not: plans, mechanisms and accounts that somebody tampered with."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar

import pytest

import dpsu
from dpsu.inputs.columns import Items
from dpsu.plans.mechanisms import MECHANISMS, Design
from dpsu.plans.public_data import PublicData
from dpsu.plans.written import plan_hash
from tests.support.cases import every

ALONE = {f"person {n}": [f"secret {n}"] for n in range(400)}
VISITS = {f"person {n}": ["bread", f"secret {n}"] for n in range(400)}
BUDGET: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}


def edit_everything(value: Any) -> None:
    """Change every part of nested values in place."""
    for name in list(value) if isinstance(value, dict) else range(len(value)):
        if isinstance(value[name], (dict, list)):
            edit_everything(value[name])
        else:
            value[name] = 1e-9


@every("name", [name for name, kind in MECHANISMS.items() if not kind.by_length])
def test_what_a_plan_hands_out_is_not_the_plan(name: str) -> None:
    usual = {"max_items": 3} if name == "count-laplace" else {}
    plan = dpsu.plan(**BUDGET, mechanism=dpsu.mechanism(name, **usual), counts=True)
    before, kept = plan.to_json(), copy.deepcopy(plan)
    edit_everything(plan.to_dict())
    assert plan == kept
    assert plan.to_json() == before
    assert dpsu.Plan.from_dict(plan.to_dict()) == plan


def test_a_class_that_designs_otherwise_needs_a_name_of_its_own() -> None:
    @dataclass(frozen=True, kw_only=True)
    class Mine(dpsu.WeightedGaussian):
        def design(self, privacy: dpsu.Privacy) -> Design:
            return super().design(dpsu.Privacy(50, 0.4))

    with pytest.raises(dpsu.ParameterError, match="is not the mechanism 'weighted-gaussian'"):
        dpsu.plan(**BUDGET, mechanism=Mine())
    with pytest.raises(dpsu.ParameterError, match="a mechanism 'sieve' already"):

        @dataclass(frozen=True, kw_only=True)
        class Other(dpsu.WeightedGaussian):
            name: ClassVar[str] = "sieve"

    with pytest.raises(dpsu.ParameterError, match="a mechanism 'sieve' already"):
        type("Sieve", (dpsu.Sieve,), {"name": "sieve", "__module__": __name__})
    assert MECHANISMS["sieve"] is dpsu.Sieve


def test_public_data_in_hand_are_those_that_the_plan_names() -> None:
    plan = dpsu.plan(**BUDGET, public_items=["secret 1"])
    other = dpsu.plan(**BUDGET, public_items=["bread"])
    for forged in (
        replace(plan, public_items=None),
        replace(plan, public_items=other.public_items),
        plan.with_knowledge(PublicData(public_items=other.knowledge.public_items)),
    ):
        with pytest.raises(dpsu.ParameterError, match="another public_items than it says"):
            dpsu.release(VISITS, forged)
    guided = dpsu.plan(**BUDGET, mechanism=dpsu.Greedy(prior={"bread": 1}))
    assert guided.with_mechanism(dpsu.Sieve()).knowledge.prior is None


def test_private_data_are_never_public(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pandas as pd

    private, copied = tmp_path / "private.csv", tmp_path / "copy.csv"
    private.write_text("user,item\n" + "".join(f"{u},secret {u}\n" for u in range(50)))
    copied.write_text(private.read_text())
    monkeypatch.chdir(tmp_path)
    relative = dpsu.plan(**BUDGET, public_items="private.csv")
    monkeypatch.chdir("/")
    for again in ({}, {"public_items": copied}):
        with pytest.raises(dpsu.ParameterError, match="the file of the confidential data"):
            dpsu.release(private, relative, **again)  # type: ignore[arg-type]
    frame = pd.read_csv(private)
    for option in (
        {"public_items": frame},
        {"mechanism": dpsu.WeightedGaussian(prior=frame)},
    ):
        with pytest.raises(dpsu.ParameterError, match="also given as public"):
            dpsu.release(frame, **BUDGET, **option)


def forged(plan: dpsu.Plan, **parts: Any) -> str:
    """A plan whose decided parts were changed, with a hash that fits them."""
    values = plan.to_dict() | parts
    decided = {name: part for name, part in values.items() if name not in ("derived", "hash")}
    try:
        values["hash"] = plan_hash(decided)
    except dpsu.ParameterError:
        values["hash"] = "0" * 64
    return json.dumps(values)


HINTS = {"expected_users": 9, "expected_items_per_user": 2.0, "epsilon": 0.0, "delta": 0.0}


@every(
    "parts",
    [
        {"hints": HINTS | {"expected_users": "many"}},
        {"hints": HINTS | {"expected_users": True}},
        {"hints": HINTS | {"expected_items_per_user": float("nan")}},
        {"hints": HINTS | {"epsilon": -1.0}},
        {"hints": HINTS | {"epsilon": 1.0}},
        {"hints": HINTS | {"delta": "0"}},
        {"public_items": {"entries": float("inf"), "sha256": "0" * 64}},
        {"public_items": {"entries": 3, "sha256": "x"}},
        {"insecure_seed": True},
        {"insecure_seed": "x"},
        {"insecure_seed": 3.5},
        {"insecure_seed": 2**70},
        {"insecure_seed": float("nan")},
        {"version": "1\nguarantee       (0.01, 1e-09)-differential privacy"},
        {"version": ""},
        {"privacy": {"epsilon": float("nan"), "delta": 1e-6}},
        {"privacy": {"epsilon": 10**400, "delta": 1e-6}},
        {"privacy": {"epsilon": True, "delta": 1e-6}},
        {"counts": {"share": 0.2, "max_items": 10**400}},
        {"user": {"columns": None, "type": None}},
        {"selected": {"candidates": 1}},
    ],
)
def test_forged_parts_are_refused_although_the_hash_fits(parts: dict[str, Any]) -> None:
    with pytest.raises(dpsu.ParameterError):
        dpsu.Plan.from_json(forged(dpsu.plan(**BUDGET), **parts))


@every("number", ["Infinity", "-Infinity", "1e999", "NaN", "1" + "0" * 400])
def test_numbers_that_are_none_are_no_last_digits(number: str) -> None:
    plan = dpsu.plan(**BUDGET, mechanism="weighted-gaussian")
    for place in ("threshold", "scale", "max_users"):
        text, found = plan.to_json(), 0
        for line in text.splitlines():
            if line.strip().startswith(f'"{place}":'):
                found += 1
                changed = line.split(":")[0] + f": {number}" + ("," if line.endswith(",") else "")
                with pytest.raises(dpsu.ParameterError):
                    dpsu.Plan.from_json(text.replace(line, changed, 1))
        assert found


def test_a_name_that_stands_twice_is_refused() -> None:
    text = dpsu.plan(**BUDGET).to_json()
    twice = text.replace('"epsilon": 1.0', '"epsilon": 0.01, "epsilon": 1.0')
    assert twice != text
    with pytest.raises(dpsu.ParameterError):
        dpsu.Plan.from_json(twice)
    for wrong in (5, None, b"x", ["x"]):
        with pytest.raises(dpsu.ParameterError):
            dpsu.Plan.from_json(wrong)  # type: ignore[arg-type]


class Word(str, Enum):  # noqa: UP042 (its members print otherwise)
    """Words of somebody's own."""

    USER = "user"
    ITEM = "item"
    HASH = "hash"


def test_members_of_enumerations_are_the_words_that_they_equal() -> None:
    plain = dpsu.plan(**BUDGET, user="user", item="item", mechanism=dpsu.Greedy(order="hash"))
    other = dpsu.plan(
        **BUDGET, user=Word.USER, item=Word.ITEM, mechanism=dpsu.Greedy(order=Word.HASH)
    )
    assert other == plain
    assert other.hash == plain.hash
    assert "Word" not in other.to_json()
    assert "hash" in str(other)
    text = dpsu.plan(**BUDGET, item=dpsu.Tokens(Word.USER, name=Word.ITEM))
    assert "Word" not in text.to_json()


def test_equal_plans_have_equal_hashes_and_others_do_not() -> None:
    for kind in (dpsu.Users, dpsu.Items):
        with pytest.raises(dpsu.ParameterError, match="must be the name of a column"):
            kind(None)  # type: ignore[arg-type]
    zero, minus = (
        dpsu.plan(**BUDGET, mechanism=dpsu.PolicyGaussian(alpha=alpha)) for alpha in (0.0, -0.0)
    )
    assert zero == minus
    assert zero.hash == minus.hash


def test_a_function_is_not_exchanged_for_another_of_its_name() -> None:
    one, other = (lambda text: [text]), (lambda text: [text, text])
    plan = dpsu.plan(**BUDGET, item=dpsu.Tokens("body", tokenizer=one))
    assert dpsu.release({"a": "x"}, plan, item=dpsu.Tokens("body", tokenizer=one)).private
    with pytest.raises(dpsu.ParameterError, match="another item"):
        dpsu.release({"a": "x"}, plan, item=dpsu.Tokens("body", tokenizer=other))


def test_threads_close_what_they_charged(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    account = ledger.dataset("visits", budget=(30, 1e-3))
    plan = dpsu.plan(**BUDGET, mechanism="weighted-gaussian")
    failed: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(4):
                dpsu.release(VISITS, plan, ledger=account)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert [each.state for each in ledger.account("visits").releases] == ["done"] * 12


def test_a_context_ends_what_began_in_it_and_nothing_else(tmp_path: Path) -> None:
    ledger = dpsu.Ledger(tmp_path / "ledger.db")
    account = ledger.dataset("visits", budget=(30, 1e-3))
    plan = dpsu.plan(**BUDGET, mechanism="weighted-gaussian")

    def states() -> list[str]:
        return [each.state for each in ledger.account("visits").releases]

    with pytest.raises(dpsu.DataError), account:
        dpsu.release([("u", "a"), object()], plan, ledger=account, strict=True)
    before = states()
    with account:
        dpsu.release(VISITS, plan, ledger=account)
        assert states()[-1] == "pending"
    assert states() == [*before, "done"]
    dpsu.release(VISITS, plan, ledger=account)
    assert states() == [*before, "done", "done"]
    assert copy.deepcopy(account) is account
    dpsu.release(VISITS, plan, ledger=pickle.loads(pickle.dumps(account)))
    assert states() == [*before, "done", "done", "done"]


def test_a_plan_that_was_handed_in_is_its_mechanism_and_its_promise() -> None:
    plan = dpsu.plan(epsilon=50, delta=0.4, mechanism=dpsu.CountLaplace(max_items=1))
    for forgery in (
        replace(plan, privacy=dpsu.Privacy(0.01, 1e-12)),
        replace(plan, mechanism=dpsu.CountLaplace(max_items=2)),
        replace(plan, item=Items("other"), design=dpsu.plan(**BUDGET).design),
    ):
        with pytest.raises(dpsu.ParameterError, match="not what its mechanism and guarantee"):
            dpsu.release(ALONE, forgery)
