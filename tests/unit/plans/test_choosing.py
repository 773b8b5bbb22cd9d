"""Mechanisms chosen from hints, from estimates that are paid for, and by private selection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

import dpsu
from dpsu.contributions.interning import intern
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.engines.estimates import LIMITS, UNIT, estimate
from dpsu.inputs.reading import read
from dpsu.plans.auto import Hints
from dpsu.plans.plan import Plan
from dpsu.privacy.calibration import gaussian_scale
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.selection import _split, repetition
from tests.support import flat

pytestmark = pytest.mark.filterwarnings("ignore::dpsu.DataWarning")


def held(data: dict[str, list[str]], key: Key) -> Pairs:
    return intern(read(data, user="user", item="item", count=None, with_repeats=False, key=key))


@pytest.mark.parametrize(
    ("epsilon", "users", "items", "mechanism"),
    [
        (3.0, None, 1.0, "greedy"), (1.0, None, 1.0, "greedy"), (3.0, 100_000, 2.0, "greedy"),
        (1.0, 100_000, 2.0, "policy-laplace"), (3.0, 100_000, 30.0, "sieve"),
        (1.0, None, 30.0, "sieve"), (1.0, None, None, "sieve"), (3.0, 5_000, 5.0, "sieve"),
        (3.0, 400_000, 5.0, "greedy"),
    ],
)  # fmt: skip
def test_the_mechanism_follows_the_hints(
    epsilon: float, users: int | None, items: float | None, mechanism: str
) -> None:
    plan = dpsu.plan(epsilon=epsilon, delta=1e-5, mechanism=dpsu.Auto(users=users, items_per_user=items))  # fmt: skip
    assert plan.name == mechanism
    assert plan.hints is not None
    assert "chosen by" in str(plan)
    assert dpsu.Plan.from_json(plan.to_json()) == plan
    alone = dpsu.plan(epsilon=epsilon, delta=1e-5, mechanism=mechanism)
    assert math.fsum(d for _, d in plan.delta_split) == math.fsum(d for _, d in alone.delta_split)
    if items is not None:
        default = dpsu.plan(
            epsilon=epsilon, delta=1e-5, mechanism=dpsu.Auto(users=users, items_per_user=items)
        )
        assert default == plan


def test_auto_is_near_the_best_for_few_items() -> None:
    """One or two items per user: at most 3 % below the best of the fixed choices."""
    rng = np.random.default_rng(0)
    for items_each in (1, 2):
        items = (rng.zipf(1.25, (40_000, items_each)) % 5000).tolist()
        data = dict(enumerate(items))
        for epsilon, delta in ((3.0, math.exp(-10)), (1.0, 1e-5)):

            def size(data: Any = data, e: float = epsilon, d: float = delta, **given: Any) -> float:
                sizes = [
                    len(flat.release(data, epsilon=e, delta=d, insecure_seed=s, **given))
                    for s in range(3)
                ]
                return float(np.mean(sizes))

            fixed = [
                size(mechanism=name)
                for name in ("sieve", "policy-gaussian", "policy-laplace", "greedy", "sips")
            ]
            chosen = size(
                mechanism="auto", expected_items_per_user=items_each, expected_users=40_000
            )
            assert chosen >= 0.97 * max(fixed)


def test_estimates_are_paid_for_and_near_the_truth() -> None:
    data = {u: [f"i{k}" for k in range(1 + u % 20)] for u in range(20_000)}
    made = dpsu.release(data, epsilon=1, delta=1e-5, mechanism=dpsu.Auto(budget=0.1))
    hints = made.plan.hints
    assert hints is not None
    assert hints.epsilon == 0.1
    assert hints.delta == pytest.approx(1e-6)
    assert hints.expected_users == pytest.approx(20_000, rel=0.1)
    assert hints.expected_items_per_user == pytest.approx(10.5, rel=0.15)
    assert math.fsum(d for _, d in made.plan.delta_split) <= 1e-5 * (1 + 1e-12)
    alone = dpsu.plan(
        epsilon=0.9,
        delta=0.9e-5,
        mechanism=dpsu.mechanism(made.plan.name, max_items=made.plan.max_items),
    )
    assert alone.selection == made.plan.selection
    with pytest.raises(dpsu.ParameterError, match="budget pays for the estimate of what is not"):
        dpsu.Auto(budget=0.1, items_per_user=3)
    with pytest.raises(dpsu.ParameterError, match="depends on the data: give it to"):
        dpsu.plan(epsilon=1, delta=1e-5, mechanism=dpsu.Auto(budget=0.1))
    with pytest.raises(dpsu.ParameterError, match="expected_items_per_user"):
        flat.plan(epsilon=1, delta=1e-5, mechanism="sips", expected_items_per_user=3)


def test_one_user_adds_at_most_one_to_each_sum(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen with the noise taken away, whose scale must cover a step of 1 in every sum."""
    from dpsu.randomness import noise

    seen: list[np.ndarray] = []

    class Silent:
        def __init__(self, key: Key, items: Any, purpose: str) -> None:
            assert purpose == "set sizes"

        def rounded(self, round_: int, scale: float) -> Any:
            assert scale >= UNIT * math.sqrt(len(LIMITS)) * gaussian_scale(0.5, 1e-6)
            return Recorder()

    class Recorder:
        def __radd__(self, sums: np.ndarray) -> np.ndarray:
            seen.append(sums)
            return sums

        __array_ufunc__ = None

    monkeypatch.setattr(noise, "Noise", Silent)
    rng = np.random.default_rng(2)
    for case in range(60):
        data = {f"u{u}": [f"i{k}" for k in range(rng.integers(1, 500))] for u in range(6)}
        key = Key.from_insecure_seed(case)
        estimate(held(data, key), key, 0.5, 1e-6)
        estimate(held({u: i for u, i in data.items() if u != "u3"}, key), key, 0.5, 1e-6)
        moved = seen[-2] - seen[-1]
        assert moved[0] == UNIT
        assert moved.min() >= 0
        assert moved.max() <= UNIT


