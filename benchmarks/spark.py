"""What a private release costs on Spark, beside the plain query that is not private.

    python benchmarks/spark.py M                       ours against the plain query, table and JSON
    python benchmarks/spark.py M --peer-python PYTHON  also PipelineDP, in another environment

All of it runs in one session on ``local[2]``, in turn, after a round on a small set that loads
everything; with ``--repeats`` the best of so many counts. Machines are noisy: read ratios, and
those of CPU seconds, which are the driver's, the executor's and all its workers', rather than of
wall clocks. The plain query is `SELECT item, COUNT(DISTINCT user) FROM t GROUP BY item`, written to
Parquet; ours are written too.
PipelineDP 0.3 and PySpark do not live in our environment; PYTHON has both and runs it on RDDs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import dpsu
from dpsu.plans.mechanisms import Mechanism

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "spark.json"
MASTER = "local[2]"
EPSILON, DELTA, MAX_ITEMS = 3.0, math.exp(-10), 100
PLAIN = "plain query"
PEER = "PipelineDP"
# Name and mechanism; with how many rounds of users and items.
OURS: dict[str, tuple[Mechanism, int]] = {
    "count-gaussian": (dpsu.CountGaussian(max_items=MAX_ITEMS), 1),
    "weighted-gaussian": (dpsu.WeightedGaussian(max_items=MAX_ITEMS), 1),
    "reroute": (dpsu.Reroute(max_items=MAX_ITEMS), 2),
    "sips, 1 round": (dpsu.Sips(max_items=MAX_ITEMS, rounds=1), 1),
    "sips": (dpsu.Sips(max_items=MAX_ITEMS), 3),
    "sieve, 6 rounds": (dpsu.Sieve(rounds=6), 6),
    "sieve": (dpsu.Sieve(), 14),
}


def session() -> Any:
    """Two cores, and this Python for workers."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER).appName("dpsu benchmark")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def works(spark: Any, path: Path, out: str) -> dict[str, Callable[[], int | None]]:
    """What is measured, by name; ours tell how many items they released."""
    from pyspark.sql import functions as f

    import dpsu.spark

    rows = spark.read.parquet(str(path))

    def plain() -> None:
        counted = rows.groupBy("item").agg(f.count_distinct("user"))
        counted.write.mode("overwrite").parquet(out)

    def ours(mechanism: Mechanism) -> int:
        found = dpsu.spark.release(rows, epsilon=EPSILON, delta=DELTA, mechanism=mechanism)
        found.items.write.mode("overwrite").parquet(out)
        return len(found.released)

    measured: dict[str, Callable[[], int | None]] = {PLAIN: plain}
    for name, (mechanism, _) in OURS.items():
        measured[name] = partial(ours, mechanism)
    return measured


