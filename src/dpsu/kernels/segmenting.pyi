import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

WORD_CLASSES: tuple[str, ...]
SENTENCE_CLASSES: tuple[str, ...]
WORDLY: int
PICTOGRAPH: int

def words(
    data: Bytes,
    offsets: Int64,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    row_stops: Int64,
) -> tuple[int, int]: ...
def lines(
    data: Bytes,
    offsets: Int64,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    row_stops: Int64,
) -> tuple[int, int]: ...
def sentences(
    data: Bytes,
    offsets: Int64,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    row_stops: Int64,
) -> tuple[int, int]: ...
