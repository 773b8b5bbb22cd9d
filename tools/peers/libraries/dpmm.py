"""Synthetic rows by dpmm, whose domain of products was released before.

It protects rows, so that a person may have one: the largest purchase. Its answer is to another
question than that of the other libraries, and is compared with the true answer to that.
"""

from __future__ import annotations

from tools.peers.asking import Ask, answer
from tools.peers.scoring import Sums, largest_purchases, true_sums


def given(ask: Ask) -> Sums:
    """Sums over synthetic largest purchases of released products."""
    purchases, keys, epsilon, delta = ask.purchases, ask.keys, ask.epsilon, ask.delta
    max_amount = ask.max_amount
    # guide
    import pandas as pd
    from dpmm.pipelines import MSTPipeline

    released = pd.read_parquet(keys)["product"].tolist()
    rows = pd.read_parquet(purchases).sort_values(["amount", "product"])
    rows = rows.groupby("person").tail(1)  # a row is what is protected: one for each person
    rows = rows[rows["product"].isin(released)]
    pipeline = MSTPipeline(epsilon=epsilon, delta=delta, proc_epsilon=None, n_bins=10)
    pipeline.fit(
        rows[["product", "amount"]],
        domain={
            "product": {"categories": released},
            "amount": {"lower": 0, "upper": max_amount},
        },
    )
    total = round(pipeline.gen.generator.model.total)  # noisy, as everything in the model
    synthetic = pipeline.generate(n_records=total)
    # end of guide
    made = zip(range(total), synthetic["product"], synthetic["amount"], strict=True)
    found = true_sums((person, product, int(amount)) for person, product, amount in made)
    # A released product that no synthetic row has is known, and its sum is 0.
    return dict.fromkeys(released, 0.0) | found


if __name__ == "__main__":
    answer("dpmm", given, rows_asked_for=largest_purchases)
