"""Who is in a sample of users."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import pyarrow as pa
import xxhash

from dpsu.contributions.codecs import ids_of_cells
from dpsu.contributions.id_columns import Column, lose_nothing
from dpsu.contributions.ids import Ids
from dpsu.contributions.samples import Sample

SAMPLE = Sample(0.3, 0xFEDC_BA98_7654_3210)
USER = Column("user", "user")


def in_it(ids: pa.Array, column: Column = USER) -> list[bool]:
    """Which rows of these users are in the sample, if the others are in the other part."""
    rows: list[bool] = SAMPLE.rows_of(ids, column).to_pylist()
    assert replace(SAMPLE, others=True).rows_of(ids, column).to_pylist() == [not r for r in rows]
    return rows


def test_it_is_the_formula_of_the_proof() -> None:
    ids = ["", "a", "anna", "é", "7", "-12", "x" * 100, *(f"person {n}" for n in range(300))]
    hashes = [xxhash.xxh64(each.encode(), seed=SAMPLE.salt).intdigest() for each in ids]
    expected = [each < 0.3 * 2**64 for each in hashes]
    users = pa.array(ids, pa.large_string())
    assert SAMPLE.among(Ids(users)).tolist() == in_it(users) == expected
    assert 0.2 < sum(expected) / len(ids) < 0.4


def test_ids_of_one_meaning_are_in_the_same_part() -> None:
    """Whatever the type of their column is."""
    numbers = pa.array(range(-40, 200))
    texts = numbers.cast(pa.string())
    expected = in_it(numbers)
    assert 40 < sum(expected) < 110
    for same in (texts, texts.dictionary_encode(), numbers.cast(pa.int16())):
        assert in_it(same) == expected
    assert in_it(numbers, replace(USER, declared="text")) == expected
    assert in_it(texts, replace(USER, declared="integer")) == expected
    composed, decomposed = ([f"{accent}{n}" for n in range(99)] for accent in ("é", "e\u0301"))
    assert in_it(pa.array(composed)) == in_it(pa.array(decomposed))
    days: list[Any] = [datetime.date(2024, 1, 1) + datetime.timedelta(n) for n in range(99)]
    dated = ids_of_cells(USER, pa.array(days), lose_nothing)
    assert in_it(dated) == in_it(pa.array([str(day) for day in days]))


def test_rows_without_a_user_stay_in_both_parts() -> None:
    """They are reported, in whichever part they are read."""
    numbers = pa.array(range(40))
    broken = pa.array([b"\xff", *(b"%d" % n for n in range(40))] * 2).view(pa.string())
    for part in (SAMPLE, replace(SAMPLE, others=True)):
        known = part.among(Ids(numbers)).tolist()
        for users in (pa.array([None, *range(40)] * 2), broken, broken.dictionary_encode()):
            assert part.rows_of(users, USER).to_pylist() == [True, *known] * 2
        assert part.rows_of(pa.nulls(3), USER).to_pylist() == [True] * 3
