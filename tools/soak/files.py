"""Damaged files: bits flipped, parts cut, doubled, swapped or put in, of every format.

A release of such a file may succeed, or be refused by an error of this package, and so may a plan
with one of public items. It must not end in any other way, must not say a private value, and must
not release what one user holds.
"""

from __future__ import annotations

import gzip
import io
import os
import random
import resource
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import dpsu
from dpsu.inputs.formats import COMPRESSIONS
from tools.soak import data
from tools.soak.batches import everything_said, in_batches, leaks, unexpected
from tools.soak.cases import Attack, Room, Verdict
from tools.soak.promises import breakdowns

USERS = 60
SILENCE = 180.0  # seconds for one file
ROOM_TO_GROW = 3 << 30
# What tends to mean something to a parser.
TOKENS = (
    b"\x00", b"\xff" * 4, b"\x00" * 8, b"\xff" * 8, b"\x7f\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x01",
    b'"', b"\n", b"\r", b",", b"\t", b"\\", b"{", b"}", b"[", b":", b"null", b"NaN", b"1e999",
    b"-9223372036854775809", b"\xed\xa0\x80", b"\xc3", b"\xef\xbb\xbf", b"PAR1", b"PARE",
    b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"user,item\n", b'{"user":', b'"item":', b"\\ud800",
)  # fmt: skip
OPTIONS: tuple[Mapping[str, Any], ...] = (
    {"mechanism": "weighted-gaussian"},
    {"mechanism": "weighted-laplace"},
    {"mechanism": "policy-laplace"},
    {"mechanism": "count-gaussian", "strict": True},
    {"mechanism": "weighted-laplace", "memory_limit": 0},
    {"mechanism": "weighted-laplace", "item": dpsu.Tokens("item")},
    {"mechanism": "greedy"},
    {"mechanism": "sieve"},
    {"public_items": True},
)


def _run(seeds: Sequence[int], room: Room) -> list[Verdict]:
    return in_batches(seeds, room, _prepare, SILENCE)


def _prepare(folder: Path) -> Callable[[int], list[str]]:
    _limit_memory()
    said = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
    # Libraries print to these without asking Python.
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    originals = valid_files()

    def case(seed: int) -> list[str]:
        said.seek(0)
        said.truncate()
        troubles = _case(random.Random(seed), originals, folder)
        said.seek(0)
        printed = said.read().decode(errors="replace")
        return troubles + leaks(printed, "printed") + breakdowns(printed)

    return case


def _limit_memory() -> None:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[0])
    limit = pages * resource.getpagesize() + ROOM_TO_GROW
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _case(rng: random.Random, originals: Mapping[str, bytes], folder: Path) -> list[str]:
    name, options = rng.choice(NAMES), rng.choice(OPTIONS)
    content = damaged(originals[name], originals, rng, parquet="parquet" in name)
    path = folder / f"rows{name[name.index('.') :]}"
    path.write_bytes(content)
    troubles: list[str] = []
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            if "public_items" in options:
                dpsu.plan(epsilon=1, delta=1e-6, public_items=path)
                return []
            found = dpsu.release(path, epsilon=data.EPSILON, delta=data.DELTA, **options)
            troubles += _must_not_come_out(found.items, path, options)
            found.report()
        except dpsu.DpsuError as error:
            troubles += leaks(everything_said(error), "said in an error")
        except Exception as error:
            troubles += [unexpected(error), *leaks(everything_said(error), "said in an error")]
    for warning in told:
        troubles += leaks(str(warning.message), "said in a warning")
        if not issubclass(warning.category, dpsu.DataWarning):
            troubles.append(f"warns of {warning.category.__name__}: {str(warning.message)[:100]}")
    return [f"{name}, {dict(options)}: {trouble}" for trouble in troubles]


def _lines_of(path: Path, item: str) -> set[bytes]:
    """Different lines that name an item: damage to compressed bytes may write it into others."""
    import pyarrow as pa

    content = pa.input_stream(str(path), compression=COMPRESSIONS[path.suffix]).read()
    return {line for line in content.split(b"\n") if item.encode() in line}


