"""What every engine gives back to the pipeline, and whom it tells how far it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpsu.plans.plan import Plan

if TYPE_CHECKING:
    import pyarrow as pa

    from dpsu.contributions.codecs import Codec

Report = Callable[[str, int], None]


@dataclass(frozen=True, repr=False)
class Found:
    """What an engine found: ids of items, and noisy counts where the plan has them.

    `codec` says which values the ids stand for; without one they are the values.
    """

    plan: Plan
    items: pa.Array
    counts: pa.Array | None = None
    codec: Codec | None = None

    def values(self) -> tuple[pa.Array, pa.Array | None]:
        """The values of the items in their order, and the counts."""
        if self.codec is None or self.codec.is_plain:
            return self.items, self.counts
        from dpsu.contributions.codecs import in_order

        return in_order(self.codec.decode(self.items), self.counts)
