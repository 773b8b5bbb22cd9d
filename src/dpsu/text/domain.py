"""Released grams of one length, and the longer ones that they allow; all of this is public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.ids import integers, numbers

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Domain:
    """Grams sorted by their text.

    A gram of several tokens is two grams one shorter, which overlap: `heads` and `tails` are their
    places in the domain one shorter, `lasts` are the last tokens. Those of single tokens are 0.
    A gram one longer than these is a pair, with the number ``head * len + tail``.
    """

    texts: pa.Array
    heads: Places
    tails: Places
    lasts: pa.Array

    @classmethod
    def of_tokens(cls, tokens: pa.Array) -> Domain:
        """Grams of length 1."""
        texts = tokens.take(pc.sort_indices(tokens))
        nothing = np.zeros(len(texts), np.int64)
        return cls(texts, nothing, nothing, texts)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _followers(self) -> tuple[Places, Places, Places]:
        """Grams sorted by head; where the followers of each gram start; sums of their numbers."""
        by_head = np.argsort(self.heads, kind="stable")
        heads = self.heads[by_head]
        first = np.searchsorted(heads, self.tails, "left")
        ends = np.cumsum(np.searchsorted(heads, self.tails, "right") - first)
        return by_head, first, ends

    @property
    def n_pairs(self) -> int:
        """How many grams one longer have both of their parts here."""
        return int(self._followers[2][-1]) if len(self) else 0

    def pair(self, place: int) -> int:
        """One of the `n_pairs` grams one longer."""
        by_head, first, ends = self._followers
        head = int(np.searchsorted(ends, place, "right"))
        before = int(ends[head - 1]) if head else 0
        return head * len(self) + int(by_head[first[head] + place - before])

    def spelled(self, pairs: Places) -> pa.Array:
        """Texts of grams one longer: the head, a space, and the last token of the tail."""
        heads, tails = np.divmod(pairs, max(len(self), 1))
        space = pa.scalar(" ", pa.large_string())
        return pc.binary_join_element_wise(
            self.texts.take(integers(heads)), self.lasts.take(integers(tails)), space
        )

    def extended(self, pairs: Places) -> Domain:
        """The domain one longer that has just these pairs."""
        texts = self.spelled(pairs)
        order = numbers(pc.sort_indices(texts).cast(pa.int64()), np.int64)
        heads, tails = np.divmod(pairs[order], max(len(self), 1))
        lasts = self.lasts.take(integers(tails))
        return Domain(texts.take(integers(order)), heads, tails, lasts)

    def places(self, pairs: Places, shorter: Domain) -> Places:
        """Positions of pairs of `shorter` in this domain; -1 for those that are not released."""
        known = self.heads * len(shorter) + self.tails
        order = np.argsort(known)
        at = np.searchsorted(known[order], pairs)
        at[at == len(known)] = 0
        if len(known) == 0:
            return np.full(len(pairs), -1, np.int64)
        found = order[at]
        return np.where(known[found] == pairs, found, -1)
