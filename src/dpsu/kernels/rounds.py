"""One round of a mechanism: how users' attention becomes weights, and which items they keep.

User u holds ``items[start[u]:stop[u]]`` in the fixed order of items. Loops over users take a range
of them and add to weights of their own, so that ranges can run side by side.
"""

from __future__ import annotations

import cython
import numpy as np
from cython.cimports.dpsu.kernels.grouping import check_users, longest_set, nth_smallest
from cython.cimports.dpsu.kernels.primitives import (
    Byte,
    Class,
    ConstClass,
    ConstDouble,
    ConstInt32,
    ConstInt64,
    ConstWord,
    Double,
    Int32,
    Int64,
    Size,
    Word,
    bits_of,
    hash_word,
    prefetch,
)
from cython.cimports.libc import math

# Sums over at most 2^20 items of a user in doubles are off by less than 2^-32 of themselves.
# Weights are shrunk by more than that before they are rounded down, so that no norm exceeds its
# limit.
SHRINK = cython.declare(cython.const[cython.double], 1.0 - 2.0**-30)
SMALLEST_RATIO = cython.declare(cython.const[cython.double], 1e-150)
MOST_STEPS = cython.declare(cython.const[cython.int], 16)
CLOSE_ENOUGH = cython.declare(cython.const[cython.double], 1.0 + 2.0**-20)
# Caps are remembered for up to this many open items, which few users exceed.
MOST_CAPS = cython.declare(cython.const[cython.int], 1 << 10)
# The state of an item is loaded this many pairs ahead. The processor does not look that far itself,
# because it cannot predict where a user ends.
AHEAD = cython.declare(cython.const[cython.int], 32)
# What a round knows of an item and what users give to it, side by side: one access of memory is for
# both.
OF_ITEM = np.dtype([("attention", np.float64), ("weight", np.int64)])
OfItem = cython.struct(attention=cython.double, weight=cython.longlong)
LARGEST_HASH = cython.declare(cython.const[Word], 0xFFFFFFFFFFFFFFFF)


@cython.ccall
@cython.nogil
@cython.exceptval(-1.0, check=True)
def largest_cap(caps: ConstDouble[::1], crossing: ConstDouble[::1], limit: Double) -> Double:
    """The largest cap at which one novel item crosses with probability at most `limit`.

    `caps` and `crossing` rise. That no cap will do is an error of the plan: even an item of no
    weight could be released too often.
    """
    if len(caps) == 0 or len(crossing) != len(caps):
        raise ValueError("caps and crossing differ in length, or there are none")
    if crossing[0] > limit:
        raise AssertionError("no cap is safe for this many items")
    low: Size = 0
    high: Size = len(caps)
    middle: Size
    while high - low > 1:
        middle = (low + high) // 2
        if crossing[middle] <= limit:
            low = middle
        else:
            high = middle
    return caps[low]


def attend(
    start: ConstInt64[::1],
    stop: ConstInt64[::1],
    items: ConstInt32[::1],
    classes: ConstClass[::1],
    norms: ConstDouble[::1],
    allowed: ConstDouble[::1],
    caps: ConstDouble[::1],
    crossing: ConstDouble[::1],
    shape: Double,
    unit: Double,
    first: Size,
    last: Size,
    of_item: OfItem[::1],
) -> None:
    """Weigh items in proportion to attention, each at most the cap, within the user's norm.

    Items without attention get nothing; if t have any, the cap is `shape` times the largest at
    which t novel items cross with probability at most what the user's class is allowed. Weights are
    in whole units, `unit` of them to 1, and are added to those in `of_item`.
    """
    t: Size
    item: Int32
    class_: Class
    whole: Int64
    longest = longest_set(start, stop, first, last)
    if len(classes) < last or len(allowed) != len(norms):
        raise ValueError("there are users without a class, or classes without a norm")
    ratio: Double[::1] = np.empty(longest)
    held: Int32[::1] = np.empty(longest, np.int32)
    below: Double[::1] = np.empty(longest)
    # Caps by class and number of items, once some user has needed them.
    cap_of: Double[:, ::1] = np.full((len(norms), min(longest, MOST_CAPS) + 1), -1.0)
    of_items = cython.address(of_item[0]) if len(of_item) else cython.NULL
    with cython.nogil:
        for u in range(first, last):
            # Without a branch that would depend on the item: it could not be foreseen.
            t, largest = 0, 0.0
            for j in range(start[u], stop[u]):
                if j + AHEAD < len(items):
                    # Between users there may be -1: no element, but a place in memory.
                    prefetch(of_items + items[j + AHEAD])
                item = items[j]
                g = of_item[item].attention
                ratio[t] = g
                held[t] = item
                t += g > 0.0
                largest = max(largest, g)
            if t == 0:
                continue
            class_ = classes[u]
            norm = norms[class_]
            cap = cap_of[class_, t] if t <= MOST_CAPS else -1.0
            if cap < 0.0:
                cap = largest_cap(caps, crossing, allowed[class_] / t) * shape
                if t <= MOST_CAPS:
                    cap_of[class_, t] = cap
            if t * cap * cap <= norm * norm:
                whole = cython.cast(Int64, math.floor(cap * SHRINK * unit))
                for j in range(t):
                    of_item[held[j]].weight += whole
                continue
            squares = 0.0
            for j in range(t):
                # Squares of smaller ones would lose digits, or vanish, and the norm with them.
                r = max(ratio[j] / largest, SMALLEST_RATIO)
                ratio[j] = r
                squares += r * r
            level = norm / math.sqrt(squares)
            if level > cap:
                level = _raised(level, cap, norm, ratio[:t], below)
            for j in range(t):
                weight = min(cap, level * ratio[j])
                of_item[held[j]].weight += cython.cast(Int64, math.floor(weight * SHRINK * unit))


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _raised(
    level: Double, cap: Double, norm: Double, ratio: Double[::1], below: Double[::1]
) -> Double:
    """The level at which a user's norm is reached, some items being at the cap.

    What these do not take goes to the others, until the next of them are at the cap. An item that
    was there stays, so that only those `below` are looked at again.
    """
    n: Size
    left_below: Size = len(ratio)
    for j in range(left_below):
        below[j] = ratio[j]
    for _ in range(MOST_STEPS):
        n, rest, left_below = left_below, 0.0, 0
        for j in range(n):
            r = below[j]
            below[left_below] = r
            is_below: cython.bint = level * r < cap
            left_below += is_below
            rest += r * r if is_below else 0.0
        left = norm * norm - (len(ratio) - left_below) * cap * cap
        if rest <= 0.0 or left <= 0.0:
            break
        raised = math.sqrt(left / rest)
        if raised <= level * CLOSE_ENOUGH:
            break
        level = raised
    return level


