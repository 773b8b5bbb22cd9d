"""Find where words, sentences and lines begin and end in UTF-8 text.

Words and sentences follow Unicode Standard Annex 29; the names of its rules (WB5, SB8, ...) are in
comments. Texts come as one buffer and int64 offsets. Loops fill `begins` and `lengths`, with one
number per segment, and `row_stops`, how many segments there were by the end of each row; a segment
of more than `longest` bytes gets the length -1. They return how many segments there are and how
many of them are too long. There are never more segments than bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsu.runtime.jit import njit

Bytes = NDArray[np.uint8]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

WORD_CLASSES = (
    "Other", "CR", "LF", "Newline", "Extend", "ZWJ", "Regional_Indicator", "Format", "Katakana",
    "Hebrew_Letter", "ALetter", "Single_Quote", "Double_Quote", "MidNumLet", "MidLetter", "MidNum",
    "Numeric", "ExtendNumLet", "WSegSpace",
)  # fmt: skip
(
    OTHER, CR, LF, NEWLINE, EXTEND, ZWJ, REGIONAL, FORMAT, KATAKANA, HEBREW, LETTER, QUOTE,
    DOUBLE_QUOTE, MID_BOTH, MID_LETTER, MID_NUMBER, NUMERIC, EXTEND_BOTH, SPACE,
) = range(len(WORD_CLASSES))  # fmt: skip
CLASS, WORDLY, PICTOGRAPH = 0x1F, 0x20, 0x40

SENTENCE_CLASSES = (
    "Other", "CR", "LF", "Extend", "Sep", "Format", "Sp", "Lower", "Upper", "OLetter", "Numeric",
    "ATerm", "SContinue", "STerm", "Close",
)  # fmt: skip
(
    S_OTHER, S_CR, S_LF, S_EXTEND, S_SEP, S_FORMAT, S_SPACE, S_LOWER, S_UPPER, S_LETTER, S_NUMERIC,
    S_ATERM, S_CONTINUE, S_TERM, S_CLOSE,
) = range(len(SENTENCE_CLASSES))  # fmt: skip

EMOJI_STYLE = 0xFE0F


@njit(cache=True, inline="always")
def _width(byte: Any) -> Any:
    """How many bytes a code point has, given its first byte."""
    if byte < 0x80:
        return 1
    if byte < 0xE0:
        return 2
    return 3 if byte < 0xF0 else 4


@njit(cache=True, inline="always")
def _code_point(data: Bytes, at: int) -> Any:
    """The code point that starts here; the text is known to be valid."""
    first = np.int64(data[at])
    if first < 0x80:
        return first
    if first < 0xE0:
        return ((first & 0x1F) << 6) | (np.int64(data[at + 1]) & 0x3F)
    low = (np.int64(data[at + 1]) & 0x3F) << 6 | (np.int64(data[at + 2]) & 0x3F)
    if first < 0xF0:
        return ((first & 0x0F) << 12) | low
    return ((first & 0x07) << 18) | low << 6 | (np.int64(data[at + 3]) & 0x3F)


@njit(cache=True)
def _ignored(kind: Any) -> Any:
    return kind in (EXTEND, FORMAT, ZWJ)


@njit(cache=True)
def _after_ignored(data: Bytes, at: int, stop: int, table: Bytes) -> Any:
    """Class of the next code point that WB4 does not ignore; OTHER at the end."""
    while at < stop:
        kind = table[_code_point(data, at)] & CLASS
        if not _ignored(kind):
            return kind
        at += _width(data[at])
    return OTHER


@njit(cache=True)
def _joined(last: Any, kind: Any) -> Any:
    """Whether WB5, WB8-10, WB13, WB13a and WB13b keep two neighbors together."""
    letter = last in (LETTER, HEBREW)
    if kind in (LETTER, HEBREW):
        return letter or last in (NUMERIC, EXTEND_BOTH)
    if kind == NUMERIC:
        return letter or last in (NUMERIC, EXTEND_BOTH)
    if kind == KATAKANA:
        return last in (KATAKANA, EXTEND_BOTH)
    if kind == EXTEND_BOTH:
        return letter or last in (NUMERIC, KATAKANA, EXTEND_BOTH)
    return False


@njit(cache=True)
def _bridged(data: Bytes, at: int, stop: int, table: Bytes, last: Any, kind: Any) -> Any:
    """Whether the code point at `at` joins its neighbors, such as an apostrophe inside a word."""
    letter = last in (LETTER, HEBREW)
    between = kind in (MID_BOTH, QUOTE)
    if letter and (between or kind == MID_LETTER):  # WB6, WB7
        after = _after_ignored(data, at + _width(data[at]), stop, table)
        if after in (LETTER, HEBREW):
            return True
    if last == HEBREW and kind == DOUBLE_QUOTE:  # WB7b, WB7c
        return _after_ignored(data, at + _width(data[at]), stop, table) == HEBREW
    if last == NUMERIC and (between or kind == MID_NUMBER):  # WB11, WB12
        return _after_ignored(data, at + _width(data[at]), stop, table) == NUMERIC
    return False


@njit(cache=True)
def _word_end(data: Bytes, at: int, stop: int, table: Bytes) -> Any:
    """End of the segment that starts at `at`, and whether it is a word."""
    code = _code_point(data, at)
    entry = table[code]
    last = entry & CLASS
    raw, pictograph = last, (entry & PICTOGRAPH) != 0
    word = (entry & WORDLY) != 0
    at += _width(data[at])
    # A line break is a segment of its own (WB3a, WB3b), and so is a space: it is no word anyway.
    if last in (CR, LF, NEWLINE, SPACE):
        return at, False
    flags = 1 if last == REGIONAL else 0
    bridge = False
    while at < stop:
        code = _code_point(data, at)
        entry = table[code]
        kind = entry & CLASS
        if _ignored(kind):  # WB4
            word |= pictograph and code == EMOJI_STYLE
            raw = kind
            at += _width(data[at])
            continue
        if raw == ZWJ and (entry & PICTOGRAPH) != 0:  # WB3c
            keep = True
        elif bridge:
            keep = True
            bridge = False
        elif kind == REGIONAL and last == REGIONAL:  # WB15, WB16
            keep = flags % 2 == 1
            flags += 1
        elif _joined(last, kind):
            keep = True
        else:
            bridge = _bridged(data, at, stop, table, last, kind)
            # WB7a: a quote after a Hebrew letter, whatever follows.
            keep = bridge or (last == HEBREW and kind == QUOTE)
        if not keep:
            break
        last, raw, pictograph = kind, kind, (entry & PICTOGRAPH) != 0
        word |= (entry & WORDLY) != 0
        at += _width(data[at])
    return at, word


@njit(cache=True, nogil=True)
def words(
    data: Bytes,
    offsets: Int64,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    row_stops: Int64,
) -> Any:
    """Segments that have a letter, a number or an emoji in them."""
    n, too_long = 0, 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            # Most bytes between words are such; in ASCII, no rule joins them to what follows.
            if (
                data[at] < 0x80
                and table[data[at]] & CLASS in (OTHER, SPACE, MID_NUMBER)
                and (at + 1 == stop or data[at + 1] < 0x80)
            ):
                at += 1
                continue
            end, word = _word_end(data, at, stop, table)
            if word:
                begins[n] = at
                lengths[n] = end - at if end - at <= longest else -1
                too_long += end - at > longest
                n += 1
            at = end
        row_stops[row] = n
    return n, too_long


@njit(cache=True, nogil=True)
def lines(
    data: Bytes,
    offsets: Int64,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    row_stops: Int64,
) -> Any:
    """Lines, without the white space around them."""
    n, too_long = 0, 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            end = at
            while end < stop:
                if table[_code_point(data, end)] in (S_CR, S_LF, S_SEP):
                    break
                end += _width(data[end])
            n, too_long = _strip(data, at, end, table, longest, begins, lengths, n, too_long)
            at = end + _width(data[end]) if end < stop else stop
        row_stops[row] = n
    return n, too_long


@njit(cache=True)
def _strip(
    data: Bytes,
    at: int,
    end: int,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    n: int,
    too_long: int,
) -> Any:
    """Add a segment without the white space around it, unless nothing is left."""
    first, last, k = end, at, at
    while k < end:
        width = _width(data[k])
        if table[_code_point(data, k)] not in (S_SPACE, S_CR, S_LF, S_SEP):
            first = min(first, k)
            last = k + width
        k += width
    if first < last:
        begins[n] = first
        lengths[n] = last - first if last - first <= longest else -1
        too_long += last - first > longest
        n += 1
    return n, too_long


@njit(cache=True)
def _sentence_end(data: Bytes, at: int, stop: int, table: Bytes) -> Any:
    """End of the sentence that starts at `at`."""
    # What was last read of a possible end: 0 nothing, 1 terminator, 2 closing marks, 3 spaces.
    stage, terminator = 0, S_OTHER
    before, last = S_OTHER, S_OTHER
    while at < stop:
        kind = table[_code_point(data, at)]
        width = _width(data[at])
        if kind in (S_CR, S_LF, S_SEP):  # SB3, SB4
            if kind == S_CR and at + 1 < stop and data[at + 1] == 0x0A:
                return at + 2
            return at + width
        if kind in (S_EXTEND, S_FORMAT):  # SB5
            at += width
            continue
        if stage > 0:
            point = terminator == S_ATERM
            inside = point and stage == 1 and (
                kind == S_NUMERIC or (kind == S_UPPER and before in (S_UPPER, S_LOWER))
            )  # fmt: skip
            if kind in (S_ATERM, S_TERM):  # SB8a
                stage, terminator = 1, kind
            elif stage <= 2 and kind == S_CLOSE:  # SB9
                stage = 2
            elif kind == S_SPACE:  # SB9, SB10
                stage = 3
            elif (
                kind == S_CONTINUE or inside or (point and _continues(data, at, stop, table))
            ):  # SB8a, SB6, SB7, SB8
                stage = 0
            else:
                return at  # SB11
        elif kind in (S_ATERM, S_TERM):
            stage, terminator = 1, kind
        before, last = last, kind
        at += width
    return at


@njit(cache=True)
def _continues(data: Bytes, at: int, stop: int, table: Bytes) -> Any:
    """SB8: whether a small letter comes before any other letter, line break or terminator."""
    while at < stop:
        kind = table[_code_point(data, at)]
        if kind == S_LOWER:
            return True
        if kind in (S_LETTER, S_UPPER, S_SEP, S_CR, S_LF, S_TERM, S_ATERM):
            return False
        at += _width(data[at])
    return False


@njit(cache=True, nogil=True)
def sentences(
    data: Bytes,
    offsets: Int64,
    table: Bytes,
    longest: int,
    begins: Int64,
    lengths: Int32,
    row_stops: Int64,
) -> Any:
    """Sentences, without the white space around them."""
    n, too_long = 0, 0
    for row in range(len(offsets) - 1):
        at, stop = offsets[row], offsets[row + 1]
        while at < stop:
            end = _sentence_end(data, at, stop, table)
            n, too_long = _strip(data, at, end, table, longest, begins, lengths, n, too_long)
            at = end
        row_stops[row] = n
    return n, too_long
