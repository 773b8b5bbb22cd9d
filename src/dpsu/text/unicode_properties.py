"""Properties of code points by which Unicode Standard Annex 29 finds words and sentences.

`unicode.txt` is made by tools/unicode_table.py.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dpsu.kernels.segmenting import PICTOGRAPH, SENTENCE_CLASSES, WORD_CLASSES, WORDLY

_MARKS = {"w": WORDLY, "p": PICTOGRAPH}


@cache
def tables() -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Classes of all code points: for words, with marks, and for sentences."""
    lines = Path(__file__).with_name("unicode.txt").read_text(encoding="ascii").splitlines()
    fields = [line.split(" ") for line in lines]
    starts = [int(field[0], 16) for field in fields]
    lengths = np.diff([*starts, sys.maxunicode + 1])
    word_codes = {name: code for code, name in enumerate(WORD_CLASSES)}
    sentence_codes = {name: code for code, name in enumerate(SENTENCE_CLASSES)}
    words = [
        word_codes[field[1]] | sum(_MARKS[mark] for mark in "".join(field[3:])) for field in fields
    ]
    sentences = [sentence_codes[field[2]] for field in fields]
    return (
        np.repeat(np.array(words, np.uint8), lengths),
        np.repeat(np.array(sentences, np.uint8), lengths),
    )
