"""Mechanisms chosen from hints, from estimates that are paid for, and by private selection."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsu
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs
from dpsu.contributions.samples import Sample
from dpsu.engines import local
from dpsu.engines.estimates import estimate, histogram
from dpsu.inputs.reading import Source
from dpsu.plans.mechanisms.auto import Choice, Hints
from dpsu.plans.plan import Plan
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.selection import repetition
from tests.support import flat
from tests.support.cases import every

pytestmark = pytest.mark.filterwarnings("ignore::dpsu.DataWarning")


def held(data: dict[str, list[str]], key: Key) -> Pairs:
    return intern(Source(data, dpsu.Users(), dpsu.Items()).rows(key, with_repeats=False))


@every(
    ("epsilon", "users", "items", "mechanism"), [
        (3.0, None, 1.0, "greedy"), (1.0, None, 1.0, "greedy"), (1.0, None, 2.0, "policy-laplace"),
        (3.0, 100_000, 30.0, "sieve"), (1.0, None, 30.0, "sieve"), (3.0, 5_000, 5.0, "sieve"),
        (1.0, 50_000, 900.0, "bits"),
    ],
)  # fmt: skip
def test_the_mechanism_follows_the_hints(
    epsilon: float, users: int | None, items: float, mechanism: str
) -> None:
    hinted = dpsu.Auto(users=users, items_per_user=items)
    plan = dpsu.plan(epsilon=epsilon, delta=1e-5, mechanism=hinted)
    assert plan.name == mechanism
    assert plan.hints is not None
    assert plan.candidates == (plan,)
    assert f"auto: {mechanism} is expected to release most from" in str(plan)
    assert dpsu.Plan.from_json(plan.to_json()) == plan
    assert math.fsum(d for _, d in plan.delta_split) == pytest.approx(1e-5, rel=1e-12)


@every(("items", "mechanism"), [(1.0, "count-laplace"), (1.9, "count-laplace"), (2.1, "sieve")])
def test_users_who_act_at_once_count_one_item_of_one_or_two(items: float, mechanism: str) -> None:
    auto = dpsu.Auto(items_per_user=items, among="parallel")
    plan = dpsu.plan(epsilon=1, delta=1e-5, mechanism=auto)
    assert plan.name == mechanism
    assert plan.max_items == (1 if mechanism == "count-laplace" else 300)
    assert all(each.name != "count-laplace" for each in dpsu.plan(epsilon=1, delta=1e-5).candidates)


@every("counts", [False, True])
@every("among", ["all", "parallel"])
def test_a_plan_names_its_candidates_and_each_has_what_the_estimate_leaves(
    among: str, counts: bool
) -> None:
    auto = dpsu.Auto(among=among, budget=0.05)
    plan = dpsu.plan(epsilon=2, delta=1e-5, mechanism=auto, counts=counts)
    assert dpsu.Plan.from_json(plan.to_json()) == plan
    names = {each.name for each in plan.candidates}
    assert names >= {"sieve", "bits"}
    assert all(each.mechanism.parallel for each in plan.candidates) == (among == "parallel")
    text = str(plan)
    paid = plan.noisy_counts.epsilon if plan.noisy_counts is not None else 0.0
    for each in plan.candidates:
        assert each.privacy == plan.privacy
        assert each.hints is not None
        assert each.hints.epsilon == pytest.approx(0.05 * (2.0 - paid), rel=1e-12)
        assert each.name in text
        for size in (1.0, 1.6, 30.0, 2000.0, None):
            users = None if size is None else 10_000
            chosen = plan.chosen(Hints(users, size, each.hints.epsilon))
            assert chosen.mechanism in {one.mechanism for one in plan.candidates}
    with pytest.raises(dpsu.ParameterError, match="cost another epsilon"):
        plan.chosen(Hints(10, 1.0, 0.0))


def test_a_release_holds_what_was_chosen_and_carries_what_was_approved(tmp_path: Path) -> None:
    approved = dpsu.plan(epsilon=3, delta=1e-5, mechanism="auto")
    data = {u: ["bread"] for u in range(20_000)}
    spending = dpsu.Ledger(tmp_path / "ledger.db").dataset("visits", budget=(3, 1e-5))
    made = dpsu.release(data, approved, ledger=spending)
    assert made.approved == approved
    assert made.plan.name == "greedy"
    assert made.plan in {replace(each, hints=made.plan.hints) for each in approved.candidates}
    assert approved.hash in made.report()
    assert "auto: greedy is expected to release most from about 20,000 users with 1 item each" in (
        made.report()
    )
    assert json.loads(made.report_json())["plan_hash"] == approved.hash
    made.write(tmp_path / "items.parquet")
    kept = pa.parquet.read_metadata(tmp_path / "items.parquet").metadata
    assert kept[b"dpsu.plan_hash"].decode() == approved.hash
    entry = dpsu.Ledger(tmp_path / "ledger.db").account("visits").releases[-1]
    assert entry.plan_hash == approved.hash
    assert dpsu.release(data, approved.candidates[0]).private


@pytest.mark.thorough
def test_auto_is_near_the_best_for_few_items() -> None:
    """One or two items per user: at most 3 % below the best of the fixed choices."""
    rng = np.random.default_rng(0)
    names = ("sieve", "policy-gaussian", "policy-laplace", "greedy", "sips")
    for each, promise in itertools.product((1, 2), ((3.0, math.exp(-10)), (1.0, 1e-5))):
        items = rng.zipf(1.25, 40_000 * each) % 5000
        # A table is read at once, and seventy releases read it.
        data = pa.table({"user": np.repeat(np.arange(40_000), each), "item": items})

        def size(**given: Any) -> float:
            given |= dict(zip(("epsilon", "delta"), promise, strict=True))  # noqa: B023
            sizes = [len(flat.release(data, insecure_seed=s, **given)) for s in range(3)]  # noqa: B023
            return float(np.mean(sizes))

        best = max(size(mechanism=name) for name in names)
        hints = {"expected_items_per_user": each, "expected_users": 40_000}
        assert size(mechanism="auto", **hints) >= 0.97 * best


def test_what_is_estimated_is_the_noisy_histogram_and_nothing_else() -> None:
    """The hints of a seeded release are those of `estimate`, from the numbers it may use."""
    sizes = np.array([1 + u % 9 for u in range(3000)])
    data = {u: [f"i{k}" for k in range(size)] for u, size in enumerate(sizes)}
    seen = set()
    for seed in range(5):
        plan = dpsu.plan(epsilon=1, delta=1e-5, insecure_seed=seed)
        assert isinstance(plan.selection, Choice)
        paid = plan.selection.epsilon
        expected = estimate(histogram(sizes), Key.from_insecure_seed(seed), paid, 1)
        assert dpsu.release(data, plan).plan.hints == expected
        seen.add(expected.expected_users)
    assert len(seen) == 5


def test_estimates_are_paid_for_and_near_the_truth() -> None:
    data = {u: [f"i{k}" for k in range(1 + u % 20)] for u in range(20_000)}
    made = dpsu.release(data, epsilon=1, delta=1e-5, mechanism=dpsu.Auto(budget=0.1))
    hints = made.plan.hints
    assert hints is not None
    assert hints.epsilon == 0.1
    assert hints.delta == 0.0
    assert hints.expected_users == pytest.approx(20_000, rel=0.05)
    assert hints.expected_items_per_user == pytest.approx(10.5, rel=0.25)
    assert math.fsum(d for _, d in made.plan.delta_split) <= 1e-5 * (1 + 1e-12)
    # The largest double that is no more than what the estimate leaves.
    alone = dpsu.plan(epsilon=math.nextafter(0.9, 0), delta=1e-5, mechanism=made.plan.mechanism)
    assert alone.selection == made.plan.selection
    with pytest.raises(dpsu.ParameterError, match="budget pays for the estimate of what is not"):
        dpsu.Auto(budget=0.1, items_per_user=3)
    with pytest.raises(dpsu.ParameterError, match="expected_items_per_user"):
        flat.plan(epsilon=1, delta=1e-5, mechanism="sips", expected_items_per_user=3)


def test_one_user_is_in_one_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """One user more changes one number by 1, whatever its size; the noise is drawn for that."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        sizes = rng.integers(0, 10_000, 20) if rng.random() < 0.5 else rng.integers(0, 4, 20)
        moved = histogram(sizes) - histogram(sizes[1:])
        assert np.abs(moved).sum() == (1 if sizes[0] else 0)
    classes = [int(np.argmax(histogram(np.array([size])))) for size in (1, 2, 3, 4, 5, 8, 9, 2048)]
    assert classes == [0, 1, 2, 2, 3, 3, 4, 11]
    asked: list[tuple[int, Fraction]] = []

    def silent(key: Key, purpose: str, place: int, epsilon: Fraction) -> int:
        assert purpose == "set sizes"
        asked.append((place, epsilon))
        return 0

    monkeypatch.setattr("dpsu.engines.estimates.two_sided_geometric", silent)
    estimate(histogram(np.full(500, 3)), Key.from_insecure_seed(1), 0.03, 1)
    assert [place for place, _ in asked] == list(range(len(histogram(sizes))))
    assert all(0 < epsilon <= Fraction(0.03) for _, epsilon in asked)


