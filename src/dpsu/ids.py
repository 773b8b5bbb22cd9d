"""Identity of users and items: what makes two of them the same, and the bytes they are hashed by.

Text is NFC-normalized UTF-8, integers are 64 bits. Hashes always see the raw bytes of an id (an
integer's decimal digits), never the code it was interned to: codes change when a user leaves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.errors import DataError, without_values


@dataclass(frozen=True, repr=False)
class Ids:
    """Distinct ids: an Arrow array of ``large_string`` or ``int64`` without nulls."""

    values: pa.Array

    def __len__(self) -> int:
        return len(self.values)

    def text(self) -> pa.Array:
        """The ids as text; integers become decimal digits."""
        return self.values.cast(pa.large_string())

    def buffers(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Bytes and offsets of the ids, ready for hashing."""
        text = self.text()
        _, offsets, data = text.buffers()
        places = np.frombuffer(offsets, np.int64)[text.offset : text.offset + len(text) + 1]
        raw = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return raw, places

    def hashes(self, salt: int) -> NDArray[np.uint64]:
        """Salted xxHash64 of every id."""
        from dpsu.kernels.hashing import hash_strings

        data, offsets = self.buffers()
        return hash_strings(data, offsets, np.uint64(salt))

    def take(self, positions: NDArray[Any]) -> Ids:
        """The ids at these positions, in this order."""
        return Ids(self.values.take(pa.array(positions)))


def encode(name: str, column: pa.ChunkedArray) -> tuple[Ids, NDArray[np.int32]]:
    """Intern a column: its distinct ids and one code per row, -1 where the row has none.

    `name` is the column as the caller typed it; errors name it and never a value.
    """
    if column.null_count == len(column):
        # A column keeps the type it declares, however empty: the type of a release is public.
        declared = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        kept = pa.int64() if pa.types.is_integer(declared) else pa.large_string()
        return Ids(pa.array([], kept)), np.full(len(column), -1, np.int32)
    if pa.types.is_integer(column.type) and column.null_count == 0:
        dense = _encode_dense(name, column)
        if dense is not None:
            return dense
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    else:
        _refuse_type(name, column.type)
        column = pc.dictionary_encode(column)
    chunks = [chunk for chunk in column.chunks if len(chunk)]
    if not chunks:
        return Ids(pa.array([], pa.large_string())), np.empty(0, np.int32)
    _refuse_type(name, chunks[0].dictionary.type)
    codes = np.concatenate(
        [chunk.indices.cast(pa.int32()).fill_null(-1).to_numpy() for chunk in chunks]
    )
    # A dictionary that came with the data may repeat values or hold nulls, and distinct spellings
    # may be one text after normalization: intern the dictionary itself once more.
    once_more = canonical(name, chunks[0].dictionary).dictionary_encode()
    mapping = once_more.indices.cast(pa.int32()).fill_null(-1).to_numpy(zero_copy_only=False)
    if not np.array_equal(mapping, np.arange(len(mapping), dtype=np.int32)):
        codes = np.where(codes >= 0, mapping[np.maximum(codes, 0)], np.int32(-1))
    return Ids(once_more.dictionary), codes


def _encode_dense(name: str, column: pa.ChunkedArray) -> tuple[Ids, NDArray[np.int32]] | None:
    """Intern integers from a narrow range by a table, chunk by chunk, instead of a hash map."""
    from dpsu.kernels import interning

    ends = pc.min_max(column).as_py()
    lowest, highest = ends["min"], ends["max"]
    span = highest - lowest + 1
    if lowest < -(2**62) or highest > 2**62 or span > min(4 * len(column), 2**31 - 1):
        return None
    table = np.zeros(span, np.int32)
    for chunk in column.chunks:
        interning.mark(canonical(name, chunk).to_numpy(), lowest, table)
    interning.number(table)
    codes, first = np.empty(len(column), np.int32), 0
    for chunk in column.chunks:
        last = first + len(chunk)
        interning.look_up(canonical(name, chunk).to_numpy(), lowest, table, codes[first:last])
        first = last
    return Ids(pa.array(np.flatnonzero(table >= 0) + lowest, pa.int64())), codes


def canonical(name: str, values: pa.Array) -> pa.Array:
    """Normalize ids to NFC text or 64-bit integers."""
    _refuse_type(name, values.type)
    if pa.types.is_integer(values.type):
        return without_values(
            lambda: values.cast(pa.int64()),
            f"column {name!r} has integers beyond 64 bits; convert it to text",
        )
    return without_values(
        lambda: pc.utf8_normalize(_valid(values.cast(pa.large_string())), form="NFC"),
        f"column {name!r} has text that is not valid UTF-8; re-encode it as UTF-8",
    )


def type_name(type_: pa.DataType) -> str:
    """A type without its parameters: the fields of a struct may be private items."""
    return re.split(r"[<\[(]", str(type_))[0]


def _valid(text: pa.Array) -> pa.Array:
    text.validate(full=True)
    return text


def _refuse_type(name: str, type_: pa.DataType) -> None:
    value_type = type_.value_type if pa.types.is_dictionary(type_) else type_
    is_text = (
        pa.types.is_string(value_type)
        or pa.types.is_large_string(value_type)
        or pa.types.is_string_view(value_type)
    )
    if is_text or pa.types.is_integer(value_type) or pa.types.is_null(value_type):
        return
    hint = "convert it to text or integers"
    if pa.types.is_nested(value_type):
        hint = "give one row for each item"
    if pa.types.is_floating(value_type):
        hint += " (pandas makes floats of integers with missing values: use .astype('Int64'))"
    raise DataError(
        f"column {name!r} has type {type_name(value_type)}; users and items must be text or "
        f"integers: {hint}"
    )
