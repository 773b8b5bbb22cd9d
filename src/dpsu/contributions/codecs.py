r"""Keys of several columns, and of other types than text and integers, as ids and back.

Internally, an id is text or an integer. The cells of a single column of text or integers are the
ids themselves; of unsigned 64-bit integers, their digits are. Any other key is text: each cell by
its kind (see `cells`), and the cells of several columns joined by tabs, with a backslash inside of
a cell as ``\0`` and a tab as ``\1``. The number of columns and their kinds are public, and never
follow from a cell. So two keys are the same id exactly if all of their cells are equal, as
`docs/proofs/orders.md` proves.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dpsu.contributions.cells import UUIDS, kind_of, merged, parse, result_type, spell
from dpsu.contributions.id_columns import Column, Lose
from dpsu.contributions.id_tables import IntegerIds
from dpsu.contributions.id_types import INTEGER_TYPE, TEXT_TYPE
from dpsu.contributions.ids import (
    INTEGERS,
    NOTHING,
    TEXT,
    arrow_type,
    integers,
    is_unsigned,
    numbers,
    places_in_dictionary,
    type_name,
)
from dpsu.errors import DataError

TAB = "\t"
# What stands for a backslash and for a tab. Digits form no character with any mark behind them, so
# that normalization (NFC) leaves these as they are.
ESCAPES = (("\\", "\\0"), (TAB, "\\1"))

# So many possible pairs of cells may have a place in a table, for each row.
PAIRS_PER_ROW = 8

Typed = tuple[Column, pa.DataType]
Cells = tuple[Column, pa.Array]


def is_list(type_: pa.DataType) -> bool:
    """Whether cells of this type are lists."""
    return bool(
        pa.types.is_list(type_)
        or pa.types.is_large_list(type_)
        or pa.types.is_fixed_size_list(type_)
        or pa.types.is_list_view(type_)
        or pa.types.is_large_list_view(type_)
    )


def parts_of(column: Column, type_: pa.DataType) -> list[Typed]:
    """The columns that a column stands for, with their types: the fields of structs, and itself.

    A list of items stands for each of them. Other types are refused.
    """
    if is_list(type_) and column.option == "item":
        if is_list(type_.value_type):
            raise DataError(
                f"column {column} has lists of lists; make one list of items of each, or give one "
                "row for each item"
            )
        type_ = type_.value_type
    if not pa.types.is_struct(type_) or column.option not in ("user", "item"):
        column.kind(type_)
        return [(column, type_)]
    if column.declared is not None:
        raise DataError(f"column {column} has several fields; {column.fix('...')} is for one")
    if type_.num_fields == 0:
        raise DataError(f"column {column} is a struct without fields")
    fields = [type_.field(place) for place in range(type_.num_fields)]
    for field in fields:
        if is_list(field.type):
            raise DataError(
                f"column {column} has lists inside of a {type_name(type_)}; give one row for each "
                "item"
            )
    named = [(column.inside(field.name), field.type) for field in fields]
    return [part for inner in named for part in parts_of(*inner)]


def refuse_equal_names(parts: Sequence[Typed]) -> None:
    """Refuse columns of which a result would show one only."""
    if len({column.released_as for column, _ in parts}) < len(parts):
        names = ", ".join(dict.fromkeys(column.name for column, _ in parts))
        raise DataError(
            f"columns of {names!r} would have equal names in the result, such as a field of a "
            "struct and a column that is called like it; rename one of them"
        )


def is_plain(parts: Sequence[Typed]) -> bool:
    """Whether cells are ids as they are: those of one column of text or integers."""
    return len(parts) == 1 and not parts[0][0].is_spelled(parts[0][1])


def cells_of(column: Column, cells: pa.Array) -> list[Cells]:
    """The fields of structs, or the column itself."""
    if not pa.types.is_struct(cells.type):
        return [(column, without_views(cells))]
    named = [part for part, _ in parts_of(column, cells.type)]
    return list(zip(named, _leaves(cells), strict=True))


def _leaves(cells: pa.Array) -> list[pa.Array]:
    """The innermost fields of structs; they are missing where a struct is."""
    if not pa.types.is_struct(cells.type):
        return [without_views(cells)]
    return [leaf for field in cells.flatten() for leaf in _leaves(field)]


def without_views(cells: pa.Array) -> pa.Array:
    """Text and bytes, also in structs, in a form that Arrow can filter and take."""
    type_ = cells.type
    if pa.types.is_struct(type_) and type_.num_fields:
        fields = [without_views(field) for field in cells.flatten()]
        named = [type_.field(place).name for place in range(type_.num_fields)]
        return pa.StructArray.from_arrays(fields, named, mask=cells.is_null())
    if pa.types.is_string_view(type_):
        return cells.cast(pa.large_string())
    return cells.cast(pa.large_binary()) if pa.types.is_binary_view(type_) else cells


def ids_of_cells(column: Column, cells: pa.Array, lose: Lose) -> pa.Array:
    """Ids of a column, or of a struct of several, not dictionary-encoded."""
    ids = encode(cells_of(column, cells), lose)
    return ids.dictionary_decode() if pa.types.is_dictionary(ids.type) else ids


def encode(parts: Sequence[Cells], lose: Lose) -> pa.Array:
    """One id for each row, from the cells of one or more columns; null where any cell has none."""
    if is_plain([(column, cells.type) for column, cells in parts]):
        return parts[0][1]
    if len(parts) == 1 and _are_uuids(parts[0][1].type):
        # Mostly ids of users, which hardly repeat: to find the distinct ones first would not pay.
        column, cells = parts[0]
        return column.texts(cells, lose)
    codes, texts = _coded(*parts[0], lose)
    if len(parts) > 1:
        texts = _escaped(texts)
        for part in parts[1:]:
            more, others = _coded(*part, lose)
            codes, texts = _joined(codes, texts, more, _escaped(others))
    places = pa.Array.from_buffers(pa.int32(), len(codes), [None, pa.py_buffer(codes)])
    if codes.min(initial=0) < 0:
        places = pc.if_else(pc.less(places, 0), pa.scalar(None, pa.int32()), places)
    return pa.DictionaryArray.from_arrays(places, texts)


def _are_uuids(type_: pa.DataType) -> bool:
    return not pa.types.is_dictionary(type_) and kind_of(type_) == UUIDS


def _coded(column: Column, cells: pa.Array, lose: Lose) -> tuple[NDArray[np.int32], pa.Array]:
    """The texts of distinct cells, and for each row the place of its text; -1 if it has none."""
    type_ = cells.type
    if pa.types.is_decimal(type_) and type_.bit_width < 128:
        cells = cells.cast(pa.decimal128(type_.precision, type_.scale))
        type_ = cells.type
    extended = isinstance(type_, pa.BaseExtensionType)
    places, distinct = places_in_dictionary(column.name, cells.storage if extended else cells)
    if extended:
        distinct = pa.ExtensionArray.from_storage(type_, distinct)
    reasons: list[str] = []
    texts = column.texts(distinct, reasons.append)
    if texts.null_count:
        present = texts.is_valid().to_numpy(zero_copy_only=False)
        moved = np.where(present, np.cumsum(present) - 1, -1).astype(np.int32)
        lost = ~present & distinct.is_valid().to_numpy(zero_copy_only=False)
        # A dictionary may have entries that no row refers to.
        if lost[places[places >= 0]].any():
            for reason in reasons:
                lose(reason)
        places, texts = np.append(moved, np.int32(-1))[places], texts.drop_null()
    return places, texts


def _joined(
    codes: NDArray[np.int32], texts: pa.Array, more: NDArray[np.int32], others: pa.Array
) -> tuple[NDArray[np.int32], pa.Array]:
    """Texts of two columns joined by tabs, once for each distinct pair of them."""
    present = None
    if min(codes.min(initial=0), more.min(initial=0)) < 0:
        present = (codes >= 0) & (more >= 0)
        codes, more = codes[present], more[present]
    pairs = codes.astype(np.int64)
    pairs *= max(len(others), 1)
    pairs += more
    if len(texts) * len(others) <= PAIRS_PER_ROW * len(pairs):
        table, places = IntegerIds(), np.empty(len(pairs), np.int32)
        table.intern(integers(pairs), places)
        distinct = table.take_ids()
        # Where they reach too far for a table of their range, numbers have gaps until then.
        table.renumber(places)
    else:
        # To clear a table of all pairs would take longer than to read the rows.
        encoded = integers(pairs).dictionary_encode()
        places, distinct = numbers(encoded.indices, np.int32), encoded.dictionary
    first, second = np.divmod(numbers(distinct, np.int64), max(len(others), 1))
    joined = pc.binary_join_element_wise(
        texts.take(integers(first)),
        others.take(integers(second)),
        pa.scalar(TAB, pa.large_string()),
    )
    if present is None:
        return places, joined
    with_gaps = np.full(len(present), -1, np.int32)
    with_gaps[present] = places
    return with_gaps, joined


def _escaped(texts: pa.Array) -> pa.Array:
    for mark, escape in ESCAPES:
        texts = pc.replace_substring(texts, mark, escape)
    return texts


def unescaped(texts: pa.Array) -> pa.Array:
    """The texts of escaped cells."""
    # Every backslash begins an escape, so that tabs are found first and backslashes last.
    for mark, escape in reversed(ESCAPES):
        texts = pc.replace_substring(texts, escape, mark)
    return texts


@dataclass(frozen=True)
class Codec:
    """The columns of a key: their names and the types in which they are released."""

    names: tuple[str, ...]
    types: tuple[pa.DataType, ...]

    @property
    def is_plain(self) -> bool:
        """Whether ids are the values themselves."""
        kinds = (TEXT, INTEGERS, NOTHING)
        first = self.types[0]
        return len(self.types) == 1 and kind_of(first) in kinds and not is_unsigned(first)

    def decode(self, ids: pa.Array) -> pa.Array:
        """The values of ids: a struct of columns where there are several."""
        if self.is_plain:
            return ids
        columns = [
            parsed(texts, type_) for texts, type_ in zip(self._cells(ids), self.types, strict=True)
        ]
        return columns[0] if len(columns) == 1 else pa.StructArray.from_arrays(columns, self.names)

    def with_implied(self, ids: pa.Array) -> pa.Array:
        """Released ids, and others that they imply: none, where all items are of one kind."""
        return ids

    def has(self, ids: pa.Array) -> bool:
        """Whether all of these texts are ids of such keys, spelled as ids are."""
        if self.is_plain:
            return True
        if len(self.types) > 1:
            tabs = pc.count_substring(ids, TAB)
            escapes = pc.match_substring_regex(ids, r"^([^\\]|\\[01])*$")
            if not pc.all(pc.and_(pc.equal(tabs, len(self.types) - 1), escapes)).as_py():
                return len(ids) == 0
        for texts, type_ in zip(self._cells(ids), self.types, strict=True):
            if kind_of(type_) in (TEXT, NOTHING):
                continue
            try:
                if not spell(parse(texts, type_)).equals(texts):
                    return False
            except pa.ArrowInvalid:
                return False
        return True

    def _cells(self, ids: pa.Array) -> list[pa.Array]:
        if len(self.types) == 1:
            return [ids]
        split = pc.split_pattern(ids, TAB)
        return [unescaped(pc.list_element(split, place)) for place in range(len(self.types))]


def parsed(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Values of this type; texts where one of them does not fit, after files differed in types."""
    if pa.types.is_null(type_):
        return texts
    try:
        return parse(texts, type_)
    except pa.ArrowInvalid:
        return texts


