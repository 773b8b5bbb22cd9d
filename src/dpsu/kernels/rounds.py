"""One round of a mechanism: what users give to their items, and what an item makes of it.

User u holds ``items[start[u]:stop[u]]`` in the fixed order of items. Loops over users take a range
of them and add to weights of their own, so that ranges can run side by side. Loops over items map
what is known of an item and public constants to numbers, which do not depend on other items, on how
many there are, or on the position of the item in an array. No fastmath: proofs count rounding
errors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.elementary import falling_exponential, logarithm
from dpsu.kernels.hashing import hash_word
from dpsu.kernels.loads import prefetch
from dpsu.runtime.jit import njit

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

# Sums over at most 2^20 items of a user in doubles are off by less than 2^-32 of themselves.
# Weights are shrunk by more than that before they are rounded down, so that no norm exceeds its
# limit.
SHRINK = 1.0 - 2.0**-30
SMALLEST_RATIO = 1e-150
MOST_STEPS = 16
CLOSE_ENOUGH = 1.0 + 2.0**-20
# Caps are remembered for so many open items, which few users exceed.
MOST_CAPS = 1 << 10
# What is known of an item is asked for so many pairs before it is needed: where the pairs of a user
# end is not foreseen, so that the processor itself does not look that far.
AHEAD = 32
# Attention is computed for so many items at a time: what is known of them between two steps stays
# near the processor.
BLOCK = 512
# What a round knows of an item and what users give to it, side by side: one access of memory is for
# both.
OF_ITEM = np.dtype([("attention", np.float64), ("weight", np.int64)])


@njit(cache=True, nogil=True)
def largest_cap(caps: Float64, crossing: Float64, limit: float) -> Any:
    """The largest cap at which one novel item crosses with probability at most `limit`.

    `caps` and `crossing` rise. That no cap will do is an error of the plan: even an item of no
    weight could be released too often.
    """
    if crossing[0] > limit:
        raise AssertionError("no cap is safe for this many items")
    low, high = 0, len(caps)
    while high - low > 1:
        middle = (low + high) // 2
        if crossing[middle] <= limit:
            low = middle
        else:
            high = middle
    return caps[low]


@njit(cache=True, nogil=True, error_model="numpy")
def attend(
    start: Int64,
    stop: Int64,
    items: Int32,
    classes: NDArray[np.uint16],
    norms: Float64,
    allowed: Float64,
    caps: Float64,
    crossing: Float64,
    shape: float,
    unit: float,
    first: int,
    last: int,
    of_item: NDArray[np.void],
) -> None:
    """Weigh items in proportion to attention, each at most the cap, within the user's norm.

    Items without attention get nothing; if t have any, the cap is `shape` times the largest at
    which t novel items cross with probability at most what the user's class is allowed. Weights are
    in whole units, `unit` of them to 1, and are added to those in `of_item`.
    """
    longest = 0
    for u in range(first, last):
        longest = max(longest, stop[u] - start[u])
    ratio, held, below = np.empty(longest), np.empty(longest, np.int32), np.empty(longest)
    # Caps by class and number of items, once some user has needed them.
    cap_of = np.full((len(norms), min(longest, MOST_CAPS) + 1), -1.0)
    for u in range(first, last):
        # Without a branch that would depend on the item: it could not be foreseen.
        t, largest = 0, 0.0
        for j in range(start[u], stop[u]):
            if j + AHEAD < len(items):
                prefetch(of_item, np.int64(items[j + AHEAD]))
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
            whole = np.int64(math.floor(cap * SHRINK * unit))
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
            of_item[held[j]].weight += np.int64(math.floor(weight * SHRINK * unit))


@njit(cache=True, error_model="numpy")
def _raised(level: Any, cap: float, norm: float, ratio: Float64, below: Float64) -> Any:
    """The level at which a user's norm is reached, some items being at the cap.

    What these do not take goes to the others, until the next of them are at the cap. An item that
    was there stays, so that only those `below` are looked at again.
    """
    left_below = len(ratio)
    for j in range(left_below):
        below[j] = ratio[j]
    for _ in range(MOST_STEPS):
        n, rest, left_below = left_below, 0.0, 0
        for j in range(n):
            r = below[j]
            below[left_below] = r
            is_below = level * r < cap
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


@njit(cache=True)
def close_gaps(start: Int64, stop: Int64, items: Int32) -> tuple[Int64, Int64]:
    """Move the items of all users to the front, so that no round reads what is between them.

    They are moved in place: `start` must rise from user to user.
    """
    new_start, new_stop = np.empty_like(start), np.empty_like(stop)
    end: Any = 0
    for u in range(len(stop)):
        new_start[u] = end
        for j in range(start[u], stop[u]):
            items[end] = items[j]
            end += 1
        new_stop[u] = end
    return new_start, new_stop


@njit(cache=True, nogil=True)
def keep_best(
    start: Int64,
    stop: Int64,
    items: Int32,
    attention: Float64,
    max_items: int,
    user_hash: Words,
    item_hash: Words,
    first: int,
    last: int,
) -> None:
    """Keep each user's items with the largest attention, ties by hash of (user, item).

    Items without attention are dropped. The others stay in their order.
    """
    for u in range(first, last):
        end = start[u]
        for j in range(start[u], stop[u]):
            if attention[items[j]] > 0.0:
                items[end] = items[j]
                end += 1
        stop[u] = end
        size = end - start[u]
        if size <= max_items:
            continue
        low = start[u]
        found = np.empty(size)
        for j in range(size):
            found[j] = attention[items[low + j]]
        smallest = np.partition(found, size - max_items)[size - max_items]
        above, tied = 0, 0
        for j in range(size):
            if found[j] > smallest:
                above += 1
            elif found[j] == smallest:
                tied += 1
        room = max_items - above
        largest_hash = np.uint64(2**64 - 1)
        exactly: Any = room
        if tied > room:
            hashes = np.empty(tied, np.uint64)
            at = 0
            for j in range(size):
                if found[j] == smallest:
                    hashes[at] = hash_word(item_hash[items[low + j]], user_hash[u])
                    at += 1
            largest_hash = np.partition(hashes, room - 1)[room - 1]
            for j in range(tied):
                if hashes[j] < largest_hash:
                    exactly -= 1
        end = low
        for j in range(size):
            item = items[low + j]
            take: Any = found[j] > smallest
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


@njit(cache=True)
def open_items(items: Int32, released: NDArray[np.bool_], held: Int32) -> int:
    """Write the items that are not released to `held`, in their order; returns how many."""
    t = 0
    for j in range(len(items)):
        if not released[items[j]]:
            held[t] = items[j]
            t += 1
    return t


@njit(cache=True)
def take_smallest(
    held: Int32, wanted: int, user_hash: Any, item_hash: Words, taken: NDArray[np.bool_]
) -> None:
    """Mark as many items of a user as wanted, at least one: those with the smallest hashes."""
    hashes = np.empty(len(held), np.uint64)
    for j in range(len(held)):
        hashes[j] = hash_word(item_hash[held[j]], user_hash)
    largest = np.partition(hashes, wanted - 1)[wanted - 1]
    room = wanted
    for j in range(len(held)):
        taken[j] = hashes[j] < largest
        if taken[j]:
            room -= 1
    for j in range(len(held)):
        # Equal hashes keep the order of items.
        if hashes[j] == largest and room > 0:
            taken[j] = True
            room -= 1


@njit(cache=True, nogil=True)
def share_unreleased(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: NDArray[np.bool_],
    max_items: int,
    user_hash: Words,
    item_hash: Words,
    share: Int64,
    first: int,
    last: int,
    weights: Int64,
) -> None:
    """``share[t]`` to t items that are not released yet, at most `max_items` sampled by hash."""
    longest = 0
    for u in range(first, last):
        longest = max(longest, stop[u] - start[u])
    held, taken = np.empty(longest, np.int32), np.empty(longest, np.bool_)
    for u in range(first, last):
        t = open_items(items[start[u] : stop[u]], released, held)
        if t <= max_items:
            for j in range(t):
                weights[held[j]] += share[t]
            continue
        take_smallest(held[:t], max_items, user_hash[u], item_hash, taken)
        for j in range(t):
            if taken[j]:
                weights[held[j]] += share[max_items]


@njit(cache=True, nogil=True)
def mark_present(start: Int64, stop: Int64, items: Int32, present: NDArray[np.bool_]) -> None:
    """Set `present` for every item that is in some user's set."""
    for u in range(len(stop)):
        for j in range(start[u], stop[u]):
            present[items[j]] = True


