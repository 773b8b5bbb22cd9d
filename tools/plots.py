"""Plots of the documentation, from what the benchmarks last measured.

python -m tools.plots     write docs/images/*.svg
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from benchmarks import speed, yields
from matplotlib import pyplot as plt

import dpsu
from dpsu.contributions.interning import intern
from dpsu.engines import local
from dpsu.inputs.reading import Source
from dpsu.randomness.keys import Key
from tools.front_plot import plot_released
from tools.paper_plots import plot_papers

IMAGES = Path(__file__).resolve().parent.parent / "docs" / "images"
SHOWN = {
    "duckdb": ("DuckDB, not private", "#888888", "s"),
    "polars": ("Polars, not private", "#bbbbbb", "D"),
    "weighted-gaussian": ("weighted-gaussian", "#1f77b4", "o"),
    "policy-gaussian": ("policy-gaussian", "#d62728", "o"),
    "greedy": ("greedy", "#2ca02c", "o"),
}


SHOPPING = {
    "bread": 0.95, "milk": 0.85, "eggs": 0.7, "rye": 0.5, "kale": 0.35, "figs": 0.2, "okra": 0.1,
    "secret": 0.0,
}  # fmt: skip
FLOW: dict[str, Any] = {
    "epsilon": 3, "delta": 0.001, "mechanism": dpsu.WeightedGaussian(max_items=4),
}  # fmt: skip


def plot_flow(path: Path) -> None:
    """One release from top to bottom: who holds what, weights, probabilities, what comes out."""
    held, weights, released = _shopping()
    plan = dpsu.plan(**FLOW)
    figure, (top, middle, bottom) = plt.subplots(
        3, 1, figsize=(6, 7.2), layout="constrained", sharex=True, height_ratios=(3, 1.4, 1.4)
    )
    items = list(SHOPPING)
    for u, own in enumerate(held.values()):
        top.plot([items.index(i) for i in own], [u] * len(own), "o", color="#1f77b4", markersize=4)
    top.set(ylabel="24 users", yticks=[], title="1. Users hold items; at most 4 of each count")
    colors = ["#2ca02c" if item in released else "#bbbbbb" for item in items]
    middle.bar(items, [weights[item] for item in items], color=colors)
    middle.set(title="2. Users of k items give each 1/√k; here are the sums", ylabel="weight")
    middle.axhline(plan.threshold or 0.0, color="#d62728", linestyle="--", linewidth=1)
    chances = [plan.curve.probability(weights[item]) for item in items]
    bottom.bar(items, chances, color=colors)
    for place, chance in enumerate(chances):
        bottom.text(place, chance + 0.03, f"{chance:.2g}", ha="center", fontsize=9)
    title = "3. One exact coin for each item; green comes out"
    bottom.set(title=title, ylabel="probability", ylim=(0, 1.2))
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _shopping() -> tuple[dict[str, list[str]], dict[str, float], dpsu.Release]:
    """Some people, what their items weigh, and a release, all by the real engine."""
    rng, key = np.random.default_rng(4), Key.from_insecure_seed(2)
    held = {
        f"user {u}": [item for item, likely in SHOPPING.items() if rng.random() < likely]
        for u in range(24)
    }
    held["user 7"].append("secret")
    rows = Source(held, dpsu.Users(), dpsu.Items()).rows(key, with_repeats=False)
    plan = dpsu.plan(**FLOW)
    items, units = local.shares(plan, intern(rows), key)
    weights = np.ldexp(units.astype(float), -plan.policy.fraction_bits)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dpsu.DataWarning)
        released = dpsu.release(held, insecure_seed=2, **FLOW)
    return held, dict(zip(items.values.to_pylist(), weights.tolist(), strict=True)), released


def plot_speed(path: Path) -> None:
    """Seconds and peak memory against the number of rows, Parquet, both axes logarithmic."""
    found = [json.loads(p.read_text("utf-8")) for p in speed.RESULTS.glob("speed-*-parquet.json")]
    found.sort(key=lambda result: int(result["rows"]))
    figure, axes = plt.subplots(2, 1, figsize=(6, 7), layout="constrained")
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
    axes[0].legend(fontsize=9)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def plot_yields(path: Path) -> None:
    """Sizes of our mechanisms as a share of the best published one, for every set and budget."""
    found = json.loads(yields.RESULTS.read_text("utf-8"))
    shown = {
        "policy-gaussian 100": "#aaaaaa", "sips": "#88aadd", "greedy": "#88cc88",
        "bits": "#ee9999", "sieve": "#d62728", "auto": "#7f1d1d",
    }  # fmt: skip
    figure, axes = plt.subplots(2, 1, figsize=(6, 7.6), layout="constrained", sharex=True)
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
        axis.set_xticks(range(len(names)), names, rotation=20, ha="right")
        axis.set_title(f"(epsilon, delta) = ({privacy})")
        axis.set_ylabel("items, best published = 1")
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=10, loc="outside lower center", ncols=3)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def main() -> None:
    """Write all plots."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "dpsu"
    # A telephone shows a picture of six inches at 0.8 of its size: labels must still be legible.
    mpl.rcParams["font.size"] = 11
    mpl.rcParams["axes.titlesize"] = 11
    IMAGES.mkdir(parents=True, exist_ok=True)
    plot_released(IMAGES / "released.svg")
    plot_flow(IMAGES / "how-it-works.svg")
    plot_speed(IMAGES / "speed.svg")
    plot_yields(IMAGES / "yields.svg")
    plot_papers(IMAGES)


if __name__ == "__main__":
    main()
