"""Who holds what, row by row: rows as they are read, and rows of codes.

Everything here is private; the classes have no repr, so that no traceback prints their values.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.id_columns import Column
from dpsu.contributions.ids import Ids, is_text, type_name
from dpsu.contributions.interning import Interner, Prepared
from dpsu.errors import DataError, warn
from dpsu.kernels.grouping import MOST_REPEATS
from dpsu.runtime.memory import Memory
from dpsu.runtime.threads import in_order_ahead

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
    a different id in each row is suspicious. Parts note in `tally` what they leave out.
    """

    parts: Iterable[Part]
    names: tuple[str, str, str | None]
    shared_users: bool = True
    tally: Tally = field(default_factory=lambda: Tally(None))
    types: tuple[str | None, str | None] = (None, None)


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
        wanted = (self.users >= 0) & (self.items >= 0)
        if self.repeats is not None:
            wanted &= self.repeats > 0
        return self.rows(wanted)


@dataclass(frozen=True, repr=False)
class Pairs:
    """Interned rows: distinct users, distinct items, and blocks of codes of both."""

    users: Ids
    items: Ids
    blocks: list[Block]

    def __len__(self) -> int:
        return sum(len(block.users) for block in self.blocks)

    def of_users(self, wanted: NDArray[np.bool_]) -> Pairs:
        """Only the rows of the wanted users."""
        kept = [block.rows(wanted[block.users]) for block in self.blocks]
        return Pairs(self.users, self.items, [block for block in kept if len(block.users)])


def rows_of(
    user: pa.ChunkedArray,
    item: pa.ChunkedArray,
    count: pa.ChunkedArray | None,
    names: tuple[str, str, str | None],
    *,
    shared_users: bool = True,
    tally: Tally | None = None,
    types: tuple[str | None, str | None] = (None, None),
) -> Rows:
    """Rows that are already in memory, in one part."""
    tally = Tally(None) if tally is None else tally
    return Rows([lambda: (user, item, count)], names, shared_users, tally, types)


def intern(
    rows: Rows,
    *,
    strict: bool = False,
    memory: Memory | None = None,
    progress: Callable[[int], None] = lambda rows: None,
) -> Pairs:
    """Read and intern rows; those without a user, an item or positive repeats are dropped.

    To refuse them would let one user's row abort the release. `strict` refuses them all the same,
    for curators who would rather repair their data. `progress` is called with the number of rows of
    each part that was read.
    """
    user_name, item_name, count_name = rows.names
    memory = Memory() if memory is None else memory
    users = Interner(Column(user_name, "user", rows.types[0]), rows.tally.lose)
    items = Interner(Column(item_name, "item", rows.types[1]), rows.tally.lose)

    def prepare(part: Part) -> tuple[list[Prepared], list[Prepared], NDArray[np.int32] | None]:
        user, item, count = part()
        if len({len(column) for column in (user, item, count) if column is not None}) > 1:
            raise DataError(f"columns {user_name!r} and {item_name!r} have different lengths")
        repeats = None if count is None else _repeats(str(count_name), count)
        return users.prepare(user), items.prepare(item), repeats

    def codes(interner: Interner, chunks: list[Prepared]) -> tuple[NDArray[np.int32], bool]:
        found, first, missing = memory.empty(sum(chunk.rows for chunk in chunks)), 0, False
        for chunk in chunks:
            missing |= interner.intern(chunk, found[first : first + chunk.rows])
            first += chunk.rows
        return found, missing

    blocks, dropped = [], False
    for user, item, repeats in in_order_ahead(prepare, rows.parts):
        user_codes, no_user = codes(users, user)
        item_codes, no_item = codes(items, item)
        block = Block(user_codes, item_codes, repeats)
        progress(len(block.users))
        if no_user or no_item or (repeats is not None and repeats.min(initial=1) <= 0):
            block, dropped = block.complete_rows(), True
        if len(block.users):
            blocks.append(block)
    report_lost(rows.tally, strict)
    if dropped:
        problem = f"some rows have no {user_name!r} or no {item_name!r}"
        if rows.names[2] is not None:
            problem += f" or no positive {count_name!r}"
        _warn_or_refuse(
            problem, "they were ignored", "drop or repair them, or do without strict", strict
        )
    pairs = Pairs(users.ids(), items.ids(), blocks)
    # The memory of the columns is needed for grouping now.
    pa.default_memory_pool().release_unused()
    if not blocks:
        # The empty database is a neighbor of every database of one user: its release is the empty
        # set, since an error would distinguish the two.
        report_nothing(rows.tally, strict, f"no row has both {user_name!r} and {item_name!r}")
    elif rows.shared_users and 1 < len(pairs) <= len(pairs.users) and _all_differ(blocks):
        question_users("row", user_name)
    elif rows.tally.suspicious(len(pairs.users)):
        question_users("text", user_name)
    return pairs


def report_lost(tally: Tally, strict: bool) -> None:
    """Warn that something was left out, or refuse it; never say how much."""
    for problem in sorted(tally.lost):
        _warn_or_refuse(
            problem, "they were ignored", "drop or repair them, or do without strict", strict
        )


def report_nothing(tally: Tally, strict: bool, otherwise: str = "") -> None:
    """Warn that no rows are left, or refuse that."""
    _warn_or_refuse(
        tally.nothing or otherwise, "nothing can be released", "check what was read", strict
    )


def question_users(what: str, user_name: str) -> None:
    """Warn that each row, or text, belongs to another user."""
    warn(
        f"every {what} has its own {user_name!r}: is this column really the person to protect, and "
        f"not a number of the {what}?"
    )


def _warn_or_refuse(what: str, done: str, fix: str, strict: bool) -> None:
    if strict:
        raise DataError(f"{what}; {fix}")
    warn(f"{what}; {done}")


def _all_differ(blocks: list[Block]) -> bool:
    codes = np.concatenate([block.users for block in blocks])
    return len(codes) == np.count_nonzero(np.bincount(codes))


def _repeats(name: str, column: pa.ChunkedArray) -> NDArray[np.int32]:
    if is_text(column.type):
        # CSV is text. A cell that is no number is missing: one user's cell must not stop the run.
        whole = pc.match_substring_regex(column, r"^[0-9]{1,18}$")
        column = pc.if_else(whole, column, pa.scalar(None, column.type)).cast(pa.int64())
    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise DataError(
            f"column {name!r} has type {type_name(column.type)}; repeats must be integers: "
            "convert it"
        )
    repeats: NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(0).to_numpy()
    return np.clip(repeats, 0, MOST_REPEATS).astype(np.int32)
