"""Hexadecimal digits of many UUIDs at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.jit import njit

Bytes = NDArray[np.uint8]


@njit(cache=True, nogil=True)
def write_uuids(raw: Bytes, digits: Bytes, texts: Bytes) -> None:
    """Write 16 bytes each as 36 characters, in groups of 8, 4, 4, 4 and 12 digits.

    `digits` are the two digits of every byte.
    """
    at = 0
    for begin in range(0, len(raw), 16):
        for i in range(16):
            if i == 4 or i == 6 or i == 8 or i == 10:  # noqa: PLR1714  (a set is slow here)
                texts[at] = 45
                at += 1
            byte = np.int64(raw[begin + i])
            texts[at] = digits[2 * byte]
            texts[at + 1] = digits[2 * byte + 1]
            at += 2
