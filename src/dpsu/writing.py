"""Results on disk: the format by suffix, the file whole or not at all."""

from __future__ import annotations

import contextlib
import csv
import json
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsu.errors import OutputError, ParameterError

if TYPE_CHECKING:
    from dpsu.release import Release

SUFFIXES = (".txt", ".csv", ".parquet", ".json")
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})


def check_writable(path: Path, suffixes: tuple[str, ...] = SUFFIXES) -> None:
    """Find out before the work, not after it, that a file cannot be written."""
    if suffixes and path.suffix not in suffixes:
        raise ParameterError(
            f"cannot write {path.name!r}: its name must end in {', '.join(suffixes)}"
        )
    folder = path.parent
    if path.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: it is a folder")
    if not folder.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: there is no folder {str(folder)!r}")
    probe = _beside(path)
    try:
        probe.touch(exist_ok=False)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror}") from None
    probe.unlink()


def write_release(release: Release, path: Path) -> None:
    """Write the items in the format that the suffix names."""
    check_writable(path)
    if path.suffix == ".parquet":
        import pyarrow.parquet

        write_whole(path, lambda file: pyarrow.parquet.write_table(release.to_arrow(), file))
    elif path.suffix == ".csv":
        write_whole(path, lambda file: _write_csv(release, file))
    elif path.suffix == ".json":
        listed: Any = release.items
        if release.counts is not None:
            listed = release.to_arrow().to_pylist()
        write_text(path, json.dumps(listed, ensure_ascii=False, indent=0) + "\n")
    else:
        write_text(path, "".join(f"{line}\n" for line in lines(release)))


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_whole(path, lambda file: file.write_bytes(text.encode()))


def lines(release: Release) -> list[str]:
    """One line per item, with its count behind a tab; what would break a line is escaped."""
    items = [str(item).translate(_ESCAPES) for item in release.items]
    if release.counts is None:
        return items
    counts = release.counts.to_pylist()
    return [
        "{}\t{}".format(item.replace("\t", "\\t"), count)
        for item, count in zip(items, counts, strict=True)
    ]


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Write beside the target and rename, so that nobody ever sees half a file."""
    partial = _beside(path)
    try:
        write(partial)
        partial.replace(path)
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            partial.unlink()


def _write_csv(release: Release, file: Path) -> None:
    with file.open("w", encoding="utf-8", newline="") as handle:
        # Text is always quoted: an empty item is not a missing one, and carriage returns survive.
        writer = csv.writer(handle, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
        table = release.to_arrow()
        writer.writerow(table.column_names)
        writer.writerows(zip(*(column.to_pylist() for column in table.columns), strict=True))


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
