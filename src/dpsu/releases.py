"""The one call most people need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dpsu.errors import ParameterError, option_error, warn
from dpsu.inputs.columns import DEFAULT_ITEM, DEFAULT_USER, Items, Users, named_by
from dpsu.inputs.tokens import Tokens
from dpsu.ledger.spending import Spending
from dpsu.options import flag, suggests_keywords
from dpsu.pipeline import carry_out
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import Mechanism
from dpsu.plans.plan import Plan
from dpsu.plans.planning import items_of, make_plan, mechanism_of, users_of, with_public_data
from dpsu.privacy.guarantee import Privacy
from dpsu.results import Release
from dpsu.series.once import keeper_of
from dpsu.showing.progress import Stages, stages


@suggests_keywords
def release(
    data: Any,
    plan: Plan | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | Mechanism | None = None,
    user: str | Sequence[str] | Users | None = None,
    item: str | Sequence[str] | Items | Tokens | None = None,
    counts: bool | Counts | None = None,
    public_items: Any = None,
    prior: Any = None,
    insecure_seed: int | None = None,
    strict: bool = False,
    format: str | None = None,
    memory_limit: int | str | None = None,
    progress: bool | Stages | None = None,
    ledger: Spending | None = None,
) -> Release:
    """Release as many items of the users' union as differential privacy allows.

    Parameters
    ----------
    data
        A path, list of paths or glob (parquet, csv, tsv, jsonl; .gz and .zst too); a pandas, Polars
        or PyArrow table, a DuckDB relation or a :class:`dpsu.Query`; a mapping user -> items (or
        user -> {item: repeats}); an iterable of (user, item) tuples; a mapping of names to columns;
        or a list of lists or sets, with ``user="one per entry"``.
    plan : Plan, optional
        What :func:`dpsu.plan` made, perhaps approved and read from a file since. It takes the place
        of all options below up to `insecure_seed`; only public data that a file does not hold
        (`prior`, `public_items`) are given beside it.
    epsilon, delta : float
        The guarantee for adding or removing one user with all rows.
    mechanism : str or Mechanism, optional
        One of ``dpsu mechanisms`` by its name, or with options: ``dpsu.Greedy(max_items=30)``;
        by default :class:`dpsu.Auto`, which chooses by public numbers, or by an estimate that 1 %
        of epsilon pays for; the release then holds the plan that was chosen.
    user, item : str, sequence of str, Users, Items or Tokens
        Columns of the person to protect and of the thing to release, "user" and "item" by default;
        several columns make one key together, and items are tuples then; :class:`dpsu.Tokens`
        makes items of texts. For the values of many columns see :func:`dpsu.domains`.
    counts : bool or Counts
        Also release a noisy number of users for every released item (``release.counts``).
    public_items : iterable, frame or path, optional
        Known items: released in full, and not paid for. Tables have a column named 'item', or as
        that of items; a .txt file has one item per line.
    prior : mapping, frame or path, optional
        With a plan from a file: the prior that its mechanism was made with.
    insecure_seed : int, optional
        Repeatable randomness for tests; the release then carries no guarantee.
    strict : bool
        Refuse rows without a usable user or item instead of dropping them.
    format : {"parquet", "csv", "tsv", "jsonl"}, optional
        Format of files whose name does not say it.
    memory_limit : int or str, optional
        Keep at most so much of the rows in memory (bytes, or text such as ``"4GB"``), the rest in
        temporary files without a name; by default 60 % of what is available.
    progress : bool or callable, optional
        True shows a progress bar, in a terminal or a notebook. A function is called with the name
        of the stage and how far it is: rows read, or users weighed.
    ledger : optional
        Where the release is charged before anything is read, and refused if the budget does not
        allow it: ``dpsu.Ledger("ledger.db").dataset("visits", budget=(3, 1e-5))``. A release that
        fails later is charged all the same. With ``dataset("visits", once="week-10")`` a job that
        runs twice gets what it released the first time, and one that was killed before that runs
        again under the same charge.

    Returns
    -------
    Release

    Privacy
    -------
    The items are (epsilon, delta)-differentially private for adding or removing one user, by the
    theorem that ``release.plan.theorem`` names. Warnings and errors are for the curator only.

    Cost
    ----
    Linear in the rows; about 16 bytes of memory per row plus the distinct strings; rows
    beyond `memory_limit` go to disk.

    Examples
    --------
    >>> import dpsu
    >>> visits = {f"person {n}": ["bread", "milk", f"secret {n}"] for n in range(1000)}
    >>> result = dpsu.release(visits, epsilon=1, delta=1e-6, mechanism="weighted-gaussian")
    >>> result.items
    ('bread', 'milk')
    >>> result.private
    True
    >>> approved = dpsu.plan(epsilon=1, delta=1e-6, mechanism=dpsu.Sieve(rounds=6))
    >>> dpsu.release(visits, approved).items
    ('bread', 'milk')

    References
    ----------
    Gopi et al., Differentially Private Set Union, ICML 2020. Carvalho et al., Incorporating Item
    Frequency for Differentially Private Set Union, AAAI 2022.
    """
    from dpsu.engines.local import OneMachine
    from dpsu.inputs.also_public import refuse_same_object
    from dpsu.inputs.reading import Source
    from dpsu.runtime.memory import Memory, parse_size

    spending = Spending.of(ledger, may_be_named=True)
    flag("strict", strict)
    memory = Memory(parse_size(memory_limit))
    shown = stages(progress)
    refuse_same_object(data, public_items, getattr(mechanism, "prior", None), prior)
    given = plan
    plan = planned(
        plan, epsilon=epsilon, delta=delta, mechanism=mechanism, user=user, item=item,
        counts=counts, public_items=public_items, prior=prior, insecure_seed=insecure_seed,
    )  # fmt: skip
    source = Source(data, plan.user, plan.item, format, strict)
    source.refuse_public(plan.knowledge.paths)
    named = keeper_of(spending, plan)
    stored = named.stored()
    if stored is not None:
        return stored
    with shown as report, named_by(given):
        return carry_out(
            plan,
            check=source.check,
            run=OneMachine(plan, source, memory, named.watching(report)).run,
            spending=spending,
            report=report,
            named=named,
        )


def planned(plan: Plan | None, *, prior: Any, public_items: Any, item: Any, **typed: Any) -> Plan:
    """The plan that was handed in, or the one that was typed."""
    if plan is not None:
        return _given(plan, typed, prior=prior, public_items=public_items, item=item)
    if prior is not None:
        raise option_error("prior", "is an option of mechanisms: mechanism=dpsu.Greedy(prior=...)")
    for name in ("epsilon", "delta"):
        if typed[name] is None:
            raise option_error(name, "is missing; give epsilon and delta, or a plan")
    user, counts = typed["user"], typed["counts"]
    return make_plan(
        Privacy(typed["epsilon"], typed["delta"]),
        mechanism_of(typed["mechanism"]),
        users_of(DEFAULT_USER if user is None else user),
        items_of(DEFAULT_ITEM if item is None else item),
        counts=False if counts is None else counts,
        public_items=public_items,
        insecure_seed=typed["insecure_seed"],
    )


def _given(plan: Plan, typed: dict[str, Any], *, prior: Any, public_items: Any, item: Any) -> Plan:
    """A plan that was handed in, with the public data that it names."""
    if not isinstance(plan, Plan):
        raise ParameterError(f"plan is a {type(plan).__name__}; {_instead(plan)}")
    for name, value in typed.items():
        if value is not None:
            raise ParameterError(f"the plan decides {{{name}}}; drop it", **{name: ...})
    if plan.selected is not None:
        raise ParameterError(
            "this plan records what dpsu.select chose, and cannot be run again; give dpsu.select "
            "its candidates"
        )
    plan.refuse_other_design()
    if plan.hints is not None and plan.hints.epsilon:
        warn(
            "an estimate of an earlier run chose this plan, and none is made now: epsilon "
            f"{plan.hints.epsilon:.4g} is set aside for it, and not spent. Give the plan that was "
            "approved (Release.approved) to have a mechanism chosen for these data, or give this "
            "one all of epsilon: dpsu.plan(..., mechanism=plan.mechanism)"
        )
    return with_public_data(plan, prior=prior, public_items=public_items, item=item)


def _instead(given: object) -> str:
    """What to do with what stands in the place of a plan."""
    if isinstance(given, (int, float)):
        return "give numbers by their names: epsilon=1, delta=1e-6"
    if isinstance(given, Mechanism):
        return "give it by its name: mechanism=..., with epsilon and delta"
    return "give what dpsu.plan returned, dpsu.Plan.read(path) or dpsu.Plan.from_json(text)"
