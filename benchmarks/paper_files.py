"""The files that the data of the papers come in: CSV, also in a zip, Parquet, XML, a folder.

Everything is read in pieces, and only the columns that are asked for. All text is UTF-8. Errors
name the path that was typed, what was expected and the fix. They never repeat a cell, and not even
the header, which in a file without one is somebody's row.
"""

from __future__ import annotations

import csv
import gzip
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path, PurePosixPath
from shutil import copyfileobj, disk_usage
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from dpsu.errors import DataError, ParameterError, ResourceError, without_values

# A row must fit into a block, and there are mails and medical papers of megabytes.
BLOCK = 1 << 25
LONGEST_HEADER = 1 << 16
PIECE = 4096
LABELED = ("train/pos", "train/neg", "test/pos", "test/neg")


@dataclass(frozen=True)
class Expected:
    """What a loader must be given, for the errors when it is not.

    Parameters
    ----------
    name
        The loader's name.
    files
        The names that the files have at their source; any one of them will do.
    source
        Where they are from.
    """

    name: str
    files: tuple[str, ...]
    source: str

    def __str__(self) -> str:
        return f"{self.name} expects {' or '.join(map(repr, self.files))} from {self.source}"


def csv_tables(path: Path, columns: Sequence[str], expected: Expected) -> Iterator[pa.Table]:
    """Columns of a CSV file with a header, as text, block by block.

    The file may be compressed: ``.gz``, or ``.zip`` as Kaggle and GitHub give it, which is unpacked
    to the folder for temporary files. An empty cell is missing, whether or not it has quotes. The
    words NA, null and nan are words.

    Parameters
    ----------
    path
        The file as it was typed.
    columns
        The wanted columns, in the order of the result. Others are not interpreted.
    expected
        For errors, and for the file to take from an archive of several.

    Yields
    ------
    pyarrow.Table
        The rows of one block.
    """
    check_file(path, expected)
    broken = (
        f"{str(path)!r} is damaged, is not CSV in UTF-8, has cells that do not line up under its "
        f"header, or has a row of over {BLOCK >> 20} MB; {expected}; download it again"
    )
    with _unpacked(path, expected, broken) as plain:
        header = without_values(lambda: _header(plain), broken)
        for name in columns:
            if header.count(name) != 1:
                raise DataError(
                    f"{str(path)!r} does not have one column {name!r} in its first line; "
                    f"{expected}, with the columns {', '.join(map(repr, columns))}; give that "
                    "file, or use the loader that fits this one"
                )
        reader = without_values(
            lambda: pa.csv.open_csv(
                _open(plain),
                read_options=pa.csv.ReadOptions(block_size=BLOCK),
                parse_options=pa.csv.ParseOptions(newlines_in_values=True),
                convert_options=pa.csv.ConvertOptions(
                    include_columns=list(columns),
                    column_types={name: pa.string() for name in columns},
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            ),
            broken,
        )
        while (batch := without_values(lambda: next(reader, None), broken)) is not None:
            yield pa.Table.from_batches([batch])


def parquet_texts(path: Path, column: str, expected: Expected) -> Iterator[pa.Array]:
    """One column of texts of a Parquet file, piece by piece."""
    check_file(path, expected)
    broken = f"{str(path)!r} is not a Parquet file, or it is damaged; {expected}; make it again"
    file = without_values(lambda: pa.parquet.ParquetFile(path), broken)
    schema = file.schema_arrow
    texts = (pa.string(), pa.large_string())
    if column not in schema.names or schema.field(column).type not in texts:
        raise DataError(
            f"{str(path)!r} does not have a column {column!r} of texts; {expected}; keep that "
            "column when you convert it"
        )
    batches = file.iter_batches(PIECE, columns=[column])
    while (batch := without_values(lambda: next(batches, None), broken)) is not None:
        yield batch.column(0).cast(pa.string())


def xml_texts(path: Path, element: str, inside: str, expected: Expected) -> Iterator[pa.Array]:
    """The text of one child of every such element, piece by piece; ``.gz`` is decompressed.

    Parameters
    ----------
    path
        The file as it was typed.
    element
        The name of the elements below the root, one a document.
    inside
        The name of the child that holds the text. Where there is none, the text is missing.
    expected
        For errors.

    Yields
    ------
    pyarrow.Array
        Texts in the order of the file.
    """
    check_file(path, expected)
    broken = f"{str(path)!r} is not XML in UTF-8, or it is damaged; {expected}; download it again"
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    found = 0
    with without_values(lambda: opener(path, "rb"), broken) as file:
        texts = _texts_inside(file, element, inside)
        while piece := without_values(lambda: list(islice(texts, PIECE)), broken):
            found += len(piece)
            yield pa.array(piece, pa.string())
    if not found:
        raise DataError(
            f"{str(path)!r} has no elements <{element}>; {expected}; give the dump of abstracts, "
            "not the one of pages"
        )


def labeled_reviews(folder: Path, expected: Expected) -> Iterator[pa.Array]:
    """The texts below the folders of labeled reviews, one a file, by name, piece by piece."""
    paths: list[Path] = []
    for name in LABELED:
        inside = sorted((folder / name).glob("*.txt"))
        if not inside:
            raise DataError(
                f"folder {str(folder)!r} has no texts in {name!r}; {expected}; give the folder "
                f"that holds {', '.join(map(repr, LABELED))}"
            )
        paths += inside
    for start in range(0, len(paths), PIECE):
        yield without_values(
            partial(_whole_texts, paths[start : start + PIECE]),
            f"folder {str(folder)!r} has a file that cannot be read as UTF-8; {expected}; unpack "
            "it again",
        )


def _whole_texts(paths: Sequence[Path]) -> pa.Array:
    return pa.array([path.read_bytes().decode("utf-8") for path in paths], pa.string())


def check_file(path: Path, expected: Expected) -> None:
    """Refuse what is not a file, or has nothing in it."""
    if path.is_dir():
        raise ParameterError(f"{str(path)!r} is a folder; {expected}; give the file in it")
    if not path.is_file():
        raise ParameterError(
            f"there is no file {str(path)!r}; {expected}; correct the path, or download it"
        )
    if path.stat().st_size == 0:
        raise DataError(f"{str(path)!r} is empty; {expected}; download it again")


def _header(path: Path) -> list[str]:
    with _open(path) as source:
        start: bytes = source.read(LONGEST_HEADER)
    first = start.splitlines()[0] if start else b""
    return next(csv.reader([first.decode("utf-8-sig")]), [])


def _open(path: Path) -> Any:
    compression = "gzip" if path.suffix.lower() == ".gz" else None
    return pa.input_stream(str(path), compression=compression)


@contextmanager
def _unpacked(path: Path, expected: Expected, broken: str) -> Iterator[Path]:
    """The file itself, or the one that is wanted of an archive, for as long as it is read.

    Reading from the archive would save the room, but Arrow reads ahead in threads, and one that is
    inside Python's unpacking when an error ends the interpreter aborts the process.
    """
    if path.suffix.lower() != ".zip":
        yield path
        return
    with TemporaryDirectory() as folder:
        plain = Path(folder) / "unpacked"
        without_values(lambda: _unpack(path, plain, expected), broken)
        yield plain


def _unpack(path: Path, plain: Path, expected: Expected) -> None:
    with zipfile.ZipFile(path) as archive:
        members = [m for m in archive.namelist() if not m.endswith("/") and "__MACOSX" not in m]
        # An archive of one file is that file, however it was renamed.
        wanted = [m for m in members if PurePosixPath(m).name in expected.files] or members
        if len(wanted) != 1:
            raise DataError(
                f"{str(path)!r} does not hold exactly one such file; {expected}; unpack it and "
                "give that file"
            )
        needed, free = archive.getinfo(wanted[0]).file_size, disk_usage(plain.parent).free
        if needed > free:
            raise ResourceError(
                f"{str(path)!r} needs {needed >> 20:,} MB for temporary files, and there are "
                f"{free >> 20:,}; unpack it elsewhere and give that file, or set TMPDIR"
            )
        with archive.open(wanted[0]) as packed, plain.open("wb") as out:
            copyfileobj(packed, out, 1 << 20)


def _texts_inside(file: Any, element: str, inside: str) -> Iterator[str | None]:
    root = None
    for event, node in ElementTree.iterparse(file, events=("start", "end")):
        if root is None:
            root = node
        if event == "end" and node.tag == element:
            yield node.findtext(inside)
            # The root keeps all of its children otherwise, and the dump is gigabytes.
            root.clear()