def test_few_users_are_not_guessed_about() -> None:
    hints = estimate(histogram(np.ones(50, np.int64)), Key.from_insecure_seed(1), 0.02, 1)
    assert hints.expected_users is None
    assert hints.expected_items_per_user is None
    assert hints.epsilon == 0.02


def test_a_user_alone_is_an_estimate_too() -> None:
    """The empty database and that of one user both end in a release."""
    alone: list[dict[str, list[str]]] = [{"x": ["a"]}, {"x": []}]
    for data in alone:
        assert dpsu.release(data, epsilon=1, delta=1e-5, mechanism="auto").items == ()


@every("epsilon", [0.5, 2.0, 6.0])
@every("runs", [1.5, 5.0, 100.0])
def test_cost_of_repetition(epsilon: float, runs: float) -> None:
    made = repetition(Privacy(epsilon, 1e-5), runs)
    assert made.expected_runs == pytest.approx(runs, rel=1e-6)
    run = made.run
    assert run.epsilon == epsilon / 2
    growth = (1 + math.exp(2 * run.epsilon)) / (1 + math.exp(run.epsilon))
    total = made.expected_runs * run.delta * growth
    assert total <= 1e-5
    assert total == pytest.approx(1e-5, rel=1e-6)
    # The published example: at epsilon 1 a run, 10 runs on average cost 22.6 times their delta.
    published = repetition(Privacy(2.0, 1e-5), 10.0)
    assert 1e-5 / published.run.delta == pytest.approx(22.56, abs=0.01)


