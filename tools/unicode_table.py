"""The table of Unicode properties that words and sentences are found by.

    python -m tools.unicode_table          write src/dpsu/text/unicode.txt
    python -m tools.unicode_table --check  fail if it is not what it would be

Python's own unicodedata lacks the properties of Unicode Standard Annex 29; the `regex` library has
them. A line holds the first code point of a range that lasts until the next line, its Word_Break
and Sentence_Break classes, and marks: `w` makes a word of its segment, `p` is pictographic.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import regex

TABLE = Path(__file__).resolve().parent.parent / "src" / "dpsu" / "text" / "unicode.txt"
WORD_BREAK = (
    "CR", "LF", "Newline", "Extend", "ZWJ", "Regional_Indicator", "Format", "Katakana",
    "Hebrew_Letter", "ALetter", "Single_Quote", "Double_Quote", "MidNumLet", "MidLetter", "MidNum",
    "Numeric", "ExtendNumLet", "WSegSpace",
)  # fmt: skip
SENTENCE_BREAK = (
    "CR", "LF", "Extend", "Sep", "Format", "Sp", "Lower", "Upper", "OLetter", "Numeric", "ATerm",
    "SContinue", "STerm", "Close",
)  # fmt: skip
# A segment is a word if anything in it is a letter or a number, or an emoji that is shown as one.
WORDLY = r"(?!\p{WB=Extend})[\p{L}\p{N}\p{Emoji_Presentation}\p{Regional_Indicator}]"
SURROGATES = range(0xD800, 0xE000)


def table() -> str:
    """The whole file."""
    everything = "".join("\0" if c in SURROGATES else chr(c) for c in range(sys.maxunicode + 1))
    words = _classes(everything, "Word_Break", WORD_BREAK)
    sentences = _classes(everything, "Sentence_Break", SENTENCE_BREAK)
    marks = [""] * len(everything)
    for mark, pattern in (("w", WORDLY), ("p", r"\p{Extended_Pictographic}")):
        for match in regex.finditer(pattern, everything):
            marks[match.start()] += mark
    lines, last = [], None
    for code, found in enumerate(zip(words, sentences, marks, strict=True)):
        if found != last:
            lines.append(" ".join([f"{code:04X}", *found]).rstrip())
            last = found
    return "\n".join(lines) + "\n"


def _classes(everything: str, name: str, classes: tuple[str, ...]) -> list[str]:
    found = ["Other"] * len(everything)
    for class_ in classes:
        for match in regex.finditer(rf"\p{{{name}={class_}}}", everything):
            found[match.start()] = class_
    return found


def main() -> None:
    """Write or check the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    made = table()
    if not parser.parse_args().check:
        TABLE.write_text(made, encoding="ascii")
    elif TABLE.read_text(encoding="ascii") != made:
        print("run python -m tools.unicode_table")
        sys.exit(1)


if __name__ == "__main__":
    main()
