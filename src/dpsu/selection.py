"""Choosing options by looking at the data, and paying for it.

Two ways. Private selection repeats the mechanism a random number of times with options drawn at
random, publishes the largest release and hides the rest; this doubles epsilon, so that every run
gets half of it. Tuning on a disjoint sample of users runs the same selection on the sample only and
releases from the others with the options it found: nobody is in both parts, so nobody pays twice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dpsu.engines.found import Found, Report
from dpsu.errors import ParameterError, keep_warnings, warn
from dpsu.inputs.columns import Items, named_by
from dpsu.inputs.tokens import Tokens
from dpsu.ledger.spending import Spending
from dpsu.options import flag, number
from dpsu.pipeline import carry_out
from dpsu.plans.plan import Plan
from dpsu.plans.planning import with_public_data
from dpsu.plans.shares import Selected
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.results import Release
from dpsu.runtime.changes import shared

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsu.contributions.codecs import Codec
    from dpsu.contributions.pairs import Pairs
    from dpsu.contributions.samples import Sample
    from dpsu.engines.cluster.running import ClusterData

# One release by a plan and a key: ids of items.
ReleaseOnce = Callable[[Plan, Key], "pa.Array"]

MOST_EXPECTED_RUNS = 1000.0
UNIFORM_BITS = 256


@dataclass(frozen=True)
class Repetition:
    """How often a mechanism is repeated: K with P[K = k] proportional to (1 - gamma)^k / k.

    Attributes
    ----------
    gamma : float
        The smaller, the more runs.
    run : Privacy
        What every single run may cost.
    """

    gamma: float
    run: Privacy

    @property
    def expected_runs(self) -> float:
        """Mean of K."""
        return (1.0 - self.gamma) / (self.gamma * -math.log(self.gamma))

    def draw(self, key: Key) -> int:
        """K from 256 pseudorandom bits, by its distribution function."""
        from mpmath.ctx_mp import MPContext

        mp = MPContext()
        mp.prec = 2 * UNIFORM_BITS
        uniform = mp.ldexp(
            int.from_bytes(key.digest("repetitions", 0, 0, b""), "big"), -UNIFORM_BITS
        )
        rest, gamma = mp.mpf(1), mp.mpf(self.gamma)
        scale, runs, power = -mp.log(gamma), 0, mp.mpf(1)
        while True:
            runs += 1
            power *= 1 - gamma
            rest -= power / (runs * scale)
            if uniform >= rest:
                return runs


def repetition(privacy: Privacy, expected_runs: float) -> Repetition:
    """What a run may cost so that the best of K runs costs no more than `privacy`.

    Epsilon is halved, and delta divided by E[K] (1 + e^(2 epsilon_run)) / (1 + e^epsilon_run).
    """
    wanted = number("expected_runs", expected_runs, 1.0, MOST_EXPECTED_RUNS)
    low, high = 1e-9, 1.0 - 1e-9
    for _ in range(200):
        middle = math.sqrt(low * high)
        mean = (1.0 - middle) / (middle * -math.log(middle))
        low, high = (middle, high) if mean > wanted else (low, middle)
    epsilon = privacy.epsilon / 2.0
    mean = (1.0 - high) / (high * -math.log(high))
    growth = (1.0 + math.exp(2.0 * epsilon)) / (1.0 + math.exp(epsilon))
    return Repetition(high, Privacy(epsilon, privacy.delta / (mean * growth) * (1.0 - 1e-9)))


def select(
    data: Any,
    candidates: Sequence[Plan],
    *,
    expected_runs: float = 5.0,
    tune_fraction: float | None = None,
    format: str | None = None,
    strict: bool = False,
    memory_limit: int | str | None = None,
    ledger: Spending | None = None,
) -> Release:
    """Release with the best of several plans, the choice paid for.

    Parameters
    ----------
    data, format, strict, memory_limit, ledger
        As for :func:`dpsu.release`.
    candidates : sequence of Plan
        Possible choices, made by :func:`dpsu.plan` for the same guarantee and columns. Their
        epsilon and delta are the guarantee of the whole, choice included.
    expected_runs : float
        How many runs there are on average. More runs find better options and leave less delta to
        each of them.
    tune_fraction : float, optional
        Choose on so large a random part of the users and release from the others, with all of
        epsilon and delta for both: they are different people.

    Returns
    -------
    Release
        Its plan names the options that were chosen and what the choice cost.

    Privacy
    -------
    (epsilon, delta)-differentially private for adding or removing one user: ``dpsu proofs select``.
    How many runs there were is not shown.

    Cost
    ----
    Reads the data once, then `expected_runs` releases on average.

    Examples
    --------
    >>> import dpsu
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> sizes = [
    ...     dpsu.plan(epsilon=2, delta=1e-6, mechanism=dpsu.WeightedGaussian(max_items=size))
    ...     for size in (3, 30)
    ... ]
    >>> best = dpsu.select(visits, sizes)
    >>> best.items
    ('bread', 'milk')
    """
    from dpsu.inputs.reading import Source
    from dpsu.runtime.memory import Memory, parse_size

    spending = Spending.of(ledger)
    flag("strict", strict)
    trial = trial_of(candidates, expected_runs, tune_fraction)
    memory = Memory(parse_size(memory_limit))
    source = Source(data, trial.first.user, trial.item, format, strict)

    def run(key: Key) -> Found:
        pairs = source.pairs(key, with_repeats=True, memory=memory)

        def release_from(some: Sample | None) -> ReleaseOnce:
            part = pairs if some is None else pairs.of_users(some.among(pairs.users))
            return lambda plan, key: local_run(plan, part, key)

        best, items = trial.best(key, release_from)
        return Found(trial.plan_if(best), items, codec=pairs.codec)

    return trial.carry_out(source.check, run, spending)


def select_on(
    data: ClusterData,
    candidates: Sequence[Plan],
    *,
    expected_runs: float,
    tune_fraction: float | None,
    report: Report,
    spending: Spending,
) -> Release:
    """The same where the data are: every run is a release on the cluster."""
    from dpsu.engines.cluster.running import Cluster

    trial = trial_of(candidates, expected_runs, tune_fraction)
    # What plans, names and types show to be wrong costs nothing, ledger or not.
    with named_by(trial.first):
        for candidate in trial.candidates:
            Cluster(candidate, data, report).check()
    codecs: list[Codec | None] = []

    def release_from(some: Sample | None) -> ReleaseOnce:
        part = data if some is None else data.of_users(some)

        def released(plan: Plan, key: Key) -> pa.Array:
            # Stages of single runs would tell how many there are.
            found = Cluster(plan, part, lambda stage, done: None).run(key)
            codecs.append(found.codec)
            return found.items

        return released

    def run(key: Key) -> Found:
        report("choosing items", 0)
        with telling_once():
            best, items = trial.best(key, release_from)
        # Names and types alone decide it, so that it is the same in all runs.
        return Found(trial.plan_if(best), items, codec=codecs[-1])

    return trial.carry_out(lambda: None, run, spending, report)


@contextmanager
def telling_once() -> Iterator[None]:
    """Warn of each thing once at the end, however many runs saw it: their number is private."""
    with keep_warnings() as ours, shared("warnings", _others_once):
        yield
    for message in dict.fromkeys(ours):
        warn(message)


@contextmanager
def _others_once() -> Iterator[None]:
    """The same of warnings that are not ours, in all of this process."""
    with warnings.catch_warnings(record=True) as caught:
        yield
    for message, category, file, line in dict.fromkeys(
        (str(each.message), each.category, each.filename, each.lineno) for each in caught
    ):
        warnings.warn_explicit(message, category, file, line)


@dataclass(frozen=True)
class Trial:
    """Candidates to be tried, how often and on whom.

    Attributes
    ----------
    candidates : tuple of Plan
        At the guarantee of the whole.
    run_plans : tuple of Plan
        The same at what a run may cost.
    item : Items, Tokens or Values
        The columns that all of them read.
    repeated : Repetition
        How many runs there are, and what each may cost.
    tune_fraction : float or None
        The fraction of users on whom they are tried; everybody if it is None.
    """

    candidates: tuple[Plan, ...]
    run_plans: tuple[Plan, ...]
    item: Items | Tokens
    repeated: Repetition
    tune_fraction: float | None

    @property
    def first(self) -> Plan:
        """A candidate, for what all of them have in common."""
        return self.candidates[0]

    @property
    def cost(self) -> Selected:
        """What the choice costs, for the plan of the whole."""
        run = self.repeated.run
        return Selected(
            len(self.candidates), self.repeated.expected_runs, run.epsilon, run.delta,
            self.tune_fraction,
            # One candidate without a guarantee leaves none to the whole, whichever of them wins.
            proven=all(candidate.proven for candidate in self.candidates),
        )  # fmt: skip

    def best(
        self, key: Key, release_from: Callable[[Sample | None], ReleaseOnce]
    ) -> tuple[int, pa.Array]:
        """The place of the candidate that was chosen, and the items that are released.

        `release_from` makes what releases from a sample of the users, or from everybody.
        """
        from dpsu.contributions.samples import Sample

        if self.tune_fraction is None:
            return _best(self.run_plans, release_from(None), key, self.repeated)
        sample = Sample(self.tune_fraction, key.salt("tuning sample"))
        best, _ = _best(self.run_plans, release_from(sample), key, self.repeated)
        others = replace(sample, others=True)
        return best, release_from(others)(self.candidates[best], _key(key, "final", 0))

    def plan_if(self, best: int) -> Plan:
        """The plan of the whole, if this candidate was chosen."""
        return _recorded(self.candidates[best], self.cost)

    def carry_out(
        self,
        check: Callable[[], None],
        run: Callable[[Key], Found],
        spending: Spending,
        report: Report = lambda stage, done: None,
    ) -> Release:
        """Check, charge the guarantee of the whole, and run."""
        with named_by(self.first):
            return carry_out(
                self.plan_if(0), check=check, run=run, spending=spending, report=report,
                choice="select",
            )  # fmt: skip


def trial_of(
    candidates: Sequence[Plan], expected_runs: float, tune_fraction: float | None
) -> Trial:
    """What was typed, if it can be tried; refused here, before anything is charged, if not."""
    first, item = _alike(candidates)
    repeated = repetition(first.privacy, expected_runs)
    part = None if tune_fraction is None else number("tune_fraction", tune_fraction, 0.001, 0.9)
    if part is not None and first.user.ids_per_person > 1:
        raise ParameterError(
            "{tune_fraction} divides users by their ids, and a person with several of them would "
            "be in both parts; drop it, or {ids_per_person}",
            tune_fraction=part,
            ids_per_person=first.user.ids_per_person,
        )
    runs = [each.with_mechanism(each.mechanism, privacy=repeated.run) for each in candidates]
    return Trial(tuple(candidates), tuple(runs), item, repeated, part)


def _alike(candidates: Sequence[Plan]) -> tuple[Plan, Items | Tokens]:
    """The first candidate, and the item columns that all of them read."""
    if not isinstance(candidates, Sequence) or not candidates:
        raise ParameterError("candidates must be a list of at least one plan")
    for candidate in candidates:
        if not isinstance(candidate, Plan) or candidate.selected is not None:
            raise ParameterError(
                "candidates must be plans: [dpsu.plan(epsilon=1, delta=1e-6), ...]"
            )
        for name in ("counts", "public_items", "prior"):
            if getattr(candidate, name) is not None:
                raise ParameterError(
                    f"candidates must have no {name}: it is not paid for here; plan them without"
                )
        if candidate.hints is not None and candidate.hints.epsilon:
            raise ParameterError("candidates must not be chosen by estimates: they cost more")
        if candidate.by_length:
            raise ParameterError(f"candidates must not be {candidate.name}: it has no pairs")
        candidate.refuse_other_design()
        # A plan from a file may lack the function that makes its tokens.
        with_public_data(candidate)
    first = candidates[0]
    for name in ("privacy", "user", "insecure_seed"):
        if any(getattr(each, name) != getattr(first, name) for each in candidates):
            raise ParameterError(
                f"candidates differ in {name}; plan all of them with the same {name}"
            )
    # Some of them may count how often users hold items, and others need not know.
    repeats = {each.item.repeats for each in candidates} - {None}
    plain = {_without_repeats(each.item) for each in candidates}
    if len(plain) > 1 or len(repeats) > 1:
        raise ParameterError("candidates differ in item; plan all of them with the same item")
    told = next((each.item for each in candidates if each.item.repeats is not None), first.item)
    return first, told


def _without_repeats(item: Items | Tokens) -> Items | Tokens:
    if isinstance(item, Items) and item.repeats is not None:
        return replace(item, repeats=None)
    return item


def _recorded(plan: Plan, cost: Selected) -> Plan:
    """The plan of the whole: what was chosen, under the guarantee that pays for the choice too."""
    return Plan.derived(
        plan.privacy, plan.mechanism, plan.user, plan.item, selected=cost,
        hints=plan.hints, insecure_seed=plan.insecure_seed, tokenizer_file=plan.tokenizer_file,
    )  # fmt: skip


def _best(
    plans: Sequence[Plan], release: ReleaseOnce, key: Key, repeated: Repetition
) -> tuple[int, pa.Array]:
    """The largest of K releases, each by a plan drawn at random, and which plan it was."""
    best: tuple[int, pa.Array] | None = None
    for run in range(repeated.draw(key)):
        # 256 bits modulo a small number: as good as uniform.
        drawn = int.from_bytes(key.digest("candidate", run, 0, b""), "big") % len(plans)
        items = release(plans[drawn], _key(key, "run", run))
        if best is None or len(items) > len(best[1]):
            best = drawn, items
    assert best is not None
    return best


def local_run(plan: Plan, pairs: Pairs, key: Key) -> pa.Array:
    """One release on this machine."""
    from dpsu.engines import local

    return pairs.codec.with_implied(local.select_items(plan, pairs, key)[1])


def _key(key: Key, purpose: str, run: int) -> Key:
    """A key of its own for every run: coins of different runs must be independent."""
    return replace(key, secret=key.digest(f"key of {purpose}", run, 0, b""))
