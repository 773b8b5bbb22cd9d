"""The plan: a complete, frozen description of a release before any data is touched."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpsu._version import __version__
from dpsu.errors import REFUSED, ParameterError
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.tokens import Tokens
from dpsu.options import whole_number
from dpsu.plans import written
from dpsu.plans.counts import Counts, NoisyCounts
from dpsu.plans.mechanisms import (
    MECHANISMS,
    Auto,
    Bits,
    Choice,
    Design,
    Hints,
    Mechanism,
    OneShot,
)
from dpsu.plans.mechanisms.base import TIGHT
from dpsu.plans.needs import largest_probability, weights_needed
from dpsu.plans.public_data import PublicData, PublicDigest
from dpsu.plans.shares import Selected, left_for_selection
from dpsu.policies import Policy
from dpsu.privacy.curves import ReleaseCurve
from dpsu.privacy.guarantee import Privacy
from dpsu.rounds import Rounds
from dpsu.text.spec import TextSpec


@dataclass(frozen=True, repr=False)
class Plan:
    """Everything about a release that can be known, and reviewed, before it meets data.

    Made by :func:`dpsu.plan`. Equal plans compare equal; ``Plan.from_json(p.to_json()) == p``.

    Attributes
    ----------
    privacy : Privacy
        The guarantee, for adding or removing one user with all rows.
    mechanism : Mechanism
        How items are chosen, with all of its options; a prior by its digest.
    user, item : Users, Items or Tokens
        Where users and items are.
    design : Design
        What the mechanism decided for this guarantee: policy and curve, or rounds; what delta pays
        for; the theorem that covers it.
    counts : Counts or None
        The share of the budget that pays for noisy numbers of holders.
    noisy_counts : NoisyCounts or None
        What these cost, and their noise.
    public_items : PublicDigest or None
        Items that are known anyway, by their digest.
    tokenizer_file : PublicDigest or None
        The file of a tokenizer, by its size and digest.
    hints : Hints or None
        What `Auto` knew of the users when it chose this mechanism, and what that cost.
    selected : Selected or None
        How :func:`dpsu.select` chose this plan. Such a plan is a record and cannot be run.
    insecure_seed : int or None
        Repeatable randomness for tests; there is no guarantee then.
    version : str
        The version of dpsu that made the plan.
    """

    privacy: Privacy
    mechanism: Mechanism
    user: Users
    item: Items | Tokens
    design: Design
    counts: Counts | None = None
    noisy_counts: NoisyCounts | None = None
    public_items: PublicDigest | None = None
    tokenizer_file: PublicDigest | None = None
    hints: Hints | None = None
    selected: Selected | None = None
    insecure_seed: int | None = None
    version: str = __version__
    knowledge: PublicData = field(default=PublicData(), compare=False)

    @classmethod
    def derived(
        cls,
        privacy: Privacy,
        mechanism: Mechanism,
        user: Users,
        item: Items | Tokens,
        *,
        counts: Counts | None = None,
        hints: Hints | None = None,
        selected: Selected | None = None,
        **facts: Any,
    ) -> Plan:
        """The plan that follows from a mechanism and a guarantee."""
        if MECHANISMS.get(mechanism.name) is not type(mechanism):
            raise ParameterError(
                f"{type(mechanism).__name__} is not the mechanism {mechanism.name!r}; a class that "
                "designs otherwise needs a name of its own"
            )
        privacy = replace(privacy, ids_per_person=user.ids_per_person)
        if privacy.ids_per_person > 1 and mechanism.calibrated != TIGHT:
            raise ParameterError(
                f"{mechanism.name} as published protects one id; with {{ids_per_person}} use "
                "calibration='tight'",
                ids_per_person=privacy.ids_per_person,
            )
        noisy = None if counts is None else counts.design(privacy)
        if not mechanism.counts and (noisy is not None or facts.get("public_items") is not None):
            raise ParameterError(
                f"{mechanism.name} has no {'public items' if noisy is None else 'counts'}; drop "
                "them, or choose another mechanism"
            )
        left = left_for_selection(privacy, noisy, hints, selected)
        design = mechanism.reading(item).designed_for(left)
        if item.repeats is not None and design.order != "repeats":
            other = "{order}" if hasattr(mechanism, "order") else "greedy"
            raise ParameterError(
                f"{mechanism.name} makes no use of {{repeats}} here; drop it, or choose {other}, "
                "where it says what a user holds most often",
                repeats=item.repeats,
                order="repeats",
            )
        return cls(
            privacy, mechanism, user, item, design, counts, noisy, hints=hints, selected=selected,
            **facts,
        )  # fmt: skip

    def refuse_other_design(self) -> None:
        """Refuse a plan whose design was exchanged: it must be what its mechanism leads to."""
        again = Plan.derived(
            self.privacy, self.mechanism, self.user, self.item, counts=self.counts,
            hints=self.hints, selected=self.selected, public_items=self.public_items,
        )  # fmt: skip
        if (again.design, again.noisy_counts) != (self.design, self.noisy_counts):
            raise ParameterError(
                "this plan is not what its mechanism and guarantee lead to; make it with dpsu.plan",
                exit_code=REFUSED,
            )

    @property
    def name(self) -> str:
        """Name of the mechanism."""
        return self.mechanism.name

    @property
    def private(self) -> bool:
        """Whether a release by this plan carries its guarantee."""
        return self.proven and self.insecure_seed is None

    @property
    def proven(self) -> bool:
        """False for published claims that do not hold; such a release carries no guarantee."""
        return self.design.proven and (self.selected is None or self.selected.proven)

    @property
    def theorem(self) -> str:
        """The proof page that covers the curve or the rounds; a policy has its own."""
        return self.design.theorem

    @property
    def delta_split(self) -> tuple[tuple[str, float], ...]:
        """What delta pays for."""
        if self.selected is not None and self.selected.tune_fraction is None:
            return (("repeated selection", self.privacy.delta),)
        noisy, hints = self.noisy_counts, self.hints
        return (
            *self.design.delta_split,
            *(() if noisy is None else (("counts", noisy.delta),)),
            *(() if hints is None or not hints.delta else (("estimates", hints.delta),)),
        )

    @property
    def selection(self) -> OneShot | Rounds | Choice:
        """How items are chosen: a policy with a curve, rounds, or a choice among candidates."""
        chosen: OneShot | Rounds | Choice = self.design.selection
        return chosen

    @property
    def candidates(self) -> tuple[Plan, ...]:
        """The plans that this one may come to: itself, or all among which estimates choose."""
        if not isinstance(self.selection, Choice):
            return (self,)
        unknown = Hints(epsilon=self.selection.epsilon)
        return tuple(
            self.with_mechanism(each.mechanism, hints=unknown) for each in self.selection.candidates
        )

    @property
    def for_few_items(self) -> tuple[Plan, ...]:
        """The candidates but bits, which is for users of hundreds of items, and dear to ask."""
        return tuple(plan for plan in self.candidates if not isinstance(plan.mechanism, Bits))

    def chosen(self, hints: Hints) -> Plan:
        """The plan that estimates choose among the candidates."""
        assert isinstance(self.mechanism, Auto)
        assert isinstance(self.selection, Choice)
        if hints.epsilon != self.selection.epsilon:
            raise ParameterError("these estimates cost another epsilon than the plan pays for them")
        possible = [each.mechanism for each in self.selection.candidates]
        hints = self.mechanism.informed(hints)
        chosen = self.mechanism.chosen(self.privacy.epsilon, hints, possible)
        return self.with_mechanism(chosen, hints=hints)

    @property
    def max_items(self) -> int | None:
        """How many items of a user count; None for all."""
        return self.design.max_items

    @property
    def bounded_by(self) -> str:
        """How these are chosen: by a salted hash, or in the user's order."""
        return self.design.bounded_by

    @property
    def order(self) -> str | None:
        """In which order a user's items come."""
        return self.design.order

    @property
    def cutoff(self) -> float | None:
        """Weight at which an item is full and users turn to other items."""
        return self.design.cutoff

    @property
    def max_users(self) -> int:
        """Number of users up to which rounding errors stay inside the proof."""
        return self.design.max_users

    @property
    def prior(self) -> PublicDigest | None:
        """Public data that guides users, by its digest."""
        known: PublicDigest | None = getattr(self.mechanism, "prior", None)
        return known

    @property
    def expected_users(self) -> int | None:
        """Public estimate of the number of users, for the order by scarcity."""
        known: int | None = getattr(self.mechanism, "expected_users", None)
        return known

    @property
    def min_users(self) -> int | None:
        """Items of fewer users are never released; it costs as much weight."""
        least: int | None = getattr(self.mechanism, "min_users", None)
        return least

    @property
    def shift(self) -> int:
        """Weight of an item that counts for nothing: `min_users` less 1."""
        return (self.min_users or 1) - 1

    @property
    def by_length(self) -> bool:
        """Whether the mechanism goes through texts length by length."""
        return self.mechanism.by_length

    @property
    def text(self) -> TextSpec | None:
        """Which texts are read, and the lengths of n-grams; None where items have a column."""
        return self.mechanism.texts(self.item)

    @property
    def rounds(self) -> Rounds | None:
        """The rounds of sips, sieve, bits and ngrams; None for one-shot mechanisms."""
        return None if isinstance(self.selection, (OneShot, Choice)) else self.selection

    @property
    def _one_shot(self) -> OneShot:
        if not isinstance(self.selection, OneShot):
            raise AttributeError(f"{self.name} has no one policy and curve")
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
        return getattr(self.curve, "scale", None) if isinstance(self.selection, OneShot) else None

    @property
    def threshold(self) -> float | None:
        """What weight plus noise must exceed; None for votes and rounds."""
        return (
            getattr(self.curve, "threshold", None) if isinstance(self.selection, OneShot) else None
        )

    @property
    def needed(self) -> dict[float, float | None]:
        """Weight an item needs to be released with probability 0.5, 0.9 and 0.99.

        None where the cutoff keeps every weight below it. In rounds it is the weight in every
        round, and an upper bound: an item may also be released on the way. Where a mechanism is
        still to be chosen, it is the most that any candidate needs.
        """
        return weights_needed(self)

    @property
    def largest_probability(self) -> float:
        """Probability of an item that everybody holds: below 1 where a cutoff stops its weight."""
        return largest_probability(self)

    def at(self, epsilon: float) -> Plan:
        """The same mechanism for another epsilon."""
        privacy = replace(self.privacy, epsilon=epsilon)
        return self.with_mechanism(self.mechanism, privacy=privacy)

    def with_mechanism(
        self, mechanism: Mechanism, privacy: Privacy | None = None, hints: Hints | None = None
    ) -> Plan:
        """The same release by another mechanism."""
        knowledge = self.knowledge
        if getattr(mechanism, "prior", None) is None:
            knowledge = replace(knowledge, prior=None)
        return Plan.derived(
            self.privacy if privacy is None else privacy, mechanism, self.user, self.item,
            counts=self.counts, public_items=self.public_items,
            hints=self.hints if hints is None else hints, tokenizer_file=self.tokenizer_file,
            insecure_seed=self.insecure_seed, knowledge=knowledge,
        )  # fmt: skip

    @property
    def hash(self) -> str:
        """SHA-256 of mechanism, guarantee, columns and version: what was approved, nothing else.

        Numbers that follow from these are not part of it: their last digits may differ between
        machines.
        """
        return written.plan_hash(written.decided(self))

    def to_json(self) -> str:
        """The plan as JSON text; :meth:`from_json` reads it back."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True)

    def to_dict(self) -> dict[str, Any]:
        """The plan in plain values, as in its JSON."""
        values = written.decided(self) | {"derived": written.derived(self), "hash": self.hash}
        copied: dict[str, Any] = written.plain(values)
        return copied

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the plan to a JSON file, whole or not at all; :meth:`read` reads it back."""
        from dpsu.runtime.writing import check_writable, write_text

        check_writable(Path(path), suffixes=(".json",))
        write_text(Path(path), f"{self.to_json()}\n")

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Plan:
        """Read a plan from a file that :meth:`write` or ``dpsu plan --json`` made, and check it."""
        text = written.text_of(path)
        try:
            return cls.from_json(text)
        except ParameterError as error:
            raise ParameterError(
                f"{str(path)!r}: {error.message}",
                error.flags,
                exit_code=error.exit_code,
                **error.options,
            ) from None

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """Read a plan that :meth:`to_json` wrote, and check it.

        The design is computed again from mechanism, guarantee and options. A file that differs is
        refused: it was edited, or made by a version that designs mechanisms differently.
        """
        return cls.from_dict(written.parse(text))

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Plan:
        """The same from plain values."""
        facts = written.facts_of(values)
        known: dict[str, Any] = {
            name: None if facts[name] is None else written.build(kind, facts[name])
            for name, kind in (
                ("counts", Counts), ("public_items", PublicDigest),
                ("tokenizer_file", PublicDigest), ("hints", Hints),
                ("selected", Selected),
            )
        }  # fmt: skip
        made = cls.derived(
            written.privacy_from_dict(facts["privacy"]),
            written.mechanism_from_dict(facts["mechanism"], PublicDigest),
            written.users_from_dict(facts["user"]),
            written.items_from_dict(facts["item"]),
            **known,
            insecure_seed=checked_seed(facts["insecure_seed"]),
            version=facts["version"],
        )
        written.refuse_differences(facts, made.to_dict(), made.version)
        return made

    def with_knowledge(self, knowledge: PublicData) -> Plan:
        """The same plan with public data at hand."""
        return replace(self, knowledge=knowledge)

    def __repr__(self) -> str:
        text = f"{self.name}, epsilon={self.privacy.epsilon:g}, delta={self.privacy.delta:g}"
        return f"<Plan {self.hash[:12]}: {text}, private={self.private}>"

    def __str__(self) -> str:
        from dpsu.plans.prose import plan_text

        return plan_text(self)

    def _repr_html_(self) -> str:
        from dpsu.plans.prose import plan_html

        return plan_html(self)


def checked_seed(seed: Any) -> int | None:
    """A seed as a number of 64 bits, if there is one."""
    if seed is None:
        return None
    return whole_number("insecure_seed", seed, -(2**63), 2**63 - 1)
