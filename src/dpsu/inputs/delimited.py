"""CSV, TSV and JSON lines.

No type is ever guessed from values: the type of a column, and with it every hash and perhaps the
whole run, would then depend on one user's row, and "007" and "7" would become one user. CSV cells
are text and stay text; JSON is untyped, and its integers become their digits. Columns that were not
asked for are not parsed at all.

Files are cut into blocks of whole lines, which are parsed side by side. A row or a line that is
damaged is dropped, and the curator is warned.
"""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.json

from dpsu.contributions.id_columns import Column, Lose, repeats_of
from dpsu.contributions.ids import text_buffers
from dpsu.errors import DataError, ParameterError, option_error, without_values
from dpsu.inputs.columns import pick

ReadTable = Callable[[], pa.Table]
ReadBytes = Callable[[int], bytes]

BLOCK = 1 << 23
# Rows with texts may be longer than others.
LONGEST_ROW, LONGEST_ROW_OF_TEXTS = 1 << 23, 1 << 26
LONGEST_HEADER = 1 << 20
# With more columns than six, blocks whose first columns are integers are parsed line by line.
MOST_SCHEMAS = 64
NO_COLUMNS = pa.schema([])
# The most digits of an integer in JSON that can be an id.
MOST_DIGITS = 2000
DELIMITERS = {"csv": ",", "tsv": "\t"}
COMPRESSED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")  # gzip, zstd, zip
PARQUET = b"PAR1"
LINE_BREAKS = b"\r\n"
UTF8_MARK, UTF16_MARKS = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")

RAGGED = "some rows have too few or too many cells"
OPEN_QUOTE = "some rows stand behind a quote that never closes"
NO_OBJECT = "some lines are not JSON objects"


def read_csv(
    source: Any, kind: str, columns: Sequence[Column], what: str, lose: Lose
) -> Iterator[ReadTable]:
    """Columns of a CSV or TSV file with a header, as text, block by block."""
    header = read_header(source, kind, columns, what)
    names = [column.name for column in columns]
    # An empty table first, because a column without rows has a type, too.
    empty = pa.table({name: pa.nulls(0, pa.string()) for name in names})
    longest = _longest_row(columns)

    def tables() -> Iterator[ReadTable]:
        yield lambda: empty
        blocks = _whole_rows(_reader(source, what), _Ends(DELIMITERS[kind]), longest, lose)
        for block in blocks:
            yield partial(_parse_csv, block, header, names, DELIMITERS[kind], what, lose)

    return tables()


def read_header(source: Any, kind: str, columns: Sequence[Column], what: str) -> list[str]:
    """The header of a CSV or TSV file, which must have the wanted columns."""
    first = first_line(_reader(source, what), kind)
    _refuse_other_bytes(first, what)
    header = without_values(
        lambda: next(csv.reader([first.decode("utf-8-sig")], delimiter=DELIMITERS[kind]), []),
        f"the header of {what} is not {kind.upper()} in UTF-8; re-encode the file",
    )
    if len(header) == 1 and header[0].count(";") >= 1 and columns[0].name not in header:
        raise ParameterError(
            f"the header of {what} is one column; is the separator a semicolon? dpsu reads commas "
            "(csv) or tabs (tsv)"
        )
    pick(columns, header, what, typed=False)
    return header


def _parse_csv(
    block: bytes, header: list[str], names: list[str], delimiter: str, what: str, lose: Lose
) -> pa.Table:
    def skip(row: Any) -> str:
        lose(RAGGED)
        return "skip"

    def parsed(rows: bytes, handler: Any = None) -> pa.Table | None:
        try:
            return _cells(rows, header, names, delimiter, handler)
        except pa.ArrowInvalid:
            return None

    broken = f"{what} could not be parsed as rows of cells"
    table, letters = without_values(lambda: parsed(block), broken), False
    if table is None:
        # Some row has too few or too many cells. Arrow passes it to the handler as text, and prints
        # an error that quotes it if it is not UTF-8. So each byte is one character meanwhile.
        letters = not _is_utf8(block)
        rows = block.decode("latin-1").encode() if letters else block
        table = without_values(lambda: parsed(rows, skip), broken)
    if table is None:
        raise DataError(broken)
    return pa.table([_as_text(column, letters) for column in table.columns], names=names)


