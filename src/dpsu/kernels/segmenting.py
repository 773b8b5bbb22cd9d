"""Find where words, sentences and lines begin and end in UTF-8 text.

Words and sentences follow Unicode Standard Annex 29; the names of its rules (WB5, SB8, ...) are in
comments. Texts come as one buffer and int64 offsets. Loops fill `begins` and `lengths`, with one
number per segment, and `row_stops`, how many segments there were by the end of each row; a segment
of more than `longest` bytes gets the length -1. They return how many segments there are and how
many of them are too long. There are never more segments than bytes.
"""

from __future__ import annotations

import cython
from cython.cimports.dpsu.kernels.primitives import ConstByte, ConstInt64, Int32, Int64, Size

# How the standard calls the classes of code points is below, where tables are made of the names.
OTHER = cython.declare(cython.const[cython.int], 0)
CR = cython.declare(cython.const[cython.int], 1)
LF = cython.declare(cython.const[cython.int], 2)
NEWLINE = cython.declare(cython.const[cython.int], 3)
EXTEND = cython.declare(cython.const[cython.int], 4)
ZWJ = cython.declare(cython.const[cython.int], 5)
REGIONAL = cython.declare(cython.const[cython.int], 6)
FORMAT = cython.declare(cython.const[cython.int], 7)
KATAKANA = cython.declare(cython.const[cython.int], 8)
HEBREW = cython.declare(cython.const[cython.int], 9)
LETTER = cython.declare(cython.const[cython.int], 10)
QUOTE = cython.declare(cython.const[cython.int], 11)
DOUBLE_QUOTE = cython.declare(cython.const[cython.int], 12)
MID_BOTH = cython.declare(cython.const[cython.int], 13)
MID_LETTER = cython.declare(cython.const[cython.int], 14)
MID_NUMBER = cython.declare(cython.const[cython.int], 15)
NUMERIC = cython.declare(cython.const[cython.int], 16)
EXTEND_BOTH = cython.declare(cython.const[cython.int], 17)
SPACE = cython.declare(cython.const[cython.int], 18)
# An entry of the table for words has the class in its low bits, and two marks.
CLASS = cython.declare(cython.const[cython.int], 0x1F)
WORDLY = cython.declare(cython.const[cython.int], 0x20)
PICTOGRAPH = cython.declare(cython.const[cython.int], 0x40)

S_OTHER = cython.declare(cython.const[cython.int], 0)
S_CR = cython.declare(cython.const[cython.int], 1)
S_LF = cython.declare(cython.const[cython.int], 2)
S_EXTEND = cython.declare(cython.const[cython.int], 3)
S_SEP = cython.declare(cython.const[cython.int], 4)
S_FORMAT = cython.declare(cython.const[cython.int], 5)
S_SPACE = cython.declare(cython.const[cython.int], 6)
S_LOWER = cython.declare(cython.const[cython.int], 7)
S_UPPER = cython.declare(cython.const[cython.int], 8)
S_LETTER = cython.declare(cython.const[cython.int], 9)
S_NUMERIC = cython.declare(cython.const[cython.int], 10)
S_ATERM = cython.declare(cython.const[cython.int], 11)
S_CONTINUE = cython.declare(cython.const[cython.int], 12)
S_TERM = cython.declare(cython.const[cython.int], 13)
S_CLOSE = cython.declare(cython.const[cython.int], 14)

