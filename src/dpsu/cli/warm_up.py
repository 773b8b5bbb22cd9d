"""`dpsu warm-up`: compile what usual releases need now, so that nobody waits for it later."""

from __future__ import annotations

import csv
import json
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from dpsu.cli.progress import shown_steps
from dpsu.cli.streams import to_stdout
from dpsu.errors import INPUT, OutputError

USERS = 400
# More than mechanisms that take a number of items are told to keep.
MOST_ITEMS = 250
DIFFERENT_ITEMS = 400
# More than the first tables of ids hold.
MANY = 20_000


@click.command("warm-up")
@click.option("--quiet", is_flag=True, help="No progress on stderr.")
def warm_up_command(quiet: bool) -> None:
    """Compile for this machine what usual releases need, and keep it.

    Otherwise the first release with each mechanism does so, and takes up to a minute longer: worth
    it for images, clusters and short jobs. Tiny releases of made-up data are made with every
    mechanism, from integers, texts, Parquet, CSV and JSON lines, and of words and n-grams.

    Compiled code is kept in NUMBA_CACHE_DIR if that is set, else beside the package or, where that
    cannot be written, in the cache folder of your user. It is for processors like this one; others
    compile anew. It is an error if it cannot be kept.
    """
    import dpsu
    from dpsu.runtime import machine_code
    from dpsu.runtime.compiling import when_compiling

    where: Any = "files of numba's own"
    if machine_code.usable():
        where = machine_code.writable_folder()
    if where is None:
        tried = " and ".join(map(str, machine_code.folders()))
        raise OutputError(
            f"compiled code cannot be kept, so that every process compiles anew: {tried} cannot be "
            "written; set NUMBA_CACHE_DIR to a folder that can be",
            exit_code=INPUT,
        )
    compiled = 0

    def count() -> None:
        nonlocal compiled
        compiled += 1
        tell(0, 0)

    with (
        tempfile.TemporaryDirectory(prefix="dpsu-") as folder,
        shown_steps("warming up", quiet) as tell,
        when_compiling(count),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", dpsu.DataWarning)
        releases = list(_releases(Path(folder)))
        for done, release in enumerate(releases):
            tell(done, len(releases))
            release()
    made = f"{len(releases)} releases of made-up data were made"
    new = f"{compiled:,} functions were compiled" if compiled else "nothing had to be compiled"
    to_stdout(f"{made}; {new}.\n")
    to_stdout(f"Compiled code is kept in {where}.\n")


def _releases(folder: Path) -> Iterator[Callable[[], Any]]:
    """Tiny releases, one for each way that kernels are called."""
    import dpsu
    from dpsu.cli.demo import mechanisms
    from dpsu.plans.mechanisms.base import PAPER

    def release(data: Any, item: Any, **options: Any) -> Callable[[], Any]:
        return lambda: dpsu.release(data, item=item, epsilon=1.0, delta=1e-5, **options)

    parquet, delimited, lines = _made_up(folder)
    many_ids = _many_ids(folder)
    for mechanism in mechanisms():
        if mechanism.calibrated != PAPER:
            for item in ("item", "number"):
                yield release(parquet, item, user="user", mechanism=mechanism)
    yield release(parquet, "item", user="user")
    for data in (delimited, lines):
        for user in ("user", "name"):
            yield release(data, "item", user=user)
            yield release(data, dpsu.Items("number", type="integer"), user=user)
    yield release(many_ids, "item", user="user")
    yield release(many_ids, "number", user="id")
    yield release(parquet, ["item", "number"], user=["user", "name"])
    yield release(parquet, "item", user="name", counts=True)
    for ngrams in (1, 2, (1, 3)):
        yield release(lines, dpsu.Tokens("text", ngrams=ngrams), user="user")
    for tokenizer in ("sentences", "lines"):
        yield release(parquet, dpsu.Tokens("text", tokenizer=tokenizer), user="user")
    for data in (parquet, delimited, lines):
        yield release(data, dpsu.Tokens("text"), user="name", mechanism="ngrams")


def _made_up(folder: Path) -> tuple[Path, Path, Path]:
    """The same rows of nobody as Parquet, CSV and JSON lines."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = []
    state = 1
    for user in range(USERS):
        for place in range(1 + user % MOST_ITEMS):
            # Marsaglia's xorshift: some items are common, others rare.
            state ^= (state << 13) & 0xFFFFFFFF
            state ^= state >> 17
            state ^= (state << 5) & 0xFFFFFFFF
            number = state % (1 + state // 7 % DIFFERENT_ITEMS)
            rows.append(
                {
                    "user": user,
                    "name": f"somebody {user}",
                    "item": f"something {number}",
                    "number": number,
                    "text": f"This is number {number}.\nIt isn't {place}, is it?",
                }
            )
    parquet, delimited, lines = (folder / f"made-up.{end}" for end in ("parquet", "csv", "jsonl"))
    pq.write_table(pa.Table.from_pylist(rows), parquet)
    with delimited.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return parquet, delimited, lines


def _many_ids(folder: Path) -> Path:
    """Many different ids that are far from each other: their tables grow."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    far = [place << 32 for place in range(MANY)]
    columns: dict[str, Any] = {
        "user": far,
        "number": far,
        "item": [f"something {place}" for place in range(MANY)],
        "id": pa.array([place.to_bytes(16, "big") for place in range(MANY)], pa.uuid()),
    }
    path = folder / "many.parquet"
    pq.write_table(pa.table(columns), path)
    return path
