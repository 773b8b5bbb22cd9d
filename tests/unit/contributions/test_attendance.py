"""Who takes part in which of several periods."""

from __future__ import annotations

import datetime
import types
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import xxhash

import dpsu
from dpsu.contributions.attendance import Attendance
from dpsu.contributions.ids import Ids
from dpsu.contributions.pairs import Pairs
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key

KEY = Key.from_insecure_seed(1)
SALT = 0xFEDC_BA98_7654_3210


def hashed(hashes: list[int]) -> Any:
    """Users of whom only the hashes are known."""
    return types.SimpleNamespace(hashes=lambda salt: np.array(hashes, np.uint64))


@pytest.mark.parametrize("periods", range(1, 15))
def test_each_user_takes_part_exactly_so_often_and_each_period_sees_the_same_share(
    periods: int,
) -> None:
    """For every remainder that a hash can leave, so that no user is an exception."""
    high = 2**64 - 1
    users = hashed([*range(periods), *range(high, high - periods, -1)])
    for per_user in range(1, periods + 1):
        table = np.array(
            [
                Attendance(period, periods, per_user, SALT).among(users)
                for period in range(1, periods + 1)
            ]
        )
        assert (table.sum(axis=0) == per_user).all()
        assert (table[:, :periods].sum(axis=1) == per_user).all()
        # Evenly spread: in any stretch of periods, two users differ by one period at most.
        for length in range(1, periods + 1):
            counted = [table[at : at + length].sum(axis=0) for at in range(periods - length + 1)]
            assert np.ptp(counted) <= 1


def test_it_is_the_formula_of_the_proof() -> None:
    ids = ["", "a", "anna", "é", "7", "-12", "x" * 100, *(f"person {n}" for n in range(300))]
    found = [
        Attendance(k + 1, 12, 5, SALT).among(Ids(pa.array(ids, pa.large_string())))
        for k in range(12)
    ]
    for at, each in enumerate(ids):
        r = xxhash.xxh64(each.encode(), seed=SALT).intdigest() % 12
        assert [bool(mask[at]) for mask in found] == [(r + k * 5) % 12 < 5 for k in range(12)]
    shares = [mask.mean() for mask in found]
    assert 0.3 < min(shares) < max(shares) < 0.55


def pairs_of(data: Any, period: int | None, user: Any = "user", **more: Any) -> Pairs:
    attendance = None if period is None else Attendance(period, 4, 1, SALT)
    return Source(data, dpsu.Users(user, **more), dpsu.Items("item"), attendance=attendance).pairs(
        KEY, with_repeats=False
    )


def attending(data: Any, user: Any = "user", **more: Any) -> list[list[str]]:
    """The users of whom rows are left in each of four periods."""
    found = [pairs_of(data, period, user, **more) for period in (1, 2, 3, 4)]
    return [sorted(each.users.text().to_pylist()) for each in found]


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_ids_of_one_meaning_take_part_alike(tmp_path: Path) -> None:
    """Whatever their columns are, and wherever they come from."""
    numbers = list(range(-40, 200))
    items = [f"i{n % 7}" for n in numbers]
    table = pa.table({"user": numbers, "item": items})
    texts = table.set_column(0, "user", table["user"].cast(pa.string()))
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    pyarrow.csv.write_csv(table, tmp_path / "rows.csv")
    expected = attending(table)
    assert sorted(user for period in expected for user in period) == sorted(map(str, numbers))
    for same in (
        texts,
        texts.set_column(0, "user", texts["user"].dictionary_encode()),
        table.set_column(0, "user", table["user"].cast(pa.int16())),
        str(tmp_path / "rows.parquet"),
        str(tmp_path / "rows.csv"),
        pd.DataFrame({"user": np.array(numbers, np.int32), "item": items}),
        [(n, item) for n, item in zip(numbers, items, strict=True)],
        {str(n): [item] for n, item in zip(numbers, items, strict=True)},
    ):
        named = {} if isinstance(same, (list, dict)) else {"user": "user"}
        assert attending(same, **named) == expected
    assert attending(table, type="text") == attending(texts, type="integer") == expected
    composed, decomposed = (
        [(f"{accent}{n}", "i") for n in range(99)] for accent in ("é", "e\u0301")
    )
    assert attending(composed) == attending(decomposed)
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(n) for n in range(99)]
    dated = pa.table({"day": days, "nr": list(range(99)), "item": ["i"] * 99})
    spelled = dated.set_column(0, "day", [[str(day) for day in days]])
    assert attending(dated, "day") == attending(spelled, "day")
    both = attending(dated, ["day", "nr"])
    assert attending(spelled, ["day", "nr"]) == both
    assert [len(period) > 10 for period in both] == [True] * 4


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_nothing_is_left_of_users_who_do_not_take_part() -> None:
    """Neither their rows nor their items: it is as if they had not been there."""
    users = np.repeat(np.arange(200), 3)
    table = pa.table({"user": users, "item": [f"of {user}" for user in users]})
    coded = table.set_column(1, "item", table["item"].dictionary_encode())
    for period in (1, 2, 3, 4):
        mask = Attendance(period, 4, 1, SALT).among(Ids(table["user"].combine_chunks()))
        without = pairs_of(table.filter(pa.array(mask)), None)
        for each in (table, coded):
            found = pairs_of(each, period)
            assert set(found.users.values.to_pylist()) == set(without.users.values.to_pylist())
            assert set(found.items.values.to_pylist()) == set(without.items.values.to_pylist())
            assert len(found) == len(without) > 60


def test_rows_without_a_user_are_reported_in_every_period() -> None:
    table = pa.table({"user": [None, *range(40)] * 2, "item": ["i"] * 82})
    for period in (1, 2, 3, 4):
        with pytest.warns(dpsu.DataWarning, match="some rows have no 'user'"):
            pairs_of(table, period)
    nobody = pa.table({"user": [0] * 2, "item": ["i"] * 2})
    absent = next(k for k in (1, 2, 3, 4) if not Attendance(k, 4, 1, SALT).among(
        Ids(pa.array([0])))[0])  # fmt: skip
    with pytest.warns(dpsu.DataWarning, match="of users who take part in this period"):
        assert len(pairs_of(nobody, absent)) == 0
    empty = pa.table({"user": pa.nulls(3), "item": ["i"] * 3})
    with pytest.warns(dpsu.DataWarning):
        assert len(pairs_of(empty, 1)) == 0


@pytest.mark.filterwarnings("ignore::dpsu.DataWarning")
def test_texts_and_repeats_are_dropped_with_their_users() -> None:
    posts = pa.table({"who": [f"u{n}" for n in range(99)] * 2, "body": ["so long"] * 198})
    held = pa.table({"who": [f"u{n}" for n in range(99)], "item": ["i"] * 99, "n": [2] * 99})
    for item, table in ((dpsu.Tokens("body"), posts), (dpsu.Items("item", repeats="n"), held)):
        seen: list[str] = []
        for period in (1, 2, 3, 4):
            source = Source(
                table, dpsu.Users("who"), item, attendance=Attendance(period, 4, 1, SALT)
            )
            pairs = source.pairs(KEY, with_repeats=True)
            seen += pairs.users.values.to_pylist()
        assert sorted(seen) == sorted(f"u{n}" for n in range(99))
