"""Read rows and number their distinct users and items; the columns themselves are not kept.

Parts are read and interned in several threads. The codes that ids get depend on other users,
because they change when somebody leaves. So nothing is derived from a code: only `Ids` are hashed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.id_columns import DIGITS, Column
from dpsu.contributions.ids import is_text, type_name
from dpsu.contributions.interner import Interner
from dpsu.contributions.pairs import (
    Block,
    Pairs,
    Part,
    Rows,
    question_users,
    report_lost,
    report_nothing,
)
from dpsu.errors import DataError, warn_or_refuse
from dpsu.kernels.grouping import MOST_REPEATS
from dpsu.runtime.memory import Memory
from dpsu.runtime.threads import in_order_ahead, side_by_side


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
    user_name, item_name, repeats_name = rows.names
    memory = Memory() if memory is None else memory
    users = Interner(Column(user_name, "user", rows.types[0]), rows.tally.lose)
    items = Interner(Column(item_name, "item", rows.types[1]), rows.tally.lose)

    def read(part: Part) -> tuple[Block, int, bool]:
        user, item, times = part()
        if len({len(column) for column in (user, item, times) if column is not None}) > 1:
            raise DataError(f"columns {user_name!r} and {item_name!r} have different lengths")
        repeats = None if times is None else _repeats(str(repeats_name), times)
        block = Block(memory.empty(len(user)), memory.empty(len(item)), repeats)
        no_user = users.intern(user, block.users)
        no_item = items.intern(item, block.items)
        if no_user or no_item or (repeats is not None and repeats.min(initial=1) <= 0):
            return block.complete_rows(), len(user), True
        return block, len(user), False

    blocks, dropped = [], False
    for block, n_rows, incomplete in in_order_ahead(read, rows.parts):
        progress(n_rows)
        dropped |= incomplete
        if len(block.users):
            blocks.append(block)
    all_users, all_items = users.numbered(), items.numbered()

    def renumber(b: int) -> None:
        no_user = all_users.renumber(blocks[b].users)
        no_item = all_items.renumber(blocks[b].items)
        if no_user or no_item:
            blocks[b] = blocks[b].complete_rows()
            incomplete_blocks.append(b)

    incomplete_blocks: list[int] = []
    side_by_side(renumber, len(blocks))
    dropped |= bool(incomplete_blocks)
    blocks = [block for block in blocks if len(block.users)]
    report_lost(rows.tally, strict)
    if dropped:
        problem = f"some rows have no {user_name!r} or no {item_name!r}"
        if rows.names[2] is not None:
            problem += f" or no positive {repeats_name!r}"
        warn_or_refuse(
            problem, "they were ignored", "drop or repair them, or do without strict", strict
        )
    pairs = Pairs(all_users.ids, all_items.ids, blocks)
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


def _all_differ(blocks: list[Block]) -> bool:
    codes = np.concatenate([block.users for block in blocks])
    return len(codes) == np.count_nonzero(np.bincount(codes))


def _repeats(name: str, column: pa.ChunkedArray) -> NDArray[np.int32]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if is_text(column.type):
        column = column.cast(pa.large_string())
        # CSV is text. A cell that is no number is missing: one user's cell must not stop the run.
        whole = pc.match_substring_regex(column, rf"^{DIGITS}$")
        column = pc.if_else(whole, column, pa.scalar(None, column.type)).cast(pa.int64())
    if not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise DataError(
            f"column {name!r} has type {type_name(column.type)}; repeats must be integers: "
            "convert it"
        )
    repeats: NDArray[np.int64] = column.cast(pa.int64(), safe=False).fill_null(0).to_numpy()
    return np.clip(repeats, 0, MOST_REPEATS).astype(np.int32)
