"""Who holds what, row by row: rows as they are read, and rows of codes.

Everything here is private; the classes have no repr, so that no traceback prints their values.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dpsu.contributions.codecs import PLAIN, Codec, Keys
from dpsu.contributions.ids import Ids
from dpsu.errors import warn, warn_or_refuse

Columns = tuple[pa.ChunkedArray, pa.ChunkedArray, pa.ChunkedArray | None]
Part = Callable[[], Columns]


class Tally:
    """What was left out while parts were read, in any thread.

    `nothing` is the warning for the case that no rows are left; `shared_users` is that of
    :class:`Rows`, for texts.
    """

    def __init__(self, nothing: str | None, *, shared_users: bool = False) -> None:
        self.nothing = nothing
        self._shared_users = shared_users
        self.lost: Counter[str] = Counter()
        self._texts = 0
        self._lock = threading.Lock()

    def lose(self, what: str, number: int = 1) -> None:
        """Note that `number` things, described by `what`, were left out."""
        if number:
            with self._lock:
                self.lost[what] += number

    def of_texts(self, nothing: str, shared_users: bool) -> Tally:
        """A tally for the texts of the same rows; it keeps what this one has noted."""
        tally = Tally(nothing, shared_users=shared_users)
        tally.lost, tally._lock = self.lost, self._lock
        return tally

    def see(self, texts: int) -> None:
        """Note that `texts` more texts had items."""
        with self._lock:
            self._texts += texts

    def suspicious(self, n_users: int) -> bool:
        """Whether there are several texts, each of another user."""
        return self._shared_users and 1 < self._texts == n_users


@dataclass(frozen=True, repr=False)
class Rows:
    """Rows to be read: functions that each read a part, so that parts can be read side by side.

    `names` are the names of the columns as the caller typed them, for messages, and `types` the
    declared types of users and items. `shared_users` says that user ids came with the rows, so that
    a different id in each row is suspicious. Parts note in `tally` what they leave out, and in
    `item_keys` of which columns and types the ids of items are made.
    """

    parts: Iterable[Part]
    names: tuple[str, str, str | None]
    shared_users: bool = True
    tally: Tally = field(default_factory=lambda: Tally(None))
    types: tuple[str | None, str | None] = (None, None)
    item_keys: Keys = field(default_factory=Keys)


@dataclass(frozen=True, repr=False)
class Block:
    """Some interned rows: a user and an item each, and perhaps how often the user holds it."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    repeats: NDArray[np.int32] | None

    def rows(self, wanted: NDArray[np.bool_]) -> Block:
        """Only the wanted rows."""
        repeats = None if self.repeats is None else self.repeats[wanted]
        return Block(self.users[wanted], self.items[wanted], repeats)

    def complete_rows(self) -> Block:
        """Only the rows that have a user, an item and, if there are any, positive repeats."""
        # Codes below -1 stand for unsigned integers (see `Interner`).
        wanted = (self.users != -1) & (self.items != -1)
        if self.repeats is not None:
            wanted &= self.repeats > 0
        return self.rows(wanted)


@dataclass(frozen=True, repr=False)
class Pairs:
    """Interned rows: distinct users, distinct items, and blocks of codes of both.

    `codec` says which values the ids of items stand for.
    """

    users: Ids
    items: Ids
    blocks: list[Block]
    codec: Codec = PLAIN

    def __len__(self) -> int:
        return sum(len(block.users) for block in self.blocks)

    def of_users(self, wanted: NDArray[np.bool_]) -> Pairs:
        """Only the rows of the wanted users."""
        kept = [block.rows(wanted[block.users]) for block in self.blocks]
        return replace(self, blocks=[block for block in kept if len(block.users)])


def report_lost(tally: Tally, strict: bool) -> None:
    """Warn that something was left out, or refuse it; never say how much."""
    for problem in sorted(tally.lost):
        warn_or_refuse(
            problem, "they were ignored", "drop or repair them, or do without strict", strict
        )


def report_nothing(tally: Tally, strict: bool, otherwise: str = "") -> None:
    """Warn that no rows are left, or refuse that."""
    warn_or_refuse(
        tally.nothing or otherwise, "nothing can be released", "check what was read", strict
    )


def question_users(what: str, user_name: str) -> None:
    """Warn that each row, or text, belongs to another user."""
    warn(
        f"every {what} has its own {user_name!r}: is this column really the person to protect, and "
        f"not a number of the {what}?"
    )
