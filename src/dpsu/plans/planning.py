"""From options to a plan: everything that can be refused is refused here, before any data."""

from __future__ import annotations

import math
from typing import Any

from dpsu.contributions.id_types import ID_TYPES
from dpsu.errors import ParameterError
from dpsu.inputs.columns import DefaultName, check_names
from dpsu.options import flag, number, one_of, whole_number
from dpsu.plans.auto import Hints, choose
from dpsu.plans.counts import Counts, design_counts
from dpsu.plans.feasibility import check_expected_users
from dpsu.plans.mechanisms import (
    AUTO,
    CALIBRATIONS,
    DEFAULT_MECHANISM,
    LARGEST_MAX_ITEMS,
    LARGEST_MIN_USERS,
    MECHANISMS,
    ORDERS,
    Options,
    find,
)
from dpsu.plans.plan import Plan, PublicKnowledge
from dpsu.privacy.guarantee import Privacy
from dpsu.text.source import Split, text_source

# N-grams of several tokens make large sets; so many of them serve long texts and cost short ones
# one percent (benchmarks/texts.py).
SIEVE_MAX_NGRAMS = 1000
DEFAULT_USER, DEFAULT_ITEM = DefaultName("user"), DefaultName("item")
DEFAULT_COUNTS_SHARE = 0.2
DEFAULT_COUNTS_ITEMS = 30


def plan(
    *,
    epsilon: float,
    delta: float,
    mechanism: str | None = None,
    user: str = DEFAULT_USER,
    item: str = DEFAULT_ITEM,
    user_type: str | None = None,
    item_type: str | None = None,
    text: str | None = None,
    tokenizer: str | Split | None = None,
    ngrams: int | str | tuple[int, int] | None = None,
    count: str | None = None,
    max_items: int | None = None,
    alpha: float | None = None,
    cutoff: float | None = None,
    passes: int | None = None,
    rounds: int | None = None,
    scout_items: int | None = None,
    min_users: int | None = None,
    counts: bool = False,
    counts_share: float = DEFAULT_COUNTS_SHARE,
    counts_items: int = DEFAULT_COUNTS_ITEMS,
    calibration: str = "tight",
    order: str | None = None,
    prior: Any = None,
    expected_users: int | None = None,
    expected_items_per_user: float | None = None,
    public_items: Any = None,
    allow_unproven: bool = False,
    insecure_seed: int | None = None,
    hints: Hints | None = None,
) -> Plan:
    """Plan a release without touching any data: the arguments of :func:`dpsu.release` less `data`.

    `hints` are what :func:`dpsu.release` estimated for `auto_budget`; leave them out.

    Privacy
    -------
    Touches no private data and spends nothing.

    Cost
    ----
    Milliseconds; a prior or a list of public items is read to identify it.

    Examples
    --------
    >>> import dpsu
    >>> p = dpsu.plan(epsilon=3, delta=4.5e-5, mechanism="policy-gaussian", max_items=100)
    >>> round(p.threshold, 2), round(p.noise_scale, 2)
    (6.4, 1.28)
    >>> dpsu.Plan.from_json(p.to_json()) == p
    True
    """
    privacy = Privacy(epsilon, delta)
    # Plain numbers from here on: NumPy's compute in their own, smaller types. And here, not where
    # they are used: also a mechanism whose design does not depend on them is run with them.
    if min_users is not None:
        min_users = whole_number("min_users", min_users, 1, LARGEST_MIN_USERS)
    if expected_users is not None:
        expected_users = whole_number("expected_users", expected_users, 1, 2**32)
    if insecure_seed is not None:
        insecure_seed = whole_number("insecure_seed", insecure_seed, -(2**63), 2**63 - 1)
    stated_users = expected_users
    one_of("calibration", calibration, CALIBRATIONS)
    flag("counts", counts)
    flag("allow_unproven", allow_unproven)
    check_names(user=user, item=item, text=text, count=count)
    check_types(user_type=user_type, item_type=item_type)
    if text is not None and item_type is not None:
        raise ParameterError("item_type is not for texts: their tokens are text; drop it")
    source = text_source(text, tokenizer, ngrams, count=count)
    if mechanism is None:
        mechanism = DEFAULT_MECHANISM if expected_items_per_user is None else AUTO
    one_of("mechanism", mechanism, [*MECHANISMS, AUTO])
    if mechanism == AUTO:
        # Refused whatever is chosen: a choice by estimates must not fail once they are paid for.
        left_to_auto = {
            "alpha": alpha, "cutoff": cutoff, "passes": passes, "rounds": rounds,
            "scout_items": scout_items, "min_users": min_users, "order": order, "prior": prior,
            "calibration": None if calibration == "tight" else calibration,
        }  # fmt: skip
        for name, value in left_to_auto.items():
            if value is not None:
                raise ParameterError(f"auto chooses {name} itself; drop it, or name a mechanism")
        hints = hints or _hints(expected_users, expected_items_per_user)
        mechanism, advice = choose(privacy.epsilon, hints)
        max_items = advice.get("max_items") if max_items is None else max_items
        cutoff, order, expected_users = advice.get("cutoff"), advice.get("order"), None
        # Local counts order what greedy users spend on, and mean nothing elsewhere.
        count = count if mechanism == "greedy" and order is None else None
    elif expected_items_per_user is not None:
        raise ParameterError(
            f"{mechanism} makes no use of expected_items_per_user; choose mechanism='auto'"
        )
    if mechanism == "sieve" and max_items is None and source is not None and source.longest > 1:
        max_items = SIEVE_MAX_NGRAMS
    chosen = find(mechanism)
    given = {
        "count": count,
        "max_items": max_items,
        "alpha": alpha,
        "cutoff": cutoff,
        "passes": passes,
        "rounds": rounds,
        "scout_items": scout_items,
        "min_users": min_users,
        "order": order,
        "prior": prior,
        "expected_users": expected_users,
        "allow_unproven": allow_unproven or None,
    }
    for name, value in given.items():
        if value is not None and name not in chosen.options:
            having = sorted(chosen.options - {"insecure_seed"})
            raise ParameterError(f"{mechanism} has no option {name}; it has {', '.join(having)}")
    counted = _counts(privacy, counts, counts_share, counts_items)
    # Basic composition: what counts and estimates take is taken from the selection.
    others = [spent for spent in (counted, hints) if spent is not None]
    for spent in others:
        number("estimates", spent.epsilon, 0.0, privacy.epsilon)
        number("estimates", spent.delta, 0.0, privacy.delta)
    left = Privacy(
        privacy.epsilon - math.fsum(spent.epsilon for spent in others),
        privacy.delta - math.fsum(spent.delta for spent in others),
    )
    options = (max_items, alpha, cutoff, passes, rounds, scout_items, min_users)
    design = chosen.design(Options(left, calibration, *options))
    if not design.proven and not allow_unproven:
        raise ParameterError(
            f"{mechanism} with calibration='paper' is not differentially private as published; use "
            "calibration='tight', or say allow_unproven=True and get a release without a guarantee"
        )
    bounded_by = design.bounded_by
    if "order" in chosen.options:
        order = _order(order, prior, expected_users, count)
    elif prior is not None:
        # Which items a user keeps may follow what the public holds.
        if design.max_items is None:
            raise ParameterError(
                f"{mechanism} makes use of a prior only with max_items: it decides which items a "
                "user keeps"
            )
        order, bounded_by = "popular", "order"
    if stated_users is not None:
        check_expected_users(privacy, stated_users)
    return Plan(
        mechanism=mechanism,
        privacy=privacy,
        calibration=calibration,
        user=str(user),
        item=str(item),
        count=count,
        max_items=design.max_items,
        bounded_by=bounded_by,
        order=order,
        expected_users=expected_users,
        min_users=min_users,
        counts=counted,
        hints=hints,
        prior=None if prior is None else _known("prior", prior, item),
        public_items=None if public_items is None else _known("public_items", public_items, item),
        selection=design.selection,
        cutoff=design.cutoff,
        delta_split=(
            *design.delta_split.items(),
            *(() if counted is None else (("counts", counted.delta),)),
            *(() if hints is None or not hints.delta else (("estimates", hints.delta),)),
        ),
        theorem=design.theorem,
        proven=design.proven,
        max_users=design.max_users,
        insecure_seed=insecure_seed,
        text=source,
        user_type=user_type,
        item_type=item_type,
    )