def _cells(
    block: bytes, header: list[str], names: list[str], delimiter: str, skip: Any = None
) -> pa.Table:
    """The wanted cells as bytes, because a cell that is not UTF-8 must not stop the run."""
    if block.startswith(UTF8_MARK):
        # Arrow would take a mark from the first row, and then perhaps see a quote that opens a
        # cell. It skips empty lines.
        block = b"\n" + block
    if not block.endswith((b"\n", b"\r")):
        # Arrow would take an empty cell at the very end for one in quotes if the one before it is.
        block += b"\n"
    return pa.csv.read_csv(
        pa.BufferReader(block),
        pa.csv.ReadOptions(column_names=header, use_threads=False, block_size=len(block) + 1),
        pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True, invalid_row_handler=skip),
        pa.csv.ConvertOptions(
            include_columns=names,
            column_types={name: pa.binary() for name in names},
            # Only an empty cell is missing; NA, null and nan are ordinary words.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _as_text(cells: pa.ChunkedArray, letters: bool) -> pa.ChunkedArray:
    chunks = [_bytes_of(chunk) if letters else chunk for chunk in cells.chunks]
    return pa.chunked_array([chunk.view(pa.string()) for chunk in chunks], pa.string())


def _bytes_of(cells: pa.Array) -> pa.Array:
    """Turn cells back into bytes; each of their characters stands for one byte."""
    text, offsets = text_buffers(cells.cast(pa.large_binary()))
    text = text[: offsets[-1]]
    letters = np.concatenate([[0], np.cumsum((text & 0xC0) != 0x80)])
    data = text.tobytes().decode().encode("latin-1")
    buffers = [cells.is_valid().buffers()[1], pa.py_buffer(letters[offsets].astype(np.int32))]
    return pa.Array.from_buffers(pa.binary(), len(cells), [*buffers, pa.py_buffer(data)])


def _is_utf8(block: bytes) -> bool:
    try:
        block.decode()
    except UnicodeDecodeError:
        return False
    return True


def _whole_rows(read: ReadBytes, ends: _Lines, longest: int, lose: Lose) -> Iterator[bytes]:
    """Blocks of whole rows, without rows that are longer than `longest` (not counting line breaks).

    The length of the row itself decides, not where it begins in a block, which depends on the rows
    of others. Text in quotes is never parsed as rows, even if it is very long or the quotes never
    close: otherwise the user who wrote that cell could write rows of other users.
    """
    # The row that has not ended yet: its bytes, unless they are too many; its number of bytes; and
    # that number without the line breaks at its end.
    rest, size, length = b"", 0, 0
    while chunk := read(BLOCK):
        first, last = ends.of(chunk)
        begun = chunk[: first or len(chunk)]
        length = size + kept if (kept := len(begun.rstrip(LINE_BREAKS))) else length
        size += len(begun)
        if not first:
            rest = rest + chunk if length <= longest else b""
            continue
        if length > longest:
            lose(f"some rows have more than {longest >> 20} MB")
        # Rows that begin and end in one chunk are never too long.
        if whole := chunk[first:last] if length > longest else rest + chunk[:last]:
            yield whole
        rest = chunk[last:]
        size, length = len(rest), len(rest.rstrip(LINE_BREAKS))
    if length > longest:
        lose(f"some rows have more than {longest >> 20} MB")
    if ends.quoted:
        lose(OPEN_QUOTE)
    elif rest:
        yield rest


class _Lines:
    """Finds the ends of lines in bytes that come in chunks."""

    @property
    def quoted(self) -> bool:
        """Whether a cell in quotes is open."""
        return False

    def of(self, chunk: bytes) -> tuple[int, int]:
        """Ends of the first and the last row in a chunk; 0 if no row ends there."""
        return chunk.find(b"\n") + 1, chunk.rfind(b"\n") + 1


class _Ends(_Lines):
    """The same of rows of CSV, whose cells may have line breaks in quotes."""

    def __init__(self, delimiter: str) -> None:
        from dpsu.kernels import text_bytes

        self._kernel, self._delimiter = text_bytes, ord(delimiter)
        self._state = text_bytes.START

    @property
    def quoted(self) -> bool:
        return self._state == self._kernel.QUOTED

    def of(self, chunk: bytes) -> tuple[int, int]:
        kernel = self._kernel
        if b'"' in chunk:
            first, last, self._state = kernel.row_ends(
                np.frombuffer(chunk, np.uint8), self._delimiter, self._state
            )
            return first, last
        if self.quoted:
            return 0, 0
        at_start = chunk[-1] in (self._delimiter, kernel.LINE_FEED, kernel.RETURN)
        self._state = kernel.START if at_start else kernel.INSIDE
        found = [at + 1 for at in (chunk.find(b"\n"), chunk.find(b"\r")) if at >= 0]
        return min(found, default=0), max(chunk.rfind(b"\n"), chunk.rfind(b"\r")) + 1


def read_json_lines(
    source: Any, columns: Sequence[Column], what: str, lose: Lose
) -> Iterator[ReadTable]:
    """The wanted keys of JSON objects, one object a line, block by block; JSON is untyped."""
    parser = _JsonLines(columns, lose)
    # An empty table first, because a column without rows has a type, too.
    yield partial(parser.parse, b"")
    read = _reader(source, what)
    begin = read(4)
    _refuse_other_bytes(begin, what)
    rest = iter([begin])
    blocks = _whole_rows(
        lambda size: next(rest, b"") or read(size), _Lines(), _longest_row(columns), lose
    )
    for block in blocks:
        yield partial(parser.parse, block)


class _JsonLines:
    """Parses blocks of lines into columns.

    Arrow parses a block if every column is all text or all integers. Otherwise each line is parsed
    by itself, with the same result for every line that Arrow could parse.
    """

    def __init__(self, columns: Sequence[Column], lose: Lose) -> None:
        self._columns, self._lose = columns, lose
        types = (pa.string(), pa.int64())
        self._schemas = [
            pa.schema(list(zip((c.name for c in columns), chosen, strict=True)))
            for chosen in itertools.islice(
                itertools.product(types, repeat=len(columns)), MOST_SCHEMAS
            )
        ]

    def parse(self, block: bytes) -> pa.Table:
        """The columns of some lines."""
        lines = _lines_of_objects(block)
        table = self._by_arrow(block) if lines else None
        if table is not None and len(table) == lines:
            arrays = [self._typed(column, table[column.name]) for column in self._columns]
        else:
            arrays = self._by_line(block)
        return pa.table(arrays, names=[column.name for column in self._columns])

    def _typed(self, column: Column, cells: pa.ChunkedArray) -> Any:
        if column.option == "repeats":
            return cells
        (chunk,) = cells.chunks
        return column.alike(chunk, self._lose)

    def _by_arrow(self, block: bytes) -> pa.Table | None:
        for schema in self._schemas:
            table = _read_json(block, schema)
            if table is None:
                continue
            # The types of one block are likely to be those of the next.
            self._schemas = [schema, *(other for other in self._schemas if other != schema)]
            return table
        return None

    def _by_line(self, block: bytes) -> list[Any]:
        rows = []
        for line in block.split(b"\n"):
            row = self._row(line)
            if row is not None:
                rows.append(row)
            elif line.strip():
                self._lose(NO_OBJECT)
        arrays = []
        for column in self._columns:
            cells = [row.get(column.name) for row in rows]
            if column.option == "repeats":
                arrays.append(repeats_of(cells))
            else:
                arrays.append(column.untyped(cells, self._lose))
        return arrays

    def _row(self, line: bytes) -> dict[str, Any] | None:
        # A mark of UTF-8 says nothing in any line, because any line may be the first of a file.
        line = line.removeprefix(UTF8_MARK)
        row = _object(line)
        if (
            row is None
            and line.strip().startswith(b"{")
            and _read_json(line, NO_COLUMNS) is not None
        ):
            # Arrow reads some words as numbers that Python does not. A line that it cannot read
            # without columns is no JSON: to try all types on such lines could take hours.
            table = self._by_arrow(line)
            with contextlib.suppress(UnicodeDecodeError):
                row = table.to_pylist()[0] if table is not None and len(table) == 1 else None
        return row


def _read_json(block: bytes, schema: pa.Schema) -> pa.Table | None:
    """Columns of lines as Arrow reads them; None if they are no JSON, or of other types."""
    options = pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
    try:
        return pa.json.read_json(pa.BufferReader(block), reading, options)
    except pa.ArrowException:
        return None


def _lines_of_objects(block: bytes) -> int:
    """How many lines there are; 0 if one of them does not start and end as an object does.

    Lines that do hold whole objects, or are not JSON. So if there are as many objects as lines,
    every line holds one.
    """
    if not block.startswith(b"{"):
        return 0
    ended = block if block.endswith(b"\n") else block + b"\n"
    data = np.frombuffer(ended, np.uint8)
    ends = np.flatnonzero(data == ord("\n"))
    before = data[ends - 1]
    before = np.where(before == ord("\r"), data[ends - 2], before)
    whole = (before == ord("}")).all() and (data[ends[:-1] + 1] == ord("{")).all()
    return len(ends) if whole else 0


def _object(line: bytes) -> dict[str, Any] | None:
    """The object on a line of JSON; None if the line is not an object."""
    try:
        # Bytes that are not UTF-8 make their own cell null, not the whole line.
        text = line.decode("utf-8", "surrogateescape")
        row = json.loads(text, strict=False, parse_int=_parse_int)
    except (ValueError, RecursionError):
        return None
    return row if isinstance(row, dict) else None


def _parse_int(digits: str) -> int | float:
    return int(digits) if len(digits) < MOST_DIGITS else float("inf")


def read_public(text: str, kind: str) -> pa.Table:
    """Read a whole table of public data; the caller makes errors safe to show."""
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


def first_line(read: ReadBytes, kind: str) -> bytes:
    """The header with its line break; there may be others inside quotes.

    A line feed behind a return is an empty row. If a quote never closes, the whole file must not
    become the header.
    """
    delimiter = DELIMITERS[kind].encode()
    line, quoted, before = bytearray(), False, delimiter
    while len(line) < LONGEST_HEADER:
        byte = read(1)
        line += byte
        # A quote that begins a cell opens it, and others do not.
        if byte == b'"':
            quoted = not quoted and before in (delimiter, byte)
        if not byte or (byte in LINE_BREAKS and not quoted):
            break
        before = byte
    return bytes(line)


def _reader(source: Any, what: str) -> ReadBytes:
    """A reader of bytes; raises an error if a compressed file is cut off or damaged."""
    return lambda size: without_values(
        lambda: bytes(source.read(size)),
        f"{what} cannot be read to its end: it is cut off or damaged (if it is compressed, its "
        "data end early or do not match their checksum); get an undamaged copy",
    )


def _refuse_other_bytes(first: bytes, what: str) -> None:
    if first.startswith(COMPRESSED):
        raise DataError(f"{what} looks compressed; its name must say so, or decompress it first")
    if first.startswith(UTF16_MARKS):
        raise DataError(f"{what} is in UTF-16; convert it to UTF-8")
    if first.startswith(PARQUET):
        raise option_error("format", f"is needed: {what} looks like Parquet", "parquet")


def _longest_row(columns: Sequence[Column]) -> int:
    texts = any(column.option == "text" for column in columns)
    return LONGEST_ROW_OF_TEXTS if texts else LONGEST_ROW


def tables_of(batches: Any, broken: str) -> Iterator[ReadTable]:
    """One table for each batch, read when it is needed; `broken` is the error if that fails."""
    while (batch := without_values(lambda: next(batches, None), broken)) is not None:
        yield partial(pa.Table.from_batches, [batch])
