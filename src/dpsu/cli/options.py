"""Options that several commands share, spelled once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from dpsu.contributions.id_types import ID_TYPES
from dpsu.inputs.formats import FORMATS, TABLE
from dpsu.plans.mechanisms import AUTO, CALIBRATIONS, MECHANISMS, ORDERS

Command = Callable[..., Any]


def mechanism_options(command: Command) -> Command:
    """Everything that makes a plan."""
    for option in reversed(
        (
            click.option("--epsilon", type=float, required=True, help="Privacy loss, e.g. 1."),
            click.option(
                "--delta", type=float, required=True, help="Failure probability, e.g. 1e-6."
            ),
            click.option(
                "--mechanism",
                type=click.Choice([*MECHANISMS, AUTO]),
                help="How items are chosen; see `dpsu mechanisms`. Default sieve, or auto where "
                "--expected-items-per-user is given.",
            ),
            click.option(
                "--user", default="user", show_default=True, help="Column of the person to protect."
            ),
            click.option(
                "--item", default="item", show_default=True, help="Column of what to release."
            ),
            click.option(
                "--user-type",
                type=click.Choice(ID_TYPES),
                help="Read users as text or as integers; cells that cannot be read so are ignored. "
                "Default: the type of their column, and text where columns have no type.",
            ),
            click.option(
                "--item-type",
                type=click.Choice(ID_TYPES),
                help="The same for items.",
            ),
            click.option(
                "--text",
                metavar="COLUMN",
                help="Column of texts, instead of --item: their tokens are the items.",
            ),
            click.option(
                "--tokenizer",
                help="words (default), paper, sentences, lines, regex:PATTERN, or a tokenizer.json "
                "file.",
            ),
            click.option(
                "--ngrams", help="Items are n-grams of these lengths: 2 or 1-3. Default 1."
            ),
            click.option(
                "--max-items",
                type=int,
                help="At most so many items per user. Default 300 for sieve (1000 for n-grams), "
                "100 for other Gaussian mechanisms; "
                "count-laplace always needs it, other Laplace ones as published.",
            ),
            click.option(
                "--calibration",
                type=click.Choice(CALIBRATIONS),
                default="tight",
                show_default=True,
                help="Our curves, or thresholds as published.",
            ),
            click.option(
                "--alpha",
                type=float,
                help="Cutoff at threshold + ALPHA x noise scale (policy, greedy). Default 3.",
            ),
            click.option(
                "--cutoff", type=float, help="Weight at which an item is full (policy, greedy)."
            ),
            click.option(
                "--passes",
                type=int,
                help="Passes in which users spend their budget (policy, greedy). Default 1.",
            ),
            click.option(
                "--rounds", type=int, help="Looks at the data. Default 14 for sieve, 3 for sips."
            ),
            click.option(
                "--scout-items",
                type=int,
                help="Items per user that sieve scouts before deciding. Default 3000, 0 for none.",
            ),
            click.option(
                "--min-users",
                type=int,
                help="Never release an item of fewer users (count, weighted, policy-laplace, "
                "greedy); costs as much weight.",
            ),
            click.option(
                "--counts", is_flag=True, help="Also release a noisy number of users per item."
            ),
            click.option(
                "--counts-share",
                type=float,
                default=0.2,
                show_default=True,
                help="Share of epsilon and delta that counts take.",
            ),
            click.option(
                "--counts-items",
                type=int,
                default=30,
                show_default=True,
                help="Released items for which a user counts at most.",
            ),
            click.option("--count", help="Column of local counts (greedy)."),
            click.option(
                "--prior",
                type=click.Path(),
                help="Public table with a column named as --item, or 'item', and one of numbers; "
                "or wordfreq:en. Not for rounds.",
            ),
            click.option(
                "--order",
                type=click.Choice(ORDERS),
                help="How a greedy user chooses: by own counts, by the prior (most popular, or "
                "scarcest that can be filled), or by a hash.",
            ),
            click.option(
                "--expected-users",
                type=int,
                help="Public estimate of the number of users (order scarce, auto).",
            ),
            click.option(
                "--expected-items-per-user",
                type=float,
                help="Public estimate of the mean number of different items of a user (auto).",
            ),
            click.option(
                "--public-items",
                type=click.Path(),
                help="Items known anyway: lines of a .txt file, or a table with a column named as "
                "--item, or 'item'.",
            ),
            click.option(
                "--allow-unproven", is_flag=True, help="Accept a release without a guarantee."
            ),
            click.option("--insecure-seed", type=int, help="Repeatable, NOT private; for tests."),
        )
    ):
        command = option(command)
    return command


def format_option(command: Command) -> Command:
    """The format of input whose name does not say it."""
    return click.option(
        "--format",
        type=click.Choice([*FORMATS, TABLE]),
        help="Format of FILE if its name does not say it; standard input is CSV by default.",
    )(command)


def result_options(command: Command) -> Command:
    """How data is read, and where the result goes."""
    for option in reversed(
        (
            click.option(
                "--memory-limit",
                metavar="SIZE",
                help="Keep at most so much of the rows in memory (4GB, 500M), the rest in nameless "
                "temporary files. Default 60 % of what is available.",
            ),
            click.option(
                "--strict",
                is_flag=True,
                help="Refuse rows without a usable user or item, and no rows.",
            ),
            click.option(
                "--output",
                type=click.Path(path_type=Path),
                help="Write items to a .txt, .csv, .parquet or .json file, replacing one that is "
                "there. Spreadsheets run cells of a .csv file that begin with = + - @; see "
                "--csv-safe.",
            ),
            click.option(
                "--csv-safe",
                is_flag=True,
                help="Put ' before items in a .csv file that begin with = + - @ ' or a tab or line "
                "break, so that spreadsheets do not run them. This changes the items.",
            ),
            click.option(
                "--report",
                type=click.Path(path_type=Path),
                help="Write the report, as JSON if the name ends in .json.",
            ),
            click.option("--verbose", is_flag=True, help="Print the whole report, not one line."),
            click.option(
                "--quiet", is_flag=True, help="Print nothing but errors, and whether it is private."
            ),
        )
    ):
        command = option(command)
    return command
