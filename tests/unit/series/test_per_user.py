"""Series in which every user takes part in some periods only."""

from __future__ import annotations

import json
import shutil
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dpsu
from dpsu.contributions.pairs import Pairs
from dpsu.engines import local
from dpsu.inputs.reading import Source
from dpsu.ledger.accounting import cost_of, total
from dpsu.ledger.ledger import Ledger
from dpsu.randomness.keys import Key
from dpsu.series.known import KnownItems
from dpsu.series.terms import Terms, refuse_per_user
from tests.support.divergence import BITS, UNIT, bracket, growth_at_least
from tests.unit.cli.test_cli import Run, run  # noqa: F401

# So small that no secret ever comes out.
BUDGET: dict[str, Any] = {"epsilon": 3.0, "delta": 1e-12}
Rows = dict[str, list[str]]
KEY = Key.from_insecure_seed(5)


def month(*items: str, people: int = 1200) -> Rows:
    return {f"person {n}": [*items, f"secret {n}"] for n in range(people)}


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("begun") / "some.series"
    return dpsu.Series.create(path, periods=4, per_user=2, **BUDGET).path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "some.series"


@pytest.fixture
def series(begun: Path, path: Path) -> dpsu.Series:
    shutil.copytree(begun, path)
    return dpsu.Series(path)


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The users of whom something reached the engine, period by period."""
    seen: list[set[str]] = []
    select = local.select_items

    def watching(plan: Any, pairs: Pairs, *more: Any, **options: Any) -> Any:
        seen.append(set(pairs.users.values.to_pylist()))
        return select(plan, pairs, *more, **options)

    monkeypatch.setattr(local, "select_items", watching)
    return seen


def test_each_user_is_in_exactly_so_many_periods(
    series: dpsu.Series, watched: list[set[str]]
) -> None:
    for number in range(4):
        assert series.release(month("bread", f"item {number}")).items
    for person in month():
        assert sum(person in seen for seen in watched) == 2
    assert all(500 < len(seen) < 700 for seen in watched)
    assert series.items == ("bread", "item 0", "item 1", "item 2", "item 3")


def test_prices_of_so_many_periods_add_up_and_no_more_would_fit(series: dpsu.Series) -> None:
    cost = cost_of(series.plan)
    assert total([cost] * 2).within(series.budget)
    assert not total([cost] * 3).within(series.budget)
    assert series.plan.privacy == dpsu.split_budget((3.0, 1e-12), releases=2)
    assert "each user takes part in 2 of them" in str(series)
    assert "about 0.5 of the users" in str(series)
    assert "spelled alike" in str(series)


def test_what_absent_users_hold_changes_nothing(
    series: dpsu.Series, watched: list[set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same key, a period without them releases the same, whatever they hold."""
    monkeypatch.setattr(Key, "from_os", classmethod(lambda cls: KEY))
    rows = month("bread", people=300)
    for number in range(1, 5):
        twin = tmp_path / f"twin {number}"
        shutil.copytree(series.path, twin)
        found = series.release(rows)
        present = watched[-1]
        absent = {user: ["much", "more", "bread"] for user in rows if user not in present}
        assert dpsu.Series(twin).release(rows | absent).items == found.items
        assert watched[-1] == present
        shutil.rmtree(twin)
        assert absent


