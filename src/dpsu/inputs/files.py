"""Find files by name, folder or glob, and read each by the format of its suffix."""

from __future__ import annotations

import glob
import io
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from dpsu.contributions.id_columns import Column, Lose
from dpsu.errors import DataError, ParameterError, shown, warn, without_values
from dpsu.inputs import delimited
from dpsu.inputs.also_public import identity
from dpsu.inputs.columns import pick
from dpsu.inputs.delimited import ReadTable
from dpsu.inputs.formats import COMPRESSIONS, KNOWN_SUFFIXES, STDIN, format_of
from dpsu.inputs.keyed import check_types
from dpsu.inputs.pipes import Pipes, beginning, is_pipe, named, open_pipe

# A row group of more rows, or bytes, is read batch by batch: by one core, but in little memory.
LARGEST_GROUP, LARGEST_GROUP_BYTES = 1 << 22, 1 << 27
# A dictionary pays if there are so many rows for each distinct cell, in all of a row group that was
# read as a dictionary, or among the first rows of one that was not.
ROWS_FOR_CELL, FIRST_ROWS = 8, 1 << 12


# Files that people have, and that are not read: a name that ends so is a name of a file.
OTHER_SUFFIXES = (
    ".xlsx", ".xls", ".ods", ".json", ".txt", ".gz", ".zst", ".zip", ".bz2", ".xz", ".feather",
    ".arrow", ".orc", ".avro", ".db", ".sqlite", ".duckdb", ".pkl", ".sav", ".dta",
)  # fmt: skip


def expand(
    sources: Sequence[str | os.PathLike[str]],
    format_: str | None = None,
    note_hidden: Callable[[list[Path]], None] = lambda hidden: None,
) -> list[Path]:
    """The files that names, globs and folders stand for; raises an error if there is none.

    Each file is listed once, even if several names or links lead to it. Hidden files in folders,
    such as backups of editors, are left out and passed to `note_hidden`.
    """
    if [str(source) for source in sources].count(STDIN) > 1:
        raise ParameterError("standard input was given twice; it can be read once")
    paths: list[Path] = []
    for source in sources:
        path = Path(source)
        if is_pipe(path) or _is(path.is_file):
            paths.append(path)
        elif _is(path.is_dir):
            inside = sorted(p for p in path.rglob("*") if p.is_file() and format_of(p) is not None)
            hidden = [p for p in inside if any(map(_is_hidden, p.relative_to(path).parts))]
            if hidden:
                note_hidden(hidden)
            inside = [p for p in inside if p not in hidden]
            if not inside:
                raise ParameterError(f"folder {str(path)!r} has no {KNOWN_SUFFIXES} files")
            paths += inside
        else:
            matches = glob.glob(str(source), recursive=True) if "\0" not in str(source) else []
            if not matches:
                raise ParameterError(_no_file(str(source), alone=len(sources) == 1))
            paths += sorted(Path(match) for match in matches)
    for path in paths:
        # Arrow can open no others.
        without_values(
            str(path).encode,
            "the name of a file is not UTF-8, or the locale is another; rename the file, or set "
            "PYTHONUTF8=1",
            ParameterError,
        )
        if not is_pipe(path) and not _is(path.is_file):
            raise ParameterError(
                f"{str(path)!r} is no file; write the rows to a file, or pipe them"
            )
        if format_ is None and format_of(path) is None and not is_pipe(path):
            raise ParameterError(
                f"cannot tell the format of {str(path)!r} from its name; rename it to end in "
                f"{KNOWN_SUFFIXES} (optionally with .gz or .zst), or give {{format}}",
                format=...,
            )
    return list({identity(path) or path: path for path in reversed(paths)}.values())[::-1]


def _is_hidden(part: str) -> bool:
    return part.startswith(".")


def warn_of_hidden(hidden: list[Path]) -> None:
    """Warn that hidden files in folders are not read."""
    names = ", ".join(repr(str(path)) for path in hidden[:3])
    more = ", ..." if len(hidden) > 3 else ""
    warn(f"hidden files in folders are not read: {names}{more}; to read one, give its name")


def _is(question: Callable[[], bool]) -> bool:
    """Run a test of a path; False if its name is too long or has a NUL in it."""
    try:
        return question()
    except (OSError, ValueError):
        return False


