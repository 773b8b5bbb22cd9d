"""From what was typed to a plan: what can be refused is refused here, before any data."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dpsu.errors import REFUSED, ParameterError, option_error
from dpsu.inputs.columns import DEFAULT_ITEM, DEFAULT_USER, Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.inputs.values import Values
from dpsu.options import suggests_keywords
from dpsu.plans.counts import Counts, counts_of
from dpsu.plans.feasibility import check_expected_users
from dpsu.plans.mechanisms import Auto, Hints, Mechanism, by_name
from dpsu.plans.plan import Plan, checked_seed
from dpsu.plans.prose import warn_of_weakness
from dpsu.plans.public_data import PublicData, PublicDigest
from dpsu.privacy.guarantee import Privacy
from dpsu.text.spec import FUNCTION, is_file


@suggests_keywords
def plan(
    *,
    epsilon: float,
    delta: float,
    mechanism: str | Mechanism | None = None,
    user: str | Sequence[str] | Users = DEFAULT_USER,
    item: str | Sequence[str] | Items | Tokens = DEFAULT_ITEM,
    counts: bool | Counts = False,
    public_items: Any = None,
    insecure_seed: int | None = None,
) -> Plan:
    """Plan a release without touching any data.

    Parameters
    ----------
    epsilon, delta : float
        The guarantee for adding or removing one user with all rows.
    mechanism : str or Mechanism, optional
        One of ``dpsu mechanisms`` by its name, or with options: ``dpsu.Greedy(max_items=30)``;
        by default :class:`dpsu.Auto`, which chooses by public numbers, or by an estimate that 1 %
        of epsilon pays for; the plan then names what it may choose.
    user, item : str, sequence of str, Users, Items or Tokens
        Columns of the person to protect and of the thing to release; several columns make one key
        together; :class:`dpsu.Tokens` makes items of texts, and :class:`dpsu.Values` of the values
        of many columns.
    counts : bool or Counts
        Also release a noisy number of users for every released item.
    public_items : iterable, frame or path, optional
        Known items: released in full, and not paid for.
    insecure_seed : int, optional
        Repeatable randomness for tests; the release then carries no guarantee.

    Returns
    -------
    Plan
        It can be printed, approved, written to a file, and run: ``dpsu.release(data, plan)``.

    Privacy
    -------
    Touches no confidential data and spends nothing.

    Cost
    ----
    Milliseconds; a prior or a list of public items is read to identify it.

    Examples
    --------
    >>> import dpsu
    >>> policy = dpsu.PolicyGaussian(max_items=100)
    >>> p = dpsu.plan(epsilon=3, delta=4.5e-5, mechanism=policy)
    >>> round(p.threshold, 2), round(p.noise_scale, 2)
    (6.4, 1.28)
    >>> dpsu.Plan.from_json(p.to_json()) == p
    True
    """
    made = make_plan(
        Privacy(epsilon, delta), mechanism_of(mechanism), users_of(user), items_of(item),
        counts=counts, public_items=public_items, insecure_seed=insecure_seed,
    )  # fmt: skip
    warn_of_weakness(made)
    return made


def make_plan(
    privacy: Privacy,
    mechanism: Mechanism,
    user: Users,
    item: Items | Tokens,
    *,
    counts: bool | Counts = False,
    public_items: Any = None,
    insecure_seed: int | None = None,
) -> Plan:
    """A plan of what was typed."""
    insecure_seed = checked_seed(insecure_seed)
    privacy = replace(privacy, ids_per_person=user.ids_per_person)
    hints: Hints | None = None
    name = "users" if isinstance(mechanism, Auto) else "expected_users"
    stated: int | None = getattr(mechanism, name, None)
    if isinstance(mechanism, Auto) and mechanism.hints is not None:
        # What is known needs no estimate: the choice is made before any data is seen.
        hints = mechanism.hints
        possible = [each.mechanism for each in mechanism.designed(privacy)]
        mechanism = mechanism.chosen(privacy.epsilon, hints, possible)
    prior = getattr(mechanism, "prior", None)
    knowledge = _read(prior, public_items, _item_columns(item))
    if knowledge.public_items is not None and item.type is not None:
        from dpsu.contributions.ids import arrow_type

        # Refused here, and not where they join the output of a release that was charged.
        knowledge.public_items.as_type(arrow_type(item.type))
    if knowledge.prior is not None:
        mechanism = replace(mechanism, prior=_digest(knowledge.prior))  # type: ignore[call-arg]
    if stated is not None:
        check_expected_users(privacy, stated)
    return Plan.derived(
        privacy,
        mechanism,
        user,
        item,
        counts=counts_of(counts),
        hints=hints,
        public_items=_digest(knowledge.public_items),
        tokenizer_file=_tokenizer_file(item),
        insecure_seed=insecure_seed,
        knowledge=knowledge,
    )


def mechanism_of(given: str | Mechanism | None) -> Mechanism:
    """The mechanism that was typed: a name is the class with its defaults."""
    if given is None:
        return Auto()
    if isinstance(given, Mechanism):
        return given
    if isinstance(given, type) and issubclass(given, Mechanism):
        raise ParameterError(
            f"mechanism is the class {given.__name__}; make one: dpsu.{given.__name__}()"
        )
    if isinstance(given, Plan):
        raise ParameterError(
            "mechanism is a plan, which has a mechanism and a guarantee already; give the plan "
            "alone, behind the data: dpsu.release(data, plan)"
        )
    return mechanism(given)


def mechanism(name: str, **options: Any) -> Mechanism:
    """A mechanism by its name, for names and options that come from a file or a form.

    Parameters
    ----------
    name : str
        One of ``dpsu mechanisms``.
    **options
        Its options, as its class takes them.

    Returns
    -------
    Mechanism

    Privacy
    -------
    Touches no data.

    Cost
    ----
    None.

    Examples
    --------
    >>> import dpsu
    >>> dpsu.mechanism("sieve", rounds=6) == dpsu.Sieve(rounds=6)
    True
    >>> dpsu.mechanism("auto", items_per_user=1) == dpsu.Auto(items_per_user=1)
    True
    """
    return by_name(name, **options)


def users_of(given: str | Sequence[str] | Users) -> Users:
    """Where users are."""
    return given if isinstance(given, Users) else Users(given)


def items_of(given: str | Sequence[str] | Items | Tokens) -> Items | Tokens:
    """Where items are."""
    return given if isinstance(given, (Items, Tokens)) else Items(given)


def with_public_data(
    plan: Plan, *, prior: Any = None, public_items: Any = None, item: Any = None
) -> Plan:
    """A plan with the public data and the tokenizer that it names, refused if they are others.

    A plan that was just made has them already; one that was read from a file knows their digests.
    """
    plan = _with_tokenizer(plan, item)
    if _tokenizer_file(plan.item) != plan.tokenizer_file:
        raise option_error(
            "tokenizer", "is another file than the plan was made with", plan.item.tokenizer,
            exit_code=REFUSED,
        )  # fmt: skip
    given = _read(prior, public_items, _item_columns(plan.item))
    held = plan.knowledge
    for name, wanted in (("prior", plan.prior), ("public_items", plan.public_items)):
        new, old = getattr(given, name), getattr(held, name)
        if old is not None and _digest(old) != wanted:
            raise ParameterError(
                f"the plan holds another {{{name}}} than it says", exit_code=REFUSED, **{name: ...}
            )
        if new is not None and _digest(new) != wanted:
            what = "another one" if wanted is not None else "none"
            raise option_error(
                name, f"is not what the plan was made with, which is {what}", exit_code=REFUSED
            )
        if wanted is not None and new is None and old is None:
            raise ParameterError(
                f"the plan was made with {{{name}}}, which a file does not hold; give it again",
                **{name: ...},
            )
        if new is None:
            given = replace(given, **{name: old})
    return plan.with_knowledge(replace(given, paths=(*held.paths, *given.paths)))


def _with_tokenizer(plan: Plan, item: Any) -> Plan:
    if item is None:
        named = plan.item.tokenizer
        if isinstance(named, str) and named.startswith(FUNCTION):
            raise ParameterError(
                f"the plan makes tokens by a function ({named}), which a file does not hold; give "
                "it again: item=dpsu.Tokens(..., tokenizer=...)"
            )
        return plan
    if not isinstance(item, Tokens) or not isinstance(plan.item, Tokens):
        raise ParameterError("the plan says which {item} is released; drop it", item=...)
    held = plan.item.tokenizer
    if (
        replace(item, tokenizer=held) != plan.item
        or item.source.tokenizer != plan.item.source.tokenizer
        or (callable(held) and item.tokenizer is not held)
    ):
        raise ParameterError("the plan was made for another {item}", exit_code=REFUSED, item=...)
    return replace(plan, item=item)


def _tokenizer_file(item: Items | Tokens) -> PublicDigest | None:
    """The file of a tokenizer by its size and digest: what was approved is what runs."""
    named = item.tokenizer
    if not isinstance(named, str) or not is_file(named):
        return None
    if not Path(named).is_file():
        raise ParameterError(f"there is no tokenizer file {named!r}")
    content = Path(named).read_bytes()
    return PublicDigest(len(content), hashlib.sha256(content).hexdigest())


def _item_columns(item: Items | Tokens) -> Any:
    """The columns that public data have; None if these cannot be had."""
    if isinstance(item, Values):
        return None
    return item.columns if isinstance(item, Items) else item.name


def _read(prior: Any, public_items: Any, item: Any) -> PublicData:
    if prior is None and public_items is None:
        return PublicData()
    if isinstance(prior, PublicDigest):
        raise ParameterError(
            "this mechanism was read from a file; give its {prior} again", prior=...
        )
    from dpsu.inputs import public

    if item is None:
        raise ParameterError(
            "values of many columns have neither {prior} nor {public_items}; drop them",
            prior=...,
            public_items=...,
        )
    named = (("prior", prior), ("public_items", public_items))
    return PublicData(
        None if prior is None else public.read_prior(prior, item),
        None if public_items is None else public.read_public_items(public_items, item),
        # Whole paths: the current folder may be another one when the plan runs.
        tuple(
            (name, os.path.abspath(path))  # noqa: PTH100
            for name, path in named
            if isinstance(path, (str, os.PathLike))
        ),
    )


def _digest(known: Any) -> PublicDigest | None:
    return None if known is None else PublicDigest(len(known), known.digest)