@njit(cache=True, error_model="numpy")
def _expect_rates(
    signal: Float64,
    precision: Float64,
    levels: Float64,
    lowest: Float64,
    per_step: Float64,
    means: Float64,
    deviations: Float64,
    within: Float64,
    cells: Int32,
    mean: Float64,
    deviation: Float64,
) -> None:
    """Read posterior mean and deviation of the rates of a block of items from tables.

    One row of a table is for one level of log standard error, one column for one estimate; between
    two of them values are interpolated. `within` and `cells` are room for what one loop leaves to
    the next.
    """
    per_level = 1.0 / (levels[1] - levels[0])
    first_level, last_level = levels[0], len(levels) - 1.000001
    width = np.int32(means.shape[1])
    last_column, last_cell = width - 1.0, np.int32(width - 2)
    flat_means, flat_deviations = means.ravel(), deviations.ravel()
    part, lower, upper = within[0], within[1], within[2]
    level, lower_cell, upper_cell = cells[0], cells[1], cells[2]
    one = np.uint64(1)
    # In several loops: those without addresses that depend on an item are vectorized. `max` returns
    # its first argument if the second is not a number, so that every address is in its table.
    for i in range(len(signal)):
        error = -0.5 * logarithm(precision[i])
        place = min(last_level, max(0.0, (error - first_level) * per_level))
        row = np.int32(place)
        level[i] = row
        part[i] = place - row
        # The estimate, until the last loop.
        mean[i] = signal[i] / precision[i]
    for i in range(len(signal)):
        q = np.uint64(level[i])
        lower[i] = (mean[i] - lowest[q]) * per_step[q]
        upper[i] = (mean[i] - lowest[q + one]) * per_step[q + one]
    for i in range(len(signal)):
        start = level[i] * width
        place = min(last_column, max(0.0, lower[i]))
        column = min(last_cell, np.int32(place))
        lower[i] = place - column
        lower_cell[i] = start + column
        place = min(last_column, max(0.0, upper[i]))
        column = min(last_cell, np.int32(place))
        upper[i] = place - column
        upper_cell[i] = start + width + column
    for i in range(len(signal)):
        at, p = np.uint64(lower_cell[i]), lower[i]
        low_mean = flat_means[at] + p * (flat_means[at + one] - flat_means[at])
        low_deviation = flat_deviations[at] + p * (flat_deviations[at + one] - flat_deviations[at])
        at, p = np.uint64(upper_cell[i]), upper[i]
        high_mean = flat_means[at] + p * (flat_means[at + one] - flat_means[at])
        high_deviation = flat_deviations[at] + p * (flat_deviations[at + one] - flat_deviations[at])
        mean[i] = low_mean + part[i] * (high_mean - low_mean)
        deviation[i] = low_deviation + part[i] * (high_deviation - low_deviation)


