"""What every engine gives back to the pipeline, and whom it tells how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

Report = Callable[[str, int], None]


@dataclass(frozen=True, repr=False)
class Found:
    """What an engine found: items, and noisy counts where the plan has them."""

    plan: Plan
    items: pa.Array
    counts: pa.Array | None = None
