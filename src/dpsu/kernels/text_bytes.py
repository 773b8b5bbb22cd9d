"""Bytes of texts, one by one: where rows of CSV end, and the digits of UUIDs."""

from __future__ import annotations

import cython
from cython.cimports.dpsu.kernels.primitives import Byte, ConstByte, Int32, Size

# States of the parser: at the start of a cell, inside a cell, inside quotes, or after a quote that
# ends the quotes unless another quote follows.
START = cython.declare(cython.const[cython.int], 0)
INSIDE = cython.declare(cython.const[cython.int], 1)
QUOTED = cython.declare(cython.const[cython.int], 2)
AFTER_QUOTE = cython.declare(cython.const[cython.int], 3)
QUOTE = cython.declare(cython.const[cython.uchar], 34)
LINE_FEED = cython.declare(cython.const[cython.uchar], 10)
RETURN = cython.declare(cython.const[cython.uchar], 13)
HYPHEN = cython.declare(cython.const[cython.uchar], 45)


def row_ends(data: ConstByte[::1], delimiter: Int32, state: Int32) -> object:
    """Ends of the first and the last whole row, and the state after the last byte.

    A line break inside quotes ends no row. An end is the position after a line break, 0 if there is
    none. Between a return and a line feed is an empty row, which is none.
    """
    first: Size = 0
    last: Size = 0
    with cython.nogil:
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


def write_uuids(raw: ConstByte[::1], digits: ConstByte[::1], texts: Byte[::1]) -> None:
    """Write 16 bytes each as 36 characters, in groups of 8, 4, 4, 4 and 12 digits.

    `digits` are the two hexadecimal digits of every byte.
    """
    if len(raw) % 16 != 0 or len(texts) < len(raw) // 16 * 36 or len(digits) != 512:
        raise ValueError("a UUID has 16 bytes and 36 characters, and a byte has two digits")
    at: Size = 0
    byte: Size
    with cython.nogil:
        for begin in range(0, len(raw), 16):
            for i in range(16):
                if i == 4 or i == 6 or i == 8 or i == 10:  # noqa: PLR1714  (a set is slow here)
                    texts[at] = HYPHEN
                    at += 1
                byte = raw[begin + i]
                texts[at] = digits[2 * byte]
                texts[at + 1] = digits[2 * byte + 1]
                at += 2


# Constants of C are invisible to callers.
globals().update(
    START=START, INSIDE=INSIDE, QUOTED=QUOTED, LINE_FEED=LINE_FEED,
    RETURN=RETURN,
)  # fmt: skip
