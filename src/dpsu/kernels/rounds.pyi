import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Float64 = NDArray[np.float64]
Words = NDArray[np.uint64]
Flags = NDArray[np.bool_]

MOST_CAPS: int
OF_ITEM: np.dtype[np.void]

def largest_cap(caps: Float64, crossing: Float64, limit: float) -> float: ...
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
) -> None: ...
def close_gaps(start: Int64, stop: Int64, items: Int32) -> tuple[Int64, Int64]: ...
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
) -> None: ...
def mark_present(start: Int64, stop: Int64, items: Int32, present: Flags) -> None: ...
