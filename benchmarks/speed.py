"""What a private release costs, beside the plain GROUP BY that is not private.

    python benchmarks/speed.py S M            ours against DuckDB and Polars, table and JSON
    python benchmarks/speed.py M --format csv the same from CSV
    python benchmarks/speed.py XL --engines policy-gaussian   one of them alone
    python benchmarks/speed.py M L --before TREE   with the default of an older tree beside ours

Every measurement is a process of its own that does the work three times and reports the better of
the last two (warm) beside the first (cold: page cache and loading of compiled kernels included).
All of one size run in one session, one after the other, and only ratios should be read: machines
are noisy. The baseline is `SELECT item, COUNT(DISTINCT user) FROM t GROUP BY item`, written to
Parquet.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
# Users and items; sets are log-normal (median 20, mean 36), popularity is Zipf with exponent 1.05.
SIZES = {
    "S": (10_000, 250_000),
    "M": (223_000, 250_000),
    "L": (1_000_000, 250_000),
    "100M": (2_770_000, 250_000),  # that many rows, for Spark
    "XL": (10_000_000, 250_000),
    "XXL": (27_800_000, 3_000_000),  # a billion rows, items as integers
}
EXPLANATION = """\
What a private release costs, from the Parquet file to the written result, beside the query that
everyone runs without thinking and that is not private: `SELECT item, COUNT(DISTINCT user) FROM t
GROUP BY item` in DuckDB and in Polars. Made by `make bench` and `python benchmarks/speed.py L XL`:
epsilon 3, delta e^-10, at most 100 items per user (greedy and bits: all; sieve: 3000 scouted and
300 decided on, in 20 rounds or in 6). *Default* names no mechanism: an estimate chooses, and takes
sieve here; *default before* is `sieve` with 14 rounds, the default of an older version, in the same
run: six more rounds and the estimate take a quarter to a third more time, and release more.
Machines are noisy: read ratios, and read them as one run. *Cold* is the first call in a process,
which loads the compiled kernels.

Our aim is at most 1.0 times the faster of the two, in time and in memory, from Parquet. It is met
at 8 million rows and more; below half a million the fixed costs of a call show, and memory is that
of the compiler. *Bytes/row* is the peak above what the process took before the work began. Text
formats cost more: no type is guessed from values, and the reader of CSV allows line breaks inside
quotes. Single ratios move by 0.1 to 0.2 between runs. XXL is one run from start to end; what did
not fit in 60 % of the 23 GB that were available went to disk.

![Seconds and peak memory against rows](../images/speed.svg)"""
BASELINES = ["duckdb", "polars"]
OURS = [
    "count-gaussian",
    "weighted-gaussian",
    "weighted-laplace",
    "policy-gaussian",
    "policy-laplace",
    "greedy",
    "reroute",
    "sips",
    "sieve-6",
    "sieve",
    "bits",
    "default",
]
BEFORE = "default before"  # fmt: skip


def make(size: str, format_: str, folder: Path, seed: int = 1) -> Path:
    """Write a data set of this size, rows in random order within blocks."""
    path = folder / f"{size}.{format_}"
    if path.exists():
        return path
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    users, n_items = SIZES[size]
    rng = np.random.default_rng(seed)
    popularity = np.cumsum(1.0 / np.arange(1, n_items + 1) ** 1.05)
    popularity /= popularity[-1]
    shuffled = rng.permutation(n_items)
    names = pa.array(shuffled if size == "XXL" else [f"word{k:x}" for k in shuffled])
    partial = path.with_suffix(".partial")
    writer: Any = None
    block = 100_000
    for first in range(0, users, block):
        drawn = rng.lognormal(np.log(20), 1.1, min(block, users - first))
        sizes = np.clip(drawn, 1, 2000).astype(np.int64)
        user = np.repeat(np.arange(first, first + len(sizes)), sizes)
        item = np.searchsorted(popularity, rng.random(len(user))).astype(np.int32)
        mixed = rng.permutation(len(user))
        table = pa.table({"user": user[mixed], "item": names.take(pa.array(item[mixed]))})
        if format_ == "jsonl":
            import polars as pl

            with partial.open("ab") as file:
                pl.from_arrow(table).write_ndjson(file)  # type: ignore[union-attr]
            continue
        if writer is None and format_ == "parquet":
            writer = pa.parquet.ParquetWriter(partial, table.schema)
        elif writer is None:
            writer = pa.csv.CSVWriter(str(partial), table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()
    partial.rename(path)
    return path


def work(engine: str, path: Path, out: Path) -> Callable[[], None]:
    """The work of one engine on one file."""
    if engine == "duckdb":
        import duckdb

        query = f"select item, count(distinct \"user\") from '{path}' group by item"

        def queried() -> None:
            duckdb.sql(f"copy ({query}) to '{out}' (format parquet)")

        return queried
    if engine == "polars":
        import polars as pl

        scan = {".parquet": pl.scan_parquet, ".csv": pl.scan_csv, ".jsonl": pl.scan_ndjson}

        def grouped() -> None:
            lazy = scan[path.suffix](path)  # type: ignore[operator]
            counted = lazy.group_by("item").agg(pl.col("user").n_unique())
            counted.collect(engine="streaming").write_parquet(out)

        return grouped
    import math

    import dpsu
    import dpsu.engines.local

    mechanism, _, rounds = engine.partition("-") if engine == "sieve-6" else (engine, "", "")
    named: dict[str, Any] = {}
    if engine not in ("default", BEFORE):
        options: dict[str, Any] = {"rounds": int(rounds)} if rounds else {}
        if mechanism not in ("greedy", "sieve", "bits"):
            options["max_items"] = 100
        named["mechanism"] = dpsu.mechanism(mechanism, **options)

    def released() -> None:
        found = dpsu.release(path, epsilon=3, delta=math.exp(-10), **named)
        found.write(out)

    return released


def measure(engine: str, path: Path) -> dict[str, float]:
    """Run in this process: wall and CPU seconds, cold and warm, and the peak of memory.

    The peak is that of the process and of the largest it started; what was there before the work
    began, which is the interpreter and the engine itself, is told beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        call = work(engine, path, Path(folder) / "out.parquet")
        before = _peak()
        times: list[tuple[float, float]] = []
        for _ in range(1 if path.stem == "XXL" else 3):
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            times.append((time.perf_counter() - wall, time.process_time() - cpu))
    warm = min(times[1:] or times)
    return {
        "cold_s": times[0][0], "warm_s": warm[0], "warm_cpu_s": warm[1], "peak_mb": _peak(),
        "before_mb": before,
    }  # fmt: skip


