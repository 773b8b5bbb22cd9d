"""What a private release costs on Spark, beside the plain query that is not private.

    python benchmarks/spark.py M                       ours against the plain query, table and JSON
    python benchmarks/spark.py M --peer-python PYTHON  also PipelineDP, in another environment
    python benchmarks/spark.py 100M --repeats 1        some of ours, and 100 million rows

All of it runs in one session on ``local[2]``, in turn, after a round on a small set that loads
everything; with ``--repeats`` the best of so many counts. Machines are noisy: read ratios, and
those of CPU seconds, which are the driver's, the executor's and all its workers', rather than of
wall clocks. Shuffles and their bytes, as they were compressed, are those that Spark counts; one of
ours is that by which Spark adds up numbers of rows. The plain query is `SELECT item, COUNT(DISTINCT
user) FROM t GROUP BY item`, written to Parquet; ours are written too.
PipelineDP 0.3 and PySpark do not live in our environment; PYTHON has both and runs it on RDDs.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import dpsu
from benchmarks.kept import keep
from benchmarks.spark_metrics import Shuffles, cpu_seconds
from dpsu.plans.mechanisms import Mechanism

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "spark.json"
MASTER = "local[2]"
EPSILON, DELTA, MAX_ITEMS = 3.0, math.exp(-10), 100
PLAIN = "plain query"
PEER = "PipelineDP"
# Name and mechanism; with how many rounds of users and items.
SIPS, SIEVE, BITS = "sips", "sieve", "bits"
SIPS_1, SIEVE_6 = "sips, 1 round", "sieve, 6 rounds"
OURS: dict[str, tuple[Mechanism, int]] = {
    "count-gaussian": (dpsu.CountGaussian(max_items=MAX_ITEMS), 1),
    "weighted-gaussian": (dpsu.WeightedGaussian(max_items=MAX_ITEMS), 1),
    "reroute": (dpsu.Reroute(max_items=MAX_ITEMS), 2),
    SIPS_1: (dpsu.Sips(max_items=MAX_ITEMS, rounds=1), 1),
    SIPS: (dpsu.Sips(max_items=MAX_ITEMS), 3),
    SIEVE_6: (dpsu.Sieve(rounds=6), 6),
    SIEVE: (dpsu.Sieve(), 20),
    "bits, with items_per_user": (dpsu.Bits(items_per_user=36), 4),
    BITS: (dpsu.Bits(), 4),
    "auto": (dpsu.Auto(among="parallel"), 20),
    'auto, prefer="speed"': (dpsu.Auto(among="parallel", prefer="speed"), 4),
}
# What is measured with the most rows.
LARGE = "100M"
OF_LARGE = (PLAIN, "weighted-gaussian", SIEVE, BITS)
# With more than this much load for each core, others took part of the machine.
QUIET = 1.5
MEASURES = ("seconds", "cpu_s", "shuffles", "bytes")


def session() -> Any:
    """Two cores, and this Python for workers."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(MASTER).appName("dpsu benchmark")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        # Spark forgets stages beyond these, and with them what they shuffled.
        "spark.ui.retainedStages": "100000",
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