EMOJI_STYLE = cython.declare(cython.const[cython.int], 0xFE0F)
CODE_POINTS = cython.declare(cython.const[cython.int], 0x110000)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _width(byte: Int32) -> Int32:
    """How many bytes a code point has, given its first byte."""
    if byte < 0x80:
        return 1
    if byte < 0xE0:
        return 2
    return 3 if byte < 0xF0 else 4


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _code_point(data: ConstByte[::1], at: Size) -> Int32:
    """The code point that starts here; the text is known to be valid."""
    first: Int32 = data[at]
    if first < 0x80:
        return first
    if first < 0xE0:
        return ((first & 0x1F) << 6) | (data[at + 1] & 0x3F)
    low: Int32 = (data[at + 1] & 0x3F) << 6 | (data[at + 2] & 0x3F)
    if first < 0xF0:
        return ((first & 0x0F) << 12) | low
    return ((first & 0x07) << 18) | low << 6 | (data[at + 3] & 0x3F)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _ignored(kind: Int32) -> cython.bint:
    return kind in (EXTEND, FORMAT, ZWJ)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _after_ignored(data: ConstByte[::1], at: Size, stop: Size, table: ConstByte[::1]) -> Int32:
    """Class of the next code point that WB4 does not ignore; OTHER at the end."""
    while at < stop:
        kind = table[_code_point(data, at)] & CLASS
        if not _ignored(kind):
            return kind
        at += _width(data[at])
    return OTHER


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _joined(last: Int32, kind: Int32) -> cython.bint:
    """Whether WB5, WB8-10, WB13, WB13a and WB13b keep two neighbors together."""
    letter: cython.bint = last in (LETTER, HEBREW)
    if kind in (LETTER, HEBREW):
        return letter or last in (NUMERIC, EXTEND_BOTH)
    if kind == NUMERIC:
        return letter or last in (NUMERIC, EXTEND_BOTH)
    if kind == KATAKANA:
        return last in (KATAKANA, EXTEND_BOTH)
    if kind == EXTEND_BOTH:
        return letter or last in (NUMERIC, KATAKANA, EXTEND_BOTH)
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _bridged(
    data: ConstByte[::1], at: Size, stop: Size, table: ConstByte[::1], last: Int32, kind: Int32
) -> cython.bint:
    """Whether the code point at `at` joins its neighbors, such as an apostrophe inside a word."""
    letter: cython.bint = last in (LETTER, HEBREW)
    between: cython.bint = kind in (MID_BOTH, QUOTE)
    if letter and (between or kind == MID_LETTER):  # WB6, WB7
        after = _after_ignored(data, at + _width(data[at]), stop, table)
        if after in (LETTER, HEBREW):
            return True
    if last == HEBREW and kind == DOUBLE_QUOTE:  # WB7b, WB7c
        return _after_ignored(data, at + _width(data[at]), stop, table) == HEBREW
    if last == NUMERIC and (between or kind == MID_NUMBER):  # WB11, WB12
        return _after_ignored(data, at + _width(data[at]), stop, table) == NUMERIC
    return False


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _word_end(
    data: ConstByte[::1], at: Size, stop: Size, table: ConstByte[::1]
) -> tuple[Size, cython.bint]:
    """End of the segment that starts at `at`, and whether it is a word."""
    keep: cython.bint
    code = _code_point(data, at)
    entry: Int32 = table[code]
    last = entry & CLASS
    raw = last
    pictograph: cython.bint = (entry & PICTOGRAPH) != 0
    word: cython.bint = (entry & WORDLY) != 0
    at += _width(data[at])
    # A line break is a segment of its own (WB3a, WB3b), and so is a space: it is no word anyway.
    if last in (CR, LF, NEWLINE, SPACE):
        return at, False
    flags: Size = 1 if last == REGIONAL else 0
    bridge: cython.bint = False
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


@cython.cfunc
@cython.inline
def _check(
    data: ConstByte[::1],
    offsets: ConstInt64[::1],
    table: ConstByte[::1],
    begins: Int64[::1],
    lengths: Int32[::1],
    row_stops: Int64[::1],
) -> cython.void:
    """Refuse arrays that are too short for the texts, or for all segments that there can be."""
    if len(table) < CODE_POINTS:
        raise ValueError("some code points are not in the table")
    rows = len(row_stops)
    if len(offsets) != rows + 1 or offsets[0] < 0 or offsets[rows] > len(data):
        raise ValueError("texts are not within the buffer")
    room = offsets[rows] - offsets[0]
    if len(begins) < room or len(lengths) < room:
        raise ValueError("there is too little room for segments")


def words(
    data: ConstByte[::1],
    offsets: ConstInt64[::1],
    table: ConstByte[::1],
    longest: Size,
    begins: Int64[::1],
    lengths: Int32[::1],
    row_stops: Int64[::1],
) -> object:
    """Segments that have a letter, a number or an emoji in them."""
    _check(data, offsets, table, begins, lengths, row_stops)
    n: Size = 0
    too_long: Size = 0
    at: Size
    stop: Size
    with cython.nogil:
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


