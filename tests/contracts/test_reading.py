"""At every door, what is read from a person's rows depends on these rows alone.

The theorem is in `docs/proofs/reading.md`. Random rows, many of them odd, are read in a random
layout, and must become the same pairs as each row by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dpsu
from dpsu.inputs.reading import Source
from tests.contracts import doors

BY_NIGHT = pytest.mark.thorough


@pytest.mark.parametrize("first", [0, pytest.param(40, marks=BY_NIGHT)])
@pytest.mark.parametrize("door", doors.DOORS)
def test_rows_are_read_by_themselves(door: str, first: int, tmp_path: Path) -> None:
    for seed in range(first, 8 * first or 40):
        (folder := tmp_path / str(seed)).mkdir()
        doors.check(doors.DOORS[door], f"{door} {seed}", folder)


class Collides:
    """An id that is found where a column named "user" would be, and fails when it is compared."""

    def __hash__(self) -> int:
        return hash("user")

    def __eq__(self, other: object) -> bool:
        raise ValueError("Zzsecret")


def test_an_id_that_cannot_be_compared_ends_no_run() -> None:
    source = Source({"a": ["b"], Collides(): ["c"]}, dpsu.Users(), dpsu.Items())
    with pytest.warns(dpsu.DataWarning):
        assert doors.pairs_of(source) == {("a", "b", 1): 1}


def test_a_text_that_a_tokenizer_quotes_ends_no_run() -> None:
    data = {"user": ["a", "b"], "item": ["c", doors.THREADS]}
    source = Source(data, dpsu.Users("user"), dpsu.Tokens("item", doors.fails_on_some))
    with pytest.warns(dpsu.DataWarning):
        assert doors.pairs_of(source) == {("a", "c", 1): 1}


@pytest.mark.spark
@pytest.mark.parametrize("first", [0, pytest.param(2, marks=BY_NIGHT)])
def test_rows_are_read_by_themselves_on_spark(first: int, spark: Any, tmp_path: Path) -> None:
    for seed in range(first, 15 * first or 2):
        (folder := tmp_path / str(seed)).mkdir()
        doors.check(doors.on_spark(spark), f"spark {seed}", folder, 60)