@pytest.mark.slow
def test_the_number_of_runs_has_its_law() -> None:
    """At p = 1e-9, and the laws for 0.7 and 1.5 times as many runs are rejected."""
    made = repetition(Privacy(1.0, 1e-5), 4.0)
    drawn = np.array([made.draw(Key.from_insecure_seed(s)) for s in range(2000)])

    def p_value(runs: float) -> float:
        gamma = repetition(Privacy(1.0, 1e-5), runs).gamma
        chances = np.array([(1 - gamma) ** k / (k * -math.log(gamma)) for k in range(1, 31)])
        chances = np.append(chances, 1.0 - chances.sum())
        found = np.append([(drawn == k).sum() for k in range(1, 31)], (drawn > 30).sum())
        return float(stats.chisquare(found, chances * len(drawn)).pvalue)

    assert p_value(4.0) > 1e-9
    assert p_value(0.7 * 4.0) < 1e-9
    assert p_value(1.5 * 4.0) < 1e-9


DATA = {u: ["bread", "milk", f"own {u}"] for u in range(2000)}
CANDIDATES: list[dict[str, Any]] = [
    {"mechanism": "weighted-gaussian", "max_items": 3},
    {"mechanism": "count-laplace", "max_items": 1, "min_users": 100_000},
]


@every("fraction", [None, 0.3])
def test_select_finds_the_better_options(fraction: float | None) -> None:
    """Under a key that draws many runs; under others there may be only one."""
    given: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "tune_fraction": fraction}
    given["insecure_seed"] = many_runs(Privacy(4.0, 1e-5))
    made = flat.select(DATA, CANDIDATES, **given)
    assert made.items == ("bread", "milk")
    assert made.plan.name == "weighted-gaussian"
    assert not made.private
    assert flat.select(DATA, CANDIDATES, **given).items == made.items


