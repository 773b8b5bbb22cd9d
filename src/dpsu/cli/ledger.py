"""`dpsu ledger`: what releases have cost, and what is left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.charges import parse_budget
from dpsu.cli.streams import printed, to_stdout
from dpsu.ledger import UNFINISHED, Account, Ledger

if TYPE_CHECKING:
    from rich.console import Console


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dataset", metavar="NAME", help="Show this dataset only.")
@click.option("--json", "as_json", is_flag=True, help="Print everything, plans too, as JSON.")
@click.option(
    "--set-budget", metavar="E,D", help="Change the budget of --dataset; the old one is kept too."
)
def ledger(file: Path, dataset: str | None, as_json: bool, set_budget: str | None) -> None:
    """Show what releases recorded in FILE have cost their datasets, and what is left.

    A release is recorded before it reads anything (`dpsu release --ledger`). Unfinished ones are
    running, failed or were killed; they count like any other.
    """
    book = Ledger(file)
    if set_budget is not None:
        if dataset is None:
            raise click.UsageError("--set-budget needs --dataset")
        book.set_budget(dataset, parse_budget("--set-budget", set_budget))
    names = book.datasets() if dataset is None else [dataset]
    accounts = [book.account(name) for name in names]
    if as_json:
        facts = json.dumps([_facts(account) for account in accounts], indent=2)
        to_stdout(f"{facts}\n")
        return
    with printed() as console:
        for account in accounts:
            _show(account, console)


def _show(account: Account, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(account.dataset), title_justify="left")
    for name in ("release", "started (UTC)", "mechanism", "epsilon", "delta", "Gaussian", "state"):
        table.add_column(name, justify="right" if name in ("epsilon", "delta") else "left")
    for entry in account.entries:
        price = entry.cost.privacy
        table.add_row(
            str(entry.number),
            entry.started[:19].replace("T", " "),
            entry.mechanism,
            f"{price.epsilon:g}",
            f"{price.delta:g}",
            "no" if entry.cost.shift is None else "yes",
            entry.state,
        )
    console.print(table)
    for line in _words(account):
        console.print(Text(line))


def _words(account: Account) -> list[str]:
    """What is spent and what is left, by both accounts."""
    spent, budget = account.total, account.budget
    at = spent.gaussian_epsilon(budget.delta)
    gaussian = "more" if at is None else f"epsilon {at:.4g}"
    left = max(0.0, budget.epsilon - float(spent.epsilon)), budget.delta - float(spent.delta)
    unfinished = sum(entry.state == UNFINISHED for entry in account.entries)
    lines = [
        f"budget: epsilon {budget.epsilon:g}, delta {budget.delta:g}",
        f"spent, sums: epsilon {float(spent.epsilon):.4g}, delta {float(spent.delta):.4g}; "
        f"left: epsilon {left[0]:.4g}, delta {max(0.0, left[1]):.4g}",
        f"spent, Gaussian releases as one: {gaussian} of {budget.epsilon:g}, at delta "
        f"{budget.delta:g}",
        "A release is refused when it exceeds both.",
    ]
    if unfinished:
        lines.append(f"{unfinished} unfinished: running, failed or killed, and counted in full.")
    return lines


def _facts(account: Account) -> dict[str, Any]:
    spent, budget = account.total, account.budget
    return {
        "dataset": account.dataset,
        "budget": vars(budget),
        "spent": {
            "basic": {"epsilon": float(spent.epsilon), "delta": float(spent.delta)},
            "gaussian": {"epsilon": spent.gaussian_epsilon(budget.delta), "delta": budget.delta},
        },
        "releases": [
            {
                "number": entry.number,
                "started": entry.started,
                "mechanism": entry.mechanism,
                "state": entry.state,
                **vars(entry.cost.privacy),
                "shift": None if entry.cost.shift is None else vars(entry.cost.shift),
                "plan": None if entry.plan is None else json.loads(entry.plan),
            }
            for entry in account.entries
        ],
    }
