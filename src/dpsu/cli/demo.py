"""`dpsu demo`: every mechanism on made-up data."""

from __future__ import annotations

import math
import time
import warnings
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.streams import printed, somebody_watches

if TYPE_CHECKING:
    from dpsu.plans.mechanisms import Mechanism
    from dpsu.results import Release


@click.command("demo")
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
def demo_command(users: int, epsilon: float, delta: float, seed: int) -> None:
    """Compare all mechanisms on a sample shaped like the papers' Reddit data.

    The data are made up, so nothing confidential is shown. The papers' real set has 223,388 users.
    """
    from rich.console import Console
    from rich.progress import Progress
    from rich.table import Table

    import dpsu
    from dpsu.yields.made_up import reddit_like

    runs = mechanisms()
    table = Table(title=f"{users:,} users, epsilon {epsilon:g}, delta {delta:.3g}")
    table.add_column("mechanism")
    table.add_column("calibration")
    table.add_column("released items", justify="right")
    table.add_column("seconds", justify="right")
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not somebody_watches()) as bar:
        task = bar.add_task("making data", total=len(runs) + 1)
        data = reddit_like(users, seed=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dpsu.DataWarning)
            bar.advance(task)
            for each in runs:
                bar.update(task, description=f"{each.name}, {each.calibrated}")
                began = time.perf_counter()
                result = _released(data, each, epsilon, delta)
                seconds = time.perf_counter() - began
                label = each.calibrated + ("" if result.private else " (not private)")
                table.add_row(each.name, label, f"{len(result):,}", f"{seconds:.2f}")
                bar.advance(task)
    with printed() as shown:
        shown.print(table)


def mechanisms() -> list[Mechanism]:
    """Every mechanism as published and as ours, with 100 items per user where it needs a number."""
    from dpsu.options import options_of
    from dpsu.plans.mechanisms import MECHANISMS
    from dpsu.plans.mechanisms.base import PAPER

    made = []
    for kind in MECHANISMS.values():
        known = options_of(kind)
        if kind.by_length:
            continue
        published: dict[str, Any] = {"calibration": PAPER, "allow_unproven": True}
        published = {name: value for name, value in published.items() if name in known}
        sized = {} if _stands(kind, published) else {"max_items": 100}
        if published:
            made.append(kind(**published, **sized))
        made.append(kind(**sized))
    return made


def _stands(kind: type[Mechanism], options: dict[str, Any]) -> bool:
    """Whether a mechanism needs no number of items per user."""
    from dpsu.errors import ParameterError
    from dpsu.privacy.guarantee import Privacy

    try:
        kind(**options).design(Privacy(1.0, 1e-6))
    except ParameterError:
        return False
    return True


def _released(data: Any, mechanism: Mechanism, epsilon: float, delta: float) -> Release:
    import dpsu

    # How often users hold items is given to those whose users choose by it.
    repeats = "count" if getattr(mechanism, "chosen_order", None) == "repeats" else None
    item = dpsu.Items("item", repeats=repeats)
    return dpsu.release(data, epsilon=epsilon, delta=delta, mechanism=mechanism, item=item)