def divergence(budget: dpsu.Privacy, terms: Terms, more: list[Rows], less: list[Rows]) -> Fraction:
    """Upper bound of sup over O of P(O) - e^epsilon Q(O), over all that all periods release.

    Every sequence of outputs is enumerated, with the weights that the engine itself finds for the
    items that are not known yet.
    """
    plan = terms.plan
    curve: Any = plan.curve

    def chances(rows: Rows, number: int, known: frozenset[str]) -> dict[str, tuple[int, int]]:
        source = Source(rows, plan.user, plan.item, attendance=terms.attendance(number))
        public = KnownItems(pa.array(sorted(known), pa.large_string())) if known else None
        pairs = source.pairs(KEY, with_repeats=False)
        items, weights = local.weigh(plan, pairs, KEY, public=public)
        bits = plan.policy.fraction_bits
        return {
            item: bracket(curve, Fraction(int(weight), 1 << bits))
            for item, weight in zip(items.values.to_pylist(), weights, strict=True)
        }

    growth = growth_at_least(budget.epsilon)

    def after(number: int, known: frozenset[str], p: int, q: int) -> int:
        """The sum over all that may follow; P at most p so far, Q at least q."""
        if number > terms.periods:
            return max(0, p - ((growth * q) >> BITS))
        ours = chances(more[number - 1], number, known)
        theirs = chances(less[number - 1], number, known)
        outputs = [(known, p, q)]
        for item in sorted(ours.keys() | theirs.keys()):
            p_low, p_high = ours.get(item, (0, 0))
            q_low, q_high = theirs.get(item, (0, 0))
            outputs = [
                each
                for shown, likely, unlikely in outputs
                for each in (
                    (shown | {item}, -((-likely * p_high) >> BITS), (unlikely * q_low) >> BITS),
                    (
                        shown,
                        -((-likely * (UNIT - p_low)) >> BITS),
                        (unlikely * (UNIT - q_high)) >> BITS,
                    ),
                )
            ]
        return sum(after(number + 1, *output) for output in outputs)

    return Fraction(after(1, frozenset(), UNIT, UNIT), UNIT)


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
@pytest.mark.parametrize("mechanism", ["weighted-laplace", "weighted-gaussian"])
def test_all_periods_together_are_within_the_budget_exactly(mechanism: str) -> None:
    """On small neighbors, for a user who holds an item alone in every period, and one with others.

    What is released early is known later, so the enumeration is of all paths. With Laplace noise,
    where prices are sums and an item of one user comes out with all of delta, the account is tight:
    at the same prices, a user who took part in all periods would exceed the budget.
    """
    budget = dpsu.Privacy(1.0, 0.1)
    made = dpsu.plan(epsilon=1.0, delta=0.1, mechanism=mechanism, item="item", user="user")
    terms = Terms.shared(made, 4, 2)
    others = {f"u{n}": ["shared"] for n in range(4)}
    worst = []
    for held in (["alone"], ["shared"], ["alone", "shared"]):
        for user in ("x", "y", "z"):
            more = [others | {user: held}] * 4
            less: list[Rows] = [others] * 4
            worst += [divergence(budget, terms, *pair) for pair in ((more, less), (less, more))]
    assert max(worst) <= Fraction(budget.delta)
    if mechanism == "weighted-laplace":
        assert max(worst) > 0.9 * Fraction(budget.delta)
        everybody = Terms(terms.plan, 2, budget)
        object.__setattr__(everybody, "periods", 4)
        more, less = [others | {"x": ["alone"]}] * 4, [others] * 4
        assert divergence(budget, everybody, more, less) > 1.5 * Fraction(budget.delta)


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"per_user": 0}, "per_user=0"),
        ({"per_user": 5}, "per_user=5"),
        ({"per_user": 2.0}, "per_user=2.0"),
        ({"per_user": 2, "user": "one per entry"}, "entries of a list have none"),
    ],
    ids=range(4),
)
def test_what_cannot_be_is_refused(typed: dict[str, Any], message: str, path: Path) -> None:
    with pytest.raises(dpsu.ParameterError, match=message):
        dpsu.Series.create(path, **({"periods": 4} | BUDGET | typed))
    assert not path.exists()


def test_people_of_several_ids_are_refused() -> None:
    """Their ids take part in different periods, and in more of them together."""
    one, two = (
        dpsu.plan(
            epsilon=1, delta=1e-6, mechanism="sieve", user=dpsu.Users("who", ids_per_person=ids)
        )
        for ids in (1, 2)
    )
    with pytest.raises(dpsu.ParameterError, match="people of one id"):
        refuse_per_user(2, 4, two)
    refuse_per_user(2, 4, one)


def test_a_ledger_would_count_every_period(series: dpsu.Series, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.db")
    with pytest.raises(dpsu.ParameterError, match=r"--add SERIES --cost 3,1e-12"):
        series.release(month("bread"), ledger=ledger.dataset("visits", budget=(3, 1e-5)))
    assert series.left == 4
    assert not ledger.path.exists()


def test_who_takes_part_is_fixed(series: dpsu.Series, path: Path) -> None:
    """Neither number nor salt can be exchanged between periods without notice."""
    series.release(month("bread"))
    file = path / "series.json"
    good = json.loads(file.read_text())
    for change, message in (
        ({"salt": "0123456789abcdef"}, "salt"),
        ({"per_user": 1}, "salt"),
        ({"per_user": 3}, "exceed the budget"),
        ({"per_user": None, "salt": None}, "exceed the budget"),
        ({"per_user": None}, "everybody takes part"),
        ({"salt": None}, "its salt is none"),
        ({"salt": "0123"}, "its salt is none"),
        ({"per_user": 0}, "per_user=0"),
    ):
        file.write_text(json.dumps(good | change))
        with pytest.raises(dpsu.ParameterError, match=message):
            dpsu.Series(path).release(month("bread"))
    file.write_text(json.dumps(good))
    assert dpsu.Series(path).left == 3
    assert dpsu.Series(path).per_user == 2


def test_salts_differ_between_series(begun: Path, path: Path) -> None:
    other = dpsu.Series.create(path, periods=4, per_user=2, mechanism="policy-laplace", **BUDGET)
    salts = {json.loads((each / "series.json").read_text())["salt"] for each in (begun, other.path)}
    assert len(salts) == 2


def test_the_command_line(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    new = ["series", "new", "v", "--periods", "4", "--per-user", "1", "--epsilon", "3"]
    code, out, err = run(*new, "--delta", "1e-12")
    assert code == 0, err
    assert "each user takes part in 1 of them" in out
    assert json.loads(run("series", "show", "v", "--json")[1])["per_user"] == 1
    rows = "".join(f"{user},bread\n{user},{held[-1]}\n" for user, held in month().items())
    (tmp_path / "1.csv").write_text(f"user,item\n{rows}")
    assert run("series", "next", "v", "1.csv", "--quiet") == (0, "bread\n", "")
    code, _, err = run(
        "series", "next", "v", "1.csv", "--ledger", "l.db", "--dataset", "d", "--budget", "3,1e-5"
    )
    assert (code, "a --ledger would count all 4 periods" in err) == (2, True)