@every("fraction", [None, 0.3])
@every("winner", [0, 1])
def test_one_candidate_without_a_guarantee_leaves_none_to_the_choice(
    fraction: float | None, winner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsu.selection._best", lambda *_: (winner, pa.array(["a"])))
    candidates: list[dict[str, Any]] = [
        {"mechanism": "weighted-gaussian"},
        {"mechanism": "greedy", "calibration": "paper", "allow_unproven": True},
    ]
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "tune_fraction": fraction}
    found = flat.select({"x": ["a"]}, candidates, **options)
    assert not found.private
    assert "NO GUARANTEE" in found.report()
    assert flat.select({"x": ["a"]}, candidates[:1] * 2, **options).private


@every("fraction", [None, 0.3])
def test_a_selection_tells_what_it_cost(fraction: float | None) -> None:
    made = flat.select(DATA, CANDIDATES[:1], epsilon=4, delta=1e-5, tune_fraction=fraction)
    assert made.items == ("bread", "milk")
    assert made.private
    assert made.plan.privacy == Privacy(4.0, 1e-5)
    assert made.plan.selected is not None
    assert made.plan.selected.epsilon == 2.0
    assert "from 1 candidates" in made.report()
    assert dpsu.Plan.from_json(made.plan.to_json()) == made.plan


