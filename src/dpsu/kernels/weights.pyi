import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]

def count(start: Int64, stop: Int64, items: Int32, weights: Int64) -> None: ...
def weighted(start: Int64, stop: Int64, items: Int32, share: Int64, weights: Int64) -> None: ...
def l1_descent(
    start: Int64, stop: Int64, items: Int32, cutoff: int, budget: int, weights: Int64
) -> None: ...
def l2_descent(
    start: Int64, stop: Int64, items: Int32, cutoff: int, step: float, weights: Int64
) -> None: ...
def greedy(
    start: Int64, stop: Int64, items: Int32, cutoff: int, budget: int, weights: Int64
) -> None: ...
def reroute(
    start: Int64,
    stop: Int64,
    items: Int32,
    share: Int64,
    back: Float64,
    degree: int,
    weights: Int64,
) -> None: ...
def share_unreleased(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: Flags,
    max_items: int,
    user_hash: Words,
    item_hash: Words,
    share: Int64,
    first: int,
    last: int,
    weights: Int64,
) -> None: ...
def units_for(t: int, prices: Int64, budget: int) -> tuple[int, int]: ...
def give_units(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: Flags,
    prices: Int64,
    budget: int,
    user_hash: Words,
    item_hash: Words,
    first: int,
    last: int,
    weights: Int64,
) -> None: ...
def add_open(
    start: Int64,
    stop: Int64,
    items: Int32,
    released: Flags,
    limits: Int64,
    units: Int64,
    first: int,
    last: int,
    sums: Int64,
) -> None: ...
