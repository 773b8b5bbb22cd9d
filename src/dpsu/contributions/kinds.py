"""Ids of items of several kinds: which values they stand for, and which others they imply.

An id of kind k is that of the key (k, cells), see `codecs`. Everything here is made of ids that
were released, and of public names and types.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.codecs import TAB, Codec, parsed, unescaped
from dpsu.contributions.ids import integers


@dataclass(frozen=True)
class KindsCodec(Codec):
    """The columns of items of several kinds; `kinds` has the places of the columns of each.

    A value is a struct of all columns, in which those that its kind has not are missing.
    """

    kinds: tuple[tuple[int, ...], ...] = ()

    @property
    def is_plain(self) -> bool:
        """An id is never its own value."""
        return False

    def decode(self, ids: pa.Array) -> pa.Array:
        """The values of ids, in their order."""
        texts: list[list[pa.Array]] = [[] for _ in self.names]
        rows: list[list[NDArray[np.int64]]] = [[] for _ in self.names]
        for kind, (at, cells) in enumerate(self._split(ids)):
            for place, cell in zip(self.kinds[kind], cells, strict=True):
                texts[place].append(unescaped(cell))
                rows[place].append(at)
        columns = [
            _scattered(parsed(pa.concat_arrays(texts[place]), type_), rows[place], len(ids))
            for place, type_ in enumerate(self.types)
        ]
        return pa.StructArray.from_arrays(columns, self.names)

    def with_implied(self, ids: pa.Array) -> pa.Array:
        """These ids and all that they imply, sorted: of a city its country.

        Whoever holds an item holds what it implies, because a kind within another has some of its
        columns. Nothing but the ids decides, so that this is post-processing.
        """
        found = [ids]
        for kind, (_, cells) in enumerate(self._split(ids)):
            own = dict(zip(self.kinds[kind], cells, strict=True))
            found += [
                _joined(other, [own[place] for place in places])
                for other, places in enumerate(self.kinds)
                if set(places) < set(own)
            ]
        every = pa.concat_arrays(found).unique()
        return every.take(pc.sort_indices(every))

    def has(self, ids: pa.Array) -> bool:
        """Nobody has ids of such items from elsewhere."""
        return len(ids) == 0

    def _split(self, ids: pa.Array) -> list[tuple[NDArray[np.int64], list[pa.Array]]]:
        """For each kind, the places of its ids and their escaped cells, column by column."""
        found = []
        for kind, columns in enumerate(self.kinds):
            own = pc.starts_with(ids, f"{kind}{TAB}").to_numpy(zero_copy_only=False)
            at = np.flatnonzero(own).astype(np.int64)
            split = pc.split_pattern(ids.take(integers(at)), TAB)
            cells = [pc.list_element(split, 1 + place) for place in range(len(columns))]
            found.append((at, cells))
        return found


def _joined(kind: int, cells: list[pa.Array]) -> pa.Array:
    """Ids of a kind from their escaped cells."""
    mark = pa.array([str(kind)] * len(cells[0]), pa.large_string())
    return pc.binary_join_element_wise(mark, *cells, pa.scalar(TAB, pa.large_string()))


def _scattered(values: pa.Array, rows: list[NDArray[np.int64]], size: int) -> pa.Array:
    """Values in the rows that they belong to, and nothing in the others."""
    at = np.full(size, -1, np.int64)
    at[np.concatenate(rows)] = np.arange(len(values))
    return values.take(pa.array(at, mask=at < 0))
