"""Rows of released products in DuckDB. The join adds no noise: its sums are exact."""

from __future__ import annotations

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums


def given(ask: Ask) -> Sums:
    """Exact sums of released products over the rows that a private engine would get."""
    purchases, keys, max_rows, max_amount = ask.purchases, ask.keys, ask.max_rows, ask.max_amount
    # guide
    import duckdb

    shop = duckdb.connect()
    shop.from_parquet(purchases).create_view("purchases")
    shop.from_parquet(keys).create_view("released")
    rows = shop.sql(f"""
        select person, product, least(greatest(coalesce(amount, 0), 0), {max_amount}) as amount
        from purchases join released using (product)
        qualify row_number() over (
            partition by person order by hash(product, purchases.amount, person)
        ) <= {max_rows}
    """)  # as confidential as all purchases: for a private engine, not for people
    # end of guide
    return dict(rows.aggregate("product, sum(amount)").fetchall())


if __name__ == "__main__":
    answer("duckdb", given)