def _no_file(source: str, *, alone: bool) -> str:
    # Texts that are not paths may be private texts, given by mistake: do not quote them. In a list,
    # only a format that is read shows that a text is the name of a file.
    ending = Path(source).suffix.lower()
    named = (
        "\n" not in source
        and len(source) < 1000
        and (format_of(Path(source)) is not None or (alone and ending in OTHER_SUFFIXES))
    )
    if (
        alone
        and re.search(r"[*?\[]", source)
        and not re.search(r"\s", source)
        and len(source) < 1000
    ):
        return f"no file has a name like {source!r}"
    if named or (alone and "/" in source and not re.search(r"\s", source)):
        formats = f"; formats: {KNOWN_SUFFIXES}" if ending in OTHER_SUFFIXES else ""
        return f"there is no file {source!r}{formats}"
    return (
        "there is no such file, and a text or list of texts is read as the names of files; give "
        "(user, text) pairs, a mapping of users to theirs, or a table"
    )


@dataclass(frozen=True, repr=False)
class OpenFile:
    """A file to be read: functions that each read some of its rows, in order.

    `known_rows` is the number of rows if the file says so, else 0.
    """

    tables: Iterable[ReadTable]
    known_rows: int = 0


def open_rows(
    path: Path, columns: Sequence[Column], format_: str | None, lose: Lose, pipes: Pipes
) -> OpenFile:
    """Open one file, or pipe, to read the wanted columns; problems go to `lose`."""
    kind, what = _kind(path, format_), named(path)
    _refuse_empty(path, kind, pipes)
    if kind == "parquet":
        return _open_parquet(path, columns, what, pipes)
    source = _open(path, pipes)
    if kind == "jsonl":
        return OpenFile(delimited.read_json_lines(source, columns, what, lose))
    return OpenFile(delimited.read_csv(source, kind, columns, what, lose))


def check_columns(path: Path, columns: Sequence[Column], format_: str | None, pipes: Pipes) -> None:
    """Refuse missing columns and wrong types by a file's header or schema, without reading rows.

    JSON lines have none. A pipe is opened, and its header is checked if it has come whole.
    """
    kind, what = _kind(path, format_), named(path)
    _refuse_empty(path, kind, pipes)
    if kind == "jsonl":
        return
    if is_pipe(path):
        _check_beginning(beginning(path, pipes), path, columns, kind)
    elif kind == "parquet":
        schema = without_values(lambda: pa.parquet.read_schema(path), _no_parquet(what))
        _check_schema(schema, columns, what)
    else:
        delimited.read_header(_open(path), kind, columns, what)


def _check_beginning(begin: bytes, path: Path, columns: Sequence[Column], kind: str) -> None:
    """Refuse what the first bytes of a pipe show to be wrong."""
    if kind == "parquet":
        if not delimited.PARQUET.startswith(begin[: len(delimited.PARQUET)]):
            raise DataError(_no_parquet(named(path)))
    elif not _compression(path) and _first_line(begin, kind).endswith((b"\n", b"\r")):
        delimited.read_header(io.BytesIO(begin), kind, columns, named(path))


def _first_line(begin: bytes, kind: str) -> bytes:
    return delimited.first_line(io.BytesIO(begin).read, kind)


def _kind(path: Path, format_: str | None) -> str:
    """The format of a file; that of a pipe without a suffix is CSV."""
    return format_ or format_of(path) or "csv"


def _refuse_empty(path: Path, kind: str, pipes: Pipes) -> None:
    empty = not beginning(path, pipes) if is_pipe(path) else path.stat().st_size == 0
    if empty and kind != "jsonl":
        raise DataError(f"{named(path)} is empty; it should at least have a header")


def ends_in_return(path: Path, kind: str) -> bool:
    """Whether there is a return before the line feed behind a header."""
    with _open(path) as source:
        return delimited.first_line(source.read, kind).endswith(b"\r")


def _check_schema(schema: pa.Schema, columns: Sequence[Column], what: str) -> None:
    pick(columns, schema.names, what)
    check_types(columns, schema)


def _no_parquet(what: str) -> str:
    return f"{what} is not a Parquet file, or it is damaged"


def read_public_table(path: Path) -> pa.Table:
    """Read a whole table of public data, its items as text; a .txt file is one column of lines."""
    if _is(path.is_fifo):
        raise ParameterError(f"{str(path)!r} is a pipe; write public data to a file first")
    if not _is(path.is_file):
        raise ParameterError(f"there is no file {shown(str(path))}")
    kind = "txt" if path.suffix == ".txt" else format_of(path)
    if kind is None:
        raise ParameterError(f"{path.name!r} must end in {KNOWN_SUFFIXES} or .txt")
    if kind == "parquet":
        return without_values(lambda: _whole_parquet(path), _no_parquet(repr(path.name)))
    return without_values(
        lambda: delimited.read_public(_open(path).read().decode("utf-8-sig"), kind),
        f"{path.name!r} is not {kind.upper()} in UTF-8",
    )


