"""Frames of any library: pandas, Polars (eager or lazy), PyArrow, DuckDB relations."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa

from dpsu.errors import ParameterError, without_values
from dpsu.inputs.columns import pick


def is_frame(data: Any) -> bool:
    """Whether narwhals knows this object as a frame."""
    known: Any = None
    with contextlib.suppress(nw.exceptions.DuplicateError):
        known = nw.from_native(data, pass_through=True)
    if known is None and data is not None:
        # Raised on its own: in a pivoted frame the names in narwhals' error are values.
        raise ParameterError("the frame has columns of the same name; rename them")
    return isinstance(known, (nw.DataFrame, nw.LazyFrame))


def to_arrow(data: Any, columns: Sequence[str] | None = None) -> pa.Table:
    """The wanted columns as an Arrow table; only they are collected from a lazy frame."""
    if isinstance(data, pa.Table):
        return data.select(pick(columns, data.column_names)) if columns is not None else data
    frame: Any = nw.from_native(data)
    if columns is not None:
        frame = frame.select(pick(columns, frame.collect_schema().names()))

    def convert() -> pa.Table:
        if isinstance(frame, nw.LazyFrame):
            return frame.collect("pyarrow").to_native()
        return frame.to_arrow()

    named = " or ".join(repr(name) for name in columns) if columns else "a column"
    return without_values(
        convert,
        f"{named} of the {type(data).__module__.split('.')[0]} frame mixes types or could not be "
        "computed; users and items must each be all text or all integers",
    )
