"""Pages of the documentation that are made from something else.

    python -m tools.pages          write the pages
    python -m tools.pages --check  fail if one of them is not what it would be

CONTRIBUTING.md, SECURITY.md and CHANGELOG.md are written once and shown twice; the help of every
command is printed by the command itself, the Python reference comes from docstrings, and figures
are what the benchmarks last measured.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any

import click

from tools import reference

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PYTHON = DOCS / "reference" / "api"
SHOWN_TWICE = {
    "CHANGELOG.md": "reference/changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reference/security.md",
}


def pages() -> dict[Path, str]:
    """All generated pages and their content."""
    return {
        **{DOCS / place: _moved(name, place) for name, place in SHOWN_TWICE.items()},
        DOCS / "reference" / "cli.md": _command_line(),
        DOCS / "figures" / "speed.md": _speed(),
        DOCS / "figures" / "yields.md": _yields(),
        DOCS / "explanation" / "how-it-works.md": _how_it_works(),
        DOCS / "figures" / "counts.md": _counts(),
        DOCS / "figures" / "text.md": _texts(),
        DOCS / "figures" / "papers.md": _papers(),
        DOCS / "guides" / "spark.md": _spark(),
        DOCS / "guides" / "forecast.md": _forecast(),
        DOCS / "guides" / "series.md": _series(),
        DOCS / "guides" / "hand-on.md": _hand_on(),
        DOCS / "figures" / "audit.md": _audit(),
        DOCS / "figures" / "reliability.md": _reliability(),
        ROOT / "mkdocs.yml": _navigation(),
    } | {PYTHON / path: text for path, text in reference.pages().items()}


def leftover() -> list[Path]:
    """Pages of names that are no longer public."""
    return sorted(set(PYTHON.rglob("*.md")) - set(pages()))


def _moved(name: str, place: str) -> str:
    """A page of the root of the project, with links as seen from its place on the site."""
    up = "../" * place.count("/")
    text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", f"]({up}")
    for other, there in SHOWN_TWICE.items():
        text = text.replace(f"]({other})", f"]({up}{there})")
    return text


def _command_line() -> str:
    from dpsu.cli import cli

    parts = ["# Command line", "", "The help of every command, as it prints it.", ""]
    parts += ["```text", _help(cli, "dpsu"), "```"]
    for name, command in sorted(cli.commands.items()):
        parts += ["", f"## dpsu {name}", "", "```text", _help(command, f"dpsu {name}"), "```"]
        for part, inner in getattr(command, "commands", {}).items():
            whole = f"dpsu {name} {part}"
            parts += ["", f"### {whole}", "", "```text", _help(inner, whole), "```"]
    return "\n".join(parts) + "\n"


def _speed() -> str:
    from benchmarks import speed, speed_phases

    found = [json.loads(path.read_text("utf-8")) for path in speed.RESULTS.glob("speed-*.json")]
    found.sort(key=lambda result: (result["format"] != "parquet", result["rows"]))
    parts = ["# Speed", "", speed.EXPLANATION]
    for name in ("S", "M", "L", "XL"):
        if (path := speed.RESULTS / f"shapes-{name}.json").exists():
            result = json.loads(path.read_text("utf-8"))
            parts += ["", speed.table_of_shapes(result, heading="## "), "", _measured(result)]
    if speed_phases.RESULTS.exists():
        parts += ["", speed_phases.EXPLANATION]
        parts += [speed_phases.table(json.loads(speed_phases.RESULTS.read_text("utf-8")))]
    if speed.OLDER.exists():
        older = json.loads(speed.OLDER.read_text("utf-8"))
        parts += ["", speed.OLDER_EXPLANATION, speed.table_of_older(older), "", _measured(older)]
    for result in found:
        parts += ["", speed.table(result, heading="## "), "", _measured(result)]
    return "\n".join(parts) + "\n"


def _measured(result: dict[str, Any]) -> str:
    """When, on what and with which versions."""
    versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
    return f"{result['date']}, {result['cores']} cores, {versions}."


def _yields() -> str:
    from benchmarks import choosing, steep, yields

    found, chosen = (json.loads(each.RESULTS.read_text("utf-8")) for each in (yields, choosing))
    parts = [yields.EXPLANATION, yields.of_ties() + "\n" + yields.tables(found)]
    parts += [steep.section(steep.kept()), choosing.section(chosen)]
    return "\n\n".join(["# Yields", *parts]) + "\n"


def _how_it_works() -> str:
    from benchmarks import steep

    return _filled("explanation/how-it-works.md", {"steep": steep.summary(steep.kept())})


def _counts() -> str:
    from benchmarks import counts

    found = json.loads(counts.RESULTS.read_text("utf-8"))
    return f"# Noisy counts\n\n{counts.EXPLANATION}\n{counts.tables(found)}\n"


def _texts() -> str:
    from benchmarks import texts

    rates, sizes = (
        json.loads((texts.FOLDER / f"texts-{part}.json").read_text("utf-8"))
        for part in ("speed", "ngrams")
    )
    return f"# Text in figures\n\n{texts.tables(rates, sizes)}\n"


def _papers() -> str:
    from benchmarks import paper_page

    return paper_page.page()


def _spark() -> str:
    from benchmarks import spark

    from tools.peers import runner, spark_versions

    result = json.loads(spark.RESULTS.read_text("utf-8"))
    made = {"measured": spark.measured(), "on paper": spark.on_paper(result)}
    made["versions"] = spark_versions.table(json.loads(runner.RESULTS.read_text("utf-8")))
    return _filled("guides/spark.md", made)


def _forecast() -> str:
    from benchmarks import forecasts

    result = json.loads(forecasts.RESULTS.read_text("utf-8"))
    return _filled("guides/forecast.md", {"measured": forecasts.table(result)})


def _series() -> str:
    from benchmarks import series

    result = json.loads(series.RESULTS.read_text("utf-8"))
    return _filled("guides/series.md", {"measured": series.table(result)})


def _hand_on() -> str:
    from tools.peers import runner, tables

    found = json.loads(runner.RESULTS.read_text("utf-8"))
    return _filled("guides/hand-on.md", tables.snippets() | tables.measured(found))


def _audit() -> str:
    from tools import mutants

    # `make audit` writes the page anew, and what follows its tables is added here.
    return _filled("figures/audit.md", {"mutations": mutants.report()})


def _reliability() -> str:
    from tools.soak import results

    known = json.loads(results.RESULTS.read_text("utf-8"))
    return _filled("figures/reliability.md", {"attacked": results.table(known)})


def _navigation() -> str:
    """The site's configuration, which names the pages of the Python reference."""
    lines = []
    for title, listed in reference.navigation():
        lines.append(f"          - {title.capitalize()}:")
        lines += [f"              - {name}: reference/api/{path}" for name, path in listed]
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    before, _, rest = text.partition("          # Written by tools.pages.\n")
    _, _, after = rest.partition("          # Until here.\n")
    made = "\n".join(["          # Written by tools.pages.", *lines, "          # Until here.\n"])
    return before + made + after


