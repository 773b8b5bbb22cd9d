"""Codes for integers from a narrow range, by a table instead of a hash map."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@njit(cache=True, nogil=True)
def mark(values: Int64, lowest: int, table: Int32) -> None:
    """Note which values occur; `table` starts as zeros."""
    for row in range(len(values)):
        table[values[row] - lowest] = 1


@njit(cache=True, nogil=True)
def number(table: Int32) -> None:
    """Replace the marks by codes in ascending order of values, and -1 where there is none."""
    code = 0
    for value in range(len(table)):
        if table[value] == 1:
            table[value] = code
            code += 1
        else:
            table[value] = -1


@njit(cache=True, nogil=True)
def look_up(values: Int64, lowest: int, table: Int32, codes: Int32) -> None:
    """Code of each value."""
    for row in range(len(values)):
        codes[row] = table[values[row] - lowest]
