"""Options that charge a release to a ledger, spelled once."""

from __future__ import annotations

import click

from dpsu.cli.interrupts import stage
from dpsu.cli.options import added
from dpsu.ledger.spending import Spending

# Where a release is recorded before it reads anything.
ledger_options = added(
    click.option(
        "--ledger",
        type=click.Path(),
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


# A name under which a release is made once.
once_option = click.option(
    "--once",
    metavar="NAME",
    help="With --ledger: release under this name once. If that is done, write its items again, "
    "and read and charge nothing; if it was killed before, run again under the same charge; refuse "
    "another plan.",
)


def spending_of(ledger: str | None, dataset: str | None, budget: str | None) -> Spending:
    """What the options mean; the command calls `done` when its output is in place."""
    made = None
    if ledger is None:
        if dataset is not None or budget is not None:
            raise click.UsageError("--dataset and --budget go with --ledger")
    elif dataset is None:
        raise click.UsageError("--ledger needs --dataset: the name under which releases add up")
    else:
        parsed = None if budget is None else parse_budget("--budget", budget)
        # Most releases are recorded nowhere, and need not load what keeps records.
        from dpsu.ledger.ledger import Ledger

        made = Ledger(ledger).dataset(dataset, budget=parsed)
    stage.spending = Spending.of(made).kept_open()
    return stage.spending


def parse_budget(option: str, typed: str) -> tuple[float, float]:
    """Epsilon and delta of "3,1e-5"."""
    try:
        epsilon, delta = (float(part) for part in typed.split(","))
    except ValueError:
        message = f"{option} {typed!r} is not an epsilon and a delta, such as 3,1e-5"
        raise click.UsageError(message) from None
    return epsilon, delta
