"""Which users take part in a release: a function of the id and of a salt, and of nothing else.

Of T periods each user takes part in exactly p. A salted hash of the id gives a number r below T,
and the user takes part in period k, counted from 0, if (r + k p) modulo T is below p: evenly spread
over all periods, and without a list of who took part before. The salt is public: see
docs/proofs/series.md.

A sample of users has those whose salted hash is below a bound. Its salt is made of the key of the
release: see docs/proofs/select.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.codecs import without_views
from dpsu.contributions.id_columns import Column, lose_nothing
from dpsu.contributions.ids import Ids, places_in_dictionary
from dpsu.contributions.pairs import Columns, Part, Rows


class TakingPart(ABC):
    """Who takes part."""

    @abstractmethod
    def among(self, users: Ids) -> NDArray[np.bool_]:
        """Which of these users take part."""

    def rows_of(self, ids: pa.Array, column: Column) -> pa.Array:
        """Which rows belong to users who take part; those without a user stay, to be reported."""
        if pa.types.is_null(ids.type):
            return _booleans(np.ones(len(ids), np.bool_))
        places, cells = places_in_dictionary(column.name, ids)
        users = column.canonical_ids(cells, lose_nothing)
        known = users.is_valid().to_numpy(zero_copy_only=False)
        # The last place is that of rows without a user.
        wanted = np.ones(len(cells) + 1, np.bool_)
        wanted[:-1][known] = self.among(Ids(users.drop_null()))
        return _booleans(wanted[places])


@dataclass(frozen=True)
class Attendance(TakingPart):
    """One of several periods, of which each user takes part in `per_user`.

    Attributes
    ----------
    period : int
        The first is 1.
    periods : int
        How many there are.
    per_user : int
        In how many of them each user takes part.
    salt : int
        64 bits, the same in all periods.
    """

    period: int
    periods: int
    per_user: int
    salt: int

    def among(self, users: Ids) -> NDArray[np.bool_]:
        """Which of these users take part in this period."""
        first = users.hashes(self.salt) % np.uint64(self.periods)
        steps = np.uint64((self.period - 1) * self.per_user % self.periods)
        attending: NDArray[np.bool_] = (first + steps) % np.uint64(self.periods) < self.per_user
        return attending

    def only(self, rows: Rows) -> Rows:
        """The same rows without those of users who do not take part, dropped as they are read."""
        column = Column(rows.names[0], "user", rows.types[0])
        tally = rows.tally
        tally.nothing = tally.nothing or (
            f"no row has both {rows.names[0]!r} and {rows.names[1]!r}, of users who take part in "
            "this period"
        )

        def attended(part: Part) -> Part:
            return lambda: self._columns(part(), column)

        parts = map(attended, rows.parts)
        return replace(rows, parts=list(parts) if isinstance(rows.parts, list) else parts)

    def _columns(self, columns: Columns, column: Column) -> Columns:
        # Arrow filters no views.
        user, item, repeats = (_plain(column) for column in columns)
        assert user is not None
        assert item is not None
        chunks = [self.rows_of(chunk, column) for chunk in user.chunks]
        wanted = pa.chunked_array(chunks, pa.bool_())
        kept = None if repeats is None else repeats.filter(wanted)
        return _filtered(user, wanted), _filtered(item, wanted), kept


@dataclass(frozen=True)
class Sample(TakingPart):
    """About a `fraction` of all users, below 1; or with `others` everybody else."""

    fraction: float
    salt: int
    others: bool = False

    def among(self, users: Ids) -> NDArray[np.bool_]:
        """Which of these users are in this part."""
        sampled = users.hashes(self.salt) < np.uint64(int(self.fraction * 2.0**64))
        part: NDArray[np.bool_] = ~sampled if self.others else sampled
        return part


def _plain(column: pa.ChunkedArray | None) -> pa.ChunkedArray | None:
    """A column without views of texts or bytes."""
    if column is None or column.num_chunks == 0:
        return column
    return pa.chunked_array([without_views(chunk) for chunk in column.chunks])


def _filtered(column: pa.ChunkedArray, wanted: pa.ChunkedArray) -> pa.ChunkedArray:
    """Some rows of a column; of a dictionary, entries of other rows would stay."""
    kept = column.filter(wanted)
    if not pa.types.is_dictionary(kept.type):
        return kept
    chunks = [chunk.dictionary_decode() for chunk in kept.chunks]
    return pa.chunked_array(chunks, kept.type.value_type)


def _booleans(values: NDArray[np.bool_]) -> pa.Array:
    """NumPy to Arrow; unlike ``pa.array`` this does not load pandas."""
    bits = pa.py_buffer(np.packbits(values, bitorder="little"))
    return pa.Array.from_buffers(pa.bool_(), len(values), [None, bits])
