"""Frames of any library: pandas, Polars (eager or lazy), PyArrow, DuckDB relations."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dpsu.contributions.id_columns import Column, Lose, repeats_of
from dpsu.errors import DataError, ParameterError, without_values
from dpsu.inputs.columns import collation_error, pick, sql_of_one_spelling
from dpsu.inputs.keyed import check_types
from dpsu.runtime.extras import Later

if TYPE_CHECKING:
    import narwhals.stable.v2 as nw
else:
    # Most data are in files, and to read these must not wait for it.
    nw = Later("narwhals.stable.v2")

# Types of DuckDB that Arrow gets as others: without the zone, with another sign, as bytes, and as
# bytes that differ for equal values.
HIDDEN = ("TIME WITH TIME ZONE", "UHUGEINT", "BIT", "VARIANT")
# Under each collation of DuckDB, the two texts of at least one of these pairs are equal; the
# function gives them one spelling.
ALIKE = (("a", "A", "lower"), ("a", "á", "strip_accents"), ("e\u0301", "\u00e9", "nfc_normalize"))


def is_frame(data: Any) -> bool:
    """Whether narwhals accepts this object as a frame."""

    def look() -> Any:
        with contextlib.suppress(nw.exceptions.DuplicateError):
            return nw.from_native(data, pass_through=True)
        return None

    known = without_values(look, _broken(data))
    if known is None and data is not None:
        # Raised without its cause: that may quote names of columns, private values if pivoted.
        raise ParameterError("the frame has columns of the same name; rename them")
    return isinstance(known, (nw.DataFrame, nw.LazyFrame))


def is_series(data: Any) -> bool:
    """Whether narwhals accepts this object as a column."""
    known = nw.from_native(data, pass_through=True, allow_series=True)
    return isinstance(known, nw.Series)


def column_of(data: Any, column: Column, lose: Lose) -> Any:
    """A column of a library as an Arrow column."""
    return _column(nw.from_native(data, series_only=True), column, lose, data)


def frame_of(data: Any, column: Column) -> Any:
    """A column of a library as a frame of that library."""
    return nw.from_native(data, series_only=True).alias(column.name).to_frame().to_native()


def to_arrow(data: Any) -> pa.Table:
    """A whole frame of public data as an Arrow table."""
    if isinstance(data, pa.Table):
        return data
    return without_values(lambda: _collected(nw.from_native(data)), _broken(data))


def columns_of(data: Any, columns: Sequence[Column], lose: Lose) -> pa.Table:
    """The wanted columns as an Arrow table; only they are collected from a lazy frame.

    Columns of Python objects have no type, and are read cell by cell.
    """
    names = check_columns(data, columns)
    if isinstance(data, pa.Table):
        return data.select(names)
    frame: Any = nw.from_native(data).select(names)
    if isinstance(frame, nw.LazyFrame) and nw.Object in frame.collect_schema().dtypes():
        # Arrow would get the addresses of these objects.
        frame = without_values(lambda: frame.collect("polars"), _broken(data))
    if isinstance(frame, nw.LazyFrame):
        return without_values(lambda: _collected(frame), _broken(data))
    arrays = [_column(frame.get_column(column.name), column, lose, data) for column in columns]
    return pa.table(arrays, names=names)


def check_columns(data: Any, columns: Sequence[Column]) -> list[str]:
    """Refuse missing columns and wrong types by the schema alone; returns the names."""
    frame: Any = nw.from_native(data)
    if isinstance(frame, nw.LazyFrame):
        schema: Any = without_values(frame.collect_schema, _broken(data))
        existing = schema.names()
    else:
        existing = frame.columns
    names = [column.name for column in columns]
    native = nw.to_native(frame)
    if type(native).__name__ == "DuckDBPyRelation":
        refuse_what_arrow_hides(native, names)
    _refuse_index(data, [name for name in names if name not in existing])
    pick(columns, existing)
    if isinstance(data, pa.Table):
        check_types(columns, data.schema)
        return names
    if not isinstance(frame, nw.LazyFrame):
        typed = {name: frame.get_column(name) for name in names}
        schema = {n: nw.Object() if _is_untyped(each) else each.dtype for n, each in typed.items()}
    types = {name: _arrow_type(schema[name]) for name in names}
    known = [column for column in columns if types[column.name] is not None]
    check_types(known, pa.schema([(column.name, types[column.name]) for column in known]))
    return names


def refuse_what_arrow_hides(relation: Any, names: Sequence[str]) -> None:
    """Refuse types of DuckDB that arrive as others, so that two different cells may become one.

    A collation shows in which texts are equal under it; no row is read.
    """
    for name, type_ in zip(relation.columns, relation.types, strict=True):
        leaves = list(_leaves(_quoted(name), type_)) if name in names else []
        hidden = [kind for _, kind in leaves if kind in HIDDEN]
        if hidden:
            raise DataError(
                f"column {name!r} has type {hidden[0]}, which Arrow does not have; cast it to "
                f'text: select cast("{name}" as varchar)'
            )
        texts = [cell for cell, kind in leaves if kind == "VARCHAR"]
        if not texts:
            continue
        asked = ", ".join(
            " or ".join(f"coalesce(any_value({text}), '{one}') = '{other}'" for text in texts)
            for one, other, _ in ALIKE
        )
        equal = without_values(
            lambda: relation.limit(0).aggregate(asked).fetchall()[0],  # noqa: B023
            _broken(relation),
        )
        spell = [function for (*_, function), alike in zip(ALIKE, equal, strict=True) if alike]
        if spell:
            raise collation_error(name, sql_of_one_spelling(name, *spell))


def _leaves(cell: str, type_: Any) -> Iterator[tuple[str, str]]:
    """Expressions of DuckDB for one value in each place of a cell, and their types."""
    if type_.id in ("list", "array"):
        yield from _leaves(f"{cell}[1]", type_.children[0][1])
    elif type_.id == "struct":
        for name, inner in type_.children:
            yield from _leaves(f"{cell}.{_quoted(name)}", inner)
    else:
        yield cell, str(type_)


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _refuse_index(data: Any, missing: list[str]) -> None:
    """Say so if a column that is missing is in the index of a pandas frame."""
    levels = list(getattr(getattr(data, "index", None), "names", None) or [])
    for name in missing:
        if name in levels:
            raise ParameterError(
                f"{name!r} is in the index of the frame, which is not read; make it a column: "
                "reset_index()"
            )


def _arrow_type(type_: Any) -> pa.DataType | None:
    """The Arrow type for a type of narwhals, as far as the difference matters; None if unknown."""
    if type_.is_integer():
        return pa.int64()
    if type_.is_float():
        return pa.float64()
    if isinstance(type_, (nw.List, nw.Array)):
        inner = _arrow_type(type_.inner() if isinstance(type_.inner, type) else type_.inner)
        return None if inner is None else pa.list_(inner)
    if isinstance(type_, nw.Struct):
        fields = [(field.name, _arrow_type(field.dtype)) for field in type_.fields]
        return None if any(inner is None for _, inner in fields) else pa.struct(fields)
    known: dict[Any, pa.DataType] = {
        nw.String: pa.string(), nw.Boolean: pa.bool_(), nw.Binary: pa.binary(),
        nw.Date: pa.date32(), nw.Datetime: pa.timestamp("us"), nw.Duration: pa.duration("us"),
        nw.Time: pa.time64("us"), nw.Decimal: pa.decimal128(38),
    }  # fmt: skip
    return next((arrow for kind, arrow in known.items() if type_ == kind), None)


def _column(series: Any, column: Column, lose: Lose, data: Any) -> Any:
    if not _is_untyped(series):
        with contextlib.suppress(Exception):
            return series.to_arrow()
        if series.dtype not in (nw.String, nw.Categorical, nw.Enum):
            raise DataError(_broken(data))
        return column.of_typed_text(without_values(series.to_list, _broken(data)), lose)
    cells = without_values(series.to_list, _broken(data))
    return repeats_of(cells) if column.option == "repeats" else column.untyped(cells, lose)


def _is_untyped(series: Any) -> bool:
    # Narwhals is not asked: it would inspect some of the objects.
    native = series.to_native()
    categories = getattr(getattr(native, "cat", None), "categories", None)
    types = (getattr(native, "dtype", None), getattr(categories, "dtype", None))
    return "object" in {str(type_).lower() for type_ in types}


def _collected(frame: Any) -> pa.Table:
    if isinstance(frame, nw.LazyFrame):
        return frame.collect("pyarrow").to_native()
    return frame.to_arrow()


def _broken(data: Any) -> str:
    library = type(data).__module__.partition(".")[0].lstrip("_")
    return (
        f"the {library} frame could not be read or computed: its query fails, its connection is "
        "closed, or a column mixes types; collect it yourself to see why"
    )
