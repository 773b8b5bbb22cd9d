"""Pages of the documentation that are made from something else.

    python -m tools.pages          write the pages
    python -m tools.pages --check  fail if one of them is not what it would be

README.md, CONTRIBUTING.md, SECURITY.md and CHANGELOG.md are written once and shown twice; the help
of every command is printed by the command itself, the Python reference comes from docstrings, and
figures are what the benchmarks last measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import click

from tools import reference

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def pages() -> dict[Path, str]:
    """All generated pages and their content."""
    return {
        DOCS / "index.md": _moved((ROOT / "README.md").read_text(encoding="utf-8")),
        DOCS / "contributing.md": _moved((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")),
        DOCS / "security.md": _moved((ROOT / "SECURITY.md").read_text(encoding="utf-8")),
        DOCS / "cli.md": _command_line(),
        DOCS / "speed.md": _speed(),
        DOCS / "yields.md": _yields(),
        DOCS / "text-figures.md": _texts(),
        DOCS / "api.md": reference.page(),
        DOCS / "changelog.md": _moved((ROOT / "CHANGELOG.md").read_text(encoding="utf-8")),
        DOCS / "papers.md": _papers(),
        DOCS / "spark.md": _spark(),
        DOCS / "forecast.md": _forecast(),
        DOCS / "audit.md": _audit(),
        DOCS / "reliability.md": _reliability(),
    }


def _moved(text: str) -> str:
    """Links from the root of the project, as seen from its docs folder."""
    text = text.replace("](docs/", "](")
    for page in ("CHANGELOG", "CONTRIBUTING", "SECURITY"):
        text = text.replace(f"]({page}.md)", f"]({page.lower()}.md)")
    return text


def _command_line() -> str:
    from dpsu.cli import cli

    parts = ["# Command line", "", "The help of every command, as it prints it.", ""]
    parts += ["```text", _help(cli, "dpsu"), "```"]
    for name, command in sorted(cli.commands.items()):
        parts += ["", f"## dpsu {name}", "", "```text", _help(command, f"dpsu {name}"), "```"]
    return "\n".join(parts) + "\n"


def _speed() -> str:
    from benchmarks import speed

    found = [json.loads(path.read_text("utf-8")) for path in speed.RESULTS.glob("speed-*.json")]
    found.sort(key=lambda result: (result["format"] != "parquet", result["rows"]))
    parts = ["# Speed", "", speed.EXPLANATION]
    for result in found:
        versions = ", ".join(f"{name} {number}" for name, number in result["versions"].items())
        parts += ["", speed.table(result, heading="## "), ""]
        parts += [f"{result['date']}, {result['machine']['cores']} cores, {versions}."]
    return "\n".join(parts) + "\n"


def _yields() -> str:
    from benchmarks import yields

    found = json.loads(yields.RESULTS.read_text("utf-8"))
    return f"# Yields\n\n{yields.EXPLANATION}\n{yields.tables(found)}\n"


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

    result = json.loads(spark.RESULTS.read_text("utf-8"))
    made = {"measured": spark.table(result), "on paper": spark.on_paper(result)}
    return _filled("spark.md", made)


def _forecast() -> str:
    from benchmarks import forecasts

    result = json.loads(forecasts.RESULTS.read_text("utf-8"))
    return _filled("forecast.md", {"measured": forecasts.table(result)})


def _audit() -> str:
    from tools import mutants

    # `make audit` writes the page anew, and what follows its tables is added here.
    return _filled("audit.md", {"mutations": mutants.report()})


def _reliability() -> str:
    from tools.soak import results

    known = json.loads(results.RESULTS.read_text("utf-8"))
    return _filled("reliability.md", {"attacked": results.table(known)})


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
    return "\n".join(line.rstrip() for line in command.get_help(context).split("\n"))


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = [p for p, text in pages().items() if not p.exists() or p.read_text("utf-8") != text]
    if not check:
        for path in stale:
            path.write_text(pages()[path], encoding="utf-8")
    elif stale:
        print("run python -m tools.pages:", ", ".join(path.name for path in stale))
        sys.exit(1)


if __name__ == "__main__":
    main()
