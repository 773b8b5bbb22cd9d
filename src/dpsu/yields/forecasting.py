"""What a release would yield, from public knowledge: made-up users, or a public corpus."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpsu.errors import ParameterError, option_error
from dpsu.inputs.columns import Items
from dpsu.options import one_of, options_of, suggests_keywords
from dpsu.plans.feasibility import findings
from dpsu.plans.mechanisms import MECHANISMS, Mechanism, by_name
from dpsu.plans.plan import Plan
from dpsu.showing.progress import Steps, steps
from dpsu.yields.advice import advice
from dpsu.yields.forecasted import Forecast
from dpsu.yields.profiles import find_users
from dpsu.yields.trials import Trial


@suggests_keywords
def forecast(
    plan: Plan,
    *,
    users: int | None = None,
    items_per_user: float | None = None,
    spread: float | None = None,
    zipf: float | None = None,
    vocabulary: int | None = None,
    profile: Any = None,
    mechanisms: Sequence[str | Mechanism] | None = None,
    progress: bool | Steps | None = None,
) -> Forecast:
    """Forecast how many items a release would yield, before any confidential data is touched.

    Users are made up by Zipf's law, or taken from a public corpus; the plan and all other
    mechanisms are then tried on them, at this and other epsilons and sizes of sets. Real data are
    not made up, so that the plan and every mechanism come with a range, from `low` to `high`: what
    1.7 times fewer or more of these users would yield. The guide on forecasts says how often
    that was enough.

    Parameters
    ----------
    plan : Plan
        What is planned, made by :func:`dpsu.plan`. A prior and public items are not taken into
        account.
    users : int, optional
        Expected number of users. With `profile`, so many users of the corpus are used; if it has
        fewer, yields are extrapolated.
    items_per_user : float, optional
        Expected number of different items of a user, on average; set sizes are log-normal.
    spread : float, optional
        How unequal users are: the average number of items divided by that of the user in the
        middle. 1 if all hold equally many, 1.8 by default, 5 if a few hold most of everything.
    zipf : float, optional
        Exponent of Zipf's law of popularity; 1 by default, as for words. Larger means fewer
        common items and a longer tail.
    vocabulary : int, optional
        Number of different items that exist. By default it grows with users and their items by
        Heaps' law: 8 times the number of pairs of a user and an item to the power of 0.6, but no
        more than they can hold.
    profile : path, frame or mapping, optional
        Instead of made-up users: a PUBLIC corpus that resembles the data, in any form that
        :func:`dpsu.release` takes. Never the confidential data itself.
    mechanisms : list of str or Mechanism, optional
        Mechanisms to compare with; by default all, with the `max_items` of the plan where it was
        given.
    progress : bool or callable, optional
        True shows a progress bar, in a terminal or a notebook. A function is called with the number
        of steps done and of all steps.

    Returns
    -------
    Forecast

    Privacy
    -------
    A function of public parameters: it touches no confidential data and spends nothing.

    Cost
    ----
    About a hundred releases of the made-up data, and some of fewer and of more users: seconds for a
    hundred thousand pairs of a user and an item, a few minutes for millions. Users with more than
    three million pairs together are not made up: yields are extrapolated from fewer, and a finding
    says so.

    Examples
    --------
    >>> import dpsu
    >>> plan = dpsu.plan(epsilon=1, delta=1e-6)
    >>> seen = dpsu.forecast(plan, users=2000, items_per_user=5, mechanisms=["greedy"])
    >>> seen.hopeless
    False
    >>> seen.planned.mechanism, seen.planned.released > 10
    ('auto', True)
    >>> poor = dpsu.plan(epsilon=0.1, delta=1e-9)
    >>> poor = dpsu.forecast(poor, users=50, items_per_user=5, mechanisms=[])
    >>> print(poor.findings[0].text)  # doctest: +ELLIPSIS
    at epsilon=0.1, delta=1e-09 an item needs about ... users; you expect users=50: nothing ...
    """
    if not isinstance(plan, Plan) or plan.selected is not None:
        raise ParameterError("a forecast needs a plan that dpsu.plan returned")
    asked = _without_public_data(plan)
    if asked.by_length:
        raise ParameterError("there is no forecast for ngrams: made-up users have no texts")
    usual = getattr(options_of(type(plan.mechanism)).get("max_items"), "default", None)
    typed_size = getattr(plan.mechanism, "max_items", None) not in (None, usual)
    size = asked.max_items if typed_size else None
    listed: Sequence[str | Mechanism] = tried_mechanisms() if mechanisms is None else mechanisms
    made = [as_mechanism(each, size) for each in listed]
    others = [asked.mechanism, *(each for each in made if each.name != asked.name)]
    with steps(progress, "forecasting") as tell:
        population = find_users(users, items_per_user, spread, zipf, vocabulary, profile, plan)
        shape, results, runs = Trial(asked, others, population).run(tell)
    found = findings(
        plan, asked.at, users=shape.users, items_per_user=shape.items_per_user,
        typed_size=typed_size,
    )  # fmt: skip
    yields = Forecast(plan, shape, runs, *results, tuple(found))
    return replace(yields, findings=(*found, *advice(yields, typed_size)))


def _without_public_data(plan: Plan) -> Plan:
    """The plan that made-up users can try: they know no prior and no public items."""
    kept = plan.mechanism
    if plan.prior is not None:
        dropped = {"prior": None, "order": None, "expected_users": None}
        kept = replace(
            kept, **{name: value for name, value in dropped.items() if hasattr(kept, name)}
        )
    item = plan.item
    if isinstance(item, Items) and item.repeats is not None:
        item = replace(item, repeats=None)
    return Plan.derived(plan.privacy, kept, plan.user, item, counts=plan.counts, hints=plan.hints)


def tried_mechanisms() -> list[str]:
    """Names of the mechanisms that can be tried side by side: all that weigh pairs."""
    return [name for name, kind in MECHANISMS.items() if not kind.by_length]


def as_mechanism(given: Any, size: int | None) -> Mechanism:
    """What was listed among `mechanisms`: a name, or an object."""
    if isinstance(given, str):
        return sized(given, size)
    if isinstance(given, type) and issubclass(given, Mechanism):
        raise option_error(
            "mechanisms", f"has the class {given.__name__}; make one: dpsu.{given.__name__}()"
        )
    if not isinstance(given, Mechanism) or given.by_length:
        raise option_error(
            "mechanisms", "must be names or objects such as dpsu.Sieve(), other than ngrams"
        )
    return given


def sized(name: str, size: int | None) -> Mechanism:
    """A mechanism by its name, for sets of this size if it matters."""
    kind = MECHANISMS[one_of("mechanisms", name, tried_mechanisms())]
    size = kind.usual_items if size is None else size
    if size is None or "max_items" not in options_of(kind):
        return by_name(name)
    return by_name(name, max_items=size)
