"""Plots of the documentation, from what the benchmarks last measured.

python -m tools.plots     write docs/images/*.svg
"""

from __future__ import annotations

import json
from pathlib import Path

import matplotlib as mpl
from benchmarks import speed, yields
from matplotlib import pyplot as plt

from tools.paper_plots import plot_papers

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


def plot_yields(path: Path) -> None:
    """Sizes of our mechanisms as a share of the best published one, for every set and budget."""
    found = json.loads(yields.RESULTS.read_text("utf-8"))
    shown = {
        "policy-gaussian 100": "#aaaaaa", "sips": "#88aadd", "greedy": "#88cc88",
        "sieve, 6 looks": "#ee9999", "sieve": "#d62728", "auto, hints": "#7f1d1d",
    }  # fmt: skip
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained", sharey=True)
    for axis, privacy in zip(axes, yields.PRIVACY, strict=True):
        width = 0.8 / len(shown)
        for k, (label, color) in enumerate(shown.items()):
            heights = []
            for name in yields.NAMES:
                sizes = found[name]["rows"][privacy]["sizes"]
                heights.append(sizes[label]["size"] / yields.published(sizes))
            places = [at + (k - len(shown) / 2 + 0.5) * width for at in range(len(heights))]
            axis.bar(places, heights, width, color=color, label=label)
        axis.axhline(1.0, color="black", linewidth=0.8)
        names = [
            title.split(",")[0].replace(" by first author", "") for title in yields.NAMES.values()
        ]
        axis.set_xticks(range(len(names)), names, rotation=20, ha="right", fontsize=8)
        axis.set_title(f"(epsilon, delta) = ({privacy})", fontsize=9)
    axes[0].set_ylabel("items, best published = 1")
    axes[0].legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write all plots."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "dpsu"
    IMAGES.mkdir(parents=True, exist_ok=True)
    plot_speed(IMAGES / "speed.svg")
    plot_yields(IMAGES / "yields.svg")
    plot_papers(IMAGES)


if __name__ == "__main__":
    main()
