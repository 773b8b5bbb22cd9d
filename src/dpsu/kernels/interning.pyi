import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Words = NDArray[np.uint64]

SHARD_BITS: int
SHARDS: int
FREE: int
FREE_SLOT: int
KNOWN: int
WORDS: int
LENGTH: int
SEATED: int

def hash_texts(data: Bytes, offsets: Int64, secret: Words, hashes: Words) -> bool: ...
def hash_integer_ids(values: Int64, secret: Words, hashes: Words) -> None: ...
def deal(hashes: Words, order: Int32, ends: Int64) -> None: ...
def intern_texts(
    data: Bytes,
    offsets: Int64,
    hashes: Words,
    rows: Int32,
    slots: Words,
    records: Words,
    state: Int64,
    first_code: int,
    codes: Int32,
) -> int: ...
def intern_integers(
    values: Int64,
    hashes: Words,
    rows: Int32,
    slots: Int64,
    state: Int64,
    first_code: int,
    codes: Int32,
) -> int: ...
def intern_dense(
    values: Int64, lowest: int, table: Int32, known: Int64, n_known: int, codes: Int32
) -> int: ...
def seat_texts(old: Words, slots: Words) -> None: ...
def seat_integers(values: Int64, codes: Int64, secret: Words, slots: Int64) -> None: ...
def write_records(records: Words, at: int, ends: Int64, data: Bytes) -> None: ...
def spread(codes_of: Int32, indices: Int32, codes: Int32) -> bool: ...
def renumber(codes: Int32, n_dense: int, first: Int64) -> None: ...
