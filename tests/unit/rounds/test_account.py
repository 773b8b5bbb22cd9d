"""The account by a user's own size: its numbers, its check, and who is bound by it and when."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from dpsu.contributions.ids import Ids, integers
from dpsu.engines.local_rounds import LocalRounds
from dpsu.kernels.rounds import largest_cap
from dpsu.randomness import noise as noise_module
from dpsu.rounds.account import Limits, SizeAccount, split_by_size
from dpsu.rounds.sieve import SieveRounds, design_sieve
from tests.support import reference, sieve_probes
from tests.support.cases import every

Plan = tuple[float, float, int, int, int]
PLANS: list[Plan] = [
    (3.0, math.exp(-10), 20, 300, 3000),
    (1.0, 1e-5, 20, 300, 3000),
    (1.0, 1e-5, 6, 20, 50),
    (0.1, 1e-10, 14, 7, 3000),
    (8.0, 0.3, 1, 1, 0),
    (8.0, 0.3, 3, 40, 40),
    (2.0, 1e-6, 20, 2000, 0),
]


def sieve_of(plan: Plan) -> SieveRounds:
    epsilon, delta, rounds, max_items, scouted = plan
    return design_sieve(epsilon, delta, rounds=rounds, max_items=max_items, scout_items=scouted)[0]


@every("plan", PLANS)
def test_noise_and_crossings_of_every_class_stay_within_delta(plan: Plan) -> None:
    """In many digits, with the doubles that the kernel gets; a larger norm would be too much."""
    sieve = sieve_of(plan)
    account, limits = sieve.account, sieve.limits()
    sizes, delta = account.sizes(), Fraction(account.delta)
    assert sum(Fraction(f) for phase in sieve.phases for f in phase.shares) <= 1
    scouting = Fraction(0) if len(limits) == 1 else Fraction(limits[0].allowed[0])
    assert (scouting > 0) == (len(limits) == 2)
    assert {Fraction(each) for limit in limits[:-1] for each in limit.allowed} <= {scouting}
    classes = range(len(sizes)) if len(sizes) < 50 else [0, 1, 9, 99, 200, len(sizes) - 1]
    for user_class in classes:
        norms = {Fraction(limit.norms[user_class]) for limit in limits}
        assert len(norms) == 1
        norm = norms.pop()
        crossing = scouting + Fraction(limits[-1].allowed[user_class])
        squared = (norm / Fraction(sieve.sigma)) ** 2
        assert reference.hockey_stick(account.epsilon, squared) + crossing <= delta
        more = squared * (1 + Fraction(1, 10**7))
        assert (norm == 1 and user_class == 0) or reference.hockey_stick(
            account.epsilon, more
        ) + crossing > delta
        assert limits[-1].allowed[user_class] == account.allowed(sizes[user_class])


@every("max_items", [1, 2, 7, 300, 512, 513, 3000, 100_000])
def test_every_size_has_a_class_that_is_no_smaller(max_items: int) -> None:
    account = split_by_size(1.0, 1e-5, max_items, scouting=True)
    sizes = account.sizes()
    assert sizes[0] == 1
    assert sizes[-1] == max_items
    assert all(a < b <= a + 1 + a // 64 for a, b in itertools.pairwise(sizes))
    assert len(sizes) < 2**16
    for size in {0, 1, 2, 300, 511, 512, 513, 600, max_items - 1, max_items, 10 * max_items}:
        user_class = int(sieve_probes.classes_of(sizes, size))
        assert sizes[user_class] >= min(size, max_items)
        users = [list(range(size))] if size <= 3000 else []
        if users:
            engine = sieve_probes.engine_of(users, max(size, 1))
            engine.classify(sizes)
            assert engine.classes is not None
            assert engine.classes.tolist() == [user_class]
            assert engine.classes.dtype == np.uint16


def test_an_account_that_grows_too_fast_is_refused() -> None:
    with pytest.raises(AssertionError, match="grow faster"):
        SizeAccount(1.0, 1e-5, 0.0, 5e-6, 1.5, 300)
    account = split_by_size(1.0, 1e-5, 300, scouting=False)
    with pytest.raises(AssertionError, match="grow faster"):
        replace(account, exponent=1.0 + 1e-9)
    assert replace(account, exponent=1.0).exponent == 1.0
    for scouting, crossing in ((0.0, 1e-5), (0.0, 0.0), (-1e-9, 5e-6), (1e-5, 5e-6)):
        with pytest.raises(AssertionError, match="for noise"):
            replace(account, scouting=scouting, crossing=crossing)


def test_no_cap_is_an_error_and_never_a_cap_of_nothing() -> None:
    """Items can be released because they are in a set, whatever their weight."""
    limits = Limits((1.0,), (1e-6,), (0.25, 0.5, 1.0), (1e-7, 1e-6, 1e-5))
    grids = np.array(limits.caps), np.array(limits.crossing)
    for t in range(1, 11):
        cap = limits.cap(0, t)
        assert cap == largest_cap(*grids, 1e-6 / t) == (0.5 if t == 1 else 0.25)
    for t in (11, 3000):
        with pytest.raises(AssertionError, match="no cap"):
            limits.cap(0, t)
        with pytest.raises(AssertionError, match="no cap"):
            largest_cap(*grids, 1e-6 / t)
        engine = sieve_probes.engine_of([list(range(t))], t)
        engine.classify((1,))
        with pytest.raises(AssertionError, match="no cap"):
            engine.attend(np.ones(t), limits, 1.0, 2.0**20)
    honest = sieve_of(PLANS[2])
    deciding = honest.phases[-1]
    lower = replace(deciding, boundary=tuple(0.9 * bound for bound in deciding.boundary))
    with pytest.raises(AssertionError, match="no cap"):
        replace(honest, phases=(honest.phases[0], lower)).limits()


def lonely(size: int) -> LocalRounds:
    return sieve_probes.engine_of([list(range(size))], size)


@every("smallest", [100, 162, 300])
@every("size", [3, 30, 300])
def test_users_keep_their_norm_where_attention_is_tiny(size: int, smallest: float) -> None:
    """Squares of attention below 1e-160 are no numbers any more, and below 1e-154 bad ones."""
    rng = np.random.default_rng(size)
    sieve = sieve_of(PLANS[0])
    account, limits = sieve.account, sieve.limits()
    largest = account.sizes()[sieve_probes.classes_of(account.sizes(), size)]
    norm = Fraction(account.norm(largest, sieve.sigma))
    engine = lonely(size)
    for this_round in sieve.rounds():
        attention = 10.0 ** -rng.uniform(smallest - 2, smallest, size)
        # A few common items take what their caps allow, and the others get the rest.
        attention[rng.permutation(size)[: rng.integers(1, 3)]] = 1.0
        weights, _ = sieve.ask(this_round, engine, attention, limits)
        assert sum(int(w) ** 2 for w in weights) <= (norm * int(sieve.unit)) ** 2


@every("plan", PLANS[:4] + PLANS[5:6])
@every("size", [1, 2, 10, 49, 300, 3500])
def test_users_keep_their_norm_and_cap_in_every_round_of_both_phases(plan: Plan, size: int) -> None:
    """One user, whatever attention says and is released: in whole units, by its first set."""
    rng = np.random.default_rng(size)
    sieve = sieve_of(plan)
    account, limits = sieve.account, sieve.limits()
    first = min(size, sieve.phases[0].max_items)
    user_class = sieve_probes.classes_of(account.sizes(), first)
    largest = account.sizes()[user_class]
    norm = Fraction(account.norm(largest, sieve.sigma))
    engine = lonely(size)
    released, reached = np.zeros(size, bool), set()
    for this_round in sieve.rounds():
        attention = np.where(released, 0.0, np.exp(rng.normal(0, rng.choice([0.1, 2.0]), size)))
        before = engine.classes
        weights, _ = sieve.ask(this_round, engine, attention, limits)
        assert before is None or engine.classes is before
        unit = int(sieve.unit)
        squares = sum(int(w) ** 2 for w in weights)
        assert squares <= (norm * unit) ** 2
        phase = sieve.phases.index(this_round.phase)
        if squares > (norm * unit) ** 2 * Fraction(999, 1000):
            reached.add(phase)
        held = engine.held.items[engine.held.start[0] : engine.held.stop[0]]
        t = int((attention[held] > 0).sum())
        if t:
            deciding = phase == len(limits) - 1
            allowed = account.allowed(largest) if deciding else account.scouting
            crossing = np.array(limits[phase].crossing)
            cap = limits[phase].caps[int((crossing <= allowed / t).sum()) - 1]
            shape = this_round.phase.shapes[this_round.place]
            assert Fraction(int(weights.max())) <= Fraction(cap) * Fraction(shape) * unit
        # Sets get smaller, and empty in the end; classes do not follow.
        released |= rng.random(size) < 0.15
    # Whoever has a few items is held by its norm, in each phase.
    assert size < 10 or reached == set(range(len(limits)))
    assert engine.classes is not None
    assert engine.classes.tolist() == [user_class]


def test_classes_are_fixed_once() -> None:
    engine = lonely(5)
    engine.choose(4, None)
    engine.classify((1, 2, 3))
    with pytest.raises(AssertionError, match="before there is noise"):
        engine.classify((1, 2, 3))
    engine.choose(2, np.zeros(5))
    assert engine.held.sizes.tolist() == [0]
    assert engine.classes is not None
    assert engine.classes.tolist() == [2]


def test_without_scouting_the_class_is_that_of_the_only_set() -> None:
    sieve = sieve_of((1.0, 1e-5, 5, 3, 0))
    assert len(sieve.phases) == 1
    assert sieve.account.scouting == 0.0
    users = [[0], [0, 1, 2, 3, 4, 5], [], [1, 2]]
    engine = sieve_probes.engine_of(users, 6)
    sieve.ask(next(iter(sieve.rounds())), engine, np.ones(6), sieve.limits())
    assert engine.classes is not None
    assert engine.classes.tolist() == [0, 2, 0, 1]


def test_classes_do_not_depend_on_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is released while scouting, users are in the class of the set they began with."""
    sieve = sieve_of((1.0, 1e-2, 12, 4, 8))
    users = [list(range(k)) for k in range(1, 12)]
    items = Ids(integers(np.arange(11, dtype=np.int64)))
    seen = []
    for level in (-1e9, 0.0, 1e9):
        fixed = SimpleNamespace(rounded=lambda *_, n=int(level): np.full(11, n))
        monkeypatch.setattr(noise_module, "Noise", lambda *_, noise=fixed: noise)
        engine = sieve_probes.engine_of(users, 11)
        released = sieve.run(engine, items, sieve_probes.KEY)
        assert released.any() == (level > 0) or level == 0
        assert engine.classes is not None
        seen.append(engine.classes.tolist())
    assert seen == [[0, 1, 2, 3, 3, 3, 3, 3, 3, 3, 3]] * 3
