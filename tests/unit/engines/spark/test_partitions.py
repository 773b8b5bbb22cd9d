"""Numbers of partitions: those that are asked for, unless the rows do not deserve them."""

from __future__ import annotations

from dpsu.engines.spark.query import MOST_PARTITIONS, ROWS_IN_PARTITION, partitions_for
from tests.support.cases import every

FEW, MANY = 10, 8_000_000


@every(
    ("rows", "asked", "partitions"),
    [
        (0, None, 1),
        (FEW, None, 1),
        (MANY, None, 8),
        (MOST_PARTITIONS * ROWS_IN_PARTITION * 2, None, MOST_PARTITIONS),
        (0, 1, 1),
        (FEW, 40, 40),
        (FEW, 64, 64),
        (FEW, 65, 64),
        (FEW, 2_000, 64),
        (MANY, 100, 100),
        (MANY, 2_000, 128),
        (125 * ROWS_IN_PARTITION, 2_000, 2_000),
    ],
)
def test_thousands_of_partitions_need_rows(rows: int, asked: int | None, partitions: int) -> None:
    assert partitions_for(rows, asked) == partitions
