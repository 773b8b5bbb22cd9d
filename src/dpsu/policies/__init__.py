"""Policies turn bounded contributions into integer weights of bounded sensitivity.

One user moves all weights together by at most 1 (count: by at most max_items).

A policy is frozen data: it is part of the plan. It does not know about noise, budgets or engines.
``weights`` returns int64 in units of ``2**-fraction_bits``; an item nobody weighed has weight 0 and
is not in the support.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from dpsu.policies.count import Count
from dpsu.policies.descent import L1Descent, L2Descent
from dpsu.policies.greedy import GreedyPolicy
from dpsu.policies.passes import Progress, no_progress
from dpsu.policies.reroute import ReroutePolicy
from dpsu.policies.weighted import Weighted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dpsu.contributions.grouped import Contributions

__all__ = [
    "Count",
    "GreedyPolicy",
    "L1Descent",
    "L2Descent",
    "Policy",
    "ReroutePolicy",
    "Weighted",
]


class Policy(Protocol):
    """What engines need from a policy."""

    kind: ClassVar[str]

    @property
    def fraction_bits(self) -> int:
        """Weights are in units of ``2**-fraction_bits``."""

    def weights(
        self, contributions: Contributions, progress: Progress = no_progress
    ) -> NDArray[np.int64]:
        """Weight of every item, in units of ``2**-fraction_bits``.

        `progress` is called with the number of users who are done.
        """
