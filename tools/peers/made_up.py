"""Made-up purchases, the same on every machine.

Everything is drawn by :mod:`random`, whose numbers for a seed do not change with its version.
"""

from __future__ import annotations

import random
from itertools import accumulate
from pathlib import Path

PEOPLE = 20_000
PRODUCTS = 2_000
MEAN_BASKET = 7.0
LARGEST_BASKET = 40
LARGEST_AMOUNT = 50
SEED = 20_000

Row = tuple[int, str, int]


def purchases(
    mean_basket: float = MEAN_BASKET,
    *,
    people: int = PEOPLE,
    products: int = PRODUCTS,
    seed: int = SEED,
) -> list[Row]:
    """Rows of (person, product, amount), at most one for each person and product.

    Products are drawn by Zipf's law, baskets have exponential sizes (with a mean of 1, all of them
    are 1), and amounts are whole numbers from 1 to :data:`LARGEST_AMOUNT`, most of them small.
    """
    source = random.Random(seed)
    names = [f"product {rank:04}" for rank in range(1, products + 1)]
    weights = list(accumulate(1.0 / rank for rank in range(1, products + 1)))
    rows: list[Row] = []
    for person in range(people):
        size = min(LARGEST_BASKET, 1 + int((mean_basket - 1.0) * source.expovariate(1.0)))
        basket = dict.fromkeys(source.choices(names, cum_weights=weights, k=size))
        rows += [(person, product, _amount(source)) for product in basket]
    return rows


def _amount(source: random.Random) -> int:
    return min(LARGEST_AMOUNT, 1 + int(source.expovariate(1.0 / 15.0)))


def write(rows: list[Row], path: Path) -> None:
    """Write purchases as Parquet, with the types a database would give them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    people, products, amounts = zip(*rows, strict=True)
    columns = {
        "person": pa.array(people, pa.int64()),
        "product": pa.array(products, pa.string()),
        "amount": pa.array(amounts, pa.int64()),
    }
    pq.write_table(pa.table(columns), path)