def _whole_parquet(path: Path) -> pa.Table:
    table = pa.parquet.read_table(path)
    table.validate(full=True)
    # Arrow reads names that are not UTF-8, and fails where they are looked at.
    return table.rename_columns(table.column_names)


def _open_parquet(path: Path, wanted: Sequence[Column], what: str, pipes: Pipes) -> OpenFile:
    broken = _no_parquet(what)
    # Parquet is read from its end.
    read = open_pipe(path, pipes).read if is_pipe(path) else None
    piped = None if read is None else pa.py_buffer(without_values(read, broken))

    def opened(**options: Any) -> pa.parquet.ParquetFile:
        source = path if piped is None else pa.BufferReader(piped)
        return pa.parquet.ParquetFile(source, memory_map=piped is None, **options)

    whole = without_values(opened, broken)
    schema, metadata = whole.schema_arrow, whole.metadata
    _check_schema(schema, wanted, what)
    columns = [column.name for column in wanted]
    types = {column.name: schema.field(column.name).type for column in wanted}
    texts = [column.name for column in wanted if column.option == "text"]
    # Those of tokenized texts never pay.
    may_pay = [
        name
        for name, type_ in types.items()
        if name not in texts and (pa.types.is_string(type_) or pa.types.is_large_string(type_))
    ]
    # What the last row group showed; threads may change it at once, which affects speed alone.
    paying: set[str] = set()

    def reopened() -> pa.parquet.ParquetFile:
        return opened(metadata=metadata, read_dictionary=sorted(paying))

    def read_group(group: int) -> pa.Table:
        table = without_values(
            lambda: reopened().read_row_group(
                group, columns=list(columns), use_threads=metadata.num_row_groups == 1
            ),
            broken,
        )
        for name in may_pay:
            (paying.add if dictionary_pays(table[name]) else paying.discard)(name)
        return table

    def tables() -> Iterator[ReadTable]:
        # An empty table first, because a column without rows has a type, too.
        yield partial(pa.Table.from_batches, [], schema)
        for group in range(metadata.num_row_groups):
            rows, n_bytes = without_values(partial(_size, metadata, group, wanted), broken)
            if rows <= LARGEST_GROUP and n_bytes <= LARGEST_GROUP_BYTES:
                yield partial(read_group, group)
            else:
                file = without_values(reopened, broken)
                at_once = min(LARGEST_GROUP, 1 + rows * LARGEST_GROUP_BYTES // max(n_bytes, 1))
                batches = file.iter_batches(at_once, [group], columns=list(columns))
                yield from delimited.tables_of(batches, broken)

    return OpenFile(tables(), metadata.num_rows)


def dictionary_pays(cells: pa.ChunkedArray) -> bool:
    """Whether a column of text is better read as a dictionary.

    Where cells are alike, each distinct one is then hashed once. Where they are not, Arrow would
    build the dictionary row by row, which takes several times as long as reading the texts.
    """
    if pa.types.is_dictionary(cells.type):
        distinct = sum(len(chunk.dictionary) for chunk in cells.chunks)
    else:
        cells = cells.slice(0, FIRST_ROWS)
        distinct = pc.count_distinct(cells).as_py()
    return bool(distinct * ROWS_FOR_CELL <= len(cells))


def _size(metadata: Any, group: int, wanted: Sequence[Column]) -> tuple[int, int]:
    """Rows of a row group, and about how many bytes its wanted columns have uncompressed.

    The sizes of single columns would be exact, but reading them crashes the process if a file is
    damaged. A column of texts may be nearly all of a table.
    """
    stored = metadata.row_group(group)
    texts = any(column.option == "text" for column in wanted)
    share = 1.0 if texts else len(wanted) / max(len(wanted), metadata.num_columns)
    return stored.num_rows, int(stored.total_byte_size * share)


def _open(path: Path, pipes: Pipes | None = None) -> Any:
    source = str(path) if pipes is None or not is_pipe(path) else open_pipe(path, pipes)
    return without_values(
        lambda: pa.input_stream(source, compression=_compression(path)),
        f"{named(path)} cannot be opened",
    )


def _compression(path: Path) -> str | None:
    return COMPRESSIONS.get(path.suffix.lower())