def compare(paths: list[Path], only: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """What everything took, in turn, on each of these files; the first one does not count."""
    spark = session()
    shuffles = Shuffles(spark)
    found: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for repeat, path in enumerate(paths):
            measured = works(spark, path, folder + "/out")
            for name in only or measured:
                began, worked = time.perf_counter(), cpu_seconds()
                released = measured[name]()
                wall, cpu = time.perf_counter() - began, cpu_seconds() - worked
                told = {"released": released, **shuffles.since()}
                print(
                    f"{repeat} {name}: {wall:.2f} s, CPU {cpu:.2f} s, {told}",
                    file=sys.stderr,
                    flush=True,
                )
                if repeat:
                    best = found.setdefault(name, {"seconds": math.inf, "cpu_s": math.inf})
                    best["seconds"] = min(best["seconds"], wall)
                    best["cpu_s"] = min(best["cpu_s"], cpu)
                    best |= told
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
    """What one more round of sips and one more round of sieve take, where both were measured."""
    found: dict[str, dict[str, float]] = {}
    for more, fewer in ((SIPS, SIPS_1), (SIEVE, SIEVE_6)):
        if more in engines and fewer in engines:
            rounds = OURS[more][1] - OURS[fewer][1]
            found[f"a further round of {more}"] = {
                each: (engines[more][each] - engines[fewer][each]) / rounds for each in MEASURES
            }
    return found


def table(result: dict[str, Any]) -> str:
    """What was measured, as Markdown."""
    engines, versions = result["engines"], result["versions"]
    base = engines[PLAIN]
    lines = [
        f"{result['rows']:,} rows, {MASTER}, epsilon {EPSILON:g}, delta e^-10, at most {MAX_ITEMS} "
        "items per user (sieve: 3000 scouted and 300 decided on; bits: all):",
        "",
        "| | rounds | shuffles | MB shuffled | CPU s | x plain query | wall s | x plain query "
        "| released |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, told in (engines | further_rounds(engines)).items():
        rounds = "" if name in (PLAIN, PEER) else str(OURS[name][1] if name in OURS else 1)
        moved = f"{told['shuffles']:.0f} | {told['bytes'] / 1e6:,.0f}" if "bytes" in told else " | "
        shown = f"{name} (not private)" if name == PLAIN else name
        count = f"{told['released']:,}" if told.get("released") else ""
        times = " | ".join(
            f"{told[time]:.1f} | {told[time] / base[time]:.2f}" for time in ("cpu_s", "seconds")
        )
        lines.append(f"| {shown} | {rounds} | {moved} | {times} | {count} |")
    told = ", ".join(f"{name} {number}" for name, number in versions.items())
    return "\n".join(
        [*lines, "", conditions(result), "", f"{result['date']}, {result['cores']} cores, {told}."]
    )


def conditions(result: dict[str, Any]) -> str:
    """How far the numbers can be trusted: how often all was run, and what else was running."""
    repeats, load, cores = result["repeats"], result["load"], result["cores"]
    often = "Each was run once" if repeats == 1 else f"Each is the best of {repeats} runs"
    said = f"{often}, at a load of {load:.1f} on {cores} cores (average of 5 minutes)"
    if load <= QUIET * cores:
        return f"{said}."
    return (
        f"{said}: other work was running. Wall clocks say nothing then, and CPU seconds of a "
        "single run were seen to differ by 40 %."
    )


def measured() -> str:
    """All tables that were measured: M, and more rows if somebody had the time."""
    found = [path for path in (RESULTS, results_of(LARGE)) if path.exists()]
    return "\n\n".join(table(json.loads(path.read_text("utf-8"))) for path in found)


def results_of(size: str) -> Path:
    """Where results are kept: those of M are the ones that everything else refers to."""
    return RESULTS if size == "M" else RESULTS.with_name(f"spark-{size}.json")


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
    rounds = OURS[SIEVE][1]
    whole = one_minutes + (rounds - 1) * further_minutes
    return "\n".join(
        [
            "| stages | TB shuffled | moving s | working s | minutes |",
            "|---|---:|---:|---:|---:|",
            one,
            further,
            f"| sieve, {rounds} rounds | | | | {whole:.0f} |",
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

    from benchmarks.speed import _rows
    from benchmarks.speed_data import Shape, make

    chosen.data.mkdir(parents=True, exist_ok=True)
    path = make(chosen.size, Shape(), chosen.data)
    small = make("S", Shape(), chosen.data)
    engines = compare([small, *[path] * chosen.repeats], OF_LARGE if chosen.size == LARGE else ())
    if chosen.peer_python:
        command = [chosen.peer_python, __file__, "--measure-peer", str(path)]
        told = subprocess.run(command, capture_output=True, text=True, check=True)
        engines[PEER] = json.loads(told.stdout.splitlines()[-1])
    result = {
        "rows": _rows(path),
        "engines": engines,
        "date": datetime.now(UTC).date().isoformat(),
        "cores": os.cpu_count(),
        "repeats": chosen.repeats,
        "load": os.getloadavg()[1],
        "versions": {name: version(name) for name in ("dpsu", "pyspark", "numpy", "pyarrow")},
    }
    print(table(result))
    keep(results_of(chosen.size), result)


if __name__ == "__main__":
    main()