def _peak() -> float:
    """Largest resident memory so far, in MB, of this process and its largest child."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(one).ru_maxrss for one in who) * 1024 / 1e6


def in_a_process(engine: str, path: Path, before: Path | None = None) -> dict[str, float]:
    """Measure in a fresh process, so that peaks of memory do not mix."""
    older = {"PYTHONPATH": str(before / "src")} if before is not None and engine == BEFORE else {}
    done = subprocess.run(
        [sys.executable, __file__, "--measure", engine, str(path)],
        capture_output=True, text=True, check=True, env=os.environ | older,
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    size: str, format_: str, folder: Path, engines: list[str], before: Path | None = None
) -> dict[str, Any]:
    """All engines on one data set."""
    path = make(size, format_, folder)
    rows = _rows(path)
    found = {}
    for engine in engines:
        print(f"{size} {format_}: {engine} ...", file=sys.stderr, flush=True)
        found[engine] = in_a_process(engine, path, before)
    return {"size": size, "format": format_, "rows": rows, "engines": found}


def _rows(path: Path) -> int:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        return int(pyarrow.parquet.ParquetFile(path).metadata.num_rows)
    with path.open("rb") as file:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 24), b""))


def table(result: dict[str, Any], heading: str = "") -> str:
    """One data set as a Markdown table; ratios are to the faster of the two baselines."""
    engines = result["engines"]
    base = [engines[name] for name in BASELINES if name in engines]
    fastest = min((b["warm_s"] for b in base), default=float("nan"))
    smallest = min((b["peak_mb"] for b in base), default=float("nan"))
    lines = [
        f"{heading}{result['size']}, {result['format']}: {result['rows']:,} rows",
        "",
        "| | warm s | x fastest | CPU s | cold s | peak MB | x smallest | bytes/row |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, m in engines.items():
        shown = f"{name} (not private)" if name in BASELINES else name
        lines.append(
            f"| {shown} | {m['warm_s']:.2f} | {_ratio(m['warm_s'], fastest)} | "
            f"{m['warm_cpu_s']:.2f} | {m['cold_s']:.2f} | {m['peak_mb']:.0f} | "
            f"{_ratio(m['peak_mb'], smallest)} | "
            f"{(m['peak_mb'] - m['before_mb']) * 1e6 / result['rows']:.0f} |"
        )
    return "\n".join(lines)


def _ratio(value: float, base: float) -> str:
    """Nothing where no baseline was measured."""
    return f"{value / base:.2f}" if base == base else ""  # noqa: PLR0124


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description="Speed beside a plain GROUP BY.")
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--format", choices=["parquet", "csv", "jsonl"], default="parquet")
    parser.add_argument("--engines", nargs="+", choices=[*BASELINES, *OURS], metavar="ENGINE")
    parser.add_argument("--before", type=Path, metavar="TREE", help="an older tree of sources")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsu-speed")
    parser.add_argument("--measure", nargs=2, metavar=("ENGINE", "FILE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        print(json.dumps(measure(chosen.measure[0], Path(chosen.measure[1]))))
        return
    if not chosen.sizes or set(chosen.sizes) - set(SIZES):
        parser.error(f"name sizes of {', '.join(SIZES)}")
    chosen.data.mkdir(parents=True, exist_ok=True)
    engines = chosen.engines or [*BASELINES, *OURS]
    engines += [BEFORE] if chosen.before is not None else []
    for size in chosen.sizes:
        result = compare(size, chosen.format, chosen.data, engines, chosen.before)
        result |= {
            "date": datetime.now(UTC).date().isoformat(),
            "machine": {"cores": os.cpu_count(), "system": platform.platform()},
            "versions": {
                name: version(name)
                for name in ("dpsu", "duckdb", "numba", "numpy", "polars", "pyarrow")
            },
        }
        print(table(result))
        RESULTS.mkdir(exist_ok=True)
        target = RESULTS / f"speed-{size}-{chosen.format}.json"
        target.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
