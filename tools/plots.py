"""Plots of the documentation, from what the benchmarks last measured.

python -m tools.plots     write docs/images/*.svg
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
from benchmarks import speed
from matplotlib import pyplot as plt

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SHOWN = {
    "duckdb": ("DuckDB, not private", "#888888", "s"),
    "polars": ("Polars, not private", "#bbbbbb", "D"),
    "weighted-gaussian": ("weighted-gaussian", "#1f77b4", "o"),
    "policy-gaussian": ("policy-gaussian", "#d62728", "o"),
    "greedy": ("greedy", "#2ca02c", "o"),
}


def plot_speed(path: Path) -> None:
    """Seconds and peak memory against the number of rows, Parquet, both axes logarithmic."""
    found = [json.loads(p.read_text("utf-8")) for p in speed.RESULTS.glob("speed-*-parquet.json")]
    found.sort(key=lambda result: int(result["rows"]))
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for axis, key, label in zip(
        axes, ("warm_s", "peak_mb"), ("seconds, warm", "peak memory, MB"), strict=True
    ):
        for engine, (name, color, marker) in SHOWN.items():
            points = [(r["rows"], r["engines"][engine]) for r in found if engine in r["engines"]]
            axis.plot(
                [rows for rows, _ in points], [m[key] for _, m in points],
                color=color, marker=marker, markersize=4, label=name,
            )  # fmt: skip
        axis.set(xscale="log", yscale="log", xlabel="rows", ylabel=label)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write all plots."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "dpsu"
    IMAGES.mkdir(parents=True, exist_ok=True)
    plot_speed(IMAGES / "speed.svg")


if __name__ == "__main__":
    main()
