"""A released vocabulary: words and their noisy counts, from a release or a file that it wrote."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsu.errors import DataError, ParameterError, without_values
from dpsu.outputs import SUFFIXES
from dpsu.results import Release

_ESCAPED = re.compile(r"\\(.)")
_MEANT = {"\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_COUNTED_LINE = re.compile(r"[^\t]*\t-?[0-9]+")

Column = list[Any]


@dataclass(frozen=True)
class Vocabulary:
    """Distinct words, the most frequent first, none of them empty, and their counts.

    Counts are at least 1: noise may push that of a rare word below, yet it was released. They are
    all 1 if none were released, which `counted` says.
    """

    words: tuple[str, ...]
    counts: tuple[int, ...]
    counted: bool

    def __len__(self) -> int:
        return len(self.words)


def read_vocabulary(source: Any) -> Vocabulary:
    """Read words from a release, its file, a mapping word -> count, or an iterable of words.

    Released values only, never words of the confidential data: what is computed from a release
    without looking at the data again costs nothing.
    """
    if isinstance(source, Vocabulary):
        return source
    if isinstance(source, Release):
        counts = None if source.counts is None else source.counts.to_pylist()
        return _vocabulary(list(source.items), counts)
    if isinstance(source, (str, os.PathLike)):
        return _vocabulary(*_read_file(Path(source)))
    if isinstance(source, Mapping):
        return _vocabulary(list(source), list(source.values()))
    if isinstance(source, Iterable) and not isinstance(source, (bytes, bytearray)):
        return _vocabulary(list(source), None)
    raise ParameterError(
        f"words is a {type(source).__name__}; give a release, the path of a file that a release "
        "wrote, a mapping of words to counts, or an iterable of words"
    )


def _vocabulary(words: Column, counts: Column | None) -> Vocabulary:
    totals: dict[str, int] = {}
    for word, count in zip(words, [1] * len(words) if counts is None else counts, strict=True):
        text = _text(word)
        if text:
            totals[text] = totals.get(text, 0) + _whole(count)
    if counts is None:
        totals = dict.fromkeys(totals, 1)
    ordered = sorted((-max(1, count), word) for word, count in totals.items())
    listed = tuple(word for _, word in ordered), tuple(-less for less, _ in ordered)
    return Vocabulary(*listed, counts is not None)


def _text(word: object) -> str:
    if isinstance(word, bool) or not isinstance(word, (str, int)):
        raise DataError(f"words must be text or integers; one of them is a {type(word).__name__}")
    text = unicodedata.normalize("NFC", str(word))
    return without_values(
        lambda: text.encode().decode(), "a word has lone surrogates, which UTF-8 cannot write"
    )


def _whole(count: object) -> int:
    if isinstance(count, bool) or not isinstance(count, (int, float)) or not math.isfinite(count):
        raise DataError("the counts of words must be finite numbers; one of them is not")
    return round(count)


def _read_file(path: Path) -> tuple[Column, Column | None]:
    if not path.is_file():
        raise ParameterError(f"there is no file {str(path)!r}")
    if path.suffix not in SUFFIXES:
        raise ParameterError(
            f"cannot read {path.name!r}: words come from a file that a release wrote, and its name "
            f"ends in {', '.join(SUFFIXES)}"
        )
    read = {".txt": _lines, ".csv": _csv, ".parquet": _parquet, ".json": _json}[path.suffix]
    return without_values(
        lambda: read(path),
        f"{path.name!r} cannot be read as a {path.suffix} file of a release: one column of words "
        "and at most one of counts, in UTF-8",
    )


def _lines(path: Path) -> tuple[Column, Column | None]:
    # Carriage returns inside a word are escaped, so a raw one is an editor's line end.
    text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    lines = [line for line in text.split("\n") if line]
    if lines and all(_COUNTED_LINE.fullmatch(line) for line in lines):
        cells = [line.split("\t") for line in lines]
        return [_unescaped(word) for word, _ in cells], [int(count) for _, count in cells]
    return [_unescaped(line) for line in lines], None


def _unescaped(line: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT.get(found[1], found[0]), line)


def _csv(path: Path) -> tuple[Column, Column | None]:
    text = path.read_bytes().decode("utf-8-sig")
    table = list(csv.reader(io.StringIO(text, newline="")))
    columns = [list(column) for column in zip(*table[1:], strict=True)] or [[] for _ in table[0]]
    if len(columns) != len(table[0]):
        raise ValueError("rows are not as long as the header")
    words, counts = _word_columns(path, table[0], columns)
    return words, None if counts is None else [float(count) for count in counts]


def _parquet(path: Path) -> tuple[Column, Column | None]:
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    columns = [column.to_pylist() for column in table.columns]
    return _word_columns(path, table.column_names, columns)


def _json(path: Path) -> tuple[Column, Column | None]:
    found = json.loads(path.read_bytes())
    if not isinstance(found, list):
        raise DataError(f"{path.name!r} holds no list; a release writes a list of words")
    if not any(isinstance(entry, dict) for entry in found):
        return found, None
    names = list(found[0])
    return _word_columns(path, names, [[entry[name] for entry in found] for name in names])


def _word_columns(
    path: Path, names: list[str], columns: list[Column]
) -> tuple[Column, Column | None]:
    """Words come first, as a release writes them; the name of their column is the curator's."""
    if len(names) not in (1, 2):
        raise DataError(
            f"{path.name!r} has the columns {', '.join(map(repr, names))}; a release writes one "
            "of words and at most one of counts: keep these"
        )
    return columns[0], columns[1] if len(columns) == 2 else None
