"""Plans from files are checked, not believed; what was approved is what runs."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.plans import written
from tests.support.cases import every

VISITS = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
PLANS = [
    dpsu.plan(epsilon=1, delta=1e-6),
    dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.PolicyGaussian(max_items=3, passes=2)),
    dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.Sips(), counts=True),
    dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.Auto(items_per_user=1, users=900)),
    dpsu.plan(epsilon=1, delta=1e-6, item=dpsu.Tokens("body"), mechanism=dpsu.NGrams(longest=2)),
    dpsu.plan(epsilon=1, delta=1e-6, user=["site", "visitor"], item=["country", "day"]),
    dpsu.plan(epsilon=1, delta=1e-6, item=dpsu.Values(["a", "b"], ["c", "d"], {"b": "integer"})),
]


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where plain values stand in nested ones."""
    if isinstance(value, dict):
        return [leaf for name, part in value.items() for leaf in leaves(part, (*path, name))]
    if isinstance(value, list):
        return [leaf for at, part in enumerate(value) for leaf in leaves(part, (*path, at))]
    return [path]


def changed(values: dict[str, Any], path: tuple[Any, ...], new: Any) -> dict[str, Any]:
    """A copy with another value in one place."""
    copy: dict[str, Any] = json.loads(json.dumps(values))
    place: Any = copy
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = new(place[path[-1]]) if callable(new) else new
    return copy


