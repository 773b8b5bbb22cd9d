"""A release in files: the suffix names the format."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from dpsu.errors import option_error
from dpsu.runtime.writing import Write, text_writer

if TYPE_CHECKING:
    import pyarrow

    from dpsu.codebooks import Domains
    from dpsu.results import Release

    Table: TypeAlias = Release | Domains

SUFFIXES = (".txt", ".csv", ".parquet", ".json")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
# Spreadsheets take a cell that begins so for a formula; the quote makes the prefix reversible.
_FORMULA = re.compile("[=+\\-@\t\r\n'\uff1d\uff0b\uff0d\uff20]")


def items_writer(release: Table, path: Path, *, csv_safe: bool = False) -> Write:
    """A function that writes the items in the format of the suffix; without one, as lines."""
    if csv_safe and path.suffix != ".csv":
        raise option_error("csv_safe", "is for output whose name ends in .csv")
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = release.to_arrow().replace_schema_metadata(release.metadata)
        return lambda file: pyarrow.parquet.write_table(table, file)
    if path.suffix == ".csv":
        return lambda file: _write_csv(release, file, safe=csv_safe)
    if path.suffix == ".json":
        table = release.to_arrow()
        rows = zip(*(written(column, json=True) for column in table.columns), strict=True)
        listed = (
            [row[0] for row in rows]
            if table.num_columns == 1
            else [dict(zip(table.column_names, row, strict=True)) for row in rows]
        )
        return text_writer(json.dumps(listed, ensure_ascii=False, indent=0) + "\n")
    return text_writer("".join(f"{line}\n" for line in lines(release)))


def lines(release: Table) -> list[str]:
    """One line per item, with its noisy count after a tab; line breaks in items are escaped.

    So are tabs where they separate columns.
    """
    columns = [written(column) for column in release.to_arrow().columns]
    if len(columns) == 1:
        return [str(item).translate(_ESCAPES) for item in columns[0]]
    # Of values of many columns, most cells are missing.
    return [
        "\t".join(
            "" if cell is None else str(cell).translate(_ESCAPES).replace("\t", "\\t")
            for cell in row
        )
        for row in zip(*columns, strict=True)
    ]


def written(column: pyarrow.ChunkedArray, *, json: bool = False) -> list[Any]:
    """Cells as files have them: text and numbers, and texts of everything else.

    JSON has true and false of its own.
    """
    from dpsu.contributions.cells import BOOLEANS, kind_of, spell
    from dpsu.contributions.ids import INTEGERS, TEXT

    kind = kind_of(column.type)
    if kind not in (TEXT, INTEGERS) and not (json and kind == BOOLEANS):
        return [text for chunk in column.chunks for text in spell(chunk).to_pylist()]
    cells: list[Any] = column.to_pylist()
    return cells


def _write_csv(release: Table, file: BinaryIO, *, safe: bool) -> None:
    handle = io.TextIOWrapper(file, encoding="utf-8", newline="")
    # Text is always quoted: an empty item is not a missing one, and carriage returns survive.
    writer = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    table = release.to_arrow()
    rows = [table.column_names, *zip(*map(written, table.columns), strict=True)]
    writer.writerows([_no_formula(cell) for cell in row] if safe else row for row in rows)
    handle.flush()
    handle.detach()


def _no_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
