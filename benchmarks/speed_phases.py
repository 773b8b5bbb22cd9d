"""Where the time of a release goes, phase by phase, beside what no release can do without.

    python -m benchmarks.speed_phases M L     the worst shape and the usual one, table and JSON

The release runs in one thread under a profiler of CPU time, which sees every call of Python;
what a function takes itself counts for the phase of its file, and in hashing.py for that of its
name. A floor is what the memory alone needs for the bytes that a phase must read and write, at the
speed at which NumPy copies in the same process, and for reading the time in which Polars decodes
the same columns.
"""

from __future__ import annotations

import argparse
import cProfile
import math
import os
import pstats
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import dpsu
from benchmarks.kept import keep
from benchmarks.speed_data import WORST, Shape, make
from dpsu.runtime import threads

RESULTS = Path(__file__).resolve().parent / "results" / "phases.json"
EXPLANATION = """\
## Where the time goes

CPU nanoseconds per row of a release in one thread, by `python -m benchmarks.speed_phases M L`. *At
least* is what memory alone needs for the bytes that a phase has to read and write, at the speed of
a copy, and for reading the time in which Polars decodes the same columns. Reading is Arrow's time;
we do not read by Polars where it is installed, since what is read, and which damage is noticed,
must not depend on that.
Interning is above its floor because a table of many users is not in the cache: each row waits for
it, however early it is asked for. A round reads every pair, and adds to sums in random order."""
PHASES = {
    "read and decode": ("pyarrow/parquet", "inputs/"),
    "intern": (
        "kernels/interning",
        "kernels/text_bytes",
        "contributions/inter",
        "id_tables",
    ),
    "order": ("hashing/hash_", "grouping/order_by_hash", "contributions/order"),
    "group and bound": ("kernels/grouping", "contributions/grouped", "contributions/bounding"),
    "weigh": ("kernels/weights", "policies/"),
    "rounds": (
        "kernels/rounds",
        "kernels/steering",
        "rounds/",
        "engines/local_rounds",
        "kernels/bit",
    ),
    "coins and noise": ("randomness/", "kernels/gaussians", "kernels/hashing"),
}
REST = "everything else"
MECHANISMS: dict[str, dict[str, Any]] = {
    "weighted-gaussian": {"mechanism": dpsu.WeightedGaussian(max_items=100)},
    "sieve": {"mechanism": dpsu.Sieve()},
}


def profile(path: Path, options: dict[str, Any]) -> dict[str, float]:
    """CPU seconds of each phase of a release, warm and in one thread."""

    def released() -> None:
        with tempfile.TemporaryDirectory() as folder:
            found = dpsu.release(path, epsilon=3, delta=math.exp(-10), **options)
            found.write(Path(folder) / "out.parquet")

    def one_by_one(work: Callable[[Any], Any], given: Any) -> Iterator[Any]:
        yield from map(work, given)

    with (
        threads.use_workers(1),
        mock.patch("dpsu.contributions.interning.in_order_ahead", one_by_one),
    ):
        released()
        profiler = cProfile.Profile(time.process_time)
        profiler.runcall(released)
    found = dict.fromkeys([*PHASES, REST], 0.0)
    stats: Any = pstats.Stats(profiler)
    for (file, _, function), (_, _, own, _, _) in stats.stats.items():
        place = f"{file.removesuffix('.py')}/{function}"
        # A profiler has no file of a compiled function, and its module in its name.
        compiled = re.fullmatch(r"<built-in method (dpsu\..*)>", function)
        name = (compiled[1].replace(".", "/") if compiled else place).replace("\\", "/")
        phase = next((p for p, parts in PHASES.items() if any(x in name for x in parts)), REST)
        found[phase] += own
    return found


def floors(path: Path) -> dict[str, float]:
    """CPU seconds that phases take at least."""
    import polars as pl
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    rows, n_bytes = len(table), table.nbytes
    table = None
    block = np.zeros(1 << 27, np.uint8)
    copy = _cpu(block.copy) / (2 * len(block))
    return {
        "read and decode": _cpu(lambda: pl.read_parquet(path)),
        # Cells are read once, and codes written, read and written as numbers.
        "intern": copy * (n_bytes + 3 * 8 * rows),
        # Codes are read twice, written, sorted in the cache, and written again.
        "group and bound": copy * (2 * 8 + 8 + 8 + 4) * rows,
        "weigh": copy * 4 * rows,
    }


def _cpu(work: Callable[[], object]) -> float:
    taken = []
    for _ in range(3):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def table(results: list[dict[str, Any]]) -> str:
    """Nanoseconds per row, phase by phase."""
    lines = []
    for result in results:
        names = list(result["phases"])
        lines += [
            "", f"### {result['size']}: {result['described']}, {result['rows']:,} rows", "",
            f"| CPU ns per row | at least | {' | '.join(names)} |",
            "|---|---:|" + "---:|" * len(names),
        ]  # fmt: skip
        for phase in [*PHASES, REST]:
            floor = result["floors"].get(phase)
            cells = [
                f"{result['phases'][name][phase] / result['rows'] * 1e9:.0f}" for name in names
            ]
            least = "" if floor is None else f"{floor / result['rows'] * 1e9:.0f}"
            lines.append(f"| {phase} | {least} | {' | '.join(cells)} |")
        lines += ["", f"{result['date']}, {result['cores']} cores."]
    return "\n".join(lines)


def main() -> None:
    """Profile what was asked for."""
    parser = argparse.ArgumentParser(description="Where the time of a release goes.")
    parser.add_argument("sizes", nargs="+", metavar="SIZE")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsu-speed")
    chosen = parser.parse_args()
    chosen.data.mkdir(parents=True, exist_ok=True)
    results = []
    for size in chosen.sizes:
        for shape in (Shape(), WORST):
            import pyarrow.parquet

            path = make(size, shape, chosen.data)
            users, order, *_ = shape.described.split(" | ")
            results.append({
                "size": size, "date": datetime.now(UTC).date().isoformat(),
                "cores": os.cpu_count(), "described": f"users are {users}, order is {order}",
                "rows": pyarrow.parquet.ParquetFile(path).metadata.num_rows,
                "floors": floors(path),
                "phases": {name: profile(path, each) for name, each in MECHANISMS.items()},
            })  # fmt: skip
    print(table(results))
    keep(RESULTS, results)


if __name__ == "__main__":
    main()
