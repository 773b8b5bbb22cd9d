"""Codes for integers without a hash map."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray


@njit(cache=True, nogil=True)
def codes_of_dense(
    values: NDArray[np.int64], lowest: int, table: NDArray[np.int32], codes: NDArray[np.int32]
) -> None:
    """Code of each value in ascending order of values; `table` ends as value -> code, or -1."""
    for row in range(len(values)):
        table[values[row] - lowest] = 1
    code = 0
    for value in range(len(table)):
        if table[value] == 1:
            table[value] = code
            code += 1
        else:
            table[value] = -1
    for row in range(len(values)):
        codes[row] = table[values[row] - lowest]
