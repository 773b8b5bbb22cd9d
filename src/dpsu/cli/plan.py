"""`dpsu plan`: the mechanism before it meets data, and what it would yield."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import dpsu
from dpsu.cli.options import READ_TOO, plan_options
from dpsu.cli.progress import shown_steps
from dpsu.cli.results import (
    PAGES,
    print_warnings,
    putting,
    told_warnings,
    warnings_after_output,
    writable,
)
from dpsu.cli.streams import to_stdout
from dpsu.cli.values import planned_for_either, values_options
from dpsu.errors import DpsuError
from dpsu.ledger.prose import shared_text
from dpsu.ledger.splitting import split

PROFILE = ("users", "items_per_user", "spread", "zipf", "vocabulary", "profile")


@click.command("plan")
@click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Show, or forecast, this plan, written by --json, instead of one made from options.",
)
@plan_options
@values_options
@click.option(
    "--releases",
    type=int,
    help="So many equal releases are to share --epsilon and --delta: plan one of them. By sieve, "
    "unless a mechanism is named.",
)
@click.option("--users", type=int, help="Forecast: expected number of users.")
@click.option(
    "--items-per-user", type=float, help="Forecast: different items of a user, on average."
)
@click.option(
    "--spread",
    type=float,
    help="Forecast: how unequal users are, the mean number of items by that of the user in the "
    "middle: 1 if all hold equally many, 5 if a few hold most. Default 1.8.",
)
@click.option(
    "--zipf", type=float, help="Forecast: exponent of Zipf's law of popularity. Default 1."
)
@click.option(
    "--vocabulary",
    type=int,
    help="Forecast: different items that exist. Default: it grows with users and what they hold.",
)
@click.option(
    "--profile",
    type=click.Path(),
    metavar="FILE",
    help="Forecast: a PUBLIC corpus like the data, instead of made-up users; with --users at most "
    "this many of its users. Never the confidential data.",
)
@click.option(
    "--html", type=click.Path(path_type=Path), help="Write the forecast as a page with plots."
)
@click.option("--json", "as_json", is_flag=True, help="Print the plan, or the forecast, as JSON.")
@click.option("--output", hidden=True)
def plan_command(
    as_json: bool,
    html: Path | None,
    output: str | None,
    plan_file: Path | None,
    releases: int | None,
    **options: Any,
) -> None:
    """Show what a release would do and need, without reading any data.

    With --users and --items-per-user, or --profile, also forecast how many items come out, for all
    mechanisms; exit code 1 if the settings are hopeless.
    """
    if output is not None:
        raise click.UsageError(
            "a plan is printed, and --json prints it for programs; redirect that: dpsu plan ... "
            "--json > plan.json"
        )
    profile = {name: options.pop(name) for name in PROFILE}
    if all(value is None for value in profile.values()):
        if html is not None:
            raise click.UsageError(
                "--html shows a forecast: give --users and --items-per-user, or --profile"
            )
        with warnings_after_output():
            made, shared = _made(options, plan_file, releases)
        told = "" if shared is None or as_json else f"{shared}\n\n"
        to_stdout(f"{made.to_json() if as_json else f'{told}{made}'}\n")
        return
    writable(
        [
            profile["profile"],
            None if plan_file is None else str(plan_file),
            *(options[name] for name in READ_TOO),
        ],
        {"html": html},
        {"html": PAGES},
    )
    with told_warnings() as caught, shown_steps("forecasting", False) as progress:
        made, shared = _made(options, plan_file, releases)
        seen = dpsu.forecast(made, **profile, progress=progress)
    if html is not None:
        with putting("the page", html):
            seen.write_html(html)
    told = "" if shared is None else f"{shared}\n\n"
    to_stdout((seen.to_json() if as_json else f"{told}{seen.plan}\n\n{seen}") + "\n")
    print_warnings(caught)
    if seen.hopeless:
        raise DpsuError("; ".join(found.text for found in seen.findings if found.stops))


def _made(
    options: dict[str, Any], file: Path | None, releases: int | None
) -> tuple[dpsu.Plan, str | None]:
    """The plan in a file, or what options make; of several releases also what they share."""
    typed = planned_for_either(options, file)
    if file is not None:
        if releases is not None:
            raise click.UsageError("--plan is the plan of one release; drop --releases")
        return typed["plan"], None
    if releases is None:
        return dpsu.plan(**typed), None
    typed["mechanism"] = typed["mechanism"] or dpsu.Sieve()
    found = split(
        (typed["epsilon"], typed["delta"]), releases, typed["mechanism"], typed["item"],
        typed["counts"], typed["user"],
    )  # fmt: skip
    typed |= {"epsilon": found.each.epsilon, "delta": found.each.delta}
    return dpsu.plan(**typed), shared_text(found)
