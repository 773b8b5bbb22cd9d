import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

BARRIER: int

def intern_segments(
    data: Bytes,
    begins: Int64,
    lengths: Int32,
    salt: int | np.uint64,
    first: Int64,
    codes: Int32,
) -> int: ...
def intern_grams(
    codes: Int32,
    row_stops: Int64,
    n: int,
    salt: int | np.uint64,
    first: Int64,
    base: int,
    grams: Int32,
) -> int: ...
def gram_sizes(lengths: Int32, first: Int64, n: int, sizes: Int64) -> None: ...
def write_grams(
    data: Bytes,
    begins: Int64,
    lengths: Int32,
    first: Int64,
    n: int,
    offsets: Int64,
    out: Bytes,
) -> None: ...
def merge_rows(
    grams: Int32, row_stops: Int64, rows: Int32, items: Int32, repeats: Int32
) -> int: ...
