"""CSV, TSV and JSON lines.

No type is ever guessed from values: the type of a column, and with it every hash and perhaps the
whole run, would then depend on one user's row, and "007" and "7" would become one user. CSV cells
are text and stay text; JSON texts are text, even if they look like dates. Columns that were not
asked for are not interpreted at all.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from dpsu.errors import DataError, ParameterError, without_values
from dpsu.inputs.columns import pick

ReadTable = Callable[[], pa.Table]
# From the bytes that were read of a source to a stream that starts with them.
Again = Callable[[bytes], Any]

# A row must fit in a block; rows of texts are longer.
BLOCK, BLOCK_OF_TEXTS = 1 << 23, 1 << 26
LOOK_AHEAD, LONGEST_LOOK_AHEAD = 1 << 20, 1 << 26
LONGEST_HEADER = 1 << 20
DELIMITERS = {"csv": ",", "tsv": "\t"}
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")  # gzip, zstd, zip


def read_csv(
    source: Any, again: Again, kind: str, columns: Sequence[str], what: str, texts: bool = False
) -> Iterator[ReadTable]:
    """Columns of a CSV or TSV file with a header, as text, block by block."""
    block = BLOCK_OF_TEXTS if texts else BLOCK
    delimiter, broken = DELIMITERS[kind], _broken(kind, what, block)
    first = read_header(source, kind, columns, what)
    reader = without_values(
        lambda: pa.csv.open_csv(
            again(first),
            read_options=pa.csv.ReadOptions(block_size=block),
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                include_columns=list(columns),
                column_types={name: pa.string() for name in columns},
                # An empty cell is missing; the words NA, null and nan are words.
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        ),
        broken,
    )
    # An empty one first: a column without rows has a type all the same.
    return chain([partial(pa.Table.from_batches, [], reader.schema)], tables_of(reader, broken))


def read_header(source: Any, kind: str, columns: Sequence[str], what: str) -> bytes:
    """The bytes of the header of a CSV or TSV file, which must have the wanted columns."""
    delimiter, broken = DELIMITERS[kind], _broken(kind, what)
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
    return first


def _broken(kind: str, what: str, block: int = BLOCK) -> str:
    return (
        f"{what} is not {kind.upper()} in UTF-8: cells do not line up under the header, bytes "
        f"cannot be decoded, or a row has more than {block >> 20} MB"
    )


def read_json_lines(
    source: Any, again: Again, columns: Sequence[str], what: str, texts: bool = False
) -> Iterator[ReadTable]:
    """Keys of JSON objects, one a line, block by block; each key is all text or all integers."""
    block = BLOCK_OF_TEXTS if texts else BLOCK
    broken = (
        f"{what} is not JSON lines in UTF-8, a column mixes types, or a line has more than "
        f"{block >> 20} MB"
    )
    head, found, keys = without_values(lambda: _look_ahead(source, columns), broken)
    if not head.strip():
        empty = pa.table({name: pa.nulls(0, pa.string()) for name in columns})
        return iter([lambda: empty])
    pick(columns, keys, what, typed=False)
    options = pa.json.ParseOptions(
        explicit_schema=pa.schema([(name, found.get(name, pa.string())) for name in columns]),
        unexpected_field_behavior="ignore",
    )
    reader = without_values(
        lambda: pa.json.open_json(
            again(head),
            pa.json.ReadOptions(block_size=block),
            options,
        ),
        broken,
    )
    # An empty one first: a column without rows has a type all the same.
    return chain([partial(pa.Table.from_batches, [], reader.schema)], tables_of(reader, broken))


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


def _look_ahead(
    source: Any, columns: Sequence[str]
) -> tuple[bytes, dict[str, pa.DataType], list[str]]:
    """The first bytes, the type of each column by its first value, and the keys that were seen.

    Lines are read until every column had a value; a column that has none for long is text.
    """
    head, parsed = bytearray(), 0
    types: dict[str, pa.DataType] = {}
    keys: dict[str, None] = {}
    at_end = False
    while not at_end and len(types) < len(columns) and len(head) < LONGEST_LOOK_AHEAD:
        chunk = source.read(LOOK_AHEAD)
        head += chunk
        at_end = not chunk
        end = len(head) if at_end else head.rfind(b"\n") + 1
        for line in bytes(head[parsed:end]).split(b"\n"):
            if line.strip() and len(types) < len(columns):
                row = json.loads(line)
                keys |= dict.fromkeys(row)
                for name in set(columns) - set(types):
                    if row.get(name) is not None:
                        types[name] = pa.int64() if isinstance(row[name], int) else pa.string()
        parsed = max(end, parsed)
    return bytes(head), types, list(keys)


def tables_of(batches: Any, broken: str) -> Iterator[ReadTable]:
    """One table for each batch, read when it is asked for; `broken` says what a failure means."""
    while (batch := without_values(lambda: next(batches, None), broken)) is not None:
        yield partial(pa.Table.from_batches, [batch])


def rejoined(first: bytes, rest: Any) -> Any:
    """A stream that cannot be opened twice, with what was read of it put back."""
    return pa.PythonFile(_Rejoined(first, rest), mode="r")


class _Rejoined(io.RawIOBase):
    """A stream with the bytes that were already read from it put back in front."""

    def __init__(self, first: bytes, rest: Any) -> None:
        self._first = first
        self._rest = rest

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._first:
            size = len(self._first) if size < 0 else size
            first, self._first = self._first[:size], self._first[size:]
            return first
        return bytes(self._rest.read(size))
