"""File formats by suffix.

This file imports nothing, so that `dpsu --help` may import it.
"""

from __future__ import annotations

from pathlib import Path

FORMATS = ("parquet", "csv", "tsv", "jsonl")
STDIN = "-"
# The name of a table of a cluster, not of a file.
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
    """The format by the suffix of a file's name, without a suffix of compression."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None