def test_few_users_are_not_guessed_about() -> None:
    key = Key.from_insecure_seed(1)
    hints = estimate(held({f"u{u}": ["a"] for u in range(50)}, key), key, 0.02, 1e-7)
    assert hints.expected_users is None
    assert hints.expected_items_per_user is None


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0])
@pytest.mark.parametrize("runs", [1.5, 5.0, 100.0])
def test_cost_of_repetition(epsilon: float, runs: float) -> None:
    made = repetition(Privacy(epsilon, 1e-5), runs)
    assert made.expected_runs == pytest.approx(runs, rel=1e-6)
    run = made.run
    assert run.epsilon == epsilon / 2
    total = (
        made.expected_runs
        * run.delta
        * (1 + math.exp(2 * run.epsilon))
        / (1 + math.exp(run.epsilon))
    )
    assert total <= 1e-5
    assert total == pytest.approx(1e-5, rel=1e-6)


def test_the_published_example_of_the_cost() -> None:
    """At epsilon 1 a run, 10 runs on average cost 22.6 times their delta."""
    made = repetition(Privacy(2.0, 1e-5), 10.0)
    assert 1e-5 / made.run.delta == pytest.approx(22.56, abs=0.01)


@pytest.mark.slow
def test_the_number_of_runs_has_its_law() -> None:
    """At p = 1e-9, and the laws for 0.7 and 1.3 times as many runs are rejected."""
    made = repetition(Privacy(1.0, 1e-5), 4.0)
    drawn = np.array([made.draw(Key.from_insecure_seed(s)) for s in range(6000)])

    def p_value(runs: float) -> float:
        gamma = repetition(Privacy(1.0, 1e-5), runs).gamma
        chances = np.array([(1 - gamma) ** k / (k * -math.log(gamma)) for k in range(1, 31)])
        chances = np.append(chances, 1.0 - chances.sum())
        found = np.append([(drawn == k).sum() for k in range(1, 31)], (drawn > 30).sum())
        return float(stats.chisquare(found, chances * len(drawn)).pvalue)

    assert p_value(4.0) > 1e-9
    assert p_value(0.7 * 4.0) < 1e-9
    assert p_value(1.3 * 4.0) < 1e-9


DATA = {u: ["bread", "milk", f"own {u}"] for u in range(2000)}
CANDIDATES: list[dict[str, Any]] = [
    {"mechanism": "weighted-gaussian", "max_items": 3},
    {"mechanism": "count-laplace", "max_items": 1, "min_users": 100_000},
]


@pytest.mark.parametrize("fraction", [None, 0.3])
def test_select_finds_the_better_options(fraction: float | None) -> None:
    """Under a key that draws many runs; under others there may be only one."""
    many = many_runs(Privacy(4.0, 1e-5))
    made = flat.select(
        DATA, CANDIDATES, epsilon=4, delta=1e-5, tune_fraction=fraction, insecure_seed=many
    )
    assert made.items == ("bread", "milk")
    assert made.plan.name == "weighted-gaussian"
    assert not made.private
    again = flat.select(
        DATA, CANDIDATES, epsilon=4, delta=1e-5, tune_fraction=fraction, insecure_seed=many
    )
    assert again.items == made.items


