"""The rules of Unicode Standard Annex 29 for words, one after the other, as they are printed.

Slow and plain; properties come from the `regex` library, not from our table.
"""

from __future__ import annotations

import itertools
from functools import cache

import regex
from tools.unicode_table import WORD_BREAK, WORDLY

EMOJI = r"\p{Extended_Pictographic}[\p{WB=Extend}\p{WB=Format}\u200d]*\ufe0f"
IS_WORD = regex.compile(f"{WORDLY}|{EMOJI}")
IGNORED = ("Extend", "Format", "ZWJ")
BREAKS = ("CR", "LF", "Newline")
AH = ("ALetter", "Hebrew_Letter")
MID_NUM_LET_Q = ("MidNumLet", "Single_Quote")


@cache
def word_class(character: str) -> str:
    for name in WORD_BREAK:
        if regex.match(rf"\p{{Word_Break={name}}}", character):
            return name
    return "Other"


def words(text: str) -> list[str]:
    """Segments with a letter, a number or an emoji; a space is always alone."""
    if not text:
        return []
    edges = [0, *(k for k in range(1, len(text)) if breaks(text, k)), len(text)]
    parts = [text[a:b] for a, b in itertools.pairwise(edges)]
    return [part for part in parts if IS_WORD.search(part)]


def breaks(text: str, at: int) -> bool:
    """Whether there is a boundary before position `at`, which is not the first."""
    classes = [word_class(c) for c in text]
    before, after = classes[at - 1], classes[at]
    if before == "CR" and after == "LF":  # WB3
        return False
    if before in BREAKS or after in BREAKS:  # WB3a, WB3b
        return True
    if before == "WSegSpace":  # ours, instead of WB3d: a space takes nothing with it
        return True
    if before == "ZWJ" and regex.match(r"\p{Extended_Pictographic}", text[at]):  # WB3c
        return False
    if after in IGNORED:  # WB4
        return False
    left = _significant(classes[:at])
    right = [c for c in classes[at:] if c not in IGNORED]
    last = left[-1] if left else "Other"
    but_last = left[-2] if len(left) > 1 else "Other"
    following = right[1] if len(right) > 1 else "Other"
    return not _kept(left, last, but_last, after, following)


def _significant(classes: list[str]) -> list[str]:
    """WB4: what is ignored goes, unless it starts the text, a line or follows a space."""
    kept: list[str] = []
    previous = "CR"
    for name in classes:
        if name not in IGNORED:
            kept.append(name)
            previous = name
        elif previous in (*BREAKS, "WSegSpace"):
            kept.append("Other")
            previous = "Other"
    return kept


def _kept(left: list[str], last: str, but_last: str, after: str, following: str) -> bool:
    flags = 0
    while flags < len(left) and left[-1 - flags] == "Regional_Indicator":
        flags += 1
    return (
        (last in AH and after in AH)  # WB5
        or (last in AH and after in ("MidLetter", *MID_NUM_LET_Q) and following in AH)  # WB6
        or (but_last in AH and last in ("MidLetter", *MID_NUM_LET_Q) and after in AH)  # WB7
        or (last == "Hebrew_Letter" and after == "Single_Quote")  # WB7a
        or (last == "Hebrew_Letter" and after == "Double_Quote" and following == "Hebrew_Letter")
        or (but_last == "Hebrew_Letter" and last == "Double_Quote" and after == "Hebrew_Letter")
        or (last == "Numeric" and after == "Numeric")  # WB8
        or (last in AH and after == "Numeric")  # WB9
        or (last == "Numeric" and after in AH)  # WB10
        or (but_last == "Numeric" and last in ("MidNum", *MID_NUM_LET_Q) and after == "Numeric")
        or (last == "Numeric" and after in ("MidNum", *MID_NUM_LET_Q) and following == "Numeric")
        or (last == "Katakana" and after == "Katakana")  # WB13
        or (last in (*AH, "Numeric", "Katakana", "ExtendNumLet") and after == "ExtendNumLet")
        or (last == "ExtendNumLet" and after in (*AH, "Numeric", "Katakana"))  # WB13b
        or (after == "Regional_Indicator" and flags % 2 == 1)  # WB15, WB16
    )
