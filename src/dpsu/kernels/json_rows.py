"""Read plain lines of JSON: objects of texts without escapes, and of integers.

Whatever is not plain is left to a whole parser. So every line that is accepted here must be one
that all parsers read, and read in the same way.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.jit import njit

Bytes = NDArray[np.uint8]

NOT_PLAIN = -1
# What the values of a column are, known from its first one on.
UNKNOWN, TEXT, INTEGER = 0, 1, 2
QUOTE, BACKSLASH, OPEN, CLOSE, COLON, COMMA = 34, 92, 123, 125, 58, 44
SPACE, LINE_FEED, RETURN, MINUS, ZERO, NINE = 32, 10, 13, 45, 48, 57
# Integers of so many digits fit in 64 bits with a sign.
MOST_DIGITS = 18


@njit(cache=True)
def _after_spaces(data: Bytes, at: int) -> int:
    while at < len(data) and data[at] == SPACE:
        at += 1
    return at


@njit(cache=True)
def _text_end(data: Bytes, at: int) -> int:
    """Where the quote is that ends a text; NOT_PLAIN if there is an escape or a control byte."""
    while at < len(data):
        byte = data[at]
        if byte == QUOTE:
            return at
        if byte == BACKSLASH or byte < SPACE:
            return NOT_PLAIN
        at += 1
    return NOT_PLAIN


@njit(cache=True)
def _integer_end(data: Bytes, at: int) -> int:
    """Where an integer ends; NOT_PLAIN for none, a leading 0, -0 and too many digits."""
    first = at + 1 if data[at] == MINUS else at
    end = first
    while end < len(data) and ZERO <= data[end] <= NINE:
        end += 1
    digits = end - first
    if digits == 0 or digits > MOST_DIGITS:
        return NOT_PLAIN
    # A single 0 is plain, and minus 0 is not.
    if data[first] == ZERO and (digits > 1 or first > at):
        return NOT_PLAIN
    return end


@njit(cache=True)
def _column_of(data: Bytes, first: int, last: int, names: Bytes, name_ends: Any) -> int:
    """Which of the wanted names stands there; -1 if it is another."""
    begin = 0
    for column in range(len(name_ends)):
        end = name_ends[column]
        if end - begin == last - first:
            k = 0
            while k < last - first and data[first + k] == names[begin + k]:
                k += 1
            if k == last - first:
                return column
        begin = end
    return -1


@njit(cache=True)
def _key_end(data: Bytes, at: int) -> int:
    """Where the quote is that ends a key, which begins with another one."""
    if at >= len(data) or data[at] != QUOTE:
        return NOT_PLAIN
    return _text_end(data, at + 1)


@njit(cache=True)
def _value_start(data: Bytes, at: int) -> int:
    """Where the value begins, behind the colon."""
    at = _after_spaces(data, at)
    if at >= len(data) or data[at] != COLON:
        return NOT_PLAIN
    at = _after_spaces(data, at + 1)
    return at if at < len(data) else NOT_PLAIN


@njit(cache=True)
def _integer(data: Bytes, first: int, last: int) -> Any:
    negative = data[first] == MINUS
    value = np.int64(0)
    for k in range(first + 1 if negative else first, last):
        value = 10 * value + (np.int64(data[k]) - ZERO)
    return -value if negative else value


@njit(cache=True)
def _next_line(data: Bytes, at: int) -> int:
    """Where the next line begins, if nothing but the end of a line stands here."""
    if at < len(data) and data[at] == RETURN:
        at += 1
    return at + 1 if at >= len(data) or data[at] == LINE_FEED else NOT_PLAIN


@njit(cache=True, nogil=True)
def read_objects(
    data: Bytes,
    names: Bytes,
    name_ends: NDArray[np.int64],
    kinds: NDArray[np.int64],
    texts: NDArray[np.uint8],
    text_ends: NDArray[np.int32],
    integers: NDArray[np.int64],
) -> int:
    """Write the wanted values of every line, and return how many lines there are.

    Returns NOT_PLAIN if any line is not a plain object, lacks a wanted key or has it twice, or if
    a column has both texts and integers. Texts of a column follow each other in a row of `texts`,
    with their ends in `text_ends`, where the first entry is 0.
    """
    wanted = len(kinds)
    last_seen = np.full(wanted, -1, np.int64)
    at, rows = 0, 0
    while at < len(data):
        seen, more = 0, data[at] == OPEN
        plain = more
        while more:
            at = _after_spaces(data, at + 1)
            end = _key_end(data, at)
            begin = NOT_PLAIN if end == NOT_PLAIN else _value_start(data, end + 1)
            if begin == NOT_PLAIN:
                return NOT_PLAIN
            column = _column_of(data, at + 1, end, names, name_ends)
            kind = TEXT if data[begin] == QUOTE else INTEGER
            end = _text_end(data, begin + 1) if kind == TEXT else _integer_end(data, begin)
            if end == NOT_PLAIN:
                return NOT_PLAIN
            if column >= 0:
                if last_seen[column] == rows or kinds[column] not in (UNKNOWN, kind):
                    return NOT_PLAIN
                kinds[column], last_seen[column] = kind, rows
                seen += 1
                if kind == TEXT:
                    put: Any = text_ends[column, rows]
                    for k in range(begin + 1, end):
                        texts[column, put] = data[k]
                        put += 1
                    text_ends[column, rows + 1] = put
                else:
                    integers[column, rows] = _integer(data, begin, end)
            at = _after_spaces(data, end + 1 if kind == TEXT else end)
            more = at < len(data) and data[at] == COMMA
            plain = more or (at < len(data) and data[at] == CLOSE)
        at = _next_line(data, at + 1) if plain and seen == wanted else NOT_PLAIN
        if at == NOT_PLAIN:
            return NOT_PLAIN
        rows += 1
    return rows