def _filled(page: str, tables: dict[str, str]) -> str:
    """A page that is written by hand, around tables of what was measured."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, made in tables.items():
        before, found, rest = text.partition(f"<!-- {name} -->\n")
        before = before if found else f"{before}\n"
        _, _, after = rest.partition(f"<!-- end of {name} -->\n")
        text = f"{before}<!-- {name} -->\n\n{made}\n\n<!-- end of {name} -->\n{after}"
    return text


def _help(command: click.Command, name: str) -> str:
    context = click.Context(
        command,
        info_name=name,
        terminal_width=88,
        max_content_width=88,
        help_option_names=["-h", "--help"],
    )
    return "\n".join(_folded(line.rstrip()) for line in command.get_help(context).split("\n"))


def _folded(line: str, width: int = 88) -> str:
    """A long list of choices, folded as a terminal would fold it, but between choices."""
    if len(line) <= width or "|" not in line:
        return line
    indent = " " * (line.index("[") + 1)
    lines = [""]
    for part in re.split(r"(?<=\|)", line):
        if len(lines[-1]) + len(part) > width:
            lines.append(indent)
        lines[-1] += part
    return "\n".join(lines)


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    made = pages()
    stale = [p for p, text in made.items() if not p.exists() or p.read_text("utf-8") != text]
    if not check:
        for path in stale:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(made[path], encoding="utf-8")
        for path in leftover():
            path.unlink()
    elif stale or leftover():
        names = ", ".join(path.name for path in [*stale, *leftover()])
        print("run python -m tools.pages:", names)
        sys.exit(1)


if __name__ == "__main__":
    main()
