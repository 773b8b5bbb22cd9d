"""Find where the rows of CSV end; a line break inside quotes ends no row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.jit import njit

# States of the parser: at the start of a cell, inside a cell, inside quotes, or after a quote that
# ends the quotes unless another quote follows.
START, INSIDE, QUOTED, AFTER_QUOTE = 0, 1, 2, 3
QUOTE, LINE_FEED, RETURN = 34, 10, 13


@njit(cache=True, nogil=True)
def row_ends(data: NDArray[np.uint8], delimiter: int, state: int) -> tuple[int, int, int]:
    """Ends of the first and the last whole row, and the state after the last byte.

    An end is the position after a line break, 0 if there is none. Between a return and a line feed
    is an empty row, which is none.
    """
    first, last = 0, 0
    for at in range(len(data)):
        byte = data[at]
        if state == QUOTED:
            if byte == QUOTE:
                state = AFTER_QUOTE
        elif byte == QUOTE and state in (START, AFTER_QUOTE):
            state = QUOTED
        elif byte in (LINE_FEED, RETURN):
            state, last = START, at + 1
            if first == 0:
                first = last
        elif byte == delimiter:
            state = START
        else:
            state = INSIDE
    return first, last, state
