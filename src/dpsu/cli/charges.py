"""Options that charge a release to a ledger, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpsu.spending import Spending, parse_budget

Command = Callable[..., Any]


def ledger_options(command: Command) -> Command:
    """Where a release is recorded before it reads anything."""
    for option in reversed(
        (
            click.option(
                "--ledger",
                type=click.Path(path_type=Path),
                metavar="FILE",
                help="Record in FILE what this release costs, before anything is read; refuse it "
                "if the budget does not allow it. See `dpsu ledger`.",
            ),
            click.option(
                "--dataset", metavar="NAME", help="Name under which releases of one ledger add up."
            ),
            click.option(
                "--budget",
                metavar="E,D",
                help="Epsilon and delta for all releases of a dataset; needed for its first.",
            ),
        )
    ):
        command = option(command)
    return command


def spending_of(ledger: Path | None, dataset: str | None, budget: str | None) -> Spending:
    """What the options mean; the command calls `done` when its output is in place."""
    parsed = None if budget is None else parse_budget(budget)
    spending = Spending.of(ledger, dataset, parsed)
    return spending.kept_open()
