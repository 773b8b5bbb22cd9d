"""Sums by SmartNoise SQL, with keys that were released before or by its own threshold."""

from __future__ import annotations

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums


def given(ask: Ask) -> Sums:
    """Sums of released products."""
    purchases, keys, epsilon = ask.purchases, ask.keys, ask.epsilon
    max_rows, max_amount = ask.max_rows, ask.max_amount
    # guide
    import pandas as pd
    import snsql

    table = {
        "max_ids": max_rows,  # rows of a person; without it 1
        "censor_dims": False,  # the keys are public now: no threshold
        "person": {"type": "int", "private_id": True},
        "product": {"type": "string"},
        "amount": {"type": "int", "lower": 0, "upper": max_amount},
    }
    rows, released = pd.read_parquet(purchases), pd.read_parquet(keys)[["product"]]
    # GROUP BY leaves out keys without rows: each gets a row of amount 0 of nobody (ids below 0).
    nobody = released.assign(person=range(-len(released), 0), amount=0)
    reader = snsql.from_df(
        pd.concat([rows.merge(released, on="product"), nobody]),
        privacy=snsql.Privacy(epsilon=epsilon, delta=0),  # for each column that is computed
        metadata={"": {"shop": {"purchases": table}}},
    )
    query = "SELECT product, SUM(amount) AS amount FROM shop.purchases GROUP BY product"
    sums = reader.execute(query)
    # end of guide
    return dict(sums[1:])


def own(ask: Ask) -> Sums:
    """Sums of products whose noisy number of people exceeds a threshold."""
    import pandas as pd
    import snsql

    table = {
        "max_ids": ask.max_rows,
        "censor_dims": True,
        "person": {"type": "int", "private_id": True},
        "product": {"type": "string"},
        "amount": {"type": "int", "lower": 0, "upper": ask.max_amount},
    }
    reader = snsql.from_df(
        pd.read_parquet(ask.purchases),
        # Two columns are computed, the number of people and the sum, and each costs epsilon.
        privacy=snsql.Privacy(epsilon=ask.epsilon / 2, delta=ask.delta),
        metadata={"": {"shop": {"purchases": table}}},
    )
    query = "SELECT product, SUM(amount) AS amount FROM shop.purchases GROUP BY product"
    sums = reader.execute(query)
    return dict(sums[1:])


if __name__ == "__main__":
    answer("smartnoise-sql", given, own)
