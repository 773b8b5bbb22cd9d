"""The plan: a complete, frozen description of a release before any data is touched."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from dpsu.errors import ParameterError
from dpsu.plans.auto import Hints
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import OneShot
from dpsu.policies import Policy, policy_from_dict, policy_to_dict
from dpsu.privacy.curves import ReleaseCurve, curve_from_dict, curve_to_dict, weight_needed
from dpsu.privacy.guarantee import Privacy
from dpsu.rounds import Rounds, rounds_from_dict, rounds_to_dict
from dpsu.text.source import TextSource

FORMAT = 1
PROBABILITIES = (0.5, 0.9, 0.99)


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

    Made by :func:`dpsu.plan`. Equal plans compare equal; ``Plan.from_json(p.to_json()) == p``.

    Attributes
    ----------
    privacy : Privacy
        The guarantee, for adding or removing one user with all rows.
    selection : OneShot, SipsRounds or SieveRounds
        A policy, which says how users weigh items, with a curve, which says how likely an item of
        some weight is released; or rounds of looks at the data.
    cutoff : float or None
        Weight at which an item is full and users turn to other items.
    delta_split : tuple of (what, delta)
        What delta pays for.
    theorem : str
        Name of the proof that covers the curve (``dpsu proofs NAME``); the policy has its own.
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
    text : TextSource or None
        Where items come from texts: the column, the tokenizer and the lengths of n-grams.
    user_type, item_type : str or None
        What users and items were declared to be, "text" or "integer"; None for what their columns
        are, and for text where there are none.
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
    text: TextSource | None = None
    user_type: str | None = None
    item_type: str | None = None

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
        for name in ("prior", "public_items", "counts", "hints", "selected", "text"):
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
        values["text"] = None if values["text"] is None else TextSource(**values["text"])
        return cls(**values)

    def __str__(self) -> str:
        from dpsu.plans.prose import plan_text

        return plan_text(self)


def _selection_to_dict(selection: OneShot | Rounds) -> dict[str, Any]:
    if not isinstance(selection, OneShot):
        return rounds_to_dict(selection)
    return {"policy": policy_to_dict(selection.policy), "curve": curve_to_dict(selection.curve)}


def _selection_from_dict(values: dict[str, Any]) -> OneShot | Rounds:
    if "policy" not in values:
        return rounds_from_dict(values)
    return OneShot(policy_from_dict(values["policy"]), curve_from_dict(values["curve"]))
