"""Data whose release is certain: items that everybody holds come out, items of one user never do.

Weights of common items are dozens of standard deviations above every threshold, and a unique item
comes out with a probability of at most delta, which is 1e-9. All values contain marks that occur
nowhere else, so that a private value in a message is found by searching for pieces of them.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping

COMMON_MARK, SECRET_MARK = "Xj4kQ9vzW8", "Qz7xKj9wVb"
PIECE = 5
COMMON = tuple(f"{COMMON_MARK}{name}" for name in ("bread", "milk", "salt"))
PUBLIC = tuple(f"known item number {n:05d} {'abcdefgh' * 5}" for n in range(3000))
EPSILON, DELTA = 8.0, 1e-9
# Mechanisms under which the common items are certain: no cutoff, or one far above the threshold.
CERTAIN: Mapping[str, tuple[str, ...]] = {
    "weighted-gaussian": (),
    "weighted-laplace": (),
    "count-gaussian": (),
    "count-laplace": ("--max-items", "5"),
    "policy-gaussian": ("--alpha", "30"),
    "policy-laplace": ("--alpha", "60"),
}


def rows(users: int) -> list[tuple[str, str]]:
    """Pairs of user and item: each user holds the common items and one of their own."""
    return [
        (f"{SECRET_MARK}user{n}", item)
        for n in range(users)
        for item in (*COMMON, f"{SECRET_MARK}{n}")
    ]


def as_csv(users: int, delimiter: str = ",") -> bytes:
    """The rows as CSV with a header."""
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(
        [("user", "item"), *rows(users)]
    )
    return text.getvalue().encode()


def as_json_lines(users: int) -> bytes:
    """The rows as JSON lines."""
    return "".join(json.dumps({"user": u, "item": i}) + "\n" for u, i in rows(users)).encode()


def private_piece(said: str, marks: tuple[str, ...] = (COMMON_MARK, SECRET_MARK)) -> str | None:
    """A piece of a private value that was said, or None; pieces survive damage to the whole."""
    for mark in marks:
        for first in range(len(mark) - PIECE + 1):
            if mark[first : first + PIECE] in said:
                return mark[first : first + PIECE]
    return None