@njit(cache=True, nogil=True, error_model="numpy")
def steer(
    signal: Float64,
    precision: Float64,
    total: Float64,
    released: Flags,
    last_boundary: float,
    remaining: float,
    gain: float,
    sigma: float,
    extra: float,
    open_above: float,
    open_below: float,
    doubt: float,
    margin: float,
    common: float,
    levels: Float64,
    lowest: Float64,
    step: Float64,
    means: Float64,
    deviations: Float64,
    first: int,
    last: int,
    attention: Float64,
) -> None:
    """Attention ``exp(-kappa d^2 / 2v)``: largest for items that may or may not be released.

    `d` is the distance from an item's expected total to the last boundary, `v` its variance. The
    expected rate of an item is a posterior mean, read from tables that are made from public
    constants: one row for each level of log standard error, columns by estimate. A rate that was
    measured while others waited is not the rate when everybody hurries, so `doubt` is the part of
    it by which an item that seems sure may still fall short. Items of a rate of `common` or more
    get at least the part of their rate that they need for the boundary and `margin` besides.
    """
    per_step = 1.0 / step
    within, cells = np.empty((3, BLOCK)), np.empty((3, BLOCK), np.int32)
    mean, deviation = np.empty(BLOCK), np.empty(BLOCK)
    reach = gain * remaining
    variance = sigma * sigma * remaining + extra * extra
    for begin in range(first, last, BLOCK):
        end = min(begin + BLOCK, last)
        _expect_rates(
            signal[begin:end], precision[begin:end], levels, lowest, per_step, means, deviations,
            within, cells, mean, deviation,
        )  # fmt: skip
        so_far, gone, found = total[begin:end], released[begin:end], attention[begin:end]
        for i in range(end - begin):
            missing = last_boundary - so_far[i]
            expected = reach * mean[i]
            d = missing - expected
            spread = reach * deviation[i]
            short = doubt * expected
            seems_sure = d <= 0.0
            kappa = open_below if seems_sure else open_above
            v = variance + spread * spread + (short * short if seems_sure else 0.0)
            g = falling_exponential(kappa * d * d / (2.0 * v))
            # An item that waits for others is late if what is left is just what it needs.
            needed = min(1.0, (missing + margin) / expected)
            g = max(g, needed if mean[i] >= common else 0.0)
            # Never zero: that means that an item is released.
            found[i] = 0.0 if gone[i] else max(1e-300, g)


@njit(cache=True, nogil=True, error_model="numpy")
def add_evidence(
    noisy_sums: Float64,
    share: float,
    sigma: float,
    memory: float,
    least: float,
    boundary: float,
    attention: Float64,
    present: Flags,
    signal: Float64,
    precision: Float64,
    total: Float64,
    released: Flags,
    first: int,
    last: int,
) -> None:
    """Add the noisy sums of one round to the evidence; release items that cross the boundary.

    `total` is the evidence, and decides. `signal`, where rounds count by their precision, steers.
    Only items that are in some user's set of this phase can be released.
    """
    for i in range(first, last):
        g = max(attention[i], least)
        total[i] += share * noisy_sums[i]
        signal[i] = memory * signal[i] + g * share * noisy_sums[i] / (sigma * sigma)
        precision[i] = memory * precision[i] + g * g * share / (sigma * sigma)
        if present[i] and total[i] > boundary:
            released[i] = True
