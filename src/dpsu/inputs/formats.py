"""File formats by suffix. Imports nothing, so that `dpsu --help` may."""

from __future__ import annotations

from pathlib import Path

FORMATS = ("parquet", "csv", "tsv", "jsonl")
STDIN = "-"
# A name that a cluster knows, not a file.
TABLE = "table"
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd"}
_SUFFIXES = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
}
KNOWN_SUFFIXES = ", ".join(f".{name}" for name in FORMATS)


def format_of(path: Path) -> str | None:
    """The format that a file's name says, below a suffix of compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None
