"""What a private release costs, beside the plain GROUP BY that is not private.

    python -m benchmarks.speed S M            ours against DuckDB and Polars, table and JSON
    python -m benchmarks.speed M L --shapes   the same rows in every shape, or in some
    python -m benchmarks.speed M --before FOLDER   CPU time beside an earlier checkout, alternating
    python -m benchmarks.speed M --format csv the same from CSV
    python -m benchmarks.speed M --texts      texts of a dozen words, whose words are the items
    python -m benchmarks.speed M --older      the build for processors without AVX2 beside the usual
    python -m benchmarks.speed XL --engines policy-gaussian   one of them alone

Every measurement is a process of its own that does the work three times, XL twice and XXL once. The
best of all but the first is warm, the first is cold (page cache and loading of compiled kernels
included); XXL has the first alone.
All of one size run in one session, one after the other, and only ratios should be read: machines
are noisy. The baseline is `SELECT item, COUNT(DISTINCT user) FROM t GROUP BY item`, written to
Parquet.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.kept import keep
from benchmarks.speed_data import SHAPES, SIZES, TEXTS, WORST, Shape, make

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
OLDER = RESULTS / "older-processors.json"
OLDER_EXPLANATION = """\
## Processors without AVX2

On x86-64 the kernels are compiled twice. Most processors since 2013 have AVX2 and FMA; others run
the other build. Both release the same items. CPU time of warm releases on one machine, the two
builds by turns (`python -m benchmarks.speed M --older`):
"""
EXPLANATION = """\
What a private release costs, from the Parquet file to the written result, beside the query that
everyone runs without thinking and that is not private: `SELECT item, COUNT(DISTINCT user) FROM t
GROUP BY item` in DuckDB and in Polars. Made in a clone by `python -m benchmarks.speed S M L XL`,
with `--shapes`, `--format csv` or `--texts` for the other tables (all files of L take 9 GB):
made-up users who hold 36 items on average, 10 thousand (S), 223 thousand (M), 1 million (L) and 10
million (XL) of them, and 250,000 items; epsilon 3, delta e^-10, at most 100 items per user (greedy
and bits: all; sieve: 3000 scouted and 300 decided on, in 20 rounds or in 6). *Default* names no
mechanism: an estimate chooses, and takes sieve here. Machines are noisy: read ratios, and read them
as one run. Tables were measured one after the other, and the same ratio may differ between two of
them by 0.4, at S by more. *Cold* is the first call in a process, which loads the compiled kernels.
Tables with numba among their versions were made before kernels were compiled with the package, when
releases took a little more CPU time.

Our aim for mechanisms of one pass is at most 1.0 times the faster of the two, in time and in
memory, from Parquet, however the data come; for the default, with all its rounds, 1.5 times with 8
million rows (M) and 1.0 times with 36 million (L). The first tables show the same rows in every
shape (`python -m benchmarks.speed S M L --shapes`), with ratios of wall time, CPU time and peak
memory: users as integers or as text, rows by user or in random order over the whole file, which is
what a log of events by e-mail address is. At M both meet their aims in time in all eleven shapes:
`weighted-gaussian` takes 0.48 to 1.00 times and the default 0.87 to 1.41 times. At L, in tables of
the older kernels, `weighted-gaussian` is 6 % above its aim in one shape, and the default takes 0.75
to 1.31 times, at most 1.0 in four of eleven shapes. Below half a million rows the fixed costs of a
call show, and memory is that of the libraries. The tables by mechanism are those of
users as integers, in random order within blocks of 100,000 users. *Bytes/row* is the peak above
what the process took before the work began. Text formats cost more; DuckDB, Polars and we read all
cells of CSV as text. *Texts* (`python -m benchmarks.speed M --texts`) are a dozen words each of
users as text of 32 bytes: words are found by the rules of Unicode by us, and by splits at spaces by
the two others. XXL is one run from start to end; what did not fit in 60 % of the 23 GB that were
available went to disk.

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
# What is measured in every shape.
OF_SHAPES = ["weighted-gaussian", "default"]


