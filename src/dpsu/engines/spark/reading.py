"""Open files, folders and tables with Spark: it guesses no type and ignores no header."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import ParameterError
from dpsu.inputs.files import ends_in_return, expand, warn_of_hidden
from dpsu.inputs.formats import TABLE, format_of
from dpsu.inputs.pipes import is_pipe

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

READ = ("parquet", "csv", "tsv", TABLE)
# A row with more cells ends the run. Spark's default of 20,480 is reached by a row of 20 KB.
MOST_CELLS = 1 << 20


def open_frame(session: SparkSession, sources: Sequence[str], format_: str | None) -> DataFrame:
    """One frame of all sources, which have one format.

    Names may be paths, folders, globs or addresses that Spark knows (``s3a://``, ``hdfs://``), and
    with the format ``table`` names of tables.
    """
    kind = format_ or _format(sources)
    if kind not in READ or any(is_pipe(Path(each)) for each in sources):
        raise ParameterError(
            f"Spark reads {', '.join(READ)} here, and no pipes; read anything else with Spark "
            "yourself and call dpsu.spark.release"
        )
    if kind == TABLE:
        frame = session.table(sources[0])
        for name in sources[1:]:
            frame = frame.unionByName(session.table(name))
        return frame
    paths = _paths(sources, kind)
    if kind == "parquet":
        return session.read.parquet(*paths)
    # By what is behind the header: names of columns are those of all files of a frame.
    returns = [path for path in paths if "://" not in path and ends_in_return(Path(path), kind)]
    others = [path for path in paths if path not in returns]
    read = [_read_csv(session, some, kind) for some in (returns, others) if some]
    return read[0] if len(read) == 1 else read[0].unionByName(read[1])


def _read_csv(session: SparkSession, paths: list[str], kind: str) -> DataFrame:
    """Read cells as text; all cells of a row that has too few or too many are null.

    A row ends at a line feed, whichever line breaks others have, and a return before it is none of
    its cells.
    """
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType

    options: dict[str, Any] = {
        "sep": "\t" if kind == "tsv" else ",",
        "header": True,
        # The header of every file is checked: columns in another order would be mixed up.
        "enforceSchema": False,
        # An empty cell is missing, a quoted empty one is an empty text. Spark tells them apart only
        # if missing cells have a value of their own, which no file has.
        "nullValue": "\0missing\0",
        "emptyValue": "",
        "quote": '"',
        "escape": '"',
        "multiLine": True,
        "mode": "PERMISSIVE",
        "encoding": "UTF-8",
        "maxColumns": MOST_CELLS,
        # Or else Spark takes the line break behind the header for that of all rows.
        "lineSep": "\n",
    }
    schema = session.read.csv(paths, inferSchema=False, **options).schema
    names = list(schema.names)
    broken = "broken"
    while broken in names:
        broken += "_"
    frame = session.read.schema(schema.add(broken, StringType())).csv(
        paths, columnNameOfCorruptRecord=broken, **options
    )
    whole = f.col(broken).isNull()
    *cells, last = (frame[at] for at in range(len(names)))
    cells.append(f.when(last != "\r", f.regexp_replace(last, r"\r\z", "")))
    names[-1] = names[-1].removesuffix("\r")
    return frame.select(
        *(f.when(whole, cell).alias(name) for cell, name in zip(cells, names, strict=True))
    )


def _format(sources: Sequence[str]) -> str:
    named = [[Path(each)] if "://" in each else expand([each]) for each in sources]
    kinds = {format_of(path) for paths in named for path in paths}
    if len(kinds) != 1 or None in kinds:
        raise ParameterError(
            "files must have one format that their names say; or give {format}", format=...
        )
    return str(kinds.pop())


def _paths(sources: Sequence[str], kind: str) -> list[str]:
    """Paths of single files, each once; in a folder, Spark would read files of any format."""
    remote = dict.fromkeys(source for source in sources if "://" in source)
    local = [source for source in sources if source not in remote]
    found = [
        path for path in expand(local, kind, warn_of_hidden) if format_of(path) in (kind, None)
    ]
    if any(path.suffix.lower() == ".zst" for path in found):
        raise ParameterError("Spark reads no .zst files here; decompress them, or use .gz")
    return [*remote, *(str(path.resolve()) for path in found)]
