"""What the files in `libraries` have in common: they are asked for sums and print their scores.

    python -m tools.peers.libraries.opendp purchases.parquet --keys keys.parquet --cost 1,0
    python -m tools.peers.libraries.opendp purchases.parquet --own 5 --cost 2,1e-6

This runs where `dpsu` is not installed: it needs Python and PyArrow.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from tools.peers.scoring import Sums, score, true_sums

MAX_AMOUNT = 50


@dataclass(frozen=True)
class Ask:
    """A question for sums, with the bounds that all libraries get.

    Attributes
    ----------
    purchases : str
        The Parquet file of rows of person, product and amount.
    keys : str
        The Parquet file of released products; empty if the library is to find them by itself.
    epsilon, delta : float
        What the answer may cost, for adding or removing one person.
    max_rows, max_amount : int
        So many rows of a person count, and amounts are from 0 to this.
    """

    purchases: str
    keys: str
    epsilon: float
    delta: float
    max_rows: int
    max_amount: int = MAX_AMOUNT


Answer = Callable[[Ask], Sums]
Rows = list[tuple[int, str, int]]


def read_rows(path: str) -> Rows:
    """Read purchases as tuples."""
    import pyarrow.parquet as pq

    columns = pq.read_table(path).to_pydict()
    return list(zip(columns["person"], columns["product"], columns["amount"], strict=True))


def count_keys(path: str) -> int:
    """How many products were released."""
    import pyarrow.parquet as pq

    return int(pq.read_metadata(path).num_rows)


def answer(
    package: str,
    given: Answer,
    own: Answer | None = None,
    rows_asked_for: Callable[[Rows], Rows] = lambda rows: rows,
) -> None:
    """Run as a command: compute sums as often as asked for, and print one line of JSON for each."""
    parser = argparse.ArgumentParser()
    parser.add_argument("purchases")
    parser.add_argument("--keys", nargs="*", default=[], help="one answer for each file")
    parser.add_argument("--own", type=int, default=0, help="so many answers without keys")
    parser.add_argument("--cost", required=True, help="epsilon,delta of each answer")
    parser.add_argument("--max-rows", type=int, default=10, help="so many rows of a person count")
    asked = parser.parse_args()
    epsilon, delta = map(float, asked.cost.split(","))
    true = true_sums(rows_asked_for(read_rows(asked.purchases)))
    files = [*asked.keys, *[""] * (asked.own if own else 0)]
    for keys in files:
        # Standard output is for results; libraries print what they like.
        with contextlib.redirect_stdout(sys.stderr):
            ask = Ask(str(Path(asked.purchases).resolve()), keys, epsilon, delta, asked.max_rows)
            found = (given if keys or own is None else own)(ask)
        told = {
            "version": version(package),
            "keys": count_keys(keys) if keys else None,
            **score(true, found),
        }
        print(json.dumps(told), flush=True)