def close_gaps(start: ConstInt64[::1], stop: ConstInt64[::1], items: Int32[::1]) -> tuple:
    """Move the items of all users to the front, so that no round reads what is between them.

    They are moved in place: `start` must rise from user to user.
    """
    end: Size = 0
    check_users(start, stop, 0, len(stop))
    starts, stops = np.empty(len(start), np.int64), np.empty(len(stop), np.int64)
    new_start: Int64[::1] = starts
    new_stop: Int64[::1] = stops
    with cython.nogil:
        for u in range(len(stop)):
            new_start[u] = end
            for j in range(start[u], stop[u]):
                items[end] = items[j]
                end += 1
            new_stop[u] = end
    return starts, stops


def keep_best(
    start: ConstInt64[::1],
    stop: Int64[::1],
    items: Int32[::1],
    attention: ConstDouble[::1],
    max_items: Size,
    user_hash: ConstWord[::1],
    item_hash: ConstWord[::1],
    first: Size,
    last: Size,
) -> None:
    """Keep each user's items with the largest attention, ties by hash of (user, item).

    Items without attention are dropped. The others stay in their order.
    """
    low: Size
    end: Size
    size: Size
    above: Size
    tied: Size
    room: Size
    exactly: Size
    at: Size
    item: Int32
    take: cython.bint
    largest_hash: Word
    longest = longest_set(start, stop, first, last)
    if max_items < 1 or len(user_hash) < last:
        raise ValueError("users keep at least one item, and each of them has a hash")
    found: Word[::1] = np.empty(longest, np.uint64)
    spare: Word[::1] = np.empty(longest, np.uint64)
    with cython.nogil:
        for u in range(first, last):
            low = start[u]
            end = low
            for j in range(low, stop[u]):
                if attention[items[j]] > 0.0:
                    items[end] = items[j]
                    end += 1
            stop[u] = end
            size = end - low
            if size <= max_items:
                continue
            for j in range(size):
                # Positive doubles have the order of their bits.
                found[j] = bits_of(attention[items[low + j]])
                spare[j] = found[j]
            smallest = nth_smallest(spare, size, size - max_items)
            above, tied = 0, 0
            for j in range(size):
                if found[j] > smallest:
                    above += 1
                elif found[j] == smallest:
                    tied += 1
            room = max_items - above
            largest_hash = LARGEST_HASH
            exactly = room
            if tied > room:
                at = 0
                for j in range(size):
                    if found[j] == smallest:
                        spare[at] = hash_word(item_hash[items[low + j]], user_hash[u])
                        at += 1
                largest_hash = nth_smallest(spare, tied, room - 1)
                for j in range(tied):
                    if spare[j] < largest_hash:
                        exactly -= 1
            end = low
            for j in range(size):
                item = items[low + j]
                take = found[j] > smallest
                if found[j] == smallest:
                    hash_ = hash_word(item_hash[item], user_hash[u])
                    take = hash_ < largest_hash or tied <= room
                    # Equal hashes keep the order of items.
                    if not take and hash_ == largest_hash and exactly > 0:
                        take = True
                        exactly -= 1
                if take:
                    items[end] = item
                    end += 1
            stop[u] = end


def mark_present(
    start: ConstInt64[::1], stop: ConstInt64[::1], items: ConstInt32[::1], present: Byte[::1]
) -> None:
    """Set `present` for every item that is in some user's set."""
    check_users(start, stop, 0, len(stop))
    with cython.nogil:
        for u in range(len(stop)):
            for j in range(start[u], stop[u]):
                present[items[j]] = True


# Constants of C are invisible to callers.
globals().update(
    MOST_CAPS=MOST_CAPS,
)