def cpu_seconds() -> float:
    """What this process and all that descend from it have worked so far."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, int] = {}
    worked: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                told = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(told[1])
            # Own time and that of children that have ended, in user and in system mode.
            worked[int(folder.name)] = sum(map(int, told[11:15])) / tick

    def ours(pid: int) -> bool:
        return pid == os.getpid() or (pid in parents and ours(parents[pid]))

    return sum(seconds for pid, seconds in worked.items() if ours(pid))


def compare(paths: list[Path]) -> dict[str, dict[str, Any]]:
    """Seconds of everything, in turn, on each of these files; the first one does not count."""
    spark = session()
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for repeat, path in enumerate(paths):
            for name, work in works(spark, path, folder + "/out").items():
                began, worked = time.perf_counter(), cpu_seconds()
                released = work()
                wall, cpu = time.perf_counter() - began, cpu_seconds() - worked
                print(
                    f"{repeat} {name}: {wall:.2f} s, CPU {cpu:.2f} s", file=sys.stderr, flush=True
                )
                if repeat:
                    best = found.setdefault(name, {"seconds": math.inf, "cpu_s": math.inf})
                    best["seconds"] = min(best["seconds"], wall)
                    best["cpu_s"] = min(best["cpu_s"], cpu)
                    best["released"] = released
    spark.stop()
    return found


def measure_peer(path: Path) -> dict[str, Any]:
    """PipelineDP on RDDs, once: private partition selection by Gaussian counts."""
    import pipeline_dp

    spark = session()
    began, worked = time.perf_counter(), cpu_seconds()
    rows = spark.read.parquet(str(path)).rdd.map(tuple)
    budget = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(budget, pipeline_dp.SparkRDDBackend(spark.sparkContext))
    thresholding = pipeline_dp.PartitionSelectionStrategy.GAUSSIAN_THRESHOLDING
    selected = engine.select_partitions(
        rows,
        pipeline_dp.SelectPartitionsParams(
            max_partitions_contributed=MAX_ITEMS, partition_selection_strategy=thresholding
        ),
        pipeline_dp.DataExtractors(
            privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: row[1]
        ),
    )
    budget.compute_budgets()
    released = len(selected.collect())
    told = {"seconds": time.perf_counter() - began, "cpu_s": cpu_seconds() - worked}
    spark.stop()
    return {**told, "released": released}


def further_rounds(engines: dict[str, dict[str, Any]]) -> dict[str, dict[str, float]]:
    """Seconds of one more round of sips and of one more round of sieve."""

    def between(more: str, fewer: str, rounds: int) -> dict[str, float]:
        times = ("seconds", "cpu_s")
        return {time: (engines[more][time] - engines[fewer][time]) / rounds for time in times}

    return {
        "a further round of sips": between("sips", "sips, 1 round", 2),
        "a further round of sieve": between("sieve", "sieve, 6 rounds", 8),
    }


def table(result: dict[str, Any]) -> str:
    """What was measured, as Markdown."""
    engines, versions = result["engines"], result["versions"]
    base = engines[PLAIN]
    lines = [
        f"{result['rows']:,} rows, {MASTER}, epsilon {EPSILON:g}, delta e^-10, at most {MAX_ITEMS} "
        "items per user (sieve: 3000 scouted and 300 decided on):",
        "",
        "| | shuffles | CPU s | x plain query | wall s | x plain query | released |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, told in (engines | further_rounds(engines)).items():
        rounds = OURS[name][1] if name in OURS else 1
        shuffles = "" if name in (PLAIN, PEER) else str(2 * rounds)
        shown = f"{name} (not private)" if name == PLAIN else name
        count = f"{told['released']:,}" if told.get("released") else ""
        times = " | ".join(
            f"{told[time]:.1f} | {told[time] / base[time]:.2f}" for time in ("cpu_s", "seconds")
        )
        lines.append(f"| {shown} | {shuffles} | {times} | {count} |")
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    return "\n".join([*lines, "", f"{result['date']}, {result['cores']} cores, {told}."])


def distinct_items(draws: float, n_items: float, exponent: float = 1.05) -> float:
    """Expected number of different items among draws by Zipf popularity, ranks in bins."""
    edges = [math.pow(n_items, k / 2000) for k in range(2001)]
    mass = [(high - low) * math.pow(low * high, -exponent / 2) for low, high in pairwise(edges)]
    total = sum(mass)
    return sum(
        (high - low) * -math.expm1(-draws * weight / total / (high - low))
        for (low, high), weight in zip(pairwise(edges), mass, strict=True)
    )


def on_paper(result: dict[str, Any]) -> str:
    """A plan for 10^11 pairs on 100 machines: bytes by the formats, seconds as measured."""
    from dpsu.engines.spark.query import MOST_PARTITIONS

    pairs, users, n_items, id_bytes = 1e11, 1e11 / 36, 1e9, 10
    machines, cores, network = 100, 16, 1.25e9
    partitions = MOST_PARTITIONS
    held = distinct_items(pairs / partitions, n_items)
    message = 512
    sent = pairs * (4 + 4 + id_bytes) + users * 16 + pairs / message * 1000
    given = held * partitions * (id_bytes + 4 + 8)
    sets = 4 * pairs + 4 * users + 4 * held * partitions
    known = distinct_items(pairs, n_items)
    state = known * (id_bytes + 4 + 34) + 4 * held * partitions
    to_items, to_users = sets + state + 8 * held * partitions, sets + state + 8 * held * partitions
    measured, rows = result["engines"], result["rows"]
    per_pair = measured["weighted-gaussian"]["cpu_s"] / rows
    per_round = further_rounds(measured)["a further round of sieve"]["cpu_s"] / rows

    def line(name: str, moved: float, core_seconds: float) -> tuple[str, float]:
        # Written, sent and read once each, none of it at the same time: a pessimist's sum.
        moving = 3 * moved / machines / network
        working = pairs * core_seconds / machines / cores
        minutes = (moving + working) / 60
        shown = f"| {name} | {moved / 1e12:.2f} | {moving:.0f} | {working:.0f} | {minutes:.1f} |"
        return shown, minutes

    one, one_minutes = line("weighted-gaussian, both shuffles", sent + given, per_pair)
    further, further_minutes = line(
        "a further round of sieve, both shuffles", to_items + to_users, per_round
    )
    whole = one_minutes + 13 * further_minutes
    return "\n".join(
        [
            "| stages | TB shuffled | moving s | working s | minutes |",
            "|---|---:|---:|---:|---:|",
            one,
            further,
            f"| sieve, 14 rounds | | | | {whole:.0f} |",
            "",
            f"{pairs:.0e} pairs of {users:.1e} users, {n_items:.0e} possible items of Zipf "
            f"popularity, {id_bytes} bytes an id; {partitions:,} partitions of "
            f"{pairs / partitions:.1e} pairs, {held:.1e} different items in each, {known:.1e} "
            f"in all. {machines} machines of {cores} cores and {network / 1e9:g} GB/s of "
            "network and disk: everything shuffled is written, sent and read once. Rows that "
            "are sent take 4 bytes for a code, 4 for an offset and the id of an item for each "
            f"pair, 16 for each user and about 1 kB around each message of {message} rows; a "
            "round takes 4 bytes a pair for the sets, and for each item of each partition 4 "
            "for its home, 4 for its route and 8 for each message. Core seconds are those "
            f"measured above: {per_pair * 1e6:.1f} microseconds a pair for the first round, "
            f"{per_round * 1e6:.2f} for a further round. Every partition of users writes to "
            f"every partition of items: {partitions**2:.1e} messages a round and way, of "
            f"{held / partitions:.0f} items each.",
        ]
    )


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description="Speed on Spark beside a plain GROUP BY.")
    parser.add_argument("size", nargs="?", default="M")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir()) / "dpsu-speed")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--peer-python", metavar="PYTHON")
    parser.add_argument("--measure-peer", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure_peer:
        print(json.dumps(measure_peer(chosen.measure_peer)))
        return
    from datetime import UTC, datetime
    from importlib.metadata import version

    sys.path.insert(0, str(HERE.parent))
    from benchmarks.speed import _rows
    from benchmarks.speed_data import Shape, make

    chosen.data.mkdir(parents=True, exist_ok=True)
    path = make(chosen.size, Shape(), chosen.data)
    small = make("S", Shape(), chosen.data)
    engines = compare([small, *[path] * chosen.repeats])
    if chosen.peer_python:
        command = [chosen.peer_python, __file__, "--measure-peer", str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        engines[PEER] = json.loads(told.stdout.splitlines()[-1])
    result = {
        "size": chosen.size,
        "rows": _rows(path),
        "engines": engines,
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": {name: version(name) for name in ("dpsu", "pyspark", "numpy", "pyarrow")},
    }
    print(table(result))
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