@every("fraction", [None, 0.3])
def test_every_run_has_the_budget_of_a_run(
    fraction: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen at the engine: all runs but a final one on other people have their part only."""
    spent = Watched(monkeypatch).spent
    flat.select(DATA, CANDIDATES, epsilon=4, delta=1e-5, tune_fraction=fraction)
    runs = spent if fraction is None else spent[:-1]
    assert set(runs) == {repetition(Privacy(4.0, 1e-5), 5.0).run}
    assert fraction is None or spent[-1] == Privacy(4.0, 1e-5)


def test_the_sample_and_the_others_are_different_people() -> None:
    key = Key.from_insecure_seed(1)
    pairs = held({f"u{u}": [f"i{k}" for k in range(1 + u % 5)] for u in range(4000)}, key)
    chosen = Sample(0.25, key.salt("tuning sample"))
    sample, others = (
        pairs.of_users(part.among(pairs.users)) for part in (chosen, replace(chosen, others=True))
    )
    parts = [
        set(np.concatenate([b.users for b in part.blocks]).tolist()) for part in (sample, others)
    ]
    assert not parts[0] & parts[1]
    assert len(parts[0] | parts[1]) == 4000
    assert stats.binomtest(len(parts[0]), 4000, 0.25).pvalue > 1e-9
    assert len(sample) + len(others) == len(pairs)


class Watched:
    """The engine, with a note of whose rows and which key and budget every run of it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.people: list[set[Any]] = []
        self.secrets: list[bytes] = []
        self.spent: list[Privacy] = []
        run = local.select_items

        def watched(plan: dpsu.Plan, pairs: Pairs, key: Key, **more: Any) -> Any:
            codes = np.unique(np.concatenate([block.users for block in pairs.blocks]))
            self.people.append(set(pairs.users.take(codes.astype(np.int64)).values.to_pylist()))
            self.secrets.append(key.secret)
            self.spent.append(plan.privacy)
            return run(plan, pairs, key, **more)

        monkeypatch.setattr(local, "select_items", watched)


def many_runs(privacy: Privacy) -> int:
    """A seed under which there are more than twelve runs."""
    repeated = repetition(privacy, 5.0)
    return next(s for s in range(1000) if repeated.draw(Key.from_insecure_seed(s)) > 12)


def test_users_who_choose_are_not_among_those_who_release(monkeypatch: pytest.MonkeyPatch) -> None:
    """What only the sampled users hold never comes out, however many of them there are."""
    users, seed = [str(u) for u in range(4000)], many_runs(Privacy(4.0, 1e-5))
    given: dict[str, Any] = {"epsilon": 4, "delta": 1e-5, "insecure_seed": seed}
    watched = Watched(monkeypatch)
    data = {u: ["bread"] for u in users}
    flat.select(data, CANDIDATES[:1], tune_fraction=0.4, **given)
    *runs, final = watched.people
    sample = runs[0]
    assert len(runs) > 12
    assert all(run == sample for run in runs)
    assert final == set(users) - sample
    assert stats.binomtest(len(sample), len(users), 0.4).pvalue > 1e-9
    # The parts are functions of ids and key: the same people, now with items of their part.
    data = {u: ["bread", "of the sample" if u in sample else "of the others"] for u in users}
    made = flat.select(data, CANDIDATES[:1], tune_fraction=0.4, **given)
    assert made.items == ("bread", "of the others")
    assert watched.people[-1] == final


@every("fraction", [None, 0.4])
def test_every_run_of_a_selection_has_a_key_of_its_own(
    fraction: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No run shares the key of another, of the choice itself or of the final release."""
    seeds = (many_runs(Privacy(4.0, 1e-5)), 5)
    watched = Watched(monkeypatch)
    for seed in seeds:
        flat.select(
            DATA, CANDIDATES, epsilon=4, delta=1e-5, tune_fraction=fraction, insecure_seed=seed
        )
    assert len(watched.secrets) > 12
    used = [*watched.secrets, *(Key.from_insecure_seed(seed).secret for seed in seeds)]
    assert len(set(used)) == len(used)
    assert {len(secret) for secret in used} == {32}


@every(
    ("words", "options"),
    [
        ("candidates must be a list", {"candidates": []}),
        ("expected_runs=0.5", {"expected_runs": 0.5}),
        ("tune_fraction=1.5", {"tune_fraction": 1.5}),
        ("has no option passes", {"candidates": [{"mechanism": "sieve", "passes": 2}]}),
    ],
)
def test_what_select_refuses(words: str, options: dict[str, Any]) -> None:
    given = {"candidates": CANDIDATES} | options
    with pytest.raises(dpsu.ParameterError, match=words):
        flat.select(DATA, given.pop("candidates"), epsilon=1, delta=1e-5, **given)


@every(
    ("words", "other"),
    [
        ("differ in privacy", {"epsilon": 2}),
        ("differ in user", {"user": "person"}),
        ("differ in item", {"item": "product"}),
        ("differ in insecure_seed", {"insecure_seed": 1}),
        ("must have no counts", {"counts": True}),
        ("must have no public_items", {"public_items": ["a"]}),
        ("must have no prior", {"mechanism": dpsu.Greedy(prior={"a": 1})}),
        ("must not be ngrams", {"mechanism": "ngrams", "item": dpsu.Tokens("body")}),
    ],
)
def test_candidates_promise_the_same_about_the_same(words: str, other: dict[str, Any]) -> None:
    base: dict[str, Any] = {"epsilon": 1, "delta": 1e-5}
    plans = [dpsu.plan(**base), dpsu.plan(**base | other)]
    with pytest.raises(dpsu.ParameterError, match=words):
        dpsu.select(DATA, plans)
    parts = dpsu.Privacy(1, 1e-5), dpsu.Sieve(), dpsu.Users(), dpsu.Items()
    paid = Plan.derived(*parts, hints=Hints(9, 2, 0.1, 1e-7))
    with pytest.raises(dpsu.ParameterError, match="must not be chosen by estimates"):
        dpsu.select(DATA, [paid])
    # After tuning, a candidate is released from as it was given.
    forged = replace(plans[0], design=dpsu.plan(epsilon=50, delta=0.4).design)
    for fraction in (None, 0.3):
        with pytest.raises(dpsu.ParameterError, match="not what its mechanism and guarantee"):
            dpsu.select(DATA, [plans[0], forged], tune_fraction=fraction)
    for wrong in ([{"mechanism": "sieve"}], ["sieve"], dpsu.plan(**base), None):
        with pytest.raises(dpsu.ParameterError, match="candidates must be"):
            dpsu.select(DATA, wrong)  # type: ignore[arg-type]


def test_a_column_that_candidates_lack_is_to_be_named_in_them() -> None:
    candidates = [dpsu.plan(epsilon=1, delta=1e-6, mechanism="sieve")]
    table = pa.table({"person": ["a", "a"], "item": ["x", "y"]})
    with pytest.raises(dpsu.ParameterError, match="make a plan with the right user"):
        dpsu.select(table, candidates)
