"""`dpsu audit`: measure what is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsu.audit_scenarios import audit_prior
from dpsu.audits import HEAD, Audit
from dpsu.cli.options import mechanism_of, mechanism_options
from dpsu.cli.results import putting, told_warnings, writable
from dpsu.cli.streams import printed, somebody_watches
from dpsu.options import options_of
from dpsu.plans.mechanisms import MECHANISMS, Auto, Greedy, Mechanism
from dpsu.plans.mechanisms.base import CALIBRATIONS, PAPER, TIGHT
from dpsu.plans.mechanisms.greedy import POPULAR, SCARCE

if TYPE_CHECKING:
    from rich.table import Table


PRIOR_ORDERS = (POPULAR, SCARCE)
SMALL_SETS = 10


@click.command("audit")
@click.option("--epsilon", type=float, default=1.0, show_default=True)
@click.option("--delta", type=float, default=0.05, show_default=True, help="Inflated, to be seen.")
@mechanism_options("every mechanism that has a guarantee, and so all that auto chooses from")
@click.option("--ids-per-person", type=int, default=1, help="Users that are one person.")
@click.option("--trials", type=int, default=100_000, show_default=True)
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the table to this file.")
def audit_command(
    trials: int,
    epsilon: float,
    delta: float,
    ids_per_person: int,
    markdown: Path | None,
    **options: Any,
) -> None:
    """Measure lower bounds of epsilon and delta from outside, on made-up data.

    An audit can refute a guarantee, never prove one. It exits with 1 if a bound exceeds what the
    guarantee allows; the chance of a false alarm is one in a million for each scenario.
    """
    from rich.console import Console
    from rich.progress import Progress

    import dpsu
    from dpsu.runtime.writing import write_text

    writable([], {"markdown": markdown}, {"markdown": (".md",)})
    typed = {name: value for name, value in options.items() if value is not None}
    user = dpsu.Users(ids_per_person=ids_per_person)
    audited = _audited(typed, (TIGHT,) if ids_per_person > 1 else CALIBRATIONS)
    # Audits publish nothing, so warnings about epsilon and delta do not matter.
    with told_warnings():
        plans = [
            dpsu.plan(epsilon=epsilon, delta=delta, mechanism=each, user=user) for each in audited
        ]
    done: list[dpsu.Audit] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not somebody_watches()) as bar:
        for plan in plans:
            task = bar.add_task(f"{plan.name}, {plan.mechanism.calibrated}", total=None)

            def show(now: int, total: int, task: Any = task) -> None:
                bar.update(task, completed=now, total=total)

            done.append(dpsu.audit(plan, trials=trials, progress=show))
    with printed() as shown:
        for result in done:
            shown.print(_table(result))
    if markdown is not None:
        with putting("the table", markdown):
            write_text(markdown, _markdown(done, epsilon, delta, trials))
    if not all(result.passed for result in done):
        raise click.exceptions.Exit(1)


def _audited(typed: dict[str, Any], calibrations: tuple[str, ...]) -> list[Mechanism]:
    """The mechanism that was named, or all of them that have a guarantee, as ours and as published.

    Options that a mechanism lacks are refused where it is named, and left out otherwise. An audit
    of auto is one of each of its candidates; these are among all of them already.
    """
    named, calibration = typed.get("mechanism"), typed.get("calibration")
    names = [name for name, kind in MECHANISMS.items() if not kind.by_length and kind is not Auto]
    made: list[Mechanism] = []
    for name in names if named is None else [named]:
        own = options_of(MECHANISMS[name])
        bounded = "max_items" in own and name != Greedy.name
        usual = {"max_items": SMALL_SETS} if bounded else {}
        for how in [calibration] if calibration else calibrations:
            if how == PAPER and "calibration" not in own and not calibration:
                continue
            unproven = "allow_unproven" in own and how == PAPER and not typed.get("allow_unproven")
            if unproven and not calibration:
                continue
            options = usual | typed | {"mechanism": name}
            if named is None:
                options = {k: v for k, v in options.items() if k in own or k == "mechanism"}
            if "calibration" in own or calibration:
                options["calibration"] = how
            if how != PAPER:
                options.pop("allow_unproven", None)
            if options.get("order") in PRIOR_ORDERS:
                options["prior"] = audit_prior()
            made.append(mechanism_of(options) or Auto())
    return made


def _table(result: Audit) -> Table:
    from rich.table import Table

    table = Table(title=result.title, title_justify="left")
    for name in HEAD:
        table.add_column(name, justify="right" if name in HEAD[2:5] else "left")
    for verdict in result.verdicts:
        table.add_row(*verdict.cells)
    return table


def _markdown(done: list[Audit], epsilon: float, delta: float, trials: int) -> str:
    import dpsu

    lines = [
        "# Audit",
        "",
        f"Made by `make audit` with dpsu {dpsu.__version__}: every proved mechanism at epsilon "
        f"{epsilon:g} and an inflated delta of {delta:g}, {trials:,} copies of each small database "
        "with one user and as many without.",
        "",
        "*Measured* is the largest estimate, *at least* the lower confidence bounds (one chance in "
        "a million of being too high) and *allowed* what the guarantee claims. For epsilon there "
        "are four bounds: from outputs that are shown or hidden more often with the user, and "
        "shown or hidden more often without. Values near the allowed one mean that no budget is "
        "wasted. An audit can refute a guarantee, never prove one.",
    ]
    for result in done:
        lines += ["", f"## {result.title}", "", "| " + " | ".join(HEAD) + " |"]
        lines += ["|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(each.cells) + " |" for each in result.verdicts]
    return "\n".join(lines) + "\n"