def check_types(**types: str | None) -> None:
    """Refuse declared types that there are none of."""
    for option, type_ in types.items():
        if type_ is not None:
            one_of(option, type_, ID_TYPES)


def _hints(users: int | None, items: float | None) -> Hints:
    size = None if items is None else number("expected_items_per_user", items, 1.0, 1e9)
    return Hints(users, size)


def _counts(privacy: Privacy, wanted: bool, share: float, max_items: int) -> Counts | None:
    part = number("counts_share", share, 0.001, 0.999)
    most = whole_number("counts_items", max_items, 1, LARGEST_MAX_ITEMS)
    if wanted:
        return design_counts(part * privacy.epsilon, part * privacy.delta, most)
    if (part, most) != (DEFAULT_COUNTS_SHARE, DEFAULT_COUNTS_ITEMS):
        raise ParameterError("counts_share and counts_items do nothing without counts")
    return None


def _order(order: str | None, prior: Any, expected_users: int | None, count: str | None) -> str:
    if order is None:
        order = "count" if prior is None else "popular"
    one_of("order", order, ORDERS)
    if order in ("popular", "scarce") and prior is None:
        raise ParameterError(f"order={order!r} needs a prior: public data, item -> number")
    if order in ("count", "hash") and prior is not None:
        raise ParameterError(f"order={order!r} makes no use of a prior; drop one of them")
    if order != "count" and count is not None:
        raise ParameterError(f"order={order!r} makes no use of local counts; drop count={count!r}")
    if order == "scarce":
        if expected_users is None:
            raise ParameterError(
                "order='scarce' needs expected_users: a public estimate of the number of users, "
                "not one counted in the data"
            )
    elif expected_users is not None:
        raise ParameterError(f"order={order!r} makes no use of expected_users")
    return order


def _known(name: str, source: Any, item: str) -> PublicKnowledge:
    from dpsu.inputs import public

    read = public.read_prior if name == "prior" else public.read_public_items
    knowledge = read(source, item)
    return PublicKnowledge(len(knowledge), knowledge.digest)