def other(value: Any) -> Any:
    """A value of the same type that is not the same."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + 1 if abs(value) < 10**9 else value + value // 10**6
    return value * (1 + 1e-7) + 1e-300 if isinstance(value, float) else value + "x"


@every("plan", PLANS)
def test_a_change_anywhere_in_a_file_is_refused(plan: dpsu.Plan) -> None:
    values = json.loads(json.dumps(plan.to_dict()))
    assert dpsu.Plan.from_dict(values) == plan
    places = leaves(values)
    assert len(places) > 30
    for place in places:
        with pytest.raises(dpsu.ParameterError):
            dpsu.Plan.from_dict(changed(values, place, other))


@every("plan", PLANS)
def test_parts_that_are_missing_or_unknown_are_refused(plan: dpsu.Plan) -> None:
    values = json.loads(plan.to_json())
    for name in values:
        with pytest.raises(dpsu.ParameterError):
            dpsu.Plan.from_dict({key: part for key, part in values.items() if key != name})
    with pytest.raises(dpsu.ParameterError, match="unknown 'more'"):
        dpsu.Plan.from_dict(values | {"more": 1})


@every("text", ["", "[]", "{}", "3", "null", '{"format": 1}', "{", "[" * 10**5])
def test_what_is_no_plan_is_refused(text: str) -> None:
    with pytest.raises(dpsu.ParameterError, match=r"it is not JSON|this is JSON, but not a plan"):
        dpsu.Plan.from_json(text)


def test_what_stands_in_the_place_of_a_plan_is_named(tmp_path: Path) -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve")
    forecast = dpsu.forecast(plan, users=50, items_per_user=2, mechanisms=[])
    report = dpsu.release({"u": ["a"]}, plan).report_json()
    path: Any = tmp_path / "plan.json"
    for given, words in (
        (report, "this is a report, not a plan; its plan is under 'plan'"),
        (forecast.to_json(), "this is a forecast, not a plan; its plan is under 'plan'"),
        ("approved/plan.json", r"dpsu.Plan.read\(path\) reads the file"),
        (path, r"dpsu.Plan.read\(path\) reads the file"),
        (
            plan.to_json().replace(f'"format": {written.FORMAT}', '"format": 1'),
            "a plan of format 1, and this dpsu",
        ),
    ):
        with pytest.raises(dpsu.ParameterError, match=words):
            dpsu.Plan.from_json(given)
    # And these are ways out.
    assert dpsu.Plan.from_dict(json.loads(report)["plan"]) == plan


def test_plans_are_written_whole_and_read_back(tmp_path: Path) -> None:
    plan, file = dpsu.plan(epsilon=1, delta=1e-6, item="product"), tmp_path / "plan.json"
    plan.write(file)
    assert dpsu.Plan.read(file) == dpsu.Plan.read(str(file)) == plan
    assert file.read_text("utf-8") == f"{plan.to_json()}\n"
    assert list(tmp_path.iterdir()) == [file]
    with pytest.raises(dpsu.ParameterError, match=r"must end in \.json"):
        plan.write(tmp_path / "plan.txt")
    with pytest.raises(dpsu.OutputError):
        plan.write(tmp_path / "nowhere" / "plan.json")
    with pytest.raises(dpsu.ParameterError, match="cannot be read: No such file"):
        dpsu.Plan.read(tmp_path / "other.json")
    file.write_text("{", "utf-8")
    with pytest.raises(dpsu.ParameterError, match=r"plan\.json': this is not a plan: it is not"):
        dpsu.Plan.read(file)


@every("part", ["privacy", "mechanism", "user", "item"])
def test_parts_of_parts_are_named_too(part: str) -> None:
    values = json.loads(dpsu.plan(epsilon=1, delta=1e-6).to_json())
    for name in values[part]:
        less = {key: value for key, value in values[part].items() if key != name}
        with pytest.raises(dpsu.ParameterError, match=f"no '?{name}'?"):
            dpsu.Plan.from_dict(values | {part: less})
    more = values[part] | {"colour": 1}
    with pytest.raises(dpsu.ParameterError, match=r"unknown 'colour'|no option colour"):
        dpsu.Plan.from_dict(values | {part: more})


def test_last_digits_may_differ_between_machines() -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve")
    values = json.loads(plan.to_json())
    sigma = ("derived", "selection", "sigma")
    again = dpsu.Plan.from_dict(changed(values, sigma, lambda x: x * (1 + 1e-12)))
    # What runs is what was computed here.
    assert again == plan
    assert again.hash == plan.hash
    with pytest.raises(dpsu.ParameterError, match=r"derived\.selection\.sigma differs, so it was"):
        dpsu.Plan.from_dict(changed(values, sigma, 0.001))


def test_another_version_is_named_where_it_designs_otherwise() -> None:
    values = json.loads(dpsu.plan(epsilon=1, delta=1e-6).to_json()) | {"version": "0.0.9"}
    # The hash covers the version: a file that changes one alone was edited.
    with pytest.raises(dpsu.ParameterError, match="not what its hash stands for"):
        dpsu.Plan.from_dict(values)
    decided = {name: part for name, part in values.items() if name not in written.DERIVED}
    values["hash"] = written.plan_hash(decided)
    assert dpsu.Plan.from_dict(values).version == "0.0.9"
    values["derived"]["theorem"] = "another"
    words = r"derived\.theorem differs, .* dpsu 0\.0\.9 designed it otherwise"
    with pytest.raises(dpsu.ParameterError, match=words):
        dpsu.Plan.from_dict(values)


def test_the_hash_covers_what_was_decided_and_no_more() -> None:
    base: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
    decisions: list[dict[str, Any]] = [
        {}, {"epsilon": 2}, {"delta": 1e-7}, {"mechanism": dpsu.Sieve(rounds=6)},
        {"user": "person"}, {"item": dpsu.Items(type="text")}, {"item": dpsu.Tokens("body")},
        {"counts": True}, {"public_items": ["a"]}, {"insecure_seed": 1},
    ]  # fmt: skip
    plans = [dpsu.plan(**base | more) for more in decisions]
    assert len({plan.hash for plan in plans}) == len(plans)
    assert dpsu.plan(**base).hash == plans[0].hash == dpsu.plan(**base, mechanism="auto").hash


def test_an_approved_plan_runs_and_needs_its_public_data() -> None:
    prior = {"bread": 5, "milk": 3}
    made = dpsu.plan(
        epsilon=1,
        delta=1e-6,
        mechanism=dpsu.Greedy(prior=prior, max_items=2),
        public_items=["salt"],
    )
    assert "salt" in dpsu.release(VISITS, made)
    approved = dpsu.Plan.from_json(made.to_json())
    with pytest.raises(dpsu.ParameterError, match="made with prior, which a file does not hold"):
        dpsu.release(VISITS, approved)
    with pytest.raises(dpsu.ParameterError, match="prior is not what the plan was made with"):
        dpsu.release(VISITS, approved, prior={"bread": 6}, public_items=["salt"])
    result = dpsu.release(VISITS, approved, prior=prior, public_items=["salt"])
    assert result.plan == made
    assert set(result) <= {"bread", "milk", "salt"}


def test_public_data_that_are_cut_at_other_places_are_others() -> None:
    made: list[dpsu.Plan] = []
    for items in (["a", "bc"], ["ab", "c"]):
        made.append(dpsu.plan(epsilon=1, delta=1e-6, public_items=items))
        ordered = dpsu.Greedy(prior=dict.fromkeys(items, 1))
        made.append(dpsu.plan(epsilon=1, delta=1e-6, mechanism=ordered))
    assert len({plan.hash for plan in made}) == len(made)


@every(
    "option", [
        {"epsilon": 1}, {"delta": 1e-6}, {"mechanism": "sieve"}, {"user": "user"},
        {"counts": False}, {"insecure_seed": 1}, {"item": "item"},
    ],
)  # fmt: skip
def test_a_plan_decides_alone(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(dpsu.ParameterError, match=f"{name}"):
        dpsu.release(VISITS, dpsu.plan(epsilon=1, delta=1e-6), **option)


def test_a_function_is_given_again() -> None:
    def split(text: str) -> list[str]:
        return text.split()

    texts = {f"person {n}": "fresh bread" for n in range(1000)}
    tokens = dpsu.Tokens("body", tokenizer=split)
    made = dpsu.plan(epsilon=1, delta=1e-6, item=tokens)
    assert dpsu.release(texts, made).items == ("bread", "fresh")
    approved = dpsu.Plan.from_json(made.to_json())
    assert approved.hash == made.hash
    for door in (dpsu.release, lambda data, plan: dpsu.select(data, [plan])):
        with pytest.raises(dpsu.ParameterError, match="a function"):
            door(texts, approved)
    with pytest.raises(dpsu.ParameterError, match=r"function .*which a file does not hold"):
        dpsu.forecast(approved, profile=texts)
    assert dpsu.release(texts, approved, item=tokens).items == ("bread", "fresh")
    for wrong in (
        dpsu.Tokens("body", tokenizer=str.split),
        dpsu.Tokens("body"),
        dpsu.Tokens("title", tokenizer=split),
        dpsu.Tokens("body", tokenizer=split, ngrams=2),
    ):
        with pytest.raises(dpsu.ParameterError, match="the plan was made for another item"):
            dpsu.release(texts, approved, item=wrong)


def test_a_tokenizer_file_is_the_one_that_was_approved(tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    path = tmp_path / "tokenizer.json"
    for words in ({"fresh": 0, "bread": 1, "?": 2}, {"fresh": 0, "?": 1}):
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="?"))
        made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        made.save(str(path))
        if "bread" in words:
            plan = dpsu.plan(epsilon=1, delta=1e-6, item=dpsu.Tokens("body", tokenizer=str(path)))
            approved = dpsu.Plan.from_json(plan.to_json())
            texts = {f"person {n}": "fresh bread" for n in range(1000)}
            assert dpsu.release(texts, approved).items == ("bread", "fresh")
    with pytest.raises(dpsu.ParameterError, match="another file than the plan was made with"):
        dpsu.release(texts, approved)
    assert dpsu.plan(epsilon=1, delta=1e-6, item=plan.item).hash != plan.hash
    path.unlink()
    with pytest.raises(dpsu.ParameterError, match="there is no tokenizer file"):
        dpsu.release(texts, approved)


def test_a_private_file_is_no_public_one_whenever_it_was_planned(tmp_path: Path) -> None:
    path = tmp_path / "visits.csv"
    path.write_text("user,item\n" + "".join(f"{u},secret {u}\n" for u in range(50)))
    plan = dpsu.plan(epsilon=1, delta=1e-6, public_items=path)
    with pytest.raises(dpsu.ParameterError, match="public_items is the file of the confidential"):
        dpsu.release(path, plan)


def test_a_design_cannot_be_exchanged_in_python_either() -> None:
    plan = dpsu.plan(epsilon=1, delta=1e-6, mechanism="weighted-gaussian", counts=True)
    other = dpsu.plan(epsilon=9, delta=0.1, mechanism="weighted-gaussian")
    assert plan.noisy_counts is not None
    quiet = dataclasses.replace(plan.noisy_counts, scale=1e-3)
    for forged in (
        dataclasses.replace(plan, design=other.design),
        dataclasses.replace(plan, noisy_counts=quiet),
        dataclasses.replace(plan, privacy=dpsu.Privacy(0.5, 1e-6)),
    ):
        with pytest.raises(dpsu.ParameterError, match="not what its mechanism and guarantee lead"):
            dpsu.release(VISITS, forged)
        with pytest.raises(dpsu.ParameterError, match="not what its mechanism and guarantee lead"):
            dpsu.audit(forged, trials=4000)
    alone = dpsu.plan(epsilon=1, delta=1e-6, mechanism="weighted-gaussian")
    forged = dataclasses.replace(alone, design=other.design)
    with pytest.raises(dpsu.ParameterError, match="not what its mechanism and guarantee lead"):
        dpsu.select(VISITS, [alone, forged])
