"""Tables of the documentation, and the code it shows, which is cut from what runs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from tools.peers.environments import LIBRARIES
from tools.peers.runner import HALF

SCRIPTS = Path(__file__).resolve().parent / "libraries"
HEAD = (
    "| library | keys by | groups | of the total | all errors | mean error | median error |",
    "|---|---|---:|---:|---:|---:|---:|",
)
BEGIN, END = "    # guide\n", "    # end of guide\n"


def snippet(name: str) -> str:
    """What the guide shows of a library: the lines between two marks in its file."""
    text = (SCRIPTS / f"{name}.py").read_text("utf-8")
    shown = text.partition(BEGIN)[2].partition(END)[0]
    return f"```python\n{textwrap.dedent(shown)}```"


def snippets() -> dict[str, str]:
    """The code of all libraries, by the names of the places in the guide."""
    return {f"code for {each.name}": snippet(each.name) for each in LIBRARIES}


def measured(found: dict[str, Any]) -> dict[str, str]:
    """All tables, by the names of their places in the guide."""
    return {
        "last run": last_run(found),
        "measured": f"{setting(found)}\n\n{benchmark(found)}",
        "shares": shares(found),
        "one each": benchmark_of_one(found),
    }


def last_run(found: dict[str, Any]) -> str:
    """When each library last took keys, and what came of it."""
    lines = ["| library | version | last run | keys | result |", "|---|---|---|---:|---|"]
    for library in LIBRARIES:
        entry = found["libraries"].get(library.name)
        if entry is None:
            lines.append(f"| {library.title} | | never | | |")
        elif "failed" in entry:
            lines.append(f"| {library.title} | | {entry['date']} | | {_cell(entry['failed'])} |")
        else:
            given = entry["given"]
            result = (
                f"a noisy sum for each of {given['groups']:,.0f} keys"
                if library.private
                else f"exact sums of {given['groups']:,.0f} keys, **not private**"
            )
            lines.append(
                f"| {library.title} | {given['version']} | {entry['date']}, dpsu {entry['dpsu']} | "
                f"{given['keys']:,.0f} | {result} |"
            )
    return "\n".join(lines)


def benchmark(found: dict[str, Any]) -> str:
    """The library's own keys against ours, at one budget."""
    lines = [*HEAD]
    for library in LIBRARIES:
        entry = found["libraries"].get(library.name, {})
        if library.private and "given" in entry:
            title = f"{library.title} \\*" if library.needs_delta else library.title
            lines += [
                _scores(title, "itself", entry.get("own")),
                _scores(title, "dpsu", entry["given"]),
            ]
    return "\n".join(lines)


def benchmark_of_one(found: dict[str, Any]) -> str:
    """The same where everybody has a single row."""
    lines = [*HEAD]
    for library in LIBRARIES:
        entry = found["libraries"].get(library.name, {}).get("one")
        if entry:
            lines += [
                _scores(library.title, "itself", entry["own"]),
                _scores(library.title, "dpsu", entry["given"]),
            ]
    return "\n".join(lines)


def shares(found: dict[str, Any]) -> str:
    """What another division of epsilon between keys and sums would have given."""
    first = LIBRARIES[0]
    tried = found["libraries"].get(first.name, {}).get("shares", {})
    lines = [
        "| of epsilon for keys | groups | of the total | all errors | mean error | median error |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [f"| {float(share):.0%} | {_numbers(scores)} |" for share, scores in tried.items()]
    return "\n".join(lines)


def setting(found: dict[str, Any]) -> str:
    """One sentence on what was measured."""
    about = found["setting"]
    epsilon, delta = about["budget"]
    noise = about["many"]["max_rows"] * about["max_amount"] / (HALF * epsilon)
    largest = ", ".join(f"{value:,} (rank {rank})" for rank, value in about["sums"].items())
    return (
        f"{about['people']:,} made-up people and {about['products']:,} products, of which at most "
        f"{about['many']['max_rows']} of a person count, at amounts from 0 to "
        f"{about['max_amount']}. "
        f"Keys and sums together cost epsilon {epsilon:g} and delta {delta:g}. "
        f"The noise of a sum is off by {noise:,.0f} on average; true sums are {largest}. "
        f"Means of {about['repeats']} runs."
    )


def _scores(title: str, who: str, scores: dict[str, float] | None) -> str:
    if scores is None:
        return f"| {title} | {who} | none | | | | |"
    return f"| {title} | {who} | {_numbers(scores)} |"


def _numbers(scores: dict[str, float]) -> str:
    return (
        f"{scores['groups']:,.0f} | {scores['covered']:.0%} | {scores['off']:.0%} | "
        f"{scores['mean']:,.0f} | {scores['median']:,.0f}"
    )


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
