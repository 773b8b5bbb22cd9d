"""`dpsu demo`: every mechanism on made-up data."""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import click

from dpsu.cli.streams import printed, somebody_watches


@click.command()
@click.option(
    "--users",
    type=click.IntRange(1, 1_000_000),
    default=50_000,
    show_default=True,
    help="Number of made-up users.",
)
@click.option("--epsilon", type=float, default=3.0, show_default=True)
@click.option("--delta", type=float, default=math.exp(-10), show_default="e^-10")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the made-up data.")
def demo(users: int, epsilon: float, delta: float, seed: int) -> None:
    """Compare all mechanisms on a sample shaped like the papers' Reddit data.

    The data are made up, so nothing private is shown. The papers' real set has 223,388 users.
    """
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    import dpsu
    from dpsu.plans.mechanisms import MECHANISMS, UNPUBLISHED
    from dpsu.yields.made_up import reddit_like

    runs: list[tuple[str, str, dict[str, Any]]] = [
        (name, calibration, _options(name, calibration))
        for name in MECHANISMS
        for calibration in ("paper", "tight")
        if calibration == "tight" or name not in UNPUBLISHED
    ]
    table = Table(title=f"{users:,} users, epsilon {epsilon:g}, delta {delta:.3g}")
    table.add_column("mechanism")
    table.add_column("calibration")
    table.add_column("released items", justify="right")
    table.add_column("seconds", justify="right")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not somebody_watches()) as bar:
        task = bar.add_task("making data and compiling", total=len(runs) + 1)
        data = reddit_like(users, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpsu.DataWarning)
            for name in MECHANISMS:  # compile first, so that seconds mean work
                options = _options(name, "tight")
                dpsu.release(
                    data.slice(0, 1000), epsilon=1.0, delta=1e-5, mechanism=name, **options
                )
            bar.advance(task)
            for name, calibration, options in runs:
                bar.update(task, description=f"{name}, {calibration}")
                began = time.perf_counter()
                result = dpsu.release(
                    data,
                    epsilon=epsilon,
                    delta=delta,
                    mechanism=name,
                    calibration=calibration,
                    **options,
                )
                seconds = time.perf_counter() - began
                label = calibration if result.private else f"{calibration} (not private)"
                table.add_row(name, label, f"{len(result):,}", f"{seconds:.2f}")
                bar.advance(task)
    with printed() as shown:
        shown.print(table)


def _options(name: str, calibration: str) -> dict[str, Any]:
    if name == "greedy":
        return {"count": "count", "allow_unproven": calibration == "paper"}
    return {} if name == "sieve" else {"max_items": 100}
