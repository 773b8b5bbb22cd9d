"""Files: Parquet, CSV, TSV and JSON lines, plain or compressed, by suffix.

CSV cells are text and stay text. Guessing types from values would make the type of a column, and
with it every hash, depend on one user's row; it would also make one user of "007" and "7".
"""

from __future__ import annotations

import glob
import io
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from dpsu.errors import DataError, ParameterError, without_values
from dpsu.inputs.columns import pick
from dpsu.inputs.formats import COMPRESSIONS, KNOWN_SUFFIXES, STDIN, format_of

RowsRead = Callable[[int], None]


def expand(sources: Sequence[str | Path], format_: str | None = None) -> list[Path]:
    """Paths behind names, globs and folders; nothing that was asked for may be missing."""
    paths: list[Path] = []
    for source in sources:
        path = Path(source)
        if str(source) == STDIN or path.is_file():
            paths.append(path)
        elif path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and format_of(p) is not None)
            if not inside:
                raise ParameterError(f"folder {str(path)!r} has no {KNOWN_SUFFIXES} files")
            paths += inside
        else:
            matches = sorted(Path(match) for match in glob.glob(str(source), recursive=True))
            if not matches:
                raise ParameterError(_no_file(str(source)))
            paths += matches
    for path in paths:
        if str(path) != STDIN and format_ is None and format_of(path) is None:
            raise ParameterError(
                f"cannot tell the format of {path.name!r} from its name; rename it to end in "
                f"{KNOWN_SUFFIXES} (optionally with .gz or .zst), or name the format"
            )
    return paths


def _no_file(source: str) -> str:
    # A list of texts that are no paths may be private items given by mistake: do not repeat them.
    if format_of(Path(source)) is None and "/" not in source:
        return "there is no such file, and a text or list of texts is read as the names of files"
    return f"there is no file {source!r}"


def read(
    path: Path, columns: Sequence[str], numeric: Sequence[str], format_: str | None, tick: RowsRead
) -> pa.Table:
    """Read the wanted columns of one file; `numeric` ones are read as integers from CSV too."""
    kind = format_ or ("csv" if str(path) == STDIN else format_of(path))
    what = "standard input" if str(path) == STDIN else f"{path.name!r}"
    if str(path) != STDIN and path.stat().st_size == 0:
        raise DataError(f"{what} is empty")
    if kind == "parquet":
        return _read_parquet(path, columns, what, tick)
    return _read_text(path, str(kind), columns, numeric, what, tick)


def read_public_table(path: Path) -> pa.Table:
    """Read a whole table of public data; a .txt file is one column of lines."""
    if not path.is_file():
        raise ParameterError(f"there is no file {str(path)!r}")
    if path.suffix == ".txt":
        lines = without_values(
            lambda: path.read_text(encoding="utf-8").split("\n"), f"{path.name!r} is not UTF-8 text"
        )
        return pa.table({"item": pa.array([line for line in lines if line], pa.string())})
    if format_of(path) is None:
        raise ParameterError(f"{path.name!r} must end in {KNOWN_SUFFIXES} or .txt")
    if format_of(path) == "parquet":
        return without_values(
            lambda: pa.parquet.read_table(path), f"{path.name!r} is not a Parquet file"
        )
    source = _open(path)
    if format_of(path) == "jsonl":
        return without_values(
            lambda: pa.json.read_json(source), f"{path.name!r} is not JSON lines in UTF-8"
        )
    parse = pa.csv.ParseOptions(delimiter="\t" if format_of(path) == "tsv" else ",")
    return without_values(
        lambda: pa.csv.read_csv(source, parse_options=parse),
        f"{path.name!r} is not CSV with a header, in UTF-8",
    )


def _read_parquet(path: Path, columns: Sequence[str], what: str, tick: RowsRead) -> pa.Table:
    broken = f"{what} is not a Parquet file, or it is damaged"
    source: Any = path if str(path) != STDIN else io.BytesIO(sys.stdin.buffer.read())
    names = without_values(lambda: pa.parquet.ParquetFile(source).schema_arrow, broken)
    pick(columns, names.names, what)
    # Columns that Parquet already stores as dictionaries need not be spelled out and hashed again.
    text = [
        name
        for name in columns
        if pa.types.is_string(names.field(name).type)
        or pa.types.is_large_string(names.field(name).type)
    ]

    def batches() -> pa.Table:
        file = pa.parquet.ParquetFile(source, read_dictionary=text)
        tables = []
        for group in range(file.num_row_groups):
            tables.append(file.read_row_group(group, columns=list(columns)))
            tick(len(tables[-1]))
        return pa.concat_tables(tables) if tables else file.schema_arrow.empty_table()

    return without_values(batches, broken).select(list(columns))


def _read_text(
    path: Path,
    kind: str,
    columns: Sequence[str],
    numeric: Sequence[str],
    what: str,
    tick: RowsRead,
) -> pa.Table:
    source = _open(path)
    if kind == "jsonl":
        table = without_values(
            lambda: pa.json.read_json(source),
            f"{what} is not JSON lines in UTF-8, or a column mixes types",
        )
        pick(columns, table.column_names, what)
        tick(len(table))
        return table.select(list(columns))
    types = {name: pa.int64() if name in numeric else pa.string() for name in columns}
    broken = (
        f"{what} is not {kind.upper()} in UTF-8: cells do not line up under the header, or bytes "
        "cannot be decoded, or a column of counts is not whole numbers"
    )

    def stream() -> Any:
        return pa.csv.open_csv(
            source,
            parse_options=pa.csv.ParseOptions(
                delimiter="\t" if kind == "tsv" else ",", newlines_in_values=True
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=types,
                # An empty cell is missing; the words NA, null and nan are words.
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    reader = without_values(stream, broken)
    pick(columns, reader.schema.names, what)

    def collect() -> pa.Table:
        kept = [batch.select(list(columns)) for batch in _counted(reader, tick)]
        return pa.Table.from_batches(
            kept, schema=pa.schema([(name, types[name]) for name in columns])
        )

    return without_values(collect, broken)


def _counted(reader: Any, tick: RowsRead) -> Iterator[pa.RecordBatch]:
    for batch in reader:
        tick(batch.num_rows)
        yield batch


def _open(path: Path) -> Any:
    if str(path) == STDIN:
        return pa.PythonFile(sys.stdin.buffer, mode="r")
    try:
        return pa.input_stream(str(path), compression=COMPRESSIONS.get(path.suffix.lower()))
    except OSError as error:
        raise DataError(f"{path.name!r} cannot be opened: {error.strerror or 'damaged'}") from None
