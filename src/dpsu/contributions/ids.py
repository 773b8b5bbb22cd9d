"""Ids of users and items: when two of them are the same, and which bytes are hashed.

Text is NFC-normalized UTF-8; integers are signed 64-bit integers. A column of unsigned 64-bit
integers becomes text, their decimal digits. Hashes are made of the raw bytes of an id (an integer's
decimal digits), never of its code: codes of others change when a user leaves.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.id_types import INTEGER_TYPE
from dpsu.errors import DataError, without_values

INTEGERS, TEXT, NOTHING = "integers", "text", "nothing"
CELLS_AT_ONCE = 1 << 16


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
        return text_buffers(self.text())

    def hashes(self, salt: int) -> NDArray[np.uint64]:
        """Salted xxHash64 of the text of every id."""
        from dpsu.kernels import hashing

        if pa.types.is_integer(self.values.type):
            return hashing.hash_integers(numbers(self.values, np.int64), np.uint64(salt))
        return hashing.hash_strings(*text_buffers(self.values), np.uint64(salt))

    def take(self, positions: NDArray[np.int64]) -> Ids:
        """The ids at these positions, in this order."""
        return Ids(self.values.take(integers(positions)))


def canonical(name: str, values: pa.Array) -> pa.Array:
    """Normalize ids to NFC text or signed integers; a cell that can be neither becomes null.

    To refuse it would let one user's cell stop the run.
    """
    value = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
    if pa.types.is_integer(value):
        return decoded(values).cast(pa.large_string() if is_unsigned(value) else pa.int64())
    if not is_text(value) and not pa.types.is_null(value):
        raise DataError(f"column {name!r} has type {type_name(value)}; it must be text or integers")
    text = values.cast(pa.large_string())
    # Kernels load without checks.
    if not within_buffer(text):
        raise DataError(f"column {name!r} is damaged; get an undamaged copy")
    return _normalized(text)


def integers(values: NDArray[np.int64]) -> pa.Array:
    """NumPy to Arrow without a copy; unlike ``pa.array`` this does not load pandas."""
    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(values)])


def numbers(array: pa.Array, dtype: Any) -> NDArray[Any]:
    """Arrow without nulls to NumPy without a copy; unlike ``to_numpy`` this loads no pandas."""
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))[array.offset :]


def decoded(array: pa.Array) -> pa.Array:
    """Cells that are not dictionary-encoded; repeated texts may have more than 2 GB."""
    if not pa.types.is_dictionary(array.type):
        return array
    if is_text(array.type.value_type):
        return array.dictionary.cast(pa.large_string()).take(array.indices)
    return array.dictionary_decode()


def text_buffers(text: pa.Array) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Bytes and offsets of a ``large_string`` array."""
    _, offsets, data = text.buffers()
    if offsets is None or len(text) == 0:
        return np.empty(0, np.uint8), np.zeros(1, np.int64)
    places = np.frombuffer(offsets, np.int64, text.offset + len(text) + 1)[text.offset :]
    return np.frombuffer(data or b"", np.uint8), places


def within_buffer(text: pa.Array) -> bool:
    """Whether the texts of a ``large_string`` array lie where they can."""
    data, offsets = text_buffers(text)
    inside = offsets[0] >= 0 and offsets[-1] <= len(data)
    return bool(inside and (offsets[1:] >= offsets[:-1]).all())


def places_in_dictionary(name: str, chunk: pa.Array) -> tuple[NDArray[np.int32], pa.Array]:
    """The distinct cells of a column, and for each row the place of its cell; -1 if it has none."""
    encoded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    damaged = f"column {name!r} is damaged"
    found = without_values(lambda: encoded.indices.cast(pa.int32()), damaged)
    places = numbers(found.fill_null(-1) if found.null_count else found, np.int32)
    # Of a damaged file, a reader may make a dictionary that lacks entries without noticing.
    if places.min(initial=0) < -1 or places.max(initial=-1) >= len(encoded.dictionary):
        raise DataError(
            f"{damaged}: its dictionary lacks entries that rows refer to; get an undamaged copy"
        )
    return places, encoded.dictionary


def type_name(type_: pa.DataType) -> str:
    """A type without its parameters: the fields of a struct may be private items."""
    return re.split(r"[<\[(]", str(type_))[0]


def is_unsigned(type_: pa.DataType) -> bool:
    """Whether these are unsigned 64-bit integers, which signed ones cannot all hold."""
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    return bool(pa.types.is_uint64(value))


def arrow_type(declared: str) -> pa.DataType:
    """The type of ids that were declared to be text or integers."""
    return pa.int64() if declared == INTEGER_TYPE else pa.large_string()


def is_text(type_: pa.DataType) -> bool:
    """Whether this is one of the types of text."""
    return bool(
        pa.types.is_string(type_)
        or pa.types.is_large_string(type_)
        or pa.types.is_string_view(type_)
    )


def _normalized(text: pa.Array) -> pa.Array:
    data, offsets = text_buffers(text)
    if len(text) == 0 or data[offsets[0] : offsets[-1]].max(initial=0) < 128:
        return text  # ASCII is normal as it is
    # In slices, so that one cell that is no text does not make objects of all others at once.
    slices = [text.slice(at, CELLS_AT_ONCE) for at in range(0, len(text), CELLS_AT_ONCE)]
    return pa.concat_arrays([_normalized_slice(part) for part in slices])


def _normalized_slice(text: pa.Array) -> pa.Array:
    try:
        text.validate(full=True)
    except pa.ArrowInvalid:
        text = _decodable(text)
    return pc.utf8_normalize(text, form="NFC")


def _decodable(text: pa.Array) -> pa.Array:
    """Replace cells that are not UTF-8 by null."""
    cells = text.cast(pa.large_binary()).to_pylist()
    good = pa.array([cell is not None and _decodes(cell) for cell in cells])
    return pc.if_else(good, text, pa.scalar(None, text.type))


def _decodes(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True
