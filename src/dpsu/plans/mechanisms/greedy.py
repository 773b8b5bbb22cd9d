"""Users one after the other vote for their best item that still needs it (Carvalho et al. 2022)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dpsu.errors import ParameterError
from dpsu.options import number, option
from dpsu.plans.mechanisms.base import (
    Design,
    OneShot,
    Published,
    WithMinUsers,
    WithPrior,
    max_items,
    users_expected,
)
from dpsu.plans.mechanisms.one_shot import (
    LARGEST_CUTOFF,
    WithCutoff,
    all_delta_for_novel_items,
    fraction_bits,
    passes,
)
from dpsu.policies import GreedyPolicy
from dpsu.privacy import calibration
from dpsu.privacy.curves import Laplace, Optimal, TruncatedLaplace
from dpsu.privacy.guarantee import Privacy

BY_REPEATS, POPULAR, SCARCE, BY_HASH = "repeats", "popular", "scarce", "hash"
ORDERS = (BY_REPEATS, POPULAR, SCARCE, BY_HASH)


@dataclass(frozen=True, kw_only=True)
class Greedy(Published, WithCutoff, WithMinUsers, WithPrior):
    """Users in turn spend on their best item that still needs it: GW, and with a prior GW-KT.

    With whole votes (the default) an item is released by the optimal curve of its votes; with a
    fractional cutoff or `alpha` by truncated Laplace noise. As published it is not private.
    """

    max_items: int | None = max_items(None, "all items")
    passes: int = passes()
    order: str | None = option(
        None,
        str,
        "How a user chooses: by how often the user holds an item (default), by the prior (most "
        "popular, the default where one is given, or scarcest that can be filled), or by a hash.",
        choices=ORDERS,
    )
    expected_users: int | None = users_expected()
    allow_unproven: bool = option(
        False, bool, "Accept the published mechanism, whose release carries no guarantee."
    )
    name: ClassVar[str] = "greedy"
    summary: ClassVar[str] = (
        "users in turn vote for their best item that still needs it (GW; with a prior GW-KT)"
    )
    parallel: ClassVar[bool] = False

    def check(self) -> None:
        """Refuse orders that make no use of what was given for them."""
        super().check()
        order = self.chosen_order
        if order in (POPULAR, SCARCE) and self.prior is None:
            raise ParameterError("{order} needs a prior: public data, item -> number", order=order)
        if order in (BY_REPEATS, BY_HASH) and self.prior is not None:
            raise ParameterError("{order} makes no use of a prior; drop one of them", order=order)
        if order == SCARCE and self.expected_users is None:
            raise ParameterError(
                "{order} needs {expected_users}: a public estimate of the number of users, not one "
                "counted in the data",
                order=order,
                expected_users=...,
            )
        if order != SCARCE and self.expected_users is not None:
            raise ParameterError(
                "{order} makes no use of {expected_users}", order=order, expected_users=...
            )
        if self.as_published and not self.allow_unproven:
            raise ParameterError(
                "greedy with calibration='paper' is not differentially private as published; use "
                "calibration='tight', or say {allow_unproven} and get a release without a "
                "guarantee",
                allow_unproven=True,
            )

    @property
    def chosen_order(self) -> str:
        """The order in which a user spends."""
        return self.order or (BY_REPEATS if self.prior is None else POPULAR)

    def design(self, privacy: Privacy) -> Design:
        """Whole votes with the optimal curve, or fractions with a Laplace curve."""
        epsilon, delta = privacy.epsilon, privacy.delta
        curve: Laplace | TruncatedLaplace | Optimal
        if self.as_published:
            curve = Laplace(1 / epsilon, calibration.greedy_published_threshold(epsilon, delta))
            cutoff = self.full_at(curve.threshold, curve.scale, self.shift)
            return self._designed(
                self._fractional(cutoff), curve, cutoff, delta, "greedy-published"
            )
        given = self.cutoff
        if given is not None:
            given = number("cutoff", given, 1.0 + self.shift, LARGEST_CUTOFF)
        if self.alpha is None and (given is None or given.is_integer()):
            curve = Optimal(epsilon, delta)
            if self.passes > 1:
                raise ParameterError(
                    "{passes} must be 1 where every user casts one whole vote; give a fractional "
                    "cutoff or alpha to spread a user's budget over several passes",
                    passes=self.passes,
                )
            cutoff = float(curve.best_cutoff() + self.shift) if given is None else given
            return self._designed(GreedyPolicy(int(cutoff), 0, 1), curve, cutoff, delta, "optimal")
        curve = TruncatedLaplace(epsilon, delta)
        cutoff = self.full_at(curve.threshold, curve.scale, self.shift)
        return self._designed(self._fractional(cutoff), curve, cutoff, delta, "truncated-laplace")

    def _fractional(self, cutoff: float) -> GreedyPolicy:
        bits = fraction_bits(cutoff)
        return GreedyPolicy(math.floor(cutoff * 2**bits), bits, self.passes)

    def _designed(
        self,
        policy: GreedyPolicy,
        curve: Laplace | TruncatedLaplace | Optimal,
        cutoff: float,
        delta: float,
        theorem: str,
    ) -> Design:
        return Design(
            OneShot(policy, curve),
            self.max_items,
            "order",
            cutoff,
            all_delta_for_novel_items(delta),
            theorem,
            proven=not self.as_published,
            order=self.chosen_order,
        )

    def people(self, design: Design, weight: float) -> str:
        """Users vote, or spend what they have."""
        whole = design.selection.policy.fraction_bits == 0
        act = "vote for it" if whole else "spend their whole budget on it"
        return f"{math.ceil(weight):,} users who {act}"
