"""Flags made from the options of objects, and the objects made from flags.

Options are written down once, as fields of mechanisms, `Users`, `Items`, `Tokens`, `Counts` and
`Auto`. Flags stay flat: what several mechanisms have in common is one flag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import click

from dpsu.cli.streams import to_stderr
from dpsu.errors import ParameterError, option_error, spelled_in_the_shell
from dpsu.inputs.columns import Items, Users
from dpsu.inputs.formats import FORMATS, TABLE
from dpsu.inputs.tokens import Tokens
from dpsu.options import Option, did_you_mean, options_of
from dpsu.plans.counts import Counts
from dpsu.plans.mechanisms import MECHANISMS, Auto, Mechanism, NGrams, Sieve
from dpsu.plans.mechanisms.base import no_such_option, none_was_named
from dpsu.plans.plan import Plan
from dpsu.plans.planning import plan, with_public_data

Command = Callable[..., Any]
Flags = dict[str, Any]


class Words(click.Choice):  # type: ignore[type-arg]
    """One of several words; the error for another one names the nearest."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """What was typed, if it is among them."""
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            near = did_you_mean(value, self.choices)
            raise click.BadParameter(f"{error.message}{near}", ctx=ctx, param=param) from None


@dataclass(frozen=True)
class Flag:
    """A flag: what it does, and which mechanisms have it, with which default.

    In a few mechanisms it does something else, which `elsewhere` says.
    """

    name: str
    option: Option
    owners: tuple[tuple[str, str], ...] = ()
    elsewhere: tuple[tuple[str, str], ...] = ()

    @property
    def help(self) -> str:
        """The help of the option, its bounds, who has it, and which default."""
        other = " ".join(f"In {name}: {told[0].lower()}{told[1:]}" for name, told in self.elsewhere)
        parts = (self.option.help, self.option.bounds, other, self._having, self._defaults)
        return " ".join(part for part in parts if part)

    @property
    def _having(self) -> str:
        """The mechanisms that have it, or those that have not, whichever are fewer."""
        owners = [name for name, _ in self.owners]
        others = [name for name in MECHANISMS if name not in owners]
        if not owners or not others:
            return ""
        return (
            f"(not {', '.join(others)})" if len(others) < len(owners) else f"({', '.join(owners)})"
        )

    @property
    def _defaults(self) -> str:
        chosen: dict[str, list[str]] = {}
        for owner, default in self.owners:
            if default:
                chosen.setdefault(default, []).append(owner)
        if not self.owners:
            usual = self.option.shown_default
            return f"Default {usual}." if usual else ""
        if len(chosen) == 1 and sum(map(len, chosen.values())) == len(self.owners):
            return f"Default {next(iter(chosen))}."
        listed = (f"{default} for {', '.join(owners)}" for default, owners in chosen.items())
        return f"Default {'; '.join(listed)}." if chosen else ""

    def made(self) -> Callable[[Command], Command]:
        """The flag for click; what was not typed is None."""
        spelled, option = spelled_in_the_shell(self.name), self.option
        if option.kind is bool:
            return click.option(spelled, self.name, is_flag=True, default=None, help=self.help)
        kind: Any = {int: int, float: float}.get(option.kind, str)
        if option.choices:
            kind = Words(option.choices)
        if option.several:
            # What was not typed is None here, too, and one name is a text as for other flags.
            return click.option(
                spelled, self.name, type=kind, multiple=True, default=None, callback=_one_or_more,
                help=self.help,
            )  # fmt: skip
        return click.option(spelled, self.name, type=kind, help=self.help)


def _one_or_more(context: click.Context, flag: click.Parameter, typed: Any) -> Any:
    if not typed:
        return None
    return typed[0] if len(typed) == 1 else tuple(typed)


def flags_of(*kinds: type) -> list[Flag]:
    """The flags of these classes, each once; mechanisms are named as owners."""
    found: dict[str, Flag] = {}
    for kind in kinds:
        owner = getattr(kind, "name", None) if issubclass(kind, Mechanism) else None
        for field, option in options_of(kind).items():
            name = option.name or field
            known = found.get(name, Flag(name, option))
            owners, other = known.owners, known.elsewhere
            if owner is not None:
                owners = (*owners, (owner, option.shown_default))
                if option.help != known.option.help:
                    other = (*other, (owner, option.help))
            found[name] = Flag(name, known.option, owners, other)
    return list(found.values())


def added(*options: Callable[[Command], Command]) -> Callable[[Command], Command]:
    """What gives a command these options, in this order."""

    def decorated(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorated


# Epsilon and delta.
promise_options = added(
    click.option("--epsilon", type=float, help="Privacy loss, e.g. 1."),
    click.option("--delta", type=float, help="Failure probability, e.g. 1e-6."),
)


# Where users and items are, or texts.
column_options = added(*(flag.made() for flag in flags_of(Users, Items, Tokens)))


def mechanism_options(
    default: str = "auto, or sieve where an option is given that auto lacks",
    without: Sequence[str] = (),
) -> Callable[[Command], Command]:
    """The mechanism, and all options of all of them; `default` says what is taken without one.

    `without` are options that the command cannot have.
    """
    named = click.option(
        "--mechanism",
        type=Words(list(MECHANISMS)),
        help=f"How items are chosen; see `dpsu mechanisms`. Default {default}.",
    )
    flags = [flag.made() for flag in flags_of(*MECHANISMS.values()) if flag.name not in without]
    return added(named, *flags)


# Noisy counts.
counts_options = added(
    click.option(
        "--counts",
        is_flag=True,
        default=None,
        help="Also release a noisy number of users per item.",
    ),
    *(flag.made() for flag in flags_of(Counts)),
)
# Repeatable randomness.
seed_option = click.option("--insecure-seed", type=int, help="Repeatable, NOT private; for tests.")
# Everything that makes a plan.
plan_options = added(
    promise_options,
    column_options,
    mechanism_options(),
    counts_options,
    click.option(
        "--public-items",
        type=click.Path(),
        help="Items known anyway: lines of a .txt file, or a table with a column named as --item, "
        "or 'item'.",
    ),
    seed_option,
)
# A plan that was made before.
plan_file_option = click.option(
    "--plan",
    "plan_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run this plan, written by `dpsu plan --json`, instead of one made from options.",
)


# Public data, which a plan in a file knows by their digests only.
BESIDE_A_PLAN = ("prior", "public_items")
# Options that may name files.
READ_TOO = (*BESIDE_A_PLAN, "tokenizer")


def take(flags: Flags, names: Iterable[str]) -> Flags:
    """Take what was typed for these names out of all flags."""
    taken = {name: flags.pop(name, None) for name in names}
    return {name: value for name, value in taken.items() if value is not None}


def plan_names() -> list[str]:
    """Names of all flags that make a plan."""
    made = flags_of(Users, Items, Tokens, Counts, *MECHANISMS.values())
    return list(dict.fromkeys([*signature(plan).parameters, *(flag.name for flag in made)]))


def planned(flags: Flags, file: Path | None = None, *, quiet: bool = False) -> dict[str, Any]:
    """Arguments of :func:`dpsu.release`: the plan in a file, or what flags say for one.

    What was typed for them is taken out of `flags`. People who named no mechanism, and do not get
    the default, are told so, unless they want it `quiet`.
    """
    typed = take(flags, plan_names())
    if file is not None:
        for name in typed:
            if name not in BESIDE_A_PLAN:
                flag = spelled_in_the_shell(name)
                raise click.UsageError(f"--plan decides {flag}; drop one of them")
        return {"plan": with_public_data(Plan.read(file), **typed)}
    for name in ("epsilon", "delta"):
        if name not in typed:
            raise click.UsageError(f"Missing option '--{name}'.")
    if typed.get("mechanism") == NGrams.name and "text" not in typed:
        raise click.UsageError("--mechanism ngrams needs texts: name their column with --text")
    beside = take(typed, ("epsilon", "delta", "public_items", "insecure_seed"))
    made = {"user": users_of(typed), "item": items_of(typed), "counts": _counts(typed)}
    told = _why_not_auto(typed)
    mechanism = mechanism_of(typed)
    if told is not None and not quiet:
        to_stderr(told)
    return beside | made | {"mechanism": mechanism}


def _build(kind: type, typed: Flags) -> dict[str, Any]:
    """What was typed for the fields of a class."""
    values = {}
    for field, option in options_of(kind).items():
        name = option.name or field
        if name in typed:
            value = typed.pop(name)
            if option.parse is not None and isinstance(value, str):
                value = option.parse(value)
            values[field] = value
    return values


def users_of(typed: Flags) -> Users:
    """Where users are."""
    return Users(**_build(Users, typed))


def items_of(typed: Flags) -> Items | Tokens:
    """Where items are, or the texts that hold them."""
    if "text" in typed:
        for name in ("item_type", "repeats"):
            if name in typed:
                raise option_error(
                    name, "is not for texts: their tokens are text, and are counted; drop it"
                )
        return Tokens(**_build(Tokens, typed))
    for name in ("tokenizer", "ngrams"):
        if name in typed:
            raise ParameterError(
                f"{{{name}}} is for texts: name their column with {{text}}",
                **{name: ..., "text": ...},
            )
    return Items(**_build(Items, typed))


def _counts(typed: Flags) -> bool | Counts:
    wanted, given = typed.pop("counts", False), _build(Counts, typed)
    if given and not wanted:
        raise ParameterError(
            "{counts_share} and {counts_items} do nothing without {counts}",
            **dict.fromkeys(("counts_share", "counts_items", "counts"), ...),
        )
    return Counts(**given) if given else bool(wanted)


def mechanism_of(typed: Flags) -> Mechanism | None:
    """The mechanism that was named, with its options; None if nothing was typed for one.

    Options without a name belong to auto if it has all of them, and otherwise to sieve.
    """
    name = typed.pop("mechanism", None)
    if name is None and not typed:
        return None
    unnamed = Sieve if _not_of_auto(typed) else Auto
    kind = unnamed if name is None else MECHANISMS[name]
    wanted = list(typed)
    options = _build(kind, typed)
    for left in typed:
        if name is None:
            raise none_was_named(kind.name, left, wanted)
        raise no_such_option(kind.name, left)
    return kind(**options)


def _not_of_auto(typed: Flags) -> list[str]:
    """What was typed for a mechanism and is no option of auto."""
    own = {option.name or field for field, option in options_of(Auto).items()}
    return [name for name in typed if name not in own]


def _why_not_auto(typed: Flags) -> str | None:
    """A line for people who named no mechanism and get another one than the default."""
    lacking = [] if "mechanism" in typed else _not_of_auto(typed)
    if not lacking:
        return None
    flags = ", ".join(map(spelled_in_the_shell, lacking))
    verb, it = ("is an option", "it") if len(lacking) == 1 else ("are options", "them")
    return (
        f"note: {Sieve.name} and not {Auto.name}, because {flags} {verb} of {Sieve.name}, and "
        f"{Auto.name} has no such; --mechanism names another that has {it}"
    )


# The format of input whose name does not say it.
format_option = click.option(
    "--format",
    type=Words([*FORMATS, TABLE]),
    help="Format of FILE if its name does not say it; standard input is CSV by default.",
)


def result_options(
    written: str = "items to a .txt, .csv, .parquet",
) -> Callable[[Command], Command]:
    """How data is read, and where the result goes; `written` says what is written to which file."""
    return added(
        click.option(
            "--memory-limit",
            metavar="SIZE",
            help="Keep at most this much of the rows in memory (4GB, 500M), the rest in "
            "nameless temporary files. Default 60 % of what is available.",
        ),
        click.option(
            "--strict",
            is_flag=True,
            help="Fail if any row lacks a usable user or item, or if there are no rows.",
        ),
        click.option(
            "--output",
            type=click.Path(path_type=Path),
            help=f"Write {written} or .json file, replacing one that is there. Spreadsheets "
            "run cells of a .csv file that begin with = + - @; see --csv-safe.",
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
            "--quiet",
            is_flag=True,
            help="Print only errors, and a line if the release is not private.",
        ),
    )
