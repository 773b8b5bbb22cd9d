"""Choosing options by looking at the data, and paying for it.

Two ways. Private selection repeats the mechanism a random number of times with options drawn at
random, publishes the largest release and hides the rest; this doubles epsilon, so that every run
gets half of it. Tuning on a disjoint sample of users runs the same selection on the sample only and
releases from the others with the options it found: nobody is in both parts, so nobody pays twice.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import DataWarning, ParameterError
from dpsu.ledger.spending import Spending
from dpsu.options import number
from dpsu.plans.plan import Plan, Selected
from dpsu.plans.planning import DEFAULT_ITEM, DEFAULT_USER, plan
from dpsu.privacy.guarantee import Privacy
from dpsu.randomness.keys import Key
from dpsu.releases import Release
from dpsu.text.source import Split, text_source

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsu.contributions.pairs import Pairs
    from dpsu.ledger.ledger import Ledger

MOST_EXPECTED_RUNS = 1000.0
UNIFORM_BITS = 256
TAKEN = (
    "epsilon", "delta", "user", "item", "text", "tokenizer", "ngrams", "insecure_seed", "prior",
    "public_items", "counts", "hints", "user_type", "item_type",
)  # fmt: skip


PLANNED = frozenset(signature(plan).parameters)


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
    candidates: Sequence[Mapping[str, Any]],
    *,
    epsilon: float,
    delta: float,
    user: str = DEFAULT_USER,
    item: str = DEFAULT_ITEM,
    user_type: str | None = None,
    item_type: str | None = None,
    text: str | None = None,
    tokenizer: str | Split | None = None,
    ngrams: int | str | tuple[int, int] | None = None,
    count: str | None = None,
    expected_runs: float = 5.0,
    tune_fraction: float | None = None,
    format: str | None = None,
    strict: bool = False,
    memory_limit: int | str | None = None,
    insecure_seed: int | None = None,
    ledger: str | Path | Ledger | Spending | None = None,
    dataset: str | None = None,
    budget: tuple[float, float] | None = None,
) -> Release:
    """Release with the best of several sets of options, the choice paid for.

    Parameters
    ----------
    data, user, item, user_type, item_type, text, tokenizer, ngrams, count, format, strict, \
memory_limit, insecure_seed
        As for :func:`dpsu.release`.
    ledger, dataset, budget
        As for :func:`dpsu.release`.
    candidates : sequence of mappings
        Options as for :func:`dpsu.plan`, each a possible choice: ``{"mechanism": "sieve"}``,
        ``{"mechanism": "policy-gaussian", "max_items": 50}``.
    epsilon, delta : float
        The guarantee of the whole, choice included.
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
    (epsilon, delta)-differentially private for adding or removing one user, by
    ``dpsu proofs select``. How many runs there were is not told.

    Cost
    ----
    Reads the data once, then `expected_runs` releases on average.

    Examples
    --------
    >>> import dpsu
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> sizes = [{"mechanism": "weighted-gaussian", "max_items": size} for size in (3, 30)]
    >>> best = dpsu.select(visits, sizes, epsilon=2, delta=1e-6)
    >>> best.items
    ('bread', 'milk')
    """
    from dpsu.contributions.pairs import intern
    from dpsu.inputs.reading import read, refuse_by_names, wanted
    from dpsu.runtime.memory import Memory, parse_size

    spending = Spending.of(ledger, dataset, budget)
    privacy = Privacy(epsilon, delta)
    if not isinstance(candidates, Sequence) or not candidates:
        raise ParameterError("candidates must be a list of at least one set of options")
    for options in candidates:
        if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
            raise ParameterError('candidates must be mappings of options: [{"max_items": 30}, ...]')
        for name in TAKEN:
            if name in options:
                raise ParameterError(f"candidates must not contain {name!r}; it is one for all")
    repeated = repetition(privacy, expected_runs)
    part = None if tune_fraction is None else number("tune_fraction", tune_fraction, 0.001, 0.9)
    source = text_source(text, tokenizer, ngrams, count=count)
    shared = {
        "user": user, "item": item, "text": text, "tokenizer": tokenizer, "ngrams": ngrams,
        "insecure_seed": insecure_seed, "user_type": user_type, "item_type": item_type,
    }  # fmt: skip
    trials = [_plan(repeated.run, shared, options, count) for options in candidates]
    finals = [_plan(privacy, shared, options, count) for options in candidates]
    # One candidate without a guarantee leaves none to the whole, whichever of them wins.
    proven = all(final.proven for final in finals)
    key = Key.from_os() if insecure_seed is None else Key.from_insecure_seed(insecure_seed)
    if insecure_seed is not None:
        warnings.warn("insecure_seed: this release is not private", DataWarning, stacklevel=2)
    memory, types = Memory(parse_size(memory_limit)), (user_type, item_type)
    if spending.path is not None:
        columns = wanted(user, text or item, count, texts=text is not None, types=types)
        refuse_by_names(data, columns, format, tokenizer)
        spending.charge(replace(finals[0], proven=proven), choice="select")
    rows = read(
        data, user=user, item=item, count=count, counted=True, key=key, format=format,
        memory=memory, text=source, tokenizer=tokenizer, types=types,
    )  # fmt: skip
    pairs = intern(rows, strict=strict, memory=memory)
    cost = Selected(
        len(candidates), repeated.expected_runs, repeated.run.epsilon, repeated.run.delta, part,
    )  # fmt: skip
    if part is None:
        best, items = _best(trials, pairs, key, repeated)
        told = replace(
            trials[best],
            privacy=privacy,
            selected=cost,
            proven=proven,
            delta_split=(("repeated selection", delta),),
        )
        spending.returned()
        return Release(told, items)
    sample, others = _split(pairs, part, key)
    best, _ = _best(trials, sample, key, repeated)
    from dpsu.engines import local

    items = local.run(finals[best], others, _key(key, "final", 0))
    spending.returned()
    return Release(replace(finals[best], selected=cost, proven=proven), items)


def _plan(
    privacy: Privacy, shared: dict[str, Any], options: Mapping[str, Any], count: str | None
) -> Plan:
    for name in options:
        if name not in PLANNED:
            raise ParameterError(
                f"candidates must not contain {str(name)!r}: plan has no such option"
            )
    made = plan(epsilon=privacy.epsilon, delta=privacy.delta, **shared, **options)
    return made if count is None or made.order != "count" else replace(made, count=count)


def _best(plans: list[Plan], pairs: Pairs, key: Key, repeated: Repetition) -> tuple[int, pa.Array]:
    """The largest of K releases, each by a plan drawn at random, and which plan it was."""
    from dpsu.engines import local

    best: tuple[int, pa.Array] | None = None
    for run in range(repeated.draw(key)):
        # 256 bits modulo a small number: as good as uniform.
        drawn = int.from_bytes(key.digest("candidate", run, 0, b""), "big") % len(plans)
        items = local.run(plans[drawn], pairs, _key(key, "run", run))
        if best is None or len(items) > len(best[1]):
            best = drawn, items
    assert best is not None
    return best


def _key(key: Key, purpose: str, run: int) -> Key:
    """A key of its own for every run: coins of different runs must be independent."""
    return replace(key, secret=key.digest(f"key of {purpose}", run, 0, b""))


def _split(pairs: Pairs, fraction: float, key: Key) -> tuple[Pairs, Pairs]:
    """Two parts with different users, each user by a salted hash of its own id."""
    import numpy as np

    sampled = pairs.users.hashes(key.salt("tuning sample")) < np.uint64(int(fraction * 2.0**64))
    return pairs.of_users(sampled), pairs.of_users(~sampled)
