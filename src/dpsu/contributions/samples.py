"""Who is in a sample of users: a function of the id and of a salt, and of nothing else.

A sample has the users whose salted hash is below a bound. Its salt is made of the key of the
release: see docs/proofs/select.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.id_columns import Column, lose_nothing
from dpsu.contributions.ids import Ids, places_in_dictionary


@dataclass(frozen=True)
class Sample:
    """About a `fraction` of all users, below 1; or with `others` everybody else."""

    fraction: float
    salt: int
    others: bool = False

    def among(self, users: Ids) -> NDArray[np.bool_]:
        """Which of these users are in this part."""
        sampled = users.hashes(self.salt) < np.uint64(int(self.fraction * 2.0**64))
        part: NDArray[np.bool_] = ~sampled if self.others else sampled
        return part

    def rows_of(self, ids: pa.Array, column: Column) -> pa.Array:
        """Which rows belong to users in this part; those without a user stay, to be reported."""
        if pa.types.is_null(ids.type):
            return _booleans(np.ones(len(ids), np.bool_))
        places, cells = places_in_dictionary(column.name, ids)
        users = column.canonical_ids(cells, lose_nothing)
        known = users.is_valid().to_numpy(zero_copy_only=False)
        # The last place is that of rows without a user.
        wanted = np.ones(len(cells) + 1, np.bool_)
        wanted[:-1][known] = self.among(Ids(users.drop_null()))
        return _booleans(wanted[places])


def _booleans(values: NDArray[np.bool_]) -> pa.Array:
    """NumPy to Arrow; unlike ``pa.array`` this does not load pandas."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])
