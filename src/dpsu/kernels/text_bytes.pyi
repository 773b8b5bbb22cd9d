import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]

START: int
INSIDE: int
QUOTED: int
LINE_FEED: int
RETURN: int

def row_ends(data: Bytes, delimiter: int, state: int) -> tuple[int, int, int]: ...
def write_uuids(raw: Bytes, digits: Bytes, texts: Bytes) -> None: ...