def work(engine: str, path: Path, out: Path) -> Callable[[], None]:
    """The work of one engine on one file."""
    items = _items(path)
    if engine == "duckdb":
        import duckdb

        keys = ", ".join(items)
        # From CSV as we read it: all cells are text, whatever they look like.
        rows = f"read_csv('{path}', all_varchar = true)" if path.suffix == ".csv" else f"'{path}'"
        if items == ["text"]:
            keys = "item"
            words = "unnest(string_split(lower(text), ' ')) as item"
            rows = f"(select \"user\", {words} from '{path}')"
        query = f'select {keys}, count(distinct "user") from {rows} group by {keys}'

        def queried() -> None:
            duckdb.sql(f"copy ({query}) to '{out}' (format parquet)")

        return queried
    if engine == "polars":
        import polars as pl

        as_text = partial(pl.scan_csv, infer_schema=False)
        scan = {".parquet": pl.scan_parquet, ".csv": as_text, ".jsonl": pl.scan_ndjson}

        def grouped() -> None:
            lazy = scan[path.suffix](path)  # type: ignore[operator]
            if items == ["text"]:
                split = pl.col("text").str.to_lowercase().str.split(" ")
                lazy = lazy.with_columns(split).explode("text")
            counted = lazy.group_by(*items).agg(pl.col("user").n_unique())
            counted.collect(engine="streaming").write_parquet(out)

        return grouped
    import math

    import dpsu
    import dpsu.engines.local

    mechanism, _, rounds = engine.partition("-") if engine == "sieve-6" else (engine, "", "")
    named: dict[str, Any] = {}
    if engine != "default":
        options: dict[str, Any] = {"rounds": int(rounds)} if rounds else {}
        if mechanism not in ("greedy", "sieve", "bits"):
            options["max_items"] = 100
        named["mechanism"] = dpsu.mechanism(mechanism, **options)

    columns: Any = items[0] if len(items) == 1 else items
    if columns == "text":
        columns = dpsu.Tokens("text")

    def released() -> None:
        found = dpsu.release(path, item=columns, epsilon=3, delta=math.exp(-10), **named)
        found.write(out)

    return released


def _items(path: Path) -> list[str]:
    """Columns of items, by the schema of a file; other formats have one."""
    if path.suffix != ".parquet":
        return ["item"]
    import pyarrow.parquet

    return [name for name in pyarrow.parquet.read_schema(path).names if name != "user"]


def measure(engine: str, path: Path) -> dict[str, float]:
    """Run in this process: wall and CPU seconds, cold and warm, and the peak of memory.

    The peak is that of the process and of the largest it started; what was there before the work
    began, which is the interpreter and the engine itself, is told beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        call = work(engine, path, Path(folder) / "out.parquet")
        before = _peak()
        times: list[tuple[float, float]] = []
        for _ in range(_times(path.stem)):
            wall, cpu = time.perf_counter(), time.process_time()
            call()
            times.append((time.perf_counter() - wall, time.process_time() - cpu))
    warm = min(times[1:] or times)
    return {
        "cold_s": times[0][0], "warm_s": warm[0], "warm_cpu_s": warm[1], "peak_mb": _peak(),
        "before_mb": before,
    }  # fmt: skip


def _times(name: str) -> int:
    """How often the work is done: the largest sets take minutes."""
    return 1 if name.startswith("XXL") else 2 if name.startswith("XL") else 3


def _peak() -> float:
    """Largest resident memory so far, in MB, of this process and its largest child."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(resource.getrusage(one).ru_maxrss for one in who) * 1024 / 1e6


