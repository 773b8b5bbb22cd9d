"""Sort by hashes: they are uniform, so that a hash nearly gives its place in the order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.jit import njit


@njit(cache=True, nogil=True)
def order_by_hash(hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Positions in ascending order of hashes; equal hashes in any order.

    Hashes are put into about half as many ranges as there are hashes; little is left to sort.
    """
    n = len(hashes)
    bits = 1
    while n >> (bits + 1):
        bits += 1
    shift = np.uint64(64 - bits)
    start = np.zeros((1 << bits) + 1, np.int64)
    for k in range(n):
        start[np.int64(hashes[k] >> shift) + 1] += 1
    for r in range(1 << bits):
        start[r + 1] += start[r]
    order, sorted_hashes = np.empty(n, np.int64), np.empty(n, np.uint64)
    for k in range(n):
        place: Any = np.int64(hashes[k] >> shift)
        order[start[place]] = k
        sorted_hashes[start[place]] = hashes[k]
        start[place] += 1
    # Insertion sort, because every hash is near its place now.
    for k in range(1, n):
        hash_, position, at = sorted_hashes[k], order[k], k
        while at > 0 and sorted_hashes[at - 1] > hash_:
            sorted_hashes[at], order[at] = sorted_hashes[at - 1], order[at - 1]
            at -= 1
        sorted_hashes[at], order[at] = hash_, position
    return order
