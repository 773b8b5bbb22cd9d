"""The join of the guide to other libraries, on Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tools.peers import made_up, tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.thorough
def test_the_join_keeps_released_products_and_bounds(spark: SparkSession, tmp_path: Path) -> None:
    rows = made_up.purchases(people=200, products=30)
    made_up.write([*rows, (0, "product 0001", 999)], tmp_path / "purchases.parquet")
    released = [f"product {rank:04}" for rank in range(1, 11)]
    keys = pa.table({"product": pa.array(released, pa.large_string())})
    pq.write_table(keys, tmp_path / "keys.parquet")
    space = {
        "spark": spark,
        "purchases": str(tmp_path / "purchases.parquet"),
        "keys": str(tmp_path / "keys.parquet"),
        "max_rows": 3,
        "max_amount": 50,
    }
    code = tables.snippet("spark").removeprefix("```python\n").removesuffix("```")
    exec(compile(code, "hand-on.md", "exec"), space)
    kept = space["rows"].collect()  # type: ignore[attr-defined]
    held = Counter(person for person, product, _ in rows if product in released)
    held[0] += 1
    assert Counter(row["person"] for row in kept) == {p: min(3, n) for p, n in held.items() if n}
    assert all(row["product"] in released and 0 <= row["amount"] <= 50 for row in kept)
    assert set(kept[0].asDict()) == {"person", "product", "amount"}
