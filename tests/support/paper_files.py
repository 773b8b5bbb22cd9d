"""The original files of the papers, in small."""

from __future__ import annotations

import csv
import io
import zipfile
from pathlib import Path
from typing import Any

from benchmarks.paper_sets import SCHEMA
from benchmarks.paper_texts import LOADERS

Rows = list[tuple[str, str]]


def as_csv(header: list[str], rows: list[list[Any]], quoting: Any = csv.QUOTE_MINIMAL) -> bytes:
    out = io.StringIO(newline="")
    writer = csv.writer(out, lineterminator="\n", quoting=quoting)
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue().encode()


def load(name: str, *paths: Path) -> Rows:
    tables = list(LOADERS[name].tables(paths))
    assert all(table.schema == SCHEMA for table in tables)
    return [(row["user"], row["text"]) for table in tables for row in table.to_pylist()]


def zipped(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return out.getvalue()


REDDIT = as_csv(
    ["", "author", "clean_text"],
    [
        [0, "ann", "do n't , ever ."],
        [1, "bob", "two\nlines and \"quotes\""],
        [2, "", "nobody wrote this"],
        [3, "ann", ""],
        [4, "ann", "do n't , ever ."],
        [5, "[deleted]", "nobody wrote this"],
        [6, "null", "NA"],
        [7, "bob", " \n\t "],
        [8, "bob", "do n't , ever ."],
    ],
)  # fmt: skip
REDDIT_ROWS = [
    ("ann", "do n't , ever ."),
    ("bob", 'two\nlines and "quotes"'),
    ("ann", "do n't , ever ."),
    ("null", "NA"),
    ("bob", "do n't , ever ."),
]
