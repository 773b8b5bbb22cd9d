"""CSV, TSV and JSON lines.

No type is ever guessed from values: the type of a column, and with it every hash and perhaps the
whole run, would then depend on one user's row, and "007" and "7" would become one user. CSV cells
are text and stay text; JSON texts are text, even if they look like dates. Columns that were not
asked for are not interpreted at all.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from dpsu.errors import DataError, ParameterError, without_values
from dpsu.inputs.columns import pick

RowsRead = Callable[[int], None]
JSON_BLOCK = 1 << 24
LINES_TO_KNOW_COLUMNS = 1000
LONGEST_HEADER = 1 << 20
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")  # gzip, zstd, zip


def read_csv(source: Any, kind: str, columns: Sequence[str], what: str, tick: RowsRead) -> pa.Table:
    """Read columns of a CSV or TSV file with a header, as text, block by block."""
    delimiter = "\t" if kind == "tsv" else ","
    broken = (
        f"{what} is not {kind.upper()} in UTF-8: cells do not line up under the header, or bytes "
        "cannot be decoded"
    )
    first = without_values(lambda: _first_line(source), broken)
    if first.startswith(COMPRESSED):
        raise DataError(f"{what} looks compressed; its name must say so, or decompress it first")
    header = without_values(
        lambda: next(csv.reader([first.decode("utf-8-sig")], delimiter=delimiter)), broken
    )
    if len(header) == 1 and header[0].count(";") >= 1 and columns[0] not in header:
        raise ParameterError(
            f"the header of {what} is one column; is the separator a semicolon? dpsu reads commas "
            "(csv) or tabs (tsv)"
        )
    pick(columns, header, what, typed=False)
    for name in columns:
        if header.count(name) > 1:
            raise ParameterError(f"{what} has more than one column {name!r}; rename them")

    def collect() -> pa.Table:
        reader = pa.csv.open_csv(
            pa.PythonFile(_Rejoined(first, source), mode="r"),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: pa.string() for name in columns},
                # An empty cell is missing; the words NA, null and nan are words.
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        return pa.Table.from_batches(_counted(reader, tick), reader.schema)

    return without_values(collect, broken)


def read_json_lines(source: Any, columns: Sequence[str], what: str, tick: RowsRead) -> pa.Table:
    """Read keys of JSON objects, one a line; each key is all text or all integers."""
    broken = f"{what} is not JSON lines in UTF-8, or a column mixes types"
    data = without_values(source.read, broken)
    if not data.strip():
        return pa.table({name: pa.nulls(0, pa.string()) for name in columns})
    pick(columns, without_values(lambda: _keys(data), broken), what, typed=False)
    for types in itertools.product((pa.string(), pa.int64()), repeat=len(columns)):
        options = pa.json.ParseOptions(
            explicit_schema=pa.schema(list(zip(columns, types, strict=True))),
            unexpected_field_behavior="ignore",
        )
        try:
            table = pa.json.read_json(
                pa.BufferReader(data), pa.json.ReadOptions(block_size=JSON_BLOCK), options
            )
        except pa.ArrowException:
            continue
        tick(len(table))
        return table.select(list(columns))
    raise DataError(broken)


def read_public(text: str, kind: str) -> pa.Table:
    """A whole table of public data; the caller sanitizes errors."""
    if kind == "jsonl":
        return pa.Table.from_pylist([json.loads(line) for line in text.splitlines() if line])
    if kind == "txt":
        return pa.table(
            {"item": pa.array([line for line in text.split("\n") if line], pa.string())}
        )
    rows = csv.reader(io.StringIO(text, newline=""), delimiter="\t" if kind == "tsv" else ",")
    header = next(rows)
    cells = zip(*rows, strict=True)
    return pa.table({n: pa.array(c, pa.string()) for n, c in zip(header, cells, strict=True)})


def _first_line(source: Any) -> bytes:
    """Up to the end of the header; a quoted line break inside it belongs to it.

    A quote that never closes must not make a header of the whole file.
    """
    line, quoted = bytearray(), False
    while len(line) < LONGEST_HEADER:
        byte = source.read(1)
        line += byte
        quoted ^= byte == b'"'
        if not byte or (byte == b"\n" and not quoted):
            break
    return bytes(line)


def _keys(data: bytes) -> list[str]:
    keys: dict[str, None] = {}
    for line in itertools.islice(io.BytesIO(data), LINES_TO_KNOW_COLUMNS):
        if line.strip():
            keys |= dict.fromkeys(json.loads(line))
    return list(keys)


def _counted(reader: Any, tick: RowsRead) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        tick(batch.num_rows)
        yield batch


class _Rejoined(io.RawIOBase):
    """A stream with the bytes that were already read from it put back in front."""

    def __init__(self, first: bytes, rest: Any) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._first:
            first, self._first = self._first, b""
            return first
        return bytes(self._rest.read(size))