def lines(
    data: ConstByte[::1],
    offsets: ConstInt64[::1],
    table: ConstByte[::1],
    longest: Size,
    begins: Int64[::1],
    lengths: Int32[::1],
    row_stops: Int64[::1],
) -> object:
    """Lines, without the white space around them."""
    _check(data, offsets, table, begins, lengths, row_stops)
    n: Size = 0
    too_long: Size = 0
    at: Size
    end: Size
    stop: Size
    with cython.nogil:
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


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _strip(
    data: ConstByte[::1],
    at: Size,
    end: Size,
    table: ConstByte[::1],
    longest: Size,
    begins: Int64[::1],
    lengths: Int32[::1],
    n: Size,
    too_long: Size,
) -> tuple[Size, Size]:
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


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _sentence_end(data: ConstByte[::1], at: Size, stop: Size, table: ConstByte[::1]) -> Size:
    """End of the sentence that starts at `at`."""
    # What was last read of a possible end: 0 nothing, 1 terminator, 2 closing marks, 3 spaces.
    stage: Int32 = 0
    terminator: Int32 = S_OTHER
    before: Int32 = S_OTHER
    last: Int32 = S_OTHER
    while at < stop:
        kind: Int32 = table[_code_point(data, at)]
        width = _width(data[at])
        if kind in (S_CR, S_LF, S_SEP):  # SB3, SB4
            if kind == S_CR and at + 1 < stop and data[at + 1] == 0x0A:
                return at + 2
            return at + width
        if kind in (S_EXTEND, S_FORMAT):  # SB5
            at += width
            continue
        if stage > 0:
            point: cython.bint = terminator == S_ATERM
            inside: cython.bint = point and stage == 1 and (
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


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _continues(data: ConstByte[::1], at: Size, stop: Size, table: ConstByte[::1]) -> cython.bint:
    """SB8: whether a small letter comes before any other letter, line break or terminator."""
    while at < stop:
        kind: Int32 = table[_code_point(data, at)]
        if kind == S_LOWER:
            return True
        if kind in (S_LETTER, S_UPPER, S_SEP, S_CR, S_LF, S_TERM, S_ATERM):
            return False
        at += _width(data[at])
    return False


def sentences(
    data: ConstByte[::1],
    offsets: ConstInt64[::1],
    table: ConstByte[::1],
    longest: Size,
    begins: Int64[::1],
    lengths: Int32[::1],
    row_stops: Int64[::1],
) -> object:
    """Sentences, without the white space around them."""
    _check(data, offsets, table, begins, lengths, row_stops)
    n: Size = 0
    too_long: Size = 0
    at: Size
    stop: Size
    with cython.nogil:
        for row in range(len(offsets) - 1):
            at, stop = offsets[row], offsets[row + 1]
            while at < stop:
                end = _sentence_end(data, at, stop, table)
                n, too_long = _strip(data, at, end, table, longest, begins, lengths, n, too_long)
                at = end
            row_stops[row] = n
    return n, too_long


_WORD_CLASSES = {
    "Other": OTHER, "CR": CR, "LF": LF, "Newline": NEWLINE, "Extend": EXTEND, "ZWJ": ZWJ,
    "Regional_Indicator": REGIONAL, "Format": FORMAT, "Katakana": KATAKANA,
    "Hebrew_Letter": HEBREW, "ALetter": LETTER, "Single_Quote": QUOTE,
    "Double_Quote": DOUBLE_QUOTE, "MidNumLet": MID_BOTH, "MidLetter": MID_LETTER,
    "MidNum": MID_NUMBER, "Numeric": NUMERIC, "ExtendNumLet": EXTEND_BOTH, "WSegSpace": SPACE,
}  # fmt: skip
_SENTENCE_CLASSES = {
    "Other": S_OTHER, "CR": S_CR, "LF": S_LF, "Extend": S_EXTEND, "Sep": S_SEP,
    "Format": S_FORMAT, "Sp": S_SPACE, "Lower": S_LOWER, "Upper": S_UPPER, "OLetter": S_LETTER,
    "Numeric": S_NUMERIC, "ATerm": S_ATERM, "SContinue": S_CONTINUE, "STerm": S_TERM,
    "Close": S_CLOSE,
}  # fmt: skip
WORD_CLASSES, SENTENCE_CLASSES = tuple(_WORD_CLASSES), tuple(_SENTENCE_CLASSES)
# The place of a name is its number.
assert [*_WORD_CLASSES.values()] == [*range(len(WORD_CLASSES))]
assert [*_SENTENCE_CLASSES.values()] == [*range(len(SENTENCE_CLASSES))]
# Constants of C are invisible to callers.
globals().update(WORDLY=WORDLY, PICTOGRAPH=PICTOGRAPH)
