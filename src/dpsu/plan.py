"""The plan: a complete, frozen description of a release before any data is touched."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from dpsu.auto import Hints, choose
from dpsu.counts import Counts, design_counts
from dpsu.curves import ReleaseCurve, curve_from_dict, curve_to_dict, weight_needed
from dpsu.errors import ParameterError
from dpsu.mechanisms import (
    AUTO,
    CALIBRATIONS,
    DEFAULT_MECHANISM,
    LARGEST_MAX_ITEMS,
    ORDERS,
    OneShot,
    Options,
    find,
)
from dpsu.policies import Policy, policy_from_dict, policy_to_dict
from dpsu.privacy import Privacy, number, whole_number
from dpsu.rounds import Rounds, rounds_from_dict, rounds_to_dict

FORMAT = 1
PROBABILITIES = (0.5, 0.9, 0.99)
DEFAULT_COUNTS_SHARE = 0.2
DEFAULT_COUNTS_ITEMS = 30


@dataclass(frozen=True)
class PublicKnowledge:
    """Public data by its size and SHA-256: enough to tell whether it is the same."""

    entries: int
    sha256: str


@dataclass(frozen=True)
class Selected:
    """How a plan was chosen by :func:`dpsu.select`, and what every run of the choice cost."""

    candidates: int
    expected_runs: float
    epsilon: float
    delta: float
    tune_fraction: float | None


@dataclass(frozen=True)
class Plan:
    """Everything about a mechanism that can be known, and reviewed, before it meets data.

    Made by :func:`plan`. Equal plans compare equal; ``Plan.from_json(p.to_json()) == p``.

    Attributes
    ----------
    privacy : Privacy
        The guarantee, for adding or removing one user with all rows.
    selection : OneShot, Sips or Sieve
        A policy, which says how users weigh items, with a curve, which says how likely an item of
        some weight is released; or rounds of looks at the data.
    cutoff : float or None
        Weight at which an item is full and users turn to other items.
    delta_split : tuple of (what, delta)
        What delta pays for.
    theorem : str
        Stem of the proof page in ``docs/proofs`` that covers the curve; the policy has its own.
    proven : bool
        False for published claims that do not hold; such a release carries no guarantee.
    min_users : int or None
        Items of fewer users are never released; it costs as much weight.
    counts : Counts or None
        The share of the budget that pays for noisy numbers of holders, and their noise.
    hints : Hints or None
        What `auto` knew of the users when it chose this mechanism, and what that cost.
    max_users : int
        Number of users up to which rounding errors stay inside the proof.
    """

    mechanism: str
    privacy: Privacy
    calibration: str
    user: str
    item: str
    count: str | None
    max_items: int | None
    bounded_by: str
    order: str | None
    expected_users: int | None
    min_users: int | None
    counts: Counts | None
    hints: Hints | None
    prior: PublicKnowledge | None
    public_items: PublicKnowledge | None
    selection: OneShot | Rounds
    cutoff: float | None
    delta_split: tuple[tuple[str, float], ...]
    theorem: str
    proven: bool
    max_users: int
    insecure_seed: int | None
    selected: Selected | None = None

    @property
    def private(self) -> bool:
        """Whether a release by this plan carries its guarantee."""
        return self.proven and self.insecure_seed is None

    @property
    def shift(self) -> int:
        """Weight of an item that counts for nothing: `min_users` less 1."""
        return (self.min_users or 1) - 1

    @property
    def rounds(self) -> Rounds | None:
        """The rounds of sips and sieve; None for mechanisms of a single pass."""
        return None if isinstance(self.selection, OneShot) else self.selection

    @property
    def _one_shot(self) -> OneShot:
        if not isinstance(self.selection, OneShot):
            raise AttributeError(f"{self.mechanism} has rounds instead of one policy and curve")
        return self.selection

    @property
    def policy(self) -> Policy:
        """How users weigh items; a mechanism in rounds has none."""
        return self._one_shot.policy

    @property
    def curve(self) -> ReleaseCurve:
        """How likely an item of some weight is released; a mechanism in rounds has none."""
        return self._one_shot.curve

    @property
    def noise_scale(self) -> float | None:
        """Scale of the Laplace noise or deviation of the Gaussian; None for votes and rounds."""
        return None if self.rounds is not None else getattr(self.curve, "scale", None)

    @property
    def threshold(self) -> float | None:
        """What weight plus noise must exceed; None for votes and rounds."""
        return None if self.rounds is not None else getattr(self.curve, "threshold", None)

    @property
    def needed(self) -> dict[float, float | None]:
        """Weight an item needs to be released with probability 0.5, 0.9 and 0.99.

        None where the cutoff keeps every weight below it. In rounds it is the weight in every
        round, and an upper bound: an item may also be released on the way.
        """
        if self.rounds is not None:
            return {p: self.rounds.weight_needed(p) for p in PROBABILITIES}
        weights = {p: weight_needed(self.curve, p) + self.shift for p in PROBABILITIES}
        limit = float("inf") if self.cutoff is None else self.cutoff
        return {p: (w if w <= limit else None) for p, w in weights.items()}

    @property
    def largest_probability(self) -> float:
        """Probability of an item that everybody holds: below 1 where a cutoff stops its weight."""
        if self.rounds is not None:
            return 1.0
        return self.curve.probability(1e300 if self.cutoff is None else self.cutoff - self.shift)

    def to_json(self) -> str:
        """The plan as JSON text; :meth:`from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values, as in its JSON."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        values |= {
            "format": FORMAT,
            "privacy": vars(self.privacy),
            "selection": _selection_to_dict(self.selection),
            "delta_split": [list(part) for part in self.delta_split],
        }
        for name in ("prior", "public_items", "counts", "hints", "selected"):
            values[name] = None if values[name] is None else vars(values[name])
        return values

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan that :meth:`to_json` wrote."""
        values = json.loads(text)
        if not isinstance(values, dict) or values.pop("format", None) != FORMAT:
            raise ParameterError(f"this is not a plan of format {FORMAT}")
        values |= {
            "privacy": Privacy(**values["privacy"]),
            "selection": _selection_from_dict(values["selection"]),
            "delta_split": tuple((what, delta) for what, delta in values["delta_split"]),
        }
        for name in ("prior", "public_items"):
            values[name] = None if values[name] is None else PublicKnowledge(**values[name])
        values["counts"] = None if values["counts"] is None else Counts(**values["counts"])
        chosen = values["selected"]
        values["selected"] = None if chosen is None else Selected(**chosen)
        values["hints"] = None if values["hints"] is None else Hints(**values["hints"])
        return cls(**values)

    def __str__(self) -> str:
        from dpsu.words import plan_text

        return plan_text(self)


def _selection_to_dict(selection: OneShot | Rounds) -> dict[str, Any]:
    if not isinstance(selection, OneShot):
        return rounds_to_dict(selection)
    return {"policy": policy_to_dict(selection.policy), "curve": curve_to_dict(selection.curve)}


def _selection_from_dict(values: dict[str, Any]) -> OneShot | Rounds:
    if "policy" not in values:
        return rounds_from_dict(values)
    return OneShot(policy_from_dict(values["policy"]), curve_from_dict(values["curve"]))


def plan(
    *,
    epsilon: float,
    delta: float,
    mechanism: str | None = None,
    user: str = "user",
    item: str = "item",
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
    if mechanism is None:
        mechanism = DEFAULT_MECHANISM if expected_items_per_user is None else AUTO
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
    if calibration not in CALIBRATIONS:
        raise ParameterError(f"calibration={calibration!r} is not one of {', '.join(CALIBRATIONS)}")
    counted = _counts(privacy, counts_share, counts_items) if counts else None
    # Basic composition: what counts and estimates take is taken from the selection.
    others = [spent for spent in (counted, hints) if spent is not None]
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
    if insecure_seed is not None:
        whole_number("insecure_seed", insecure_seed, -(2**63), 2**63 - 1)
    return Plan(
        mechanism=mechanism,
        privacy=privacy,
        calibration=calibration,
        user=user,
        item=item,
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
    )


def _hints(users: int | None, items: float | None) -> Hints:
    if users is not None:
        whole_number("expected_users", users, 1, 2**32)
    if items is not None:
        number("expected_items_per_user", items, 1.0, 1e9)
    return Hints(users, items)


def _counts(privacy: Privacy, share: float, max_items: int) -> Counts:
    part = number("counts_share", share, 0.001, 0.999)
    most = whole_number("counts_items", max_items, 1, LARGEST_MAX_ITEMS)
    return design_counts(part * privacy.epsilon, part * privacy.delta, most)


def _order(order: str | None, prior: Any, expected_users: int | None, count: str | None) -> str:
    if order is None:
        order = "count" if prior is None else "popular"
    if order not in ORDERS:
        raise ParameterError(f"order={order!r} is not one of {', '.join(ORDERS)}")
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
        whole_number("expected_users", expected_users, 1, 2**32)
    elif expected_users is not None:
        raise ParameterError(f"order={order!r} makes no use of expected_users")
    return order


def _known(name: str, source: Any, item: str) -> PublicKnowledge:
    from dpsu.inputs import public

    read = public.read_prior if name == "prior" else public.read_public_items
    knowledge = read(source, item)
    return PublicKnowledge(len(knowledge), knowledge.digest)
