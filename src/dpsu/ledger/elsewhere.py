"""What other software spends on the same people: charged like a release, by its price alone."""

from __future__ import annotations

import uuid
from typing import Any

from dpsu.errors import ParameterError
from dpsu.ledger.accounting import Cost
from dpsu.ledger.prices import price
from dpsu.ledger.records import ELSEWHERE, LONGEST_NAME, facts_of
from dpsu.privacy.guarantee import SMALLEST_DELTA

LONGEST = LONGEST_NAME // 2


def charge_elsewhere(what: str, cost: tuple[float, float]) -> tuple[Cost, dict[str, Any]]:
    """Price and facts of a charge by other software; it has sums only, and no plan.

    A delta of 0, which is that of pure mechanisms, is charged as the smallest that there is.
    """
    if not isinstance(what, str) or not 0 < len(what) <= LONGEST or not what.isprintable():
        raise ParameterError(
            f"{{add}} must say what is paid for, in 1 to {LONGEST} printable characters", add=...
        )
    if isinstance(cost, (tuple, list)) and len(cost) == 2:
        epsilon, delta = cost
        pure = type(delta) in (int, float) and delta == 0
        cost = (epsilon, SMALLEST_DELTA if pure else delta)
    charged = Cost(price("cost", cost))
    return charged, facts_of(charged, uuid.uuid4().hex, None, f"{ELSEWHERE}{what}")
