"""`dpsu ledger`: what releases have cost, and what is left."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.charges import parse_budget
from dpsu.cli.interrupts import COMPLETE, stage
from dpsu.cli.streams import printed, shown
from dpsu.ledger.accounting import delta_text
from dpsu.ledger.ledger import Ledger
from dpsu.ledger.prose import ACCOUNT_PROMISES, short_run, utc
from dpsu.ledger.records import unit_of

if TYPE_CHECKING:
    from rich.console import Console

    from dpsu.ledger.accounting import Balance
    from dpsu.ledger.records import Account, Book

HEAD = ("entry", "started (UTC)", "run", "mechanism", "epsilon", "delta", "Gaussian", "state")


@click.command("ledger")
@click.argument("file", type=click.Path())
@click.option("--dataset", metavar="NAME", help="Show this dataset only.")
@click.option("--json", "as_json", is_flag=True, help="Print everything, plans too, as JSON.")
@click.option(
    "--set-budget", metavar="E,D", help="Change the budget of --dataset; the old one is kept too."
)
@click.option(
    "--add",
    metavar="WHAT",
    help="Charge --dataset for what other software is about to spend: what it is, in words.",
)
@click.option(
    "--cost",
    metavar="E,D",
    help="With --add: its epsilon and delta, for adding or removing one user; delta may be 0.",
)
@click.option("--budget", metavar="E,D", help="With --add: the budget of a new --dataset.")
@click.option(
    "--expect-head",
    metavar="HASH",
    help="Fail unless this head, printed earlier and kept elsewhere, is among the entries' hashes.",
)
def ledger_command(
    file: str,
    dataset: str | None,
    as_json: bool,
    set_budget: str | None,
    add: str | None,
    cost: str | None,
    budget: str | None,
    expect_head: str | None,
) -> None:
    """Show what releases recorded in FILE have cost their datasets, and what is left.

    A release is recorded before it reads anything (`dpsu release --ledger`). Every entry is checked
    against the chain of hashes. The last hash, the head, stands for all of them: keep it elsewhere,
    as no file can show that its newest entries are missing.
    """
    kept = Ledger(file)
    if set_budget is not None:
        if dataset is None:
            raise click.UsageError("--set-budget needs --dataset")
        kept.read(expected_head=expect_head)
        kept.set_budget(dataset, parse_budget("--set-budget", set_budget))
        stage.outputs["the new budget in the ledger"] = COMPLETE
    if add is None and (cost is not None or budget is not None):
        raise click.UsageError("--cost and --budget go with --add")
    if add is not None:
        if dataset is None or cost is None:
            raise click.UsageError("--add needs --dataset and --cost")
        if expect_head is not None:
            kept.read(expected_head=expect_head)
        allowed = None if budget is None else parse_budget("--budget", budget)
        kept.add(dataset, add, parse_budget("--cost", cost), budget=allowed)
        stage.outputs["the charge in the ledger"] = COMPLETE
    # One look at the file: head and accounts belong together.
    book = kept.read(expected_head=expect_head)
    names = book.datasets() if dataset is None else [dataset]
    accounts = [book.account(name) for name in names]
    if as_json:
        datasets = [_facts(account) for account in accounts]
        content = {"head": book.head, "entries": len(book.hashes), "datasets": datasets}
        shown(f"{json.dumps(content, indent=2, allow_nan=False)}\n")
        return
    with printed() as console:
        for account in accounts:
            _show(account, console)
    shown(f"{_head(book, expect_head)}\n")


def _show(account: Account, console: Console) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(account.dataset), title_justify="left")
    has_names = any(entry.name for entry in account.releases)
    for name in (*HEAD, "name") if has_names else HEAD:
        table.add_column(name, justify="right" if name in ("epsilon", "delta") else "left")
    for entry in account.releases:
        price = entry.cost.privacy
        table.add_row(
            str(entry.number),
            utc(entry.started),
            Text(short_run(entry)),
            Text(entry.mechanism),
            f"{price.epsilon:g}",
            delta_text(price.delta),
            "no" if entry.cost.shift is None else "yes",
            Text(entry.state if entry.reason is None else f"{entry.state} ({entry.reason})"),
            *([Text(entry.name or "")] if has_names else []),
        )
    console.print(table)
    console.print(Text(str(account)))


def _head(book: Book, expected: str | None) -> str:
    """The hash to keep, on a line of its own."""
    text = f"head, of {len(book.hashes):,} entries: {book.head}"
    if expected is None:
        return f"{text}\nKeep it elsewhere; --expect-head HASH shows later whether these changed."
    since = len(book.hashes) - book.hashes.index(expected.strip().lower()) - 1
    return f"{text}\nAll entries up to the expected head are unchanged; {since:,} came since."


def _balance(found: Balance) -> dict[str, Any]:
    """Both accounts by the names that Python has for them; JSON has no infinity."""
    return {
        name: {
            "epsilon": amount.epsilon if math.isfinite(amount.epsilon) else None,
            "delta": amount.delta,
        }
        for name, amount in vars(found).items()
    }


def _facts(account: Account) -> dict[str, Any]:
    return {
        "dataset": account.dataset,
        "promises": ACCOUNT_PROMISES,
        "budget": account.budget.numbers,
        "earlier_budgets": [
            {"number": each.number, "since": each.since, **each.privacy.numbers}
            for each in account.earlier_budgets
        ],
        "spent": _balance(account.spent),
        "left": _balance(account.left),
        "releases": [
            {
                "number": entry.number,
                "run": entry.run,
                "started": entry.started,
                "mechanism": entry.mechanism,
                "state": entry.state,
                "name": entry.name,
                "reason": entry.reason,
                **entry.cost.privacy.numbers,
                "shift": None if entry.cost.shift is None else vars(entry.cost.shift),
                "unit": None if entry.unit is None else unit_of(entry.unit),
                "plan_hash": entry.plan_hash,
                "plan": None if entry.plan is None else json.loads(entry.plan),
            }
            for entry in account.releases
        ],
    }