PLAIN = Codec(("",), (pa.large_string(),))


def in_order(values: pa.Array, counts: pa.Array | None) -> tuple[pa.Array, pa.Array | None]:
    """Values in ascending order, column by column, and their counts in the same order."""
    columns = values.flatten() if pa.types.is_struct(values.type) else [values]
    keys = [str(place) for place in range(len(columns))]
    sortable = [
        column.storage if isinstance(column.type, pa.BaseExtensionType) else column
        for column in columns
    ]
    table = pa.table(sortable, names=keys)
    order = pc.sort_indices(table, sort_keys=[(key, "ascending") for key in keys])
    return values.take(order), None if counts is None else counts.take(order)


class Keys:
    """The columns of users, or of items, as the schemas of all parts of the data have them.

    Parts are read in any thread and order; which codec they lead to depends on neither.
    """

    def __init__(self) -> None:
        self._parts: list[tuple[Column, tuple[pa.DataType, ...]]] = []
        self._lock = threading.Lock()

    def note(self, parts: Sequence[Typed]) -> None:
        """Note the columns of one part of the data; refuses kinds that differ from earlier ones."""
        found = [(column, (_released_as(column, type_),)) for column, type_ in parts]
        with self._lock:
            if not self._parts:
                self._parts = found
                return
            if [column for column, _ in found] != [column for column, _ in self._parts]:
                raise DataError(
                    f"column {found[0][0]} has other fields in one file than in another; make them "
                    "the same"
                )
            fix = "" if len(found) > 1 else f", or declare one type: {found[0][0].fix(TEXT_TYPE)}"
            self._parts = [
                _with_types(column, known, types, fix)
                for (column, known), (_, types) in zip(self._parts, found, strict=True)
            ]

    @property
    def codec(self) -> Codec:
        """How values are made of ids."""
        names = tuple(column.released_as for column, _ in self._parts)
        types = tuple(reduce(merged, found) for _, found in self._parts)
        return Codec(names, types) if names else PLAIN


def _released_as(column: Column, type_: pa.DataType) -> pa.DataType:
    if column.declared is None or (column.declared == INTEGER_TYPE and is_unsigned(type_)):
        return result_type(type_)
    return arrow_type(column.declared)


def _with_types(
    column: Column, known: tuple[pa.DataType, ...], types: tuple[pa.DataType, ...], fix: str
) -> tuple[Column, tuple[pa.DataType, ...]]:
    """A column with all types of its parts, each once; refuses types of different kinds."""
    kinds = {kind_of(type_) for type_ in (*known, *types)} - {NOTHING}
    if len(kinds) > 1:
        both = " in one file and ".join(sorted(map(str, kinds)))
        raise DataError(f"column {column} is {both} in another; make them the same{fix}")
    return column, tuple(dict.fromkeys((*known, *types)))
