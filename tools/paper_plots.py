"""The figures of the papers, from what their experiments last measured."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from benchmarks import carvalho2022, gopi2020
from benchmarks import paper_numbers as published
from benchmarks.paper_corpora import TITLES
from matplotlib import pyplot as plt

STYLES: dict[str, tuple[str, str]] = {
    "count-laplace": ("#bbbbbb", "s"),
    "count-gaussian": ("#777777", "s"),
    "weighted-laplace": ("#aec7e8", "D"),
    "weighted-gaussian": ("#1f77b4", "D"),
    "policy-laplace": ("#ff9896", "o"),
    "policy-gaussian": ("#d62728", "o"),
    "GW": ("#98df8a", "^"),
    "GW-KT": ("#2ca02c", "^"),
}
LABELS = {"GW": "GW (not private)", "GW-KT": "GW-KT (not private)"}
Draw = Callable[[Any, str, dict[str, Any]], None]


def plot_papers(
    folder: Path, gopi: Path = gopi2020.OUTPUT, carvalho: Path = carvalho2022.OUTPUT
) -> list[Path]:
    """Write every figure of both papers and tell where."""
    first, second = (json.loads(path.read_text("utf-8"))["sets"] for path in (gopi, carvalho))
    figures: dict[str, Callable[[], Any]] = {
        "gopi2020-figure1": lambda: _panels(first, _by_epsilon),
        "gopi2020-figure4": lambda: _ranks(first),
        "gopi2020-figure5": lambda: _panels(first, _by_limit),
        "gopi2020-figure6": lambda: _panels(first, _by_alpha),
        "carvalho2022-figure2": lambda: _thresholds(second),
        "carvalho2022-figure3": lambda: _sweeps(second),
    }
    written = []
    for name, draw in figures.items():
        figure = draw()
        written.append(folder / f"{name}.svg")
        figure.savefig(written[-1], metadata={"Date": None})
        plt.close(figure)
    return written


def _panels(sets: dict[str, Any], draw: Draw) -> Any:
    columns = min(2, len(sets))
    rows = -(-len(sets) // columns)
    figure, axes = plt.subplots(
        rows, columns, figsize=(3 * columns, 2.8 * rows), layout="constrained", squeeze=False
    )
    for axis in axes.flat[len(sets) :]:
        axis.set_axis_off()
    for axis, (name, entry) in zip(axes.flat, sets.items(), strict=False):
        draw(axis, name, entry)
        axis.set_title(TITLES[name], fontsize=10)
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("items released")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=10, loc="outside lower center", ncols=2)
    return figure


def _lines(axis: Any, figure: dict[str, dict[str, float]]) -> None:
    for name, row in figure.items():
        color, marker = STYLES[name]
        axis.plot(
            [float(x) for x in row], [*row.values()],
            color=color, marker=marker, markersize=3, linewidth=1.2, label=LABELS.get(name, name),
        )  # fmt: skip


def _crosses(axis: Any, points: Iterable[tuple[float, float]]) -> None:
    x, y = zip(*points, strict=True)
    axis.plot(x, y, linestyle="", marker="x", color="black", markersize=5, label="published")


def _by_epsilon(axis: Any, name: str, entry: dict[str, Any]) -> None:
    _lines(axis, entry["figures"]["1"])
    if entry["stands_for"] == "reddit":
        at = published.LIMITS.index(published.FIGURE_LIMIT)
        sizes = [row[at][0] for row in published.GOPI_TABLE_2.values()]
        _crosses(axis, [(published.EPSILON, size) for size in sizes])
    axis.set_xlabel("epsilon")


def _by_limit(axis: Any, name: str, entry: dict[str, Any]) -> None:
    table = entry["tables"]["2"].items()
    _lines(axis, {m: {limit: at["size"] for limit, at in row.items()} for m, row in table})
    if entry["stands_for"] == "reddit":
        _crosses(
            axis,
            [
                (limit, size)
                for row in published.GOPI_TABLE_2.values()
                for limit, (size, _) in zip(published.LIMITS, row, strict=True)
            ],
        )
    axis.set_xlabel("max_items")


def _by_alpha(axis: Any, name: str, entry: dict[str, Any]) -> None:
    _lines(axis, entry["figures"]["6"])
    if entry["stands_for"] == "reddit":
        at = published.LIMITS.index(published.FIGURE_LIMIT)
        sizes = [published.GOPI_TABLE_2[m][at][0] for m in gopi2020.POLICIES]
        _crosses(axis, [(published.GOPI_ALPHA, size) for size in sizes])
    axis.set_xlabel("alpha")


def _ranks(sets: dict[str, Any]) -> Any:
    figure, axis = plt.subplots(figsize=(6, 5), layout="constrained")
    for name, entry in sets.items():
        label = f"{TITLES[name]}, slope {entry['zipf']:.2f}"
        axis.plot(*entry["figures"]["4"], linewidth=1.2, label=label)
        if entry["stands_for"] == "reddit":
            _crosses(axis, [(row[0], k) for k, row in published.GOPI_TABLE_3.items()])
    axis.set(xscale="log", yscale="log", xlabel="rank", ylabel="users who hold the item")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=9)
    return figure


def _thresholds(sets: dict[str, Any]) -> Any:
    figure, axis = plt.subplots(figsize=(5, 3.4), layout="constrained")
    found = next(iter(sets.values()))["figures"]["2"]
    _lines(axis, found)
    axis.set(xlabel="epsilon", ylabel="threshold rho")
    axis.grid(alpha=0.3)
    axis.legend(fontsize=10)
    return figure


def _sweeps(sets: dict[str, Any]) -> Any:
    figure, axes = plt.subplots(
        len(sets), 2, figsize=(6, 2.6 * len(sets)), layout="constrained", squeeze=False
    )
    for row, (name, entry) in zip(axes, sets.items(), strict=True):
        found = entry["figures"]["3"]
        for axis, key, label in zip(row, ("alpha", "epsilon"), ("alpha", "epsilon"), strict=True):
            _lines(axis, found[key])
            axis.set_xlabel(label)
            axis.set_title(TITLES[name], fontsize=10)
            axis.grid(alpha=0.3)
        row[0].set_ylabel("items released")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, fontsize=10, loc="outside lower center", ncols=2)
    return figure
