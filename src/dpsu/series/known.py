"""What earlier periods released, to be left out of this one."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa

from dpsu.contributions.codecs import Codec
from dpsu.contributions.id_columns import DECIMAL, LARGEST, SMALLEST
from dpsu.inputs.public import PublicItems


@dataclass(frozen=True, repr=False)
class KnownItems(PublicItems):
    """Items of earlier periods, by their texts.

    Unlike what somebody typed, they are not refused where columns have other types now: an item
    that is no value of these types cannot be held, so that there is nothing to leave out. Nor are
    they released again, or counted.
    """

    def as_type(self, type_: pa.DataType) -> pa.Array:
        """The items in the type of the private ones, each once, if they have such a value."""
        if not pa.types.is_integer(type_):
            return self.items.cast(type_).unique()
        spelled = [text for text in self.items.to_pylist() if re.fullmatch(DECIMAL, text)]
        fits = [number for number in map(int, spelled) if SMALLEST <= number <= LARGEST]
        return pa.array(fits, type_).unique()

    def added(self, type_: pa.DataType) -> pa.Array:
        """Nothing: they were released before."""
        return pa.nulls(0, type_)

    def refuse_other_than(self, codec: Codec) -> None:
        """Nothing is refused."""
