"""Columns of Spark as users and items: their types in Arrow, and expressions of their ids.

Text and integers become ids by expressions of Spark. Other types, and several columns as one
struct, go to the workers as they are, where the code of one machine makes ids of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsu.contributions.codecs import is_list, parts_of
from dpsu.contributions.id_columns import DECIMAL, EXACT_BITS, LARGEST, SMALLEST, Column
from dpsu.contributions.ids import INTEGERS
from dpsu.errors import DataError
from dpsu.inputs.columns import collation_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WHOLE = ("tinyint", "smallint", "int", "bigint")
BY_BYTES = "UTF8_BINARY"
# A name that no column of a frame has, for the items of lists.
LISTED = "\0item of a list"


@dataclass(frozen=True, repr=False)
class SparkPart:
    """One column of a key, or a field of a struct: an expression of its cells, and their type."""

    column: Column
    cells: Any
    arrow: pa.DataType

    @property
    def kind(self) -> str:
        """What ids it has."""
        return self.column.kind(self.arrow)


def column_named(name: str) -> Any:
    """The column of this name, whatever characters are in it."""
    from pyspark.sql import functions as f

    return f.col("`" + name.replace("`", "``") + "`")


def with_lists_as_rows(
    frame: DataFrame, columns: Sequence[Column], types: Sequence[Any]
) -> tuple[DataFrame, list[SparkPart]]:
    """A frame with one row for each item of a list, and its columns and fields of structs.

    Types that can be no users and items are refused.
    """
    from pyspark.sql import functions as f

    arrow = [arrow_type(type_) for type_ in types]
    listed = [at for at, type_ in enumerate(arrow) if is_list(type_)]
    parts = []
    for at, (column, type_) in enumerate(zip(columns, arrow, strict=True)):
        parts_of(column, type_)
        if at in listed:
            parts += _leaves(column, column_named(LISTED), type_.value_type)
        else:
            parts += _leaves(column, column_named(column.name), type_)
    if len(listed) > 1:
        raise DataError("more than one column of items has lists; give one row for each item")
    for at in listed:
        lists = column_named(columns[at].name)
        nothing = f.array(f.lit(None).cast(types[at].elementType))
        # A list that is missing is a row without an item; one that is empty is none.
        frame = frame.withColumn(LISTED, f.explode(f.coalesce(lists, nothing)))
    return frame, parts


def _leaves(column: Column, cells: Any, type_: pa.DataType) -> list[SparkPart]:
    if not pa.types.is_struct(type_):
        return [SparkPart(column, cells, type_)]
    fields = [type_.field(place) for place in range(type_.num_fields)]
    return [
        leaf
        for each in fields
        for leaf in _leaves(column.inside(each.name), cells.getField(each.name), each.type)
    ]


def key_of(parts: Sequence[SparkPart]) -> Any:
    """One column of ids, or of what becomes ids; null where any part has none."""
    from pyspark.sql import functions as f

    # Declared to be text or not, the workers write those that are spelled.
    made = [
        part.cells if part.column.is_spelled(part.arrow)
        else canonical_ids(part.cells, part.arrow, part.kind)
        for part in parts
    ]  # fmt: skip
    if len(made) == 1:
        return made[0]
    present = made[0].isNotNull()
    for each in made[1:]:
        present = present & each.isNotNull()
    # Fields need names of their own; which ones does not matter.
    return f.when(present, f.struct(*(each.alias(f"p{at}") for at, each in enumerate(made))))


def arrow_type(type_: Any) -> pa.DataType:
    """The Arrow type for a type of Spark, as far as the difference matters here."""
    name, kind = type_.simpleString(), type_.typeName()
    if kind == "array":
        return pa.list_(arrow_type(type_.elementType))
    if kind == "struct":
        return pa.struct([(each.name, arrow_type(each.dataType)) for each in type_.fields])
    if kind == "decimal":
        return pa.decimal128(type_.precision, type_.scale)
    if name == "string" or name.startswith(("char(", "varchar(", "string collate")):
        return pa.string()
    known = dict.fromkeys(WHOLE, pa.int64()) | {
        "void": pa.null(), "float": pa.float32(), "double": pa.float64(), "binary": pa.binary(),
        "boolean": pa.bool_(), "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"), "map": pa.map_(pa.string(), pa.null()),
        "time": pa.time64("ns"),
    }  # fmt: skip
    return known.get(name.partition("<")[0], known.get(kind, pa.duration("us")))


def refuse_collations(columns: Sequence[Column], fields: Iterable[Any]) -> None:
    """Refuse columns in which texts with different bytes may be equal."""
    names = {column.name for column in columns}
    for name, type_ in ((field.name, field.dataType) for field in fields):
        if name in names and _has_collation(type_):
            raise collation_error(
                name, f"df.withColumn({name!r}, f.lower(f.col({name!r}).cast('string')))"
            )


def _has_collation(type_: Any) -> bool:
    if type_.typeName() == "array":
        return _has_collation(type_.elementType)
    if type_.typeName() == "struct":
        return any(_has_collation(each.dataType) for each in type_.fields)
    return getattr(type_, "collation", BY_BYTES) != BY_BYTES


def canonical_ids(cells: Any, arrow: pa.DataType, id_type: str) -> Any:
    """A column of ids: what `Column.canonical_ids` makes of cells, as an expression of Spark."""
    from pyspark.sql import functions as f

    if pa.types.is_floating(arrow):
        number = cells.cast("double")
        # In Spark, NaN is larger than any number.
        exact = f.abs(number) < 2.0 ** EXACT_BITS[arrow.bit_width]
        whole = (f.rint(number) == number) & exact
        cells = f.when(whole, number.cast("bigint"))
    elif not pa.types.is_integer(arrow):
        cells = f.try_validate_utf8(cells.cast("string"))
        if id_type == INTEGERS:
            digits = f.when(cells.rlike(DECIMAL.replace("$", r"\z")), cells).cast("decimal(38,0)")
            fits = digits.between(f.lit(SMALLEST), f.lit(LARGEST))
            return f.when(fits, digits.cast("bigint"))
    return cells.cast("bigint" if id_type == INTEGERS else "string")
