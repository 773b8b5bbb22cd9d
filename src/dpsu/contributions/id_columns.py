"""Columns of users and items: turn their cells, as they are read, into ids of one type.

The type follows from the schema, or from what the caller declared, and never from a cell, because a
cell belongs to one user. A cell that has no id of that type becomes null, whatever the other cells
are, and the curator is warned that there are such cells. Untyped input (Python objects and JSON) is
text; its integers become their decimal digits.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dpsu.contributions.cells import BYTES, is_binary, kind_of, spell, text_of
from dpsu.contributions.id_types import INTEGER_TYPE, TEXT_TYPE
from dpsu.contributions.ids import (
    INTEGERS,
    NOTHING,
    TEXT,
    canonical,
    integers,
    is_text,
    is_unsigned,
    type_name,
)
from dpsu.errors import DataError

# Called with what is wrong with some cells. The curator is warned of it; their rows are ignored.
Lose = Callable[[str], None]


def lose_nothing(reason: str) -> None:
    """For cells of which nobody needs to be told."""


# Python converts larger integers to text slowly, and very large ones not at all.
MOST_BITS = 4096
LARGEST, SMALLEST = 2**63 - 1, -(2**63)
# Floats of 16, 32 and 64 bits represent every integer below 2 to this power exactly. From there on,
# one float may stand for several integers.
EXACT_BITS = {16: 11, 32: 24, 64: 53}
# An integer has one spelling: "007", "+7" and "-0" are texts.
DECIMAL = r"^(0|-?[1-9][0-9]{0,18})$"
# How often, in text: the same for a column of text as for a cell by itself.
DIGITS = r"[0-9]{1,18}"
MISSING_KINDS = ("NAType", "NaTType")
NUMPY_INTEGERS = [np.dtype(code).type for code in np.typecodes["AllInteger"]]


@dataclass(frozen=True)
class Column:
    """A column: its name, the option that named it, and the type that was declared for it.

    `alone` says that it is a whole user or item, and not one of several columns that make one.
    `field` is the field of a struct that is meant; no message shows it, as it may be private.
    """

    name: str
    option: str
    declared: str | None = None
    alone: bool = True
    field: str = ""

    @property
    def released_as(self) -> str:
        """The name of the column of a result."""
        return f"{self.name}.{self.field}" if self.field else self.name

    def inside(self, field: str) -> Column:
        """A field of the structs that this column holds."""
        return replace(self, field=f"{self.field}.{field}" if self.field else field)

    def __str__(self) -> str:
        return repr(self.name)

    def id_type(self, type_: pa.DataType) -> str:
        """Whether cells of this Arrow type become INTEGERS, TEXT or NOTHING; others are refused.

        A column without any type becomes what was declared, or NOTHING.
        """
        value = type_.value_type if pa.types.is_dictionary(type_) else type_
        if self.option == "repeats":
            if is_text(value) or pa.types.is_integer(value) or pa.types.is_null(value):
                return INTEGERS
            raise DataError(
                f"column {self} has type {type_name(value)}; repeats must be integers: convert it"
            )
        wanted = {None: None, TEXT_TYPE: TEXT, INTEGER_TYPE: INTEGERS}[self.declared]
        if pa.types.is_null(value):
            return wanted or NOTHING
        if is_text(value):
            return wanted or TEXT
        if pa.types.is_integer(value) and self.option == "text":
            raise DataError(f"column {self} holds integers; texts must be text")
        if pa.types.is_integer(value):
            return wanted or INTEGERS
        if wanted is not None and (is_binary(value) or pa.types.is_floating(value)):
            return wanted
        raise DataError(self._refusal(value))

    def kind(self, type_: pa.DataType) -> str:
        """What ids cells of this Arrow type are: of which kind, or TEXT if that was declared."""
        if not self.is_spelled(type_):
            return self.id_type(type_)
        return str(kind_of(type_)) if self.declared is None else TEXT

    def is_spelled(self, type_: pa.DataType) -> bool:
        """Whether cells of this Arrow type become ids by their texts (see `cells`)."""
        kind = kind_of(type_)
        if kind in (TEXT, INTEGERS, NOTHING, None) or self.option not in ("user", "item"):
            return False
        # Bytes that were declared to be text are text in UTF-8.
        return self.declared is None or (self.declared == TEXT_TYPE and kind != BYTES)

    def texts(self, values: pa.Array, lose: Lose) -> pa.Array:
        """Cells, not dictionary-encoded, as canonical text; cells that have none become null."""
        if not self.is_spelled(values.type):
            return self.canonical_ids(values, lose).cast(pa.large_string())
        texts = spell(values)
        if texts.null_count > values.null_count:
            lose(self._no_text)
        return texts

    def canonical_ids(self, values: pa.Array, lose: Lose) -> pa.Array:
        """Canonical ids of cells, not dictionary-encoded; cells that have no id become null."""
        id_type, type_ = self.id_type(values.type), values.type
        if pa.types.is_null(type_):
            return pa.nulls(len(values), pa.int64() if id_type == INTEGERS else pa.large_string())
        if pa.types.is_floating(type_):
            values = self._whole(values, lose)
        elif is_binary(type_):
            values = values.cast(pa.large_binary()).view(pa.large_string())
        if pa.types.is_integer(values.type):
            values = values.cast(pa.large_string()) if id_type == TEXT else values
            return canonical(self.name, values)
        ids = canonical(self.name, values)
        if ids.null_count > values.null_count:
            lose(self._not_utf8)
        return self._parsed(ids, lose) if id_type == INTEGERS else ids

    def as_declared(self, cells: pa.Array, type_: pa.DataType, lose: Lose) -> pa.Array:
        """Numbers of one part of the data, read as the type that all parts declare.

        If a cell is missing in a part, libraries turn its integers into floats; if one is large,
        into unsigned integers. Numbers that the declared type cannot hold exactly are dropped, each
        by its own cell alone.
        """
        floats, found = pa.types.is_floating(type_), cells.type
        if pa.types.is_floating(found) and pa.types.is_integer(type_):
            return self._whole(cells, lose)
        if not pa.types.is_integer(found) or not (floats or pa.types.is_integer(type_)):
            return cells
        kept = cells
        if is_unsigned(found) and not is_unsigned(type_):
            fits = pc.less_equal(cells, pa.scalar(LARGEST, found))
            kept = pc.if_else(fits, cells, pa.scalar(None, found)).cast(pa.int64())
        if floats:
            kept, bound = kept.cast(pa.int64()), 1 << EXACT_BITS[type_.bit_width]
            exact = pc.and_(pc.greater(kept, -bound), pc.less(kept, bound))
            kept = pc.if_else(exact, kept, pa.scalar(None, kept.type))
        if kept.null_count > cells.null_count:
            lose(self._not_whole if floats else self._beyond)
        return kept

    def untyped(self, values: Sequence[Any], lose: Lose) -> pa.Array:
        """Ids of Python objects: text, or integers if that was declared.

        A list or set among items stands for each of its items: if there are any, all are lists.
        """
        kinds = _kinds(values)
        if self.option != "item" or not self.alone or not any(map(_is_collection, kinds)):
            return self._untyped(values, kinds, lose)
        held = [_items(value) if _is_collection(type(value)) else [value] for value in values]
        items = [item for each in held for item in each]
        offsets = np.cumsum([0, *map(len, held)], dtype=np.int64)
        ids = self._untyped(items, _kinds(items), lose)
        if pa.types.is_dictionary(ids.type):
            ids = ids.dictionary_decode()
        return pa.LargeListArray.from_arrays(integers(offsets), ids)

    def _untyped(self, values: Sequence[Any], kinds: list[type], lose: Lose) -> pa.Array:
        integral = self.declared == INTEGER_TYPE
        # Whatever an object or its type does when it is looked at must not end the run.
        with contextlib.suppress(Exception):
            present = [k for k in kinds if k is not type(None) and k.__name__ not in MISSING_KINDS]
            # For objects of these kinds Arrow gives the same result as the loop below.
            if all(k is float or issubclass(k, str) for k in present) and not integral:
                return pa.array(values, pa.large_string(), from_pandas=True)
            if all(is_integral(k) for k in present):
                numbers = pa.array(values, pa.int64(), from_pandas=True)
                return numbers if integral else spelled(numbers)
        one = _integer if integral else _text
        cells = [_looked_at(one, value) for value in values]
        if any(cell is BEYOND for cell in cells):
            lose(self._beyond)
        if any(cell is NO_ID for cell in cells):
            lose(self._neither if not integral else self._no_integer)
        kept = [None if cell is BEYOND or cell is NO_ID else cell for cell in cells]
        return pa.array(kept, pa.int64() if integral else pa.large_string())

    def of_typed_text(self, cells: Sequence[Any], lose: Lose) -> pa.Array:
        """Text that Arrow cannot convert as a whole; cells that are not Unicode become null.

        The column stays one of text, whatever is in these cells: what it means for the others must
        not depend on them.
        """
        texts = [_text(cell) for cell in cells]
        if any(text is NO_ID for text in texts):
            lose(self._not_utf8)
        return pa.array(
            [text if isinstance(text, str) else None for text in texts], pa.large_string()
        )

    def alike(self, cells: pa.Array, lose: Lose) -> pa.Array:
        """Ids of untyped cells that Arrow has read as all text or all integers."""
        if self.declared != INTEGER_TYPE:
            return spelled(cells) if pa.types.is_integer(cells.type) else cells
        if pa.types.is_integer(cells.type):
            return cells
        if cells.null_count < len(cells):
            lose(self._no_integer)
        return pa.nulls(len(cells), pa.int64())

    def _whole(self, values: pa.Array, lose: Lose) -> pa.Array:
        """Convert floats to integers if they are exact; NaN stands for a missing value."""
        bound = 2.0 ** EXACT_BITS[values.type.bit_width]
        numbers = values.cast(pa.float64()).to_numpy(zero_copy_only=False)
        with np.errstate(invalid="ignore"):
            whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < bound)
        if not (whole | np.isnan(numbers)).all():
            lose(self._not_whole)
        kept = np.where(whole, numbers, 0.0).astype(np.int64)
        return pa.array(kept, mask=~whole)

    def _parsed(self, text: pa.Array, lose: Lose) -> pa.Array:
        decimal = pc.match_substring_regex(text, DECIMAL)
        # Numbers of the same length are in the order of their digits.
        length = pc.binary_length(text)
        least, most = pa.scalar(str(SMALLEST), text.type), pa.scalar(str(LARGEST), text.type)
        fits = pc.and_(
            pc.or_(pc.less(length, 20), pc.less_equal(text, least)),
            pc.or_(
                pc.or_(pc.not_equal(length, 19), pc.starts_with(text, "-")),
                pc.less_equal(text, most),
            ),
        )
        kept = pc.if_else(pc.and_(decimal, fits), text, pa.scalar(None, text.type))
        if kept.null_count > text.null_count:
            lose(self._no_integer)
        return kept.cast(pa.int64())

    def fix(self, type_: str) -> str:
        """How people declare this type, in Python and in the shell."""
        made, flag = ("Users", "user") if self.option == "user" else ("Items", "item")
        return f'dpsu.{made}(..., type="{type_}") (--{flag}-type {type_})'

    @property
    def reasons(self) -> tuple[str, ...]:
        """All for which cells of an Arrow column may have no id."""
        return (
            self.no_list, self._beyond, self._not_utf8, self._no_integer, self._not_whole,
            self._no_text,
        )  # fmt: skip

    @property
    def no_list(self) -> str:
        """What is said of missing cells in a column of lists."""
        return f"some cells of {self} are missing"

    @property
    def _not_whole(self) -> str:
        return (
            f"some floats in {self} are not whole numbers, or too large to be exact integers "
            "(2^53 or more; 2^24 or more for 32-bit floats)"
        )

    @property
    def _beyond(self) -> str:
        return (
            f"some integers in {self} do not fit into signed 64-bit integers "
            f"({self.fix(TEXT_TYPE)} keeps them)"
        )

    @property
    def _not_utf8(self) -> str:
        return (
            f"some cells of {self} are not valid UTF-8 (re-encode the data if all of it is in "
            "another encoding)"
        )

    @property
    def _no_integer(self) -> str:
        return (
            f"some cells of {self} are not integers from -2^63 to 2^63 - 1 in digits alone "
            f"({self.fix(TEXT_TYPE)} keeps larger ones)"
        )

    @property
    def _no_text(self) -> str:
        return f"some cells of {self} are beyond the years 1 to 9999, or no times of a day"

    @property
    def _neither(self) -> str:
        return (
            f"some cells of {self} have no text: floats (round them, or make them integers or "
            "decimals), text that is not Unicode, lists where a single value is read (give the "
            "column a type, as PyArrow has it), or other objects (make columns of the entries of "
            "dicts)"
        )

    def _refusal(self, type_: pa.DataType) -> str:
        hint = "convert it to text or integers"
        if pa.types.is_nested(type_) and self.option == "user":
            hint = "a user is one value, or several columns: give one row for each user and item"
        elif pa.types.is_nested(type_):
            hint = "give one row for each item"
        elif pa.types.is_floating(type_):
            hint = (
                "two floats that look equal may differ in their last bits; round them to integers "
                f"or decimals, or say {self.fix(INTEGER_TYPE)} to keep whole numbers below 2^53 "
                "(if a cell is missing, pandas turns integers into floats and rounds larger ones: "
                f'read integers with pandas.read_csv(..., dtype={{{self.name!r}: "Int64"}}), or '
                '"UInt64" if they are unsigned; convert_dtypes() comes too late)'
            )
        return (
            f"column {self} has type {type_name(type_)}, which is not supported for users or "
            f"items: {hint}"
        )


def spelled(numbers: pa.Array) -> pa.Array:
    """Integers as decimal digits; each distinct one is converted once."""
    encoded = numbers.dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        encoded.indices, encoded.dictionary.cast(pa.large_string())
    )


def repeats_of(values: Sequence[Any]) -> pa.Array:
    """Repeats from Python objects: integers, and texts of their digits as in columns of text.

    What is neither is missing.
    """
    if all(is_integral(kind) for kind in _kinds(values)):
        with contextlib.suppress(Exception):
            return pa.array(values, pa.int64())
    cells = [_looked_at(_repeats, value) for value in values]
    return pa.array([cell if isinstance(cell, int) else None for cell in cells], pa.int64())


def _repeats(value: Any) -> int | _Lost | None:
    if isinstance(value, str):
        # The text itself: a subclass may say that it is any integer.
        return int(str.__str__(value)) if re.fullmatch(DIGITS, value) else None
    return _integer(value)


class _Lost:
    """A cell that has no id."""


NO_ID, BEYOND = _Lost(), _Lost()


def _kinds(values: Sequence[Any]) -> list[type]:
    """The types of some objects; not a set, because types may say that they equal others."""
    kinds = list(map(type, values))
    return list(dict(zip(map(id, kinds), kinds, strict=True)).values())


def _looked_at(one: Callable[[Any], Any], value: Any) -> Any:
    """What `one` makes of an object, which may fail in any way and must not end the run."""
    with contextlib.suppress(Exception):
        return one(value)
    return NO_ID


def _text(value: Any) -> str | _Lost | None:
    if isinstance(value, str):
        try:
            # The method of `str`, as Arrow sees the text: that of a subclass may do anything.
            str.encode(value)
        except UnicodeEncodeError:
            return NO_ID
        return value
    if _is_missing(value):
        return None
    if is_integral(type(value)) and (number := _number(value)).bit_length() <= MOST_BITS:
        return str(number)
    spelled = text_of(value)
    return NO_ID if spelled is None else spelled


def _integer(value: Any) -> int | _Lost | None:
    if is_integral(type(value)):
        number = _number(value)
        return number if SMALLEST <= number <= LARGEST else BEYOND
    return None if _is_missing(value) else NO_ID


def _number(value: Any) -> int:
    """The integer that Arrow sees, whatever a subclass says that it is."""
    return int.__int__(value) if isinstance(value, int) else int(value)


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or (isinstance(value, float) and math.isnan(value))
        or type(value).__name__ in MISSING_KINDS
    )


def _is_collection(kind: type) -> bool:
    """Whether objects of this kind are collections of items; tuples are keys of several columns."""
    return issubclass(kind, (list, set, frozenset, np.ndarray))


def _items(held: Any) -> list[Any]:
    with contextlib.suppress(Exception):
        return np.atleast_1d(held).tolist() if isinstance(held, np.ndarray) else list(held)
    return [NO_ID]


def is_integral(kind: type) -> bool:
    """Whether objects of this kind are integers; booleans and durations are not, despite bases.

    Subclasses of NumPy's integers are none: they may tell Arrow one integer, and Python another.
    """
    if issubclass(kind, np.integer):
        return any(kind is each for each in NUMPY_INTEGERS)
    return issubclass(kind, int) and not issubclass(kind, bool)