@pytest.mark.parametrize("fraction", [None, 0.3])
@pytest.mark.parametrize("winner", [0, 1])
def test_one_candidate_without_a_guarantee_leaves_none_to_the_choice(
    fraction: float | None, winner: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dpsu.selection._best", lambda *_: (winner, pa.array(["a"])))
    unproven: dict[str, Any] = {
        "mechanism": "greedy",
        "calibration": "paper",
        "allow_unproven": True,
    }
    candidates: list[dict[str, Any]] = [{"mechanism": "weighted-gaussian"}, unproven]
    options: dict[str, Any] = {"epsilon": 1, "delta": 1e-5, "tune_fraction": fraction}
    found = flat.select({"x": ["a"]}, candidates, **options)
    assert not found.private
    assert "NO GUARANTEE" in found.report()
    assert flat.select({"x": ["a"]}, candidates[:1] * 2, **options).private


@pytest.mark.parametrize("fraction", [None, 0.3])
def test_a_selection_tells_what_it_cost(fraction: float | None) -> None:
    made = flat.select(DATA, CANDIDATES[:1], epsilon=4, delta=1e-5, tune_fraction=fraction)
    assert made.items == ("bread", "milk")
    assert made.private
    assert made.plan.privacy == Privacy(4.0, 1e-5)
    assert made.plan.selected is not None
    assert made.plan.selected.epsilon == 2.0
    assert "from 1 candidates" in made.report()
    assert dpsu.Plan.from_json(made.plan.to_json()) == made.plan


@pytest.mark.parametrize("fraction", [None, 0.3])
def test_every_run_has_the_budget_of_a_run(
    fraction: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen at the engine: all runs but a final one on other people have their part only."""
    from dpsu.engines import local

    spent: list[Privacy] = []
    run = local.run

    def watched(plan: dpsu.Plan, *given: Any, **options: Any) -> Any:
        spent.append(plan.privacy)
        return run(plan, *given, **options)

    monkeypatch.setattr(local, "run", watched)
    flat.select(DATA, CANDIDATES, epsilon=4, delta=1e-5, tune_fraction=fraction)
    runs = spent if fraction is None else spent[:-1]
    assert set(runs) == {repetition(Privacy(4.0, 1e-5), 5.0).run}
    assert fraction is None or spent[-1] == Privacy(4.0, 1e-5)


def test_the_sample_and_the_others_are_different_people() -> None:
    key = Key.from_insecure_seed(1)
    pairs = held({f"u{u}": [f"i{k}" for k in range(1 + u % 5)] for u in range(4000)}, key)
    sample, others = _split(pairs, 0.25, key)
    parts = [
        set(np.concatenate([b.users for b in part.blocks]).tolist()) for part in (sample, others)
    ]
    assert not parts[0] & parts[1]
    assert len(parts[0] | parts[1]) == 4000
    assert stats.binomtest(len(parts[0]), 4000, 0.25).pvalue > 1e-9
    assert len(sample) + len(others) == len(pairs)


class Watched:
    """The engine, with a note of whose rows and which key every run of it was given."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.people: list[set[Any]] = []
        self.secrets: list[bytes] = []
        run = local.run

        def watched(plan: dpsu.Plan, pairs: Pairs, key: Key, **more: Any) -> Any:
            codes = np.unique(np.concatenate([block.users for block in pairs.blocks]))
            self.people.append(set(pairs.users.take(codes.astype(np.int64)).values.to_pylist()))
            self.secrets.append(key.secret)
            return run(plan, pairs, key, **more)

        monkeypatch.setattr(local, "run", watched)


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


@pytest.mark.parametrize("fraction", [None, 0.4])
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


@pytest.mark.parametrize(
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


@pytest.mark.parametrize(
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
    paid = Plan.derived(
        dpsu.Privacy(1, 1e-5),
        dpsu.Sieve(),
        dpsu.Users(),
        dpsu.Items(),
        hints=Hints(9, 2, 0.1, 1e-7),
    )
    with pytest.raises(dpsu.ParameterError, match="must not be chosen by estimates"):
        dpsu.select(DATA, [paid])
    for wrong in ([{"mechanism": "sieve"}], ["sieve"], dpsu.plan(**base), None):
        with pytest.raises(dpsu.ParameterError, match="candidates must be"):
            dpsu.select(DATA, wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "option",
    [
        {"rounds": 6}, {"passes": 2}, {"prior": {"a": 1}}, {"order": "hash"}, {"min_users": 3},
        {"cutoff": 5}, {"alpha": 1.0}, {"scout_items": 0}, {"calibration": "paper"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("items", [1, 2, 50])
def test_auto_refuses_before_it_knows(option: dict[str, Any], items: float) -> None:
    """What auto decides itself is refused whatever it would have chosen."""
    with pytest.raises(dpsu.ParameterError, match=f"auto chooses {next(iter(option))} itself"):
        flat.plan(epsilon=1, delta=1e-5, expected_items_per_user=items, **option)


@pytest.mark.parametrize("items", [1, 2, 50])
def test_auto_takes_a_column_of_counts_whatever_it_chooses(items: float) -> None:
    import pyarrow as pa

    table = pa.table({"user": [1, 2] * 50, "item": ["a", "b"] * 50, "n": [1, 2] * 50})
    made = dpsu.release(
        table,
        epsilon=3,
        delta=1e-5,
        mechanism=dpsu.Auto(items_per_user=items),
        item=dpsu.Items(repeats="n"),
    )
    assert made.plan.item.repeats == ("n" if items == 2 else None)