def in_a_process(
    engine: str, path: Path, variables: dict[str, str] | None = None
) -> dict[str, float]:
    """Measure in a fresh process, so that peaks of memory do not mix."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed", "--measure", engine, str(path)],
        capture_output=True, text=True, check=True, cwd=HERE.parent,
        env=os.environ | (variables or {}),
    )  # fmt: skip
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(size: str, shape: Shape, folder: Path, engines: list[str]) -> dict[str, Any]:
    """All engines on one data set."""
    path = make(size, shape, folder)
    found = _taken(size, shape, path, engines)
    format_ = "texts" if shape.texts else shape.format
    result = {"size": size, "format": format_, "rows": _rows(path), "engines": found}
    return result | ({"megabytes": _megabytes(path)} if shape.texts else {})


def _taken(size: str, shape: Shape, path: Path, engines: list[str]) -> dict[str, dict[str, float]]:
    """What each engine took, in a process of its own."""
    found = {}
    for engine in engines:
        print(f"{size} {shape}: {engine} ...", file=sys.stderr, flush=True)
        found[engine] = in_a_process(engine, path)
    return found


def _megabytes(path: Path) -> float:
    """Bytes of all texts."""
    import pyarrow.compute as pc
    import pyarrow.parquet

    texts = pyarrow.parquet.read_table(path, columns=["text"])["text"]
    return float(pc.sum(pc.binary_length(texts)).as_py()) / 1e6


def compare_two(
    sizes: list[str],
    shapes: list[Shape],
    folder: Path,
    engines: list[str],
    variables: tuple[dict[str, str], dict[str, str]],
    runs: int,
) -> list[dict[str, Any]]:
    """Least CPU seconds of runs with the first variables and with the others, which take turns."""
    rows = []
    for size, shape, engine in itertools.product(sizes, shapes, engines):
        path = make(size, shape, folder)
        taken: tuple[list[float], list[float]] = ([], [])
        for _ in range(runs):
            for seconds, some in zip(taken, variables, strict=True):
                seconds.append(in_a_process(engine, path, some)["warm_cpu_s"])
        rows.append(
            {"size": size, "shape": str(shape), "engine": engine, "cpu_s": [*map(min, taken)]}
        )
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def table_of_two(rows: list[dict[str, Any]], runs: int, first: str, second: str) -> str:
    """The same as a Markdown table, with the ratios of the second to the first."""
    lines = [f"| size | shape | | {first}, CPU s | {second}, CPU s | ratio |"]
    lines.append("|---|---|---|---:|---:|---:|")
    ratios = []
    for row in rows:
        one, other = row["cpu_s"]
        ratios.append(other / one)
        cells = (row["size"], row["shape"], row["engine"], f"{one:.2f}", f"{other:.2f}")
        lines.append(f"| {' | '.join(cells)} | {other / one:.2f} |")
    mean = statistics.geometric_mean(ratios)
    summary = f"Least of {runs} runs each. Geometric mean {mean:.2f}, largest {max(ratios):.2f}."
    return "\n".join([*lines, "", summary])


def compare_shapes(
    size: str, shapes: list[Shape], folder: Path, engines: list[str]
) -> dict[str, Any]:
    """All engines on one size in these shapes, one after the other; XL in the worst alone."""
    rows, found_shapes = 0, {}
    for shape in [WORST] if size == "XL" else shapes:
        path = make(size, shape, folder)
        rows = _rows(path)
        found = {
            engine: {what: taken[what] for what in ("warm_s", "warm_cpu_s", "peak_mb")}
            for engine, taken in _taken(size, shape, path, engines).items()
        }
        found_shapes[str(shape)] = {"described": shape.described, "engines": found}
    return {"size": size, "rows": rows, "shapes": found_shapes}


def table_of_shapes(result: dict[str, Any], heading: str = "") -> str:
    """All shapes of a size as a Markdown table; ratios are to the least of the two baselines."""
    lines = [
        f"{heading}{result['size']}, "
        + ("in every shape" if len(result["shapes"]) > 1 else "in the worst shape")
        + f": {result['rows']:,} rows",
        "",
        "| users | order | Parquet | keys | DuckDB s | Polars s | "
        + " | ".join(
            f"{name} s | x fastest | x least CPU | MB | x least memory" for name in OF_SHAPES
        )
        + " |",
        "|---|---|---|---:|---:|---:|" + "---:|" * 5 * len(OF_SHAPES),
    ]
    for shape in result["shapes"].values():
        engines = shape["engines"]
        base = [engines[name] for name in BASELINES]
        cells = [f"{one['warm_s']:.2f}" for one in base]
        for name in OF_SHAPES:
            ours = engines[name]
            ratios = {what: _ratio(ours[what], min(one[what] for one in base)) for what in ours}
            cells += [f"{ours['warm_s']:.2f}", ratios["warm_s"], ratios["warm_cpu_s"]]
            cells += [f"{ours['peak_mb']:.0f}", ratios["peak_mb"]]
        lines.append(f"| {shape['described']} | {' | '.join(cells)} |")
    return "\n".join(lines)


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
    megabytes = result.get("megabytes")
    of_texts = "" if megabytes is None else f", {megabytes:.0f} MB of text"
    lines = [
        f"{heading}{result['size']}, {result['format']}: {result['rows']:,} rows{of_texts}",
        "",
        "| | warm s | x fastest | CPU s | cold s | peak MB | x smallest | bytes/row |"
        + (" MB/s |" if of_texts else ""),
        "|---|---:|---:|---:|---:|---:|---:|---:|" + ("---:|" if of_texts else ""),
    ]
    for name, m in engines.items():
        shown = f"{name} (not private)" if name in BASELINES else name
        lines.append(
            f"| {shown} | {m['warm_s']:.2f} | {_ratio(m['warm_s'], fastest)} | "
            f"{m['warm_cpu_s']:.2f} | {m['cold_s']:.2f} | {m['peak_mb']:.0f} | "
            f"{_ratio(m['peak_mb'], smallest)} | "
            f"{(m['peak_mb'] - m['before_mb']) * 1e6 / result['rows']:.0f} |"
            + (f" {megabytes / m['warm_s']:.0f} |" if megabytes is not None else "")
        )
    return "\n".join(lines)


def table_of_older(result: dict[str, Any]) -> str:
    """What processors without AVX2 and FMA would need."""
    return table_of_two(result["rows"], result["runs"], "with AVX2", "without")


def where_and_when() -> dict[str, Any]:
    """The day, the cores and the versions of a measurement."""
    libraries = ("dpsu", "duckdb", "numpy", "polars", "pyarrow")
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "versions": {name: version(name) for name in libraries},
    }


def _ratio(value: float, base: float) -> str:
    """Nothing where no baseline was measured."""
    return f"{value / base:.2f}" if base == base else ""  # noqa: PLR0124


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description="Speed beside a plain GROUP BY.")
    parser.add_argument("sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(SIZES)}")
    named = {str(shape): shape for shape in SHAPES}
    parser.add_argument(
        "--shapes", nargs="*", choices=named, metavar="SHAPE", help=f"all, or of {', '.join(named)}"
    )
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="an earlier checkout")
    parser.add_argument("--older", action="store_true", help="kernels as without AVX2 and FMA")
    parser.add_argument("--runs", type=int, default=5, help="of each, with --before and --older")
    parser.add_argument("--texts", action="store_true", help="words of texts as items")
    parser.add_argument("--format", choices=["parquet", "csv", "jsonl"], default="parquet")
    parser.add_argument("--engines", nargs="+", choices=[*BASELINES, *OURS], metavar="ENGINE")
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
    shapes = [named[name] for name in chosen.shapes or []] or SHAPES
    if chosen.before or chosen.older:
        ours = chosen.engines or OF_SHAPES
        earlier: dict[str, str] = {}
        if chosen.before:
            earlier = {"PYTHONPATH": str(chosen.before / "src")}
        now = {"DPSU_KERNELS": "any"} if chosen.older else {}
        rows = compare_two(chosen.sizes, shapes, chosen.data, ours, (earlier, now), chosen.runs)
        if chosen.before:
            print(table_of_two(rows, chosen.runs, "before", "now"))
            return
        keep(OLDER, result := {"runs": chosen.runs, "rows": rows} | where_and_when())
        print(table_of_older(result))
        return
    of_shapes = chosen.shapes is not None
    for size in chosen.sizes:
        if of_shapes:
            result = compare_shapes(size, shapes, chosen.data, [*BASELINES, *OF_SHAPES])
        else:
            shape = TEXTS if chosen.texts else Shape(format=chosen.format)
            if chosen.texts and not chosen.engines:
                engines = [*BASELINES, *OF_SHAPES]
            result = compare(size, shape, chosen.data, engines)
        result |= where_and_when()
        print(table_of_shapes(result) if of_shapes else table(result))
        if chosen.shapes:  # A part of the table is not kept.
            continue
        name = f"shapes-{size}" if of_shapes else f"speed-{size}-{result['format']}"
        keep(RESULTS / f"{name}.json", result)


if __name__ == "__main__":
    main()
