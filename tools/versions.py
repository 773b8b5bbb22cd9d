"""One version everywhere: in the package, in the changelog and in the tag.

    python -m tools.versions               the package and the newest heading of the changelog agree
    python -m tools.versions --tag v1.2.3  so does this tag, and the changelog has the day

The exit code is 1 if they do not. It needs nothing but Python, so that it can run before anything
is installed.
"""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HEADING = re.compile(r"^## \[(?P<version>[^]]+)\] - (?P<day>.+)$", re.M)
UNRELEASED = "unreleased"


def package_version(root: Path = ROOT) -> str:
    """The version that a build of this tree would have."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    module = project["tool"]["setuptools"]["dynamic"]["version"]["attr"].split(".")[:-1]
    path = root.joinpath("src", *module).with_suffix(".py")
    found = re.search(r'^__version__ = "([^"]+)"$', path.read_text(encoding="utf-8"), re.M)
    if found is None:
        raise ValueError("the file that pyproject.toml names has no __version__")
    return found[1]


def newest_heading(root: Path = ROOT) -> tuple[str, str]:
    """The version at the top of the changelog, and its day."""
    found = HEADING.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    if found is None:
        raise ValueError("CHANGELOG.md has no heading such as ## [1.2.3] - 2026-01-31")
    return found["version"], found["day"]


def disagreements(tag: str | None = None, root: Path = ROOT) -> list[str]:
    """What does not agree, in sentences; none if all is well."""
    version = package_version(root)
    newest, day = newest_heading(root)
    found = []
    if newest != version:
        found.append(f"the package is {version}, and the changelog begins with {newest}")
    if day != UNRELEASED and not _a_day(day):
        found.append(f"the changelog says {day!r} for a day such as 2026-01-31 or {UNRELEASED!r}")
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, and the package is {version}: its tag is v{version}")
    if tag is not None and day == UNRELEASED:
        found.append(f"there is a tag, and the changelog says that {newest} is unreleased")
    return found


def _a_day(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False


def main() -> None:
    """Check, and say what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--tag", help="the tag of a release, such as v1.2.3")
    found = disagreements(parser.parse_args().tag)
    for sentence in found:
        print(sentence, file=sys.stderr)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