def _raw(column: Any) -> list[Any]:
    """Cells as they are stored: texts that the damage made invalid cannot be decoded."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    cells: list[Any] = (column.cast(pa.large_binary()) if text else column).to_pylist()
    return cells


def _must_not_come_out(
    items: Sequence[str | int], path: Path, options: Mapping[str, Any]
) -> list[str]:
    """Items of one user, unless the damage itself gave them to many (dictionaries, copies)."""
    secrets = [item for item in items if data.private_piece(str(item), (data.SECRET_MARK,))]
    if secrets and path.suffix in COMPRESSIONS and "item" not in options:
        return [f"releases {item!r}" for item in secrets if len(_lines_of(path, str(item))) < 3]
    if not secrets or "item" in options or ".parquet" not in path.name:
        return [f"releases {secrets[0]!r}"] if secrets else []
    import pyarrow as pa
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.read_table(path, columns=["user", "item"])
        users, held = (_raw(table[name]) for name in ("user", "item"))
    except (pa.ArrowException, OSError, KeyError):
        return [f"releases {secrets[0]!r} of a file that cannot be read"]
    holders = {
        item: {u for u, i in zip(users, held, strict=True) if i in (item, str(item).encode())}
        for item in secrets
    }
    return [f"releases {item!r} of {len(u)} users" for item, u in holders.items() if len(u) < 3]


def damaged(
    content: bytes, originals: Mapping[str, bytes], rng: random.Random, *, parquet: bool
) -> bytes:
    """The content after one to four accidents."""
    made = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        rng.choice(ACCIDENTS)(made, _place(made, rng, parquet=parquet), rng)
    if rng.random() < 0.03:
        made += originals[rng.choice(NAMES)]
    return bytes(made)


def _place(content: bytearray, rng: random.Random, *, parquet: bool) -> int:
    """Anywhere, but often where structure is: in the footer of Parquet, in the header of others."""
    if not content:
        return 0
    if rng.random() < 0.4:
        last = min(len(content), 700 if parquet else 40)
        return len(content) - rng.randint(1, last) if parquet else rng.randrange(last)
    return rng.randrange(len(content))


def _flip(content: bytearray, at: int, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 2, 8))):
        if content:
            content[min(at + rng.randrange(16), len(content) - 1)] ^= 1 << rng.randrange(8)


def _overwrite(content: bytearray, at: int, rng: random.Random) -> None:
    token = rng.choice((rng.choice(TOKENS), rng.randbytes(rng.randint(1, 30))))
    content[at : at + len(token)] = token


def _insert(content: bytearray, at: int, rng: random.Random) -> None:
    content[at:at] = rng.choice((rng.choice(TOKENS), rng.randbytes(rng.randint(1, 300))))


def _truncate(content: bytearray, at: int, rng: random.Random) -> None:
    del content[at:]


def _cut(content: bytearray, at: int, rng: random.Random) -> None:
    del content[at : at + rng.choice((1, 8, 100, 1000))]


def _double(content: bytearray, at: int, rng: random.Random) -> None:
    content[at:at] = content[at : at + rng.choice((1, 8, 100, 3000))]


def _swap(content: bytearray, at: int, rng: random.Random) -> None:
    size = rng.choice((8, 64, 512))
    if len(content) < 2 * size:
        return
    one, other = sorted((min(at, len(content) - size), rng.randrange(len(content) - size)))
    other = max(other, one + size)
    if other + size <= len(content):
        kept = content[one : one + size]
        content[one : one + size] = content[other : other + size]
        content[other : other + size] = kept


ACCIDENTS = (_flip, _flip, _overwrite, _insert, _truncate, _cut, _double, _swap)
PARQUET: Mapping[str, Mapping[str, Any]] = {
    "plain.parquet": {"use_dictionary": False, "compression": "NONE"},
    "dictionary.parquet": {"compression": "NONE"},
    "snappy.parquet": {"compression": "SNAPPY", "row_group_size": 50},
    "zstd.parquet": {"compression": "ZSTD", "data_page_version": "2.0"},
    "gzip.parquet": {"compression": "GZIP", "write_page_checksum": True},
    "numbers.parquet": {"compression": "NONE", "version": "1.0"},
}
TEXT = ("rows.csv", "rows.tsv", "rows.jsonl", "numbers.jsonl")
NAMES = (*PARQUET, *TEXT, *(f"{name}{end}" for name in TEXT[:3] for end in (".gz", ".zst")))


def valid_files() -> dict[str, bytes]:
    """A file of each kind that can be read, before anything happens to it."""
    import json

    import pyarrow as pa
    import pyarrow.parquet

    pairs = data.rows(USERS)
    table = pa.table({"user": [u for u, _ in pairs], "item": [i for _, i in pairs]})
    numbers = pa.table({
        "user": pa.array([int(u.rpartition("r")[2]) for u, _ in pairs], pa.int32()),
        "item": pa.array([n if n % 4 else 4 * n for n in range(len(pairs))]),
    })  # fmt: skip
    made = {}
    for name, options in PARQUET.items():
        buffer = io.BytesIO()
        pyarrow.parquet.write_table(numbers if "numbers" in name else table, buffer, **options)
        made[name] = buffer.getvalue()
    made["rows.csv"], made["rows.tsv"] = data.as_csv(USERS), data.as_csv(USERS, "\t")
    made["rows.jsonl"] = data.as_json_lines(USERS)
    made["numbers.jsonl"] = "".join(
        json.dumps({"user": n, "item": i}) + "\n" for n in range(USERS) for i in (1, 2, 1000 + n)
    ).encode()
    for name in TEXT[:3]:
        made[f"{name}.gz"] = gzip.compress(made[name], mtime=0)
        made[f"{name}.zst"] = pa.compress(made[name], codec="zstd", asbytes=True)
    return made


FILES = Attack(
    "files", 0.3, 200, "files",
    "Parquet (six kinds), CSV, TSV, JSON lines, gzip, zstd; bits, tokens, cuts, doubles, swaps",
    _run,
)  # fmt: skip
