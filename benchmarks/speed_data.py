"""Made-up rows of a user and an item, in the shapes in which data really come.

The same users hold the same items in every shape of a size: sets are log-normal (median 20, mean
36), and the popularity of items is Zipf with exponent 1.05. Shapes differ in what users are, in the
order of rows, and in how a file stores them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Users and items.
SIZES = {
    "S": (10_000, 250_000),
    "M": (223_000, 250_000),
    "L": (1_000_000, 250_000),
    "100M": (2_770_000, 250_000),  # that many rows, for Spark
    "XL": (10_000_000, 250_000),
    "XXL": (27_800_000, 3_000_000),  # a billion rows, items as integers
}
USERS = ("integer", "text8", "text32", "uuid")
ORDERS = ("user", "block", "random")
BLOCK = 100_000
ROWS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class Shape:
    """What users are, in which order rows come, and how a file stores them.

    `order` is that of users, random within blocks of 100,000 users, or random over all rows. With
    `texts`, a row has a text of up to a dozen words of one user instead of an item.
    """

    users: str = "integer"
    order: str = "block"
    format: str = "parquet"
    dictionary: bool = True
    compression: str = "snappy"
    keys: int = 1
    texts: bool = False

    def __str__(self) -> str:
        stored = [] if self.dictionary else ["plain"]
        stored += [] if self.compression == "snappy" else [self.compression]
        stored += [] if self.keys == 1 else [f"{self.keys} keys"]
        stored += ["texts"] if self.texts else []
        return "-".join([self.users, self.order, *stored]).replace(" ", "-")

    @property
    def described(self) -> str:
        """The shape in a row of a table."""
        users = {
            "integer": "integers", "text8": "text of 8 bytes", "text32": "text of 32 bytes",
            "uuid": "UUIDs",
        }[self.users]  # fmt: skip
        order = {"user": "by user", "block": "random in blocks", "random": "random"}[self.order]
        stored = f"{self.compression}{'' if self.dictionary else ', no dictionaries'}"
        return f"{users} | {order} | {stored} | {self.keys}"


# One shape for each way in which data differ, and one that stands for the worst.
SHAPES = [
    Shape("integer", "user"),
    Shape("integer", "block"),
    Shape("integer", "random"),
    Shape("text8", "random"),
    Shape("text32", "user"),
    Shape("text32", "block"),
    Shape("text32", "random"),
    Shape("text32", "random", compression="zstd"),
    Shape("text32", "random", dictionary=False),
    Shape("uuid", "random"),
    Shape("text32", "random", keys=2),
]
WORST = Shape("text32", "random")
TEXTS = Shape("text32", "user", texts=True)
WORDS_OF_A_TEXT = 12


def make(size: str, shape: Shape, folder: Path, seed: int = 1) -> Path:
    """Write the rows of a size in a shape, unless that was done before."""
    plain = str(shape) == str(Shape())
    name = size if plain else f"{size}-{shape}"
    path = folder / f"{name}.{shape.format}"
    if path.exists():
        return path
    import numpy as np

    users, n_items = SIZES[size]
    rng = np.random.default_rng(seed)
    popularity = np.cumsum(1.0 / np.arange(1, n_items + 1) ** 1.05)
    popularity /= popularity[-1]
    shuffled = rng.permutation(n_items)
    names = _users(shape.users, users, seed)
    writer = _Writer(path, shape)

    def write(user: Any, item: Any) -> None:
        items = _items(size, shape, shuffled, item)
        if shape.texts:
            user, items = _texts(user, items["item"])
        writer.write(_column(shape.users, user, names), items)

    everything: list[tuple[Any, Any]] = []
    for first in range(0, users, BLOCK):
        drawn = rng.lognormal(np.log(20), 1.1, min(BLOCK, users - first))
        sizes = np.clip(drawn, 1, 2000).astype(np.int64)
        user = np.repeat(np.arange(first, first + len(sizes)), sizes)
        item = np.searchsorted(popularity, rng.random(len(user))).astype(np.int32)
        mixed = rng.permutation(len(user))
        if shape.order == "random":
            everything.append((user.astype(np.int32), item))
        elif shape.order == "block":
            write(user[mixed], item[mixed])
        else:
            write(user, item)
    if everything:
        user, item = (np.concatenate(part) for part in zip(*everything, strict=True))
        mixed = rng.permutation(len(user))
        for first in range(0, len(mixed), ROWS_AT_ONCE):
            some = mixed[first : first + ROWS_AT_ONCE]
            write(user[some], item[some])
    writer.close()
    return path


def _users(kind: str, users: int, seed: int) -> Any:
    """The ids of users as one column; None for integers, which are their own."""
    import numpy as np
    import pyarrow as pa

    if kind == "integer":
        return None
    words = np.random.default_rng(seed + 1).integers(0, 2**63, (users, 2))
    if kind == "uuid":
        return pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), users, [None, pa.py_buffer(words.tobytes())]
        )
    if kind == "text8":
        return pa.array([f"{k:08x}" for k in np.random.default_rng(seed).permutation(users)])
    return pa.array([f"{one:016x}{other:016x}" for one, other in words.tolist()])


def _column(kind: str, user: Any, names: Any) -> Any:
    import pyarrow as pa

    if names is None:
        return pa.array(user, pa.int64())
    found = names.take(pa.array(user))
    return pa.ExtensionArray.from_storage(pa.uuid(), found) if kind == "uuid" else found


def _items(size: str, shape: Shape, shuffled: Any, item: Any) -> dict[str, Any]:
    """Columns of items: one, or two of which one is short."""
    import pyarrow as pa

    codes = shuffled[item]
    if size == "XXL":
        return {"item": pa.array(codes)}
    words = pa.array([f"word{k:x}" for k in range(len(shuffled))]).take(pa.array(codes))
    if shape.keys == 1:
        return {"item": words}
    short = pa.array([f"land{k}" for k in range(40)]).take(pa.array(codes % 40))
    return {"land": short, "item": words}


def _texts(user: Any, words: Any) -> tuple[Any, dict[str, Any]]:
    """Some words of one user after the other as one text."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    first = np.flatnonzero(np.diff(user, prepend=-1))
    place = np.arange(len(user)) - np.repeat(first, np.diff(first, append=len(user)))
    starts = np.flatnonzero(place % WORDS_OF_A_TEXT == 0)
    ends = np.append(starts, len(user))
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), words)
    return user[starts], {"text": pc.binary_join(lists, " ")}


class _Writer:
    """Writes a file that has its name only when it is whole."""

    def __init__(self, path: Path, shape: Shape) -> None:
        self._path, self._shape = path, shape
        self._partial = path.with_suffix(".partial")
        self._partial.unlink(missing_ok=True)
        self._writer: Any = None

    def write(self, user: Any, items: dict[str, Any]) -> None:
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        table = pa.table({"user": user, **items})
        if self._shape.format == "jsonl":
            import polars as pl

            with self._partial.open("ab") as file:
                pl.from_arrow(table).write_ndjson(file)  # type: ignore[union-attr]
            return
        if self._writer is None and self._shape.format == "parquet":
            self._writer = pa.parquet.ParquetWriter(
                self._partial, table.schema, compression=self._shape.compression,
                use_dictionary=self._shape.dictionary,
            )  # fmt: skip
        elif self._writer is None:
            self._writer = pa.csv.CSVWriter(str(self._partial), table.schema)
        self._writer.write_table(table)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
        self._partial.rename(self._path)
