"""The picture of the front page: what comes out of a release of the demo's data."""

from __future__ import annotations

import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from matplotlib import pyplot as plt
from numpy.typing import NDArray

import dpsu
from dpsu.yields.made_up import reddit_like

USERS, EPSILON, DELTA = 50_000, 1.0, 1e-6
# An item's number of holders is in the last band whose lower end it reaches.
BANDS = (1, 2, 8, 16, 32, 64, 128, 256)
OUT, BACK, INK = "#3f51b5", "#e3e5ef", "#333333"


def plot_released(path: Path) -> None:
    """For items of few and of many holders, how many of them a release holds."""
    data = reddit_like(USERS)
    with warnings.catch_warnings():
        # The data are made up and so is their owner: a seed gives the same picture every time.
        warnings.simplefilter("ignore", dpsu.DataWarning)
        released = dpsu.release(data, epsilon=EPSILON, delta=DELTA, insecure_seed=1)
    there, out = _by_band(data, released)
    figure, axis = plt.subplots(figsize=(5.6, 3.7), layout="constrained")
    places = range(len(BANDS))
    axis.barh(places, [1.0] * len(BANDS), color=BACK, height=0.72)
    axis.barh(places, out / there, color=OUT, height=0.72)
    for place, part, whole in zip(places, out, there, strict=True):
        axis.text(1.03, place, f"{part:,} of {whole:,}", va="center", color=INK)
    axis.set_yticks(places, _labels())
    axis.tick_params(length=0)
    axis.set(ylabel="users who hold an item", xticks=[], xlim=(0, 1.42))
    axis.invert_yaxis()
    for side in axis.spines.values():
        side.set_visible(False)
    axis.set_title(
        f"{USERS:,} people hold {sum(there):,} items. {len(released):,} come out.",
        fontsize=12, loc="left", color=INK,
    )  # fmt: skip
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _by_band(data: pa.Table, released: dpsu.Release) -> tuple[NDArray[np.int64], ...]:
    """How many items each band has, and how many of them were released."""
    counted = data.group_by("item").aggregate([("user", "count_distinct")])
    band = np.searchsorted(BANDS, counted["user_count_distinct"].to_numpy(), side="right") - 1
    known = set(released.items)
    out = np.array([item in known for item in counted["item"].to_pylist()])
    return tuple(np.bincount(some, minlength=len(BANDS)) for some in (band, band[out]))


def _labels() -> list[str]:
    pairs = pairwise(BANDS[1:])
    return ["1", *(f"{low} to {high - 1}" for low, high in pairs), f"{BANDS[-1]} or more"]
