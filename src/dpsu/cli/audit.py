"""`dpsu audit`: measure what is installed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpsu.cli.results import putting, writable
from dpsu.cli.streams import printed, somebody_watches
from dpsu.plans.mechanisms import CALIBRATIONS, MECHANISMS, ORDERS, UNPUBLISHED

if TYPE_CHECKING:
    from rich.table import Table


@click.command()
@click.option("--mechanism", type=click.Choice(list(MECHANISMS)), help="Only this one.")
@click.option("--calibration", type=click.Choice(CALIBRATIONS), help="Only this one.")
@click.option("--epsilon", type=float, default=1.0, show_default=True)
@click.option("--delta", type=float, default=0.05, show_default=True, help="Inflated, to be seen.")
@click.option("--max-items", type=int, help="At most so many items per user.")
@click.option("--alpha", type=float, help="Cutoff at threshold + ALPHA x noise scale.")
@click.option("--cutoff", type=float, help="Weight at which an item is full.")
@click.option("--passes", type=int, help="Passes in which users spend their budget.")
@click.option("--order", type=click.Choice(ORDERS), help="How a greedy user chooses.")
@click.option("--expected-users", type=int, help="For order scarce.")
@click.option("--allow-unproven", is_flag=True, help="Audit published greedy too.")
@click.option("--trials", type=int, default=100_000, show_default=True)
@click.option("--markdown", type=click.Path(path_type=Path), help="Write the table to this file.")
def audit(
    mechanism: str | None,
    calibration: str | None,
    trials: int,
    epsilon: float,
    delta: float,
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
    runs = _runs(
        mechanism, calibration, {k: v for k, v in options.items() if v not in (None, False)}
    )
    done: list[tuple[dict[str, Any], dpsu.Audit]] = []
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not somebody_watches()) as bar:
        for run in runs:
            task = bar.add_task(f"{run['mechanism']}, {run['calibration']}", total=None)

            def show(now: int, total: int, task: Any = task) -> None:
                bar.update(task, completed=now, total=total)

            result = dpsu.audit(epsilon=epsilon, delta=delta, trials=trials, progress=show, **run)
            done.append((run, result))
    with printed() as shown:
        for run, result in done:
            shown.print(_table(run, result))
    if markdown is not None:
        with putting("the table", markdown):
            write_text(markdown, _markdown(done, epsilon, delta, trials))
    if not all(result.passed for _, result in done):
        raise click.exceptions.Exit(1)


def _runs(
    mechanism: str | None, calibration: str | None, options: dict[str, Any]
) -> list[dict[str, Any]]:
    runs = []
    for name in [mechanism] if mechanism else list(MECHANISMS):
        for how in [calibration] if calibration else list(CALIBRATIONS):
            if how == "paper" and name in UNPUBLISHED and not mechanism:
                continue
            run: dict[str, Any] = {"mechanism": name, "calibration": how}
            run |= {k: v for k, v in options.items() if mechanism or k in MECHANISMS[name].options}
            if name != "greedy":
                run.setdefault("max_items", 10)
            elif how == "paper" and not run.get("allow_unproven") and not calibration:
                continue
            elif how == "tight":
                run.pop("allow_unproven", None)
            runs.append(run)
    return runs


def _rows(result: Any) -> list[list[str]]:
    """A row for each scenario: the bounds of all directions, and the verdict."""
    rows = []
    for name in dict.fromkeys(finding.scenario for finding in result.findings):
        found = [finding for finding in result.findings if finding.scenario == name]
        rows.append(
            [
                name,
                found[0].quantity,
                f"{max(finding.measured for finding in found):.3f}",
                "  ".join(f"{finding.proved:.3f}" for finding in found),
                f"{found[0].allowed:g}",
                "pass" if all(finding.passed for finding in found) else "FAIL",
            ]
        )
    return rows


HEAD = ["scenario", "", "measured", "at least", "allowed", "verdict"]


def _title(run: dict[str, Any], result: Any) -> str:
    options = [f"{k.replace('_', ' ')} {v}" for k, v in run.items() if k in ("max_items", "passes")]
    named = [run["mechanism"], run["calibration"], *options]
    return f"{', '.join(named)}: {'pass' if result.passed else 'FAIL'}"


def _table(run: dict[str, Any], result: Any) -> Table:
    from rich.table import Table

    table = Table(title=_title(run, result), title_justify="left")
    for name in HEAD:
        table.add_column(name, justify="right" if name in HEAD[2:5] else "left")
    for row in _rows(result):
        table.add_row(*row)
    return table


def _markdown(
    done: list[tuple[dict[str, Any], Any]], epsilon: float, delta: float, trials: int
) -> str:
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
    for run, result in done:
        lines += ["", f"## {_title(run, result)}", "", "| " + " | ".join(HEAD) + " |"]
        lines += ["|" + "---|" * len(HEAD)]
        lines += ["| " + " | ".join(row) + " |" for row in _rows(result)]
    return "\n".join(lines) + "\n"
