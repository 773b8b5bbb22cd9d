import numpy as np
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]

MOST_REPEATS: int

def bucket_sizes(users: Int32, user_position: Int32, shift: int, sizes: Int64) -> None: ...
def scatter(
    users: Int32,
    items: Int32,
    repeats: Int32,
    user_position: Int32,
    item_position: Int32,
    shift: int,
    cursor: Int64,
    placed_users: Int32,
    placed_items: Int32,
    placed_repeats: Int32,
) -> None: ...
def sort_bucket(
    users: Int32,
    items: Int32,
    repeats: Int32,
    first_user: int,
    item_bits: int,
    key_bits: int,
    start: Int64,
    stop: Int64,
) -> None: ...
def sort_by_repeats(
    start: Int64, stop: Int64, items: Int32, repeats: Int32, first: int, last: int
) -> None: ...
def keep_sample(
    start: Int64,
    stop: Int64,
    items: Int32,
    max_items: int,
    user_hash: Words,
    item_hash: Words,
    first: int,
    last: int,
) -> None: ...
def order_by_hash(hashes: Words) -> Int64: ...
